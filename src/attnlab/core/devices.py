"""Which device and number type a computation uses; `auto` always says what it picked."""

from typing import TYPE_CHECKING, Literal

from attnlab.core.config import nearest
from attnlab.core.errors import UsageError

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "mps")
DtypeName = Literal["float32", "float64"]


def check_device(name: str) -> None:
    """UsageError for a name that is no device; whether it is here, `resolve_device` asks torch."""
    if name not in DEVICES:
        raise UsageError(f"unknown device {name!r}: {nearest(name, DEVICES)}")


def resolve_device(name: str) -> str:
    """auto -> cuda, else cpu (mps is opt-in: it has no float64). A missing device raises."""
    check_device(name)
    if name == "cpu":
        return name
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device 'cuda' asked for, but torch sees no CUDA device here")
    if name == "mps" and not torch.backends.mps.is_available():
        raise UsageError("device 'mps' asked for, but torch sees no MPS device here")
    return name


def torch_dtype(name: DtypeName) -> "torch.dtype":
    """float32 or float64 as torch writes them."""
    import torch

    return {"float32": torch.float32, "float64": torch.float64}[name]


def release(device: str) -> None:
    """Give back the memory torch keeps for later on a GPU; nothing to do on a CPU."""
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
