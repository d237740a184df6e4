"""The trials, part by part.

Long trials come first, so that the last worker does not wait; theory, which needs no GPU, is spread
among the simulations.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attnlab.lab.trial import Trial
from attnlab.studies.phase_transition.settings import PhaseSettings

Make = Callable[..., Trial]
PAIR = ("semantic", "positional")
RULES = ("sobol", "sobol-coarse", "lattice")  # the last is independent of the first two


def plan(s: PhaseSettings, make: Make) -> list[Trial]:
    """Every trial of the study with these settings."""
    parts: Sequence[Iterator[Trial]] = (
        _large(s, make),
        _sizes(s, make),
        _open(s, make),
        _curve(s, make),
        _map(s, make),
        _ridge(s, make),
        _side(s, make),
    )
    simulations = [trial for part in parts for trial in part if trial.config["part"] in s.parts]
    theory = list(_theory(s, make)) if "theory" in s.parts else []
    every = max(1, len(simulations) // max(1, len(theory)))
    for index, trial in enumerate(theory):
        simulations.insert(min(index * (every + 1), len(simulations)), trial)
    return simulations


def _instance(s: PhaseSettings, make: Make, part: str, seed: int, **changes: Any) -> Trial:
    """One simulated instance; what is not changed is the study's own setting."""
    config: dict[str, Any] = {
        "kind": "instance",
        "part": part,
        "dim": s.curve_dim,
        "omega": s.omega,
        "sigma": s.sigma,
        "ridge": s.ridge,
        "mixing": [list(row) for row in s.mixing],
        "starts": list(PAIR),
        "dtype": s.dtype,
        "test_samples": s.test_samples,
        "device": s.device,
    }
    return make(seed, **{**config, **changes})


def _large(s: PhaseSettings, make: Make) -> Iterator[Trial]:
    for alpha in s.large_alphas:
        for seed in range(s.large_seeds):
            yield _instance(
                s,
                make,
                "large D",
                seed,
                dim=s.large_dim,
                alpha=alpha,
                exact_norm=True,
                starts=["semantic"],
            )


def _sizes(s: PhaseSettings, make: Make) -> Iterator[Trial]:
    for dim, seeds in sorted(zip(s.sizes, s.size_seeds, strict=True), reverse=True):
        for alpha in s.size_alphas:
            for seed in range(seeds):
                yield _instance(
                    s,
                    make,
                    "finite size",
                    seed,
                    dim=dim,
                    alpha=alpha,
                    exact_norm=True,
                    test_samples=min(s.test_samples, 5000),
                )


def _open(s: PhaseSettings, make: Make) -> Iterator[Trial]:
    for dim in sorted(s.open_dims, reverse=True):
        for omega, alpha in s.open_points:
            for seed in range(s.open_seeds):
                yield _instance(
                    s,
                    make,
                    "open questions",
                    seed,
                    dim=dim,
                    omega=omega,
                    alpha=alpha,
                    exact_norm=True,
                    displacement=s.displacement,
                    test_samples=min(s.test_samples, 5000),
                )


def _theory(s: PhaseSettings, make: Make) -> Iterator[Trial]:
    common = {
        "sigma": s.sigma,
        "ridge": s.ridge,
        "mixing": [list(row) for row in s.mixing],
        "points": s.theory_points,
    }
    for omega in sorted({*s.theory_omegas, s.omega}):
        rules = RULES if omega == s.omega else RULES[:1]
        for rule in rules:
            yield make(0, kind="critical", part="theory", omega=omega, rule=rule, **common)
    other = {**common, "mixing": [list(row) for row in s.other_mixing]}
    if s.other_mixing != s.mixing:
        yield make(0, kind="critical", part="theory", omega=s.omega, rule="sobol", **other)
    alphas = sorted({*s.curve_alphas, *s.large_alphas, *s.size_alphas, 0.1, 0.3, 0.5, 0.7, 0.9})
    for branch in PAIR:
        for rule in RULES:
            yield make(
                0,
                kind="curve",
                part="theory",
                omega=s.omega,
                branch=branch,
                rule=rule,
                alphas=alphas,
                **common,
            )
        for omega, alpha in s.open_points:
            yield make(
                0,
                kind="stability",
                part="theory",
                omega=omega,
                alpha=alpha,
                branch=branch,
                **common,
            )


def _curve(s: PhaseSettings, make: Make) -> Iterator[Trial]:
    for alpha in sorted(s.curve_alphas, reverse=True):
        for seed in range(s.seeds):
            yield _instance(s, make, "Figure 2", seed, alpha=alpha, starts=[*PAIR, "random"])


def _map(s: PhaseSettings, make: Make) -> Iterator[Trial]:
    for alpha in sorted(s.map_alphas, reverse=True):
        for omega in s.map_omegas:
            for seed in range(s.map_seeds):
                yield _instance(
                    s,
                    make,
                    "Figure 3",
                    seed,
                    dim=s.map_dim,
                    omega=omega,
                    alpha=alpha,
                    test_samples=min(s.test_samples, 10_000),
                )


def _ridge(s: PhaseSettings, make: Make) -> Iterator[Trial]:
    for alpha in s.ridge_alphas:
        for seed in range(s.side_seeds):
            yield _instance(
                s,
                make,
                "ridge",
                seed,
                kind="ridge",
                dim=s.ridge_dim,
                alpha=alpha,
                ridges=sorted({*s.ridges, s.ridge}),
                folds=s.folds,
            )


def _side(s: PhaseSettings, make: Make) -> Iterator[Trial]:
    other = [list(row) for row in s.other_mixing]
    for alpha in s.side_alphas:
        for seed in range(s.side_seeds):
            yield _instance(s, make, "rank 2", seed, dim=s.side_dim, alpha=alpha, student_rank=2)
            yield _instance(s, make, "other F", seed, dim=s.side_dim, alpha=alpha, mixing=other)
    for seed in range(s.side_seeds):
        for norm in (None, float(s.side_dim) ** 0.5):
            yield _instance(
                s,
                make,
                "matched norms",
                seed,
                dim=s.side_dim,
                alpha=1.25,
                positional_norm=norm,
                test_samples=min(s.test_samples, 5000),
            )
        for dim in s.unscaled_dims:
            for scaling in ("paper", "unscaled"):
                yield _instance(
                    s,
                    make,
                    "scaling",
                    seed,
                    dim=dim,
                    alpha=1.5,
                    scaling=scaling,
                    test_samples=min(s.test_samples, 5000),
                    max_evaluations=300,
                )
        for dim in s.course_dims:
            yield _instance(
                s,
                make,
                "course recipe",
                seed,
                dim=dim,
                alpha=2.0,
                test_samples=max(2, round(0.2 * dim)),
            )
