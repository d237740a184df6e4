"""A phase transition in one attention layer: from positions to meaning as the data grow."""

from collections.abc import Sequence
from typing import ClassVar, Literal, get_args

from pydantic import model_validator

from attnlab.audit.checks.grid_edge import grid_edge
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Study, StudySettings, deferred, setting
from attnlab.lab.table import Table
from attnlab.studies.phase_transition.evidence import Evidence

Grid = tuple[float, ...]
Matrix = tuple[tuple[float, float], tuple[float, float]]
Part = Literal[
    "large D",
    "finite size",
    "open questions",
    "Figure 2",
    "Figure 3",
    "ridge",
    "rank 2",
    "other F",
    "matched norms",
    "scaling",
    "course recipe",
    "theory",
]


class PhaseSettings(StudySettings):
    """Grids, sizes and instances of every part. α = N/D counts training samples only."""

    parts: tuple[Part, ...] = setting(
        "parts to run; claims that need another part stay undecided", get_args(Part)
    )
    seeds: int = setting("instances per point of Figure 2", 6, full=5, ge=1)
    dtype: Literal["float32", "float64"] = setting(
        "precision of the two large matrix products", "float32"
    )
    omega: float = setting("ω in Figure 2: positional share of the teacher", 0.3, ge=0, le=1)
    sigma: float = setting("σ, standard deviation of the token entries", 0.5, gt=0)
    ridge: float = setting("λ, strength of the ridge penalty", 0.01, gt=0)
    mixing: Matrix = setting("F, the teacher's positional attention", ((0.6, 0.4), (0.4, 0.6)))
    test_samples: int = setting("fresh samples of the test error", 50_000, smoke=500, ge=2)

    curve_dim: int = setting("dimension D in Figure 2", 1000, smoke=60, full=10_000, ge=2)
    curve_alphas: Grid = setting(
        "α in Figure 2",
        (0.2, 0.4, 0.6, 0.8, 1.0, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0),
        smoke=(0.5, 1.0, 2.0),
        full=tuple(round(0.1 * k, 1) for k in range(1, 21)),
    )
    map_dim: int = setting("D in the phase diagrams", 400, smoke=40, full=10_000, ge=2)
    map_alphas: Grid = setting(
        "α in the phase diagrams",
        (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0),
        smoke=(0.5, 1.5),
        full=tuple(round(0.08 * k, 2) for k in range(1, 26)),
    )
    map_omegas: Grid = setting(
        "ω in the phase diagrams",
        (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5),
        smoke=(0.1, 0.4),
        full=tuple(round(0.02 * k, 2) for k in range(26)),
    )
    map_seeds: int = setting("instances per cell of the phase diagrams", 3, smoke=1, ge=1)

    sizes: tuple[int, ...] = setting(
        "D in the finite-size scaling",
        (250, 500, 1000, 2000),
        smoke=(40, 80),
        full=(1000, 2500, 5000, 10_000, 20_000, 40_000),
    )
    size_alphas: Grid = setting(
        "α at which α_c is bracketed for every D",
        (1.05, 1.2, 1.35),
        smoke=(0.8, 1.8),
        full=(1.15, 1.2, 1.25, 1.3),
    )
    size_seeds: tuple[int, ...] = setting(
        "instances for each of these D", (40, 28, 16, 10), smoke=(3, 3), full=(20, 12, 8, 6, 4, 3)
    )

    large_dim: int = setting(
        "D at which semantic simulation is compared with theory", 4000, smoke=150, full=40_000, ge=2
    )
    large_alphas: Grid = setting(
        "α of this comparison", (1.3, 1.5), smoke=(1.5,), full=(0.85, 1.0, 1.15, 1.3, 1.5, 2.0)
    )
    large_seeds: int = setting("instances of this comparison", 6, smoke=3, ge=1)

    open_points: tuple[tuple[float, float], ...] = setting(
        "pairs (ω, α) at which theory and gradient descent may disagree",
        ((0.3, 0.457), (0.3, 0.85), (0.3, 1.25), (0.4, 1.7), (0.2, 1.0), (0.1, 0.8)),
        smoke=((0.3, 1.25),),
    )
    open_dims: tuple[int, ...] = setting(
        "D at these points", (500, 2000), smoke=(60,), full=(1000, 3000, 10_000, 30_000)
    )
    open_seeds: int = setting("instances at these points", 5, full=4, ge=1)

    ridges: Grid = setting(
        "λ to choose from by validation", (0.0003, 0.001, 0.003, 0.01, 0.03, 0.1), smoke=(0.01, 0.1)
    )
    ridge_widen: int = setting(
        "λ tried beyond each end of these, one at a time, while validation chooses that end",
        3,
        smoke=1,
        ge=0,
    )
    ridge_widen_factor: float = setting(
        "ratio of such a λ to the end of the grid, to one digit", 3.0, ge=2
    )
    ridge_dim: int = setting("D of the ridge search", 500, smoke=50, full=4000, ge=2)
    ridge_alphas: Grid = setting("α of the ridge search", (0.8, 1.5), smoke=(1.5,))
    folds: int = setting("folds of the cross-validation", 5, smoke=3, ge=2)

    side_seeds: int = setting(
        "instances of the ridge search and the side experiments", 4, smoke=6, ge=1
    )
    side_dim: int = setting(
        "D of the rank-2 student and of the other F", 500, smoke=50, full=4000, ge=2
    )
    side_alphas: Grid = setting(
        "α of the rank-2 student and of the other F",
        (0.6, 1.0, 1.4, 1.8),
        smoke=(1.0, 1.8),
        full=(0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0),
    )
    other_mixing: Matrix = setting("the other F", ((0.8, 0.2), (0.2, 0.8)))
    unscaled_dims: tuple[int, ...] = setting(
        "D without the factors 1/√D", (100, 200, 400), smoke=(40, 80), full=(100, 300, 1000, 3000)
    )
    course_dims: tuple[int, ...] = setting(
        "D of the course recipe, which tests on 0.2·D samples", (100, 1000), smoke=(50,)
    )
    displacement: float = setting(
        "Δ/q by which trained students are displaced, to see whether they return", 0.5, ge=0, le=2
    )
    theory_points: int = setting(
        "Sobol points of the theory's integrals", 2**13, smoke=2048, full=2**15, ge=16
    )
    theory_omegas: Grid = setting(
        "ω of the critical lines",
        (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5),
        smoke=(0.3,),
        full=tuple(round(0.02 * k, 2) for k in range(26)),
    )

    @model_validator(mode="after")
    def _seeds_for_every_size(self) -> "PhaseSettings":
        if len(self.sizes) != len(self.size_seeds):
            raise ValueError("sizes and size_seeds must have the same length")
        return self


class PhaseTransition(Study):
    """Cui, Behrens, Krzakala, Zdeborová 2024, Figures 2 and 3, and experiments beyond them."""

    name = "phase-transition"
    question = (
        "How many samples per dimension does attention need before it reads meaning "
        "rather than position?"
    )
    source = "Cui, Behrens, Krzakala, Zdeborová 2024 (arXiv 2402.03902), Figures 2 and 3"
    Settings: ClassVar[type[StudySettings]] = PhaseSettings
    settings: PhaseSettings
    presets: ClassVar = {"full": {"trial_memory_gb": 100.0}}
    expected: ClassVar = {
        "smoke": "about 20 seconds on two cores",
        "quick": "5 to 10 minutes on two cores",
        "full": "Figures 2 and 3 with theory: 30 minutes on one H200, 8 workers",
    }
    template = "report.md"

    trials = deferred(".plan:trials")
    run = deferred(".trial:run")
    claims = deferred(".claims:claims")
    figures = deferred(".figures:figures")
    facts = deferred(".facts:facts")

    def evidence(self, table: Table) -> Evidence:
        """Theory and instances, part by part."""
        return Evidence(table, self.settings)

    def audits(self, evidence: Evidence, claims: Sequence[Claim]) -> Sequence[Finding]:
        """Do scores keep their size as D grows? Did validation choose an end of its λ?"""
        return [evidence.score_scale("paper"), grid_edge(evidence.ridge_choices(claims))]
