"""What the commands `theory` and `simulate` check beforehand, and what they answer.

Settings are checked, and the memory that a simulation needs against that of the machine. Results
are dictionaries of numbers and names.
"""

import math
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from attnlab.core.config import build, suggest
from attnlab.core.devices import check_device, resolve_device
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed

BRANCHES = ("semantic", "positional")
MOST_POINTS = 2**20
LEFT_OUT = ("leave_one_out", "theta_values", "start_norm", "returned")  # of a student
STARTS = ("semantic", "positional", "random")
MOST_SEED = 2**63
MOST_TEST_SAMPLES = 10**9  # takes hours
PER_TOKEN = 400  # bytes of fields, gradients and Hessians per token of a sample (measured: 350)
PER_WEIGHT = 30  # copies of the weights that the quasi-Newton solver keeps


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

    chosen = build(SimulationSettings, settings)
    resolved = resolve_device(device)
    began = time.perf_counter()
    teacher, data = stored or draw_data(chosen, Seed(seed), resolved)
    if save is not None:
        save_data(save, teacher, data)
    drawn = teacher.to(resolved), data.to(resolved)
    simulation = simulate(chosen, Seed(seed), resolved, drawn)
    student = simulation.students[0].as_json()
    return {
        **{name: value for name, value in student.items() if name not in LEFT_OUT},
        "linear_train_error": simulation.linear_train_error,
        "linear_test_error": simulation.linear_test_error,
        "device": resolved,
        "seconds": time.perf_counter() - began,
    }


@contextmanager
def translate_arithmetic_errors() -> Iterator[None]:
    """Turn an overflow or a division by zero in the block into a UsageError about the settings."""
    try:
        yield
    except ArithmeticError as error:
        raise UsageError(f"these settings cannot be computed: {error}") from None


def check_simulation(settings: Mapping[str, Any], start: str, seed: int, device: str) -> None:
    """Raise UsageError unless the settings are valid and the simulation fits in memory."""
    from attnlab.solvable.simulation import START, SimulationSettings
    from attnlab.solvable.solve import SolverSettings

    if not START.fullmatch(start):
        raise UsageError(f"unknown start {start!r}: {suggest(start, STARTS)}")
    check_device(device)
    if not 0 <= seed < MOST_SEED:
        raise UsageError(f"--seed must lie between 0 and 2**63 - 1, got {seed}")
    chosen = build(SimulationSettings, {**settings, "starts": [start]})
    asked = {name: getattr(chosen, name) for name in ("method", "tolerance", "max_evaluations")}
    build(SolverSettings, {key: value for key, value in asked.items() if value is not None})
    if not 2 <= chosen.test_samples <= MOST_TEST_SAMPLES:
        raise UsageError(f"setting 'test_samples': must lie between 2 and {MOST_TEST_SAMPLES:,}")
    with translate_arithmetic_errors():
        refuse_too_large(chosen, device)


def refuse_too_large(chosen: Any, device: str) -> None:
    """Raise UsageError when the data and what is computed from them exceed the free memory."""
    need, free = simulation_bytes(chosen), free_bytes(device)
    if need > free:
        raise UsageError(
            f"D = {chosen.dim} with N = {chosen.samples} samples needs about {_gigabytes(need)}, "
            f"and {_gigabytes(free)} are free: use a smaller --dim or --alpha, or dtype=float32"
        )


def simulation_bytes(chosen: Any) -> int:
    """The memory of the tokens, one chunk of draws, the fields, and the solver's weights."""
    from attnlab.solvable.teacher import CHUNK_NUMBERS

    size = 4 if chosen.dtype == "float32" else 8
    ranks = chosen.rank + chosen.student_rank
    data = chosen.tokens * chosen.samples * chosen.dim * size
    fields = chosen.tokens * chosen.samples * PER_TOKEN * ranks // 2
    weights = PER_WEIGHT * 8 * ranks * chosen.dim
    return data + min(data, CHUNK_NUMBERS * size) + fields + weights


def free_bytes(device: str) -> int:
    """The free memory of the GPU or, on the CPU, of the machine (all of it if unknown)."""
    if device in ("auto", "cuda"):
        import torch

        if torch.cuda.is_available():
            return int(torch.cuda.mem_get_info()[0])
    try:
        with open("/proc/meminfo", encoding="ascii") as file:
            meminfo = dict(line.split(":", 1) for line in file)
        return int(meminfo["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.3g} GB" if size < 1e15 else f"{size / 1e9:.1e} GB"
