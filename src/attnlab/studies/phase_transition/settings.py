"""Settings of the study; the defaults are the quick scale."""

from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from attnlab.lab.study import StudySettings

Grid = tuple[float, ...]
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


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


class PhaseSettings(StudySettings):
    """Grids, sizes and instances of every part. α = N/D counts training samples only."""

    parts: tuple[Part, ...] = about(
        "which parts to run; claims about the others stay undecided", get_args(Part)
    )
    seeds: int = about("instances a point of Figure 2", 6, ge=1)
    dtype: Literal["float32", "float64"] = about("of the two large products", "float32")
    omega: float = about("ω of Figure 2: weight of positions in the teacher", 0.3, ge=0, le=1)
    sigma: float = about("σ, size of the tokens", 0.5, gt=0)
    ridge: float = about("λ of the loss", 0.01, gt=0)
    mixing: tuple[tuple[float, float], tuple[float, float]] = about(
        "F, the teacher's positional attention", ((0.6, 0.4), (0.4, 0.6))
    )
    test_samples: int = about("fresh samples of the test error, streamed", 50_000, ge=2)

    curve_dim: int = about("D of Figure 2", 1000, ge=2)
    curve_alphas: Grid = about(
        "α of Figure 2", (0.2, 0.4, 0.6, 0.8, 1.0, 1.1, 1.2, 1.3, 1.4, 1.6, 1.8, 2.0)
    )
    map_dim: int = about("D of the phase diagrams", 400, ge=2)
    map_alphas: Grid = about(
        "α of the phase diagrams", (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
    )
    map_omegas: Grid = about(
        "ω of the phase diagrams", (0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5)
    )
    map_seeds: int = about("instances a cell", 3, ge=1)

    sizes: tuple[int, ...] = about("D of the finite-size scaling", (250, 500, 1000, 2000))
    size_alphas: Grid = about("α between which α_c is looked for", (1.05, 1.2, 1.35))
    size_seeds: tuple[int, ...] = about("instances at each of these sizes", (40, 28, 16, 10))

    large_dim: int = about("D where semantic simulation meets theory", 4000, ge=2)
    large_alphas: Grid = about("α there", (1.15, 1.5))
    large_seeds: int = about("instances there", 6, ge=1)

    open_points: tuple[tuple[float, float], ...] = about(
        "(ω, α) where theory and descent disagree, or are tested for it",
        ((0.3, 0.457), (0.3, 0.85), (0.3, 1.25), (0.4, 1.7), (0.2, 1.0), (0.1, 0.8)),
    )
    open_dims: tuple[int, ...] = about("D at these points", (500, 2000))
    open_seeds: int = about("instances at these points", 5, ge=1)

    ridges: Grid = about("λ tried by validation", (0.001, 0.003, 0.01, 0.03, 0.1))
    ridge_dim: int = about("D of the ridge search", 500, ge=2)
    ridge_alphas: Grid = about("α of the ridge search", (0.8, 1.5))
    folds: int = about("k of the cross-validation", 5, ge=2)

    side_seeds: int = about("instances of the ridge search and the side experiments", 4, ge=1)
    side_dim: int = about("D of rank 2 and other F", 500, ge=2)
    side_alphas: Grid = about("α of rank 2 and other F", (0.6, 1.0, 1.4, 1.8))
    other_mixing: tuple[tuple[float, float], tuple[float, float]] = about(
        "another F", ((0.8, 0.2), (0.2, 0.8))
    )
    unscaled_dims: tuple[int, ...] = about("D of the unscaled variant", (100, 200, 400))
    course_dims: tuple[int, ...] = about(
        "D of the courses' recipe (0.2·D test samples)", (100, 1000)
    )

    displacement: float = about(
        "Δ/q by which trained students are moved to see whether they fall back", 0.5, ge=0, le=2
    )

    @model_validator(mode="after")
    def _seeds_for_every_size(self) -> "PhaseSettings":
        if len(self.sizes) != len(self.size_seeds):
            raise ValueError("sizes and size_seeds must have the same length")
        return self

    theory_points: int = about("Sobol points of the integrals", 2**13, ge=16)
    theory_omegas: Grid = about(
        "ω of the critical lines", (0.0, 0.1, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5)
    )


SMOKE: dict[str, Any] = {
    "seeds": 6,
    "side_seeds": 6,
    "curve_dim": 60,
    "curve_alphas": [0.5, 1.0, 2.0],
    "test_samples": 500,
    "map_dim": 40,
    "map_alphas": [0.5, 1.5],
    "map_omegas": [0.1, 0.4],
    "map_seeds": 1,
    "sizes": [40, 80],
    "size_alphas": [0.8, 1.8],
    "size_seeds": [3, 3],
    "large_dim": 150,
    "large_alphas": [1.5],
    "large_seeds": 3,
    "open_points": [[0.3, 1.25]],
    "open_dims": [60],
    "ridges": [0.01, 0.1],
    "ridge_dim": 50,
    "ridge_alphas": [1.5],
    "folds": 3,
    "side_dim": 50,
    "side_alphas": [1.0, 1.8],
    "unscaled_dims": [40, 80],
    "course_dims": [50],
    "theory_points": 2048,
    "theory_omegas": [0.3],
}

FULL: dict[str, Any] = {
    "seeds": 5,
    "curve_dim": 10_000,
    "map_dim": 10_000,
    "map_seeds": 3,
    "curve_alphas": [round(0.1 * k, 1) for k in range(1, 21)],
    "map_alphas": [round(0.08 * k, 2) for k in range(1, 26)],
    "map_omegas": [round(0.02 * k, 2) for k in range(26)],
    "sizes": [1000, 2500, 5000, 10_000, 20_000, 40_000],
    "size_seeds": [20, 12, 8, 6, 4, 3],
    "size_alphas": [1.15, 1.2, 1.25, 1.3],
    "large_dim": 40_000,
    "large_alphas": [0.85, 1.0, 1.15, 1.3, 1.5, 2.0],
    "open_dims": [1000, 3000, 10_000, 30_000],
    "open_seeds": 4,
    "ridge_dim": 4000,
    "side_dim": 4000,
    "side_alphas": [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0],
    "unscaled_dims": [100, 300, 1000, 3000],
    "theory_points": 2**15,
    "theory_omegas": [round(0.02 * k, 2) for k in range(26)],
    "trial_memory_gb": 100.0,
}
