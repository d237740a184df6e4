"""The device and dtype of a computation, by name."""

from typing import TYPE_CHECKING, Literal

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError

if TYPE_CHECKING:
    import torch

DEVICES = ("auto", "cpu", "cuda", "mps")
OTHER_NAMES = {"gpu": "cuda", "nvidia": "cuda", "metal": "mps"}
DtypeName = Literal["float32", "float64"]


def check_device(name: str) -> None:
    """UsageError for an unknown name; `resolve_device` asks torch whether the device exists."""
    if name in OTHER_NAMES:
        raise UsageError(f"unknown device {name!r}: did you mean {OTHER_NAMES[name]!r}?")
    if name not in DEVICES:
        raise UsageError(f"unknown device {name!r}: {suggest(name, DEVICES)}")


def resolve_device(name: str) -> str:
    """auto -> cuda, else cpu (mps is opt-in: it has no float64). A missing device raises."""
    check_device(name)
    if name == "cpu":
        return name
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise UsageError("device 'cuda' was requested, but torch finds no CUDA device")
    if name == "mps" and not torch.backends.mps.is_available():
        raise UsageError("device 'mps' was requested, but torch finds no MPS device")
    return name


def torch_dtype(name: DtypeName) -> "torch.dtype":
    """The torch dtype of that name."""
    import torch

    return {"float32": torch.float32, "float64": torch.float64}[name]


def free_cached_memory(device: str) -> None:
    """Release the GPU memory that torch caches; does nothing on other devices."""
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
