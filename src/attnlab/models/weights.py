"""The safetensors of a Hugging Face folder: one file, or shards named by an index. Nothing else."""

from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.files import read_json

SINGLE, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle", ".msgpack", ".h5", ".joblib")


def weight_files(folder: Path) -> list[Path]:
    """The files that hold the weights; a folder without safetensors, or with odd shards, raises."""
    if not folder.is_dir():
        raise UsageError(f"{folder}: no such folder")
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if (folder / INDEX).is_file():
        return _shards(folder)
    unsafe = sorted(p.name for p in folder.iterdir() if p.suffix in PICKLED)
    if unsafe:
        raise IntegrityError(
            f"{folder}: its weights ({unsafe[0]}) can run code when opened and are refused; "
            "convert them to safetensors where they come from"
        )
    raise IntegrityError(f"{folder}: no {SINGLE}")


def _shards(folder: Path) -> list[Path]:
    index = read_json(folder / INDEX)
    named = index.get("weight_map") if isinstance(index, dict) else None
    if not isinstance(named, dict) or not named:
        raise IntegrityError(f"{folder / INDEX}: names no weights")
    for name in named.values():
        plain = isinstance(name, str) and name.endswith(".safetensors") and Path(name).name == name
        if not plain or not (folder / name).is_file():
            raise IntegrityError(
                f"{folder / INDEX}: {name!r} is no safetensors file of this folder"
            )
    return [folder / name for name in sorted(set(named.values()))]


def read_weights(folder: Path) -> dict[str, Tensor]:
    """Every tensor of the folder by its name."""
    tensors: dict[str, Tensor] = {}
    for path in weight_files(folder):
        try:
            tensors |= load_file(path)
        except (SafetensorError, OSError) as error:
            raise IntegrityError(f"{path}: not safetensors: {error}") from None
    return tensors
