"""State outside the model that changes the bits: global generators, kernels, threads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed

CUBLAS_VARIABLE, CUBLAS_VALUES = "CUBLAS_WORKSPACE_CONFIG", (":4096:8", ":16:8")


@contextmanager
def isolate_torch_state(device: torch.device, deterministic: bool) -> Iterator[None]:
    """Restore torch's global generators and deterministic mode on exit.

    Inside, `deterministic` chooses the kernels, and the generators may be reseeded freely.
    """
    cuda = device.type == "cuda"
    if deterministic and cuda:
        _set_cublas_workspace()
    before = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[device] if cuda else []):
        torch.use_deterministic_algorithms(deterministic or before)
        # torch would write NaN into all new memory, one more kernel for most operations
        memory: Any = torch.utils.deterministic
        filled, memory.fill_uninitialized_memory = memory.fill_uninitialized_memory, False
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before)
            memory.fill_uninitialized_memory = filled


def _set_cublas_workspace() -> None:
    """Set the variable without which torch refuses matrix products in deterministic mode."""
    value = os.environ.setdefault(CUBLAS_VARIABLE, CUBLAS_VALUES[0])
    if value not in CUBLAS_VALUES:
        raise UsageError(
            f"deterministic on a GPU: {CUBLAS_VARIABLE} must be {' or '.join(CUBLAS_VALUES)}"
        )


@contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Run with this number of CPU threads: it changes the last bits of sums."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def seed_step(seed: int, step: int, device: torch.device, rank: int = 0) -> None:
    """Seed torch's global generators with the random stream of this step and process.

    Our own parts never read them; the dropout of other people's models does. Because the stream is
    a function of the step, no generator state is stored, and a resumed step draws the same numbers.
    """
    stream = Seed(seed).child("step", step)
    number = (stream.child("rank", rank) if rank else stream).number
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)


def environment(device: torch.device, processes: int = 1, shards: int = 1) -> dict[str, str | int]:
    """Describe what must be equal for two runs to agree bit for bit.

    `shards` is the number of shards the weights are split into, stored as "parts".
    """
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {
        "torch": str(torch.__version__),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "device": gpu,
        **({"processes": processes} if processes > 1 else {}),
        **({"parts": shards} if shards > 1 else {}),
    }
