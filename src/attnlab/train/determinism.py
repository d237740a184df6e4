"""What is outside the model and still changes bits: global generators, kernels, threads."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed

CUBLAS_VARIABLE, CUBLAS_VALUES = "CUBLAS_WORKSPACE_CONFIG", (":4096:8", ":16:8")


@contextmanager
def isolate_torch_state(device: torch.device, deterministic: bool) -> Iterator[None]:
    """Global generators and the choice of kernels are ours inside, and as they were outside."""
    cuda = device.type == "cuda"
    if deterministic and cuda:
        _choose_workspace()
    before = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[device] if cuda else []):
        torch.use_deterministic_algorithms(deterministic or before)
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(before)


def _choose_workspace() -> None:
    """torch refuses matrix products in deterministic mode without this; it asks at each of them."""
    found = os.environ.setdefault(CUBLAS_VARIABLE, CUBLAS_VALUES[0])
    if found not in CUBLAS_VALUES:
        raise UsageError(f"deterministic on a GPU: {WORKSPACE} must be {' or '.join(WORKSPACES)}")


def seed_step(seed: int, step: int, device: torch.device, rank: int = 0) -> None:
    """Start torch's global generators at the stream of this step, and of this process of several.

    Our own parts never read them; the dropout of other people's models does. As a function of the
    step it needs no state, and a resumed step draws what the undisturbed one drew.
    """
    stream = Seed(seed).child("step", step)
    number = (stream.child("rank", rank) if rank else stream).number
    torch.default_generator.manual_seed(number)
    if device.type == "cuda":
        torch.cuda.manual_seed(number)


def environment(device: torch.device, processes: int = 1, parts: int = 1) -> dict[str, str | int]:
    """What must be equal for bits to repeat; `parts`: in how many the weights are cut."""
    gpu = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {
        "torch": str(torch.__version__),
        "cpu": torch.backends.cpu.get_cpu_capability(),
        "threads": torch.get_num_threads(),
        "device": gpu,
        **({"processes": processes} if processes > 1 else {}),
        **({"parts": parts} if parts > 1 else {}),
    }
