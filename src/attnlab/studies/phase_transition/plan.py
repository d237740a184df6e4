"""The trials, part by part: long ones first, and theory spread among the simulations."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING, Any

from attnlab.lab.trial import Trial

if TYPE_CHECKING:
    from attnlab.studies.phase_transition.study import PhaseSettings, PhaseTransition

STARTS = ("semantic", "positional")
RULES = ("sobol", "sobol-coarse", "lattice")  # the last is independent of the first two
OF_AN_INSTANCE = {"omega", "sigma", "ridge", "mixing", "dtype", "test_samples", "device"}
Planned = tuple[int, dict[str, Any]]  # seed, configuration


def trials(study: "PhaseTransition") -> list[Trial]:
    """Every trial of the parts that were asked for."""
    s = study.settings
    instance = {"kind": "instance", "dim": s.curve_dim, "starts": STARTS}
    instance |= s.model_dump(include=OF_AN_INSTANCE)
    planned = [
        study.trial(seed, **{**instance, **config})
        for seed, config in chain(_paper(s), _side_experiments(s))
        if config["part"] in s.parts
    ]
    theory = [study.trial(0, part="theory", **config) for config in _theory(s)]
    theory = theory if "theory" in s.parts else []
    every = max(1, len(planned) // max(1, len(theory)))
    for index, trial in enumerate(theory):
        planned.insert(min(index * (every + 1), len(planned)), trial)
    return planned


def _part(
    part: str, seeds: int, grid: Mapping[str, Sequence[Any]], **same: Any
) -> Iterator[Planned]:
    """Every point of the grid with every seed; `same` holds at all of them."""
    for values in product(*grid.values()):
        for seed in range(seeds):
            yield seed, {"part": part, **same, **dict(zip(grid, values, strict=True))}


def _paper(s: "PhaseSettings") -> Iterator[Planned]:
    """Figures 2 and 3, and simulation against theory: at large D, against D, at open points."""
    few = {"test_samples": min(s.test_samples, 5000)}
    large = {"dim": [s.large_dim], "alpha": s.large_alphas}
    yield from _part("large D", s.large_seeds, large, exact_norm=True, starts=["semantic"])
    for dim, seeds in sorted(zip(s.sizes, s.size_seeds, strict=True), reverse=True):
        grid = {"alpha": s.size_alphas}
        yield from _part("finite size", seeds, grid, dim=dim, exact_norm=True, **few)
    for dim, (omega, alpha) in product(sorted(s.open_dims, reverse=True), s.open_points):
        point = {"dim": dim, "omega": omega, "alpha": alpha, "displacement": s.displacement}
        yield from _part("open questions", s.open_seeds, {}, exact_norm=True, **point, **few)
    falling = sorted(s.curve_alphas, reverse=True)
    yield from _part("Figure 2", s.seeds, {"alpha": falling}, starts=[*STARTS, "random"])
    cells = {"alpha": sorted(s.map_alphas, reverse=True), "omega": s.map_omegas}
    more = min(s.test_samples, 10_000)
    yield from _part("Figure 3", s.map_seeds, cells, dim=s.map_dim, test_samples=more)


def _side_experiments(s: "PhaseSettings") -> Iterator[Planned]:
    """The ridge search, a rank-2 student, another F, norms of the start, scaling, test sets."""
    few, seeds = {"test_samples": min(s.test_samples, 5000)}, s.side_seeds
    ridges = {"ridges": sorted({*s.ridges, s.ridge}), "folds": s.folds, "widen": s.ridge_widen}
    search = {"kind": "ridge", **ridges, "widen_factor": s.ridge_widen_factor}
    yield from _part("ridge", seeds, {"alpha": s.ridge_alphas}, dim=s.ridge_dim, **search)
    side = {"alpha": s.side_alphas}
    yield from _part("rank 2", seeds, side, dim=s.side_dim, student_rank=2)
    yield from _part("other F", seeds, side, dim=s.side_dim, mixing=s.other_mixing)
    norms = {"positional_norm": [None, float(s.side_dim) ** 0.5]}
    yield from _part("matched norms", seeds, norms, dim=s.side_dim, alpha=1.25, **few)
    scalings = {"dim": s.unscaled_dims, "scaling": ["paper", "unscaled"]}
    yield from _part("scaling", seeds, scalings, alpha=1.5, max_evaluations=300, **few)
    for dim in s.course_dims:
        tested = max(2, round(0.2 * dim))
        yield from _part("course recipe", seeds, {"dim": [dim]}, alpha=2.0, test_samples=tested)


def _theory(s: "PhaseSettings") -> Iterator[dict[str, Any]]:
    """Critical points at every ω, both branches over α, stability at the open points."""
    same = {"points": s.theory_points, **s.model_dump(include={"sigma", "ridge", "mixing"})}
    for omega in sorted({*s.theory_omegas, s.omega}):
        for rule in RULES if omega == s.omega else RULES[:1]:
            yield {"kind": "critical", "omega": omega, "rule": rule, **same}
    if s.other_mixing != s.mixing:
        other = {**same, "mixing": s.other_mixing}
        yield {"kind": "critical", "omega": s.omega, "rule": "sobol", **other}
    alphas = sorted({*s.curve_alphas, *s.large_alphas, *s.size_alphas, 0.1, 0.3, 0.5, 0.7, 0.9})
    for branch in STARTS:
        for rule in RULES:
            curve = {"branch": branch, "rule": rule, "alphas": alphas}
            yield {"kind": "curve", "omega": s.omega, **curve, **same}
        for omega, alpha in s.open_points:
            yield {"kind": "stability", "omega": omega, "alpha": alpha, "branch": branch, **same}
