"""Check the settings of a simulation, and its memory against that of the machine, beforehand."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from attnlab.core.config import build, suggest
from attnlab.core.devices import check_device
from attnlab.core.errors import UsageError

STARTS = ("semantic", "positional", "random")
MOST_SEED = 2**63
MOST_TEST_SAMPLES = 10**9  # takes hours
PER_TOKEN = 400  # bytes of fields, gradients and Hessians per token of a sample (measured: 350)
PER_WEIGHT = 30  # copies of the weights that the quasi-Newton solver keeps


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
