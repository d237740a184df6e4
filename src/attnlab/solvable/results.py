"""The results of the commands `theory` and `simulate`, as dictionaries of numbers and names."""

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.core.config import build, suggest
from attnlab.core.devices import resolve_device
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed

BRANCHES = ("semantic", "positional")
MOST_POINTS = 2**20


def theory_points(
    omega: float, alphas: Sequence[float], branch: str, **options: Any
) -> list[dict[str, Any]]:
    """The order parameters and errors of the branches at every α, in the order given."""
    from attnlab.solvable.theory import curve

    if not alphas:
        raise UsageError("give at least one --alpha, or --critical")
    if branch not in (*BRANCHES, "both"):
        raise UsageError(f"unknown branch {branch!r}: {suggest(branch, (*BRANCHES, 'both'))}")
    if not all(0 < a <= 100 for a in alphas):
        raise UsageError("α = N/D must lie in (0, 100]")
    model, rule = _model_and_rule(omega, **options)
    names = ("alpha", "branch", "converged", "q", "m", "V", "theta", "train_error", "test_error")
    branches = BRANCHES if branch == "both" else (branch,)
    return [
        {name: getattr(point, name) for name in names}
        for each in branches
        for point in curve(model, alphas, each, rule)
    ]


def critical_points(omega: float, **options: Any) -> dict[str, Any]:
    """α_c, α_l and α_w; a point that does not exist is None, and `reasons` says why."""
    from attnlab.solvable.phase import critical_alphas
    from attnlab.solvable.quadrature import sobol

    model, rule = _model_and_rule(omega, **options)
    crossings = critical_alphas(model, rule, sobol(8 * options["points"]))
    points: dict[str, Any] = {"omega": omega}
    reasons: dict[str, str] = {}
    for name, crossing in crossings.items():
        exists = crossing.converged and math.isfinite(crossing.value)
        points[name] = float(crossing.value) if exists else None
        if not exists:
            reasons[name] = crossing.reason or "did not converge"
    return {**points, "reasons": reasons}


def _model_and_rule(omega: float, sigma: float, ridge: float, points: int) -> tuple[Any, Any]:
    from attnlab.solvable.quadrature import sobol
    from attnlab.solvable.theory import Model

    if not 16 <= points <= MOST_POINTS:
        raise UsageError(f"points must lie between 16 and {MOST_POINTS}")
    try:
        return Model(sigma=sigma, omega=omega, ridge=ridge), sobol(points)
    except ValueError as error:
        raise UsageError(str(error)) from None


def settings_of_data(data: Any, given: Mapping[str, Any], source: Path) -> dict[str, Any]:
    """The settings with those of stored data; UsageError where another value was asked for."""
    dtype = str(data.tokens.dtype).removeprefix("torch.")
    alpha = data.samples / data.settings.dim
    stored = {**data.settings.model_dump(mode="json"), "alpha": alpha, "dtype": dtype}
    for name in stored.keys() & given.keys():
        if given[name] != stored[name]:
            raise UsageError(
                f"{source} was made with {name} = {stored[name]}: leave out {name} = {given[name]}"
            )
    return {**given, **stored}


def simulate_one(
    settings: Mapping[str, Any],
    seed: int,
    device: str,
    stored: tuple[Any, Any] | None = None,
    save: Path | None = None,
) -> dict[str, Any]:
    """One student of one instance: order parameters, errors, and the work of the solver.

    `stored` is a teacher with its data, as `load_data` reads them; `save` is a file for new ones.
    """
    from attnlab.solvable.simulation import SimulationSettings, draw_data, simulate
    from attnlab.solvable.storage import save_data

    if seed < 0:
        raise UsageError("--seed must not be negative")
    chosen = build(SimulationSettings, settings)
    resolved = resolve_device(device)
    began = time.perf_counter()
    teacher, data = stored or draw_data(chosen, Seed(seed), resolved)
    if save is not None:
        save_data(save, teacher, data)
    drawn = teacher.to(resolved), data.to(resolved)
    simulation = simulate(chosen, Seed(seed), resolved, drawn)
    student = simulation.students[0].as_json()
    names = (
        "start",
        "m",
        "theta",
        "q",
        "train_error",
        "test_error",
        "test_standard_error",
        "test_error_exact",
        "evaluations",
        "gradient_max",
        "converged",
    )
    return {
        **{name: student[name] for name in names},
        "linear_train_error": simulation.linear_train_error,
        "linear_test_error": simulation.linear_test_error,
        "device": resolved,
        "seconds": time.perf_counter() - began,
    }
