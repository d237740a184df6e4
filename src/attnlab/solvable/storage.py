"""Data sets of the solvable model in .npz files, which numpy reads without this package.

inputs     (N, L, D)  x            targets  (N, L, D)  A* x
attention  (N, L, L)  A*           teacher  (rank, D)  W*
settings   the teacher's settings as JSON;  format  what the file is

Only the teacher and the inputs are free: a file whose attention or targets do not follow from them
is damaged, or of another make, and is refused. Nothing is unpickled.
"""

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import torch

from attnlab.core.config import build, canonical_json
from attnlab.core.errors import IntegrityError, UsageError, from_os_error
from attnlab.core.files import write_bytes
from attnlab.solvable.teacher import Dataset, Teacher, TeacherSettings

FORMAT = "attnlab data set 1"
ARRAYS = ("inputs", "targets", "attention", "teacher")
DTYPES = ("float32", "float64")


def save_data(path: Path, teacher: Teacher, data: Dataset) -> None:
    """Write the teacher, inputs, attention, targets and settings, all or nothing."""
    if path.suffix != ".npz":
        raise UsageError(f"{path}: the name of a data set ends in .npz")
    made = BytesIO()
    np.savez(
        made,
        inputs=data.tokens.transpose(0, 1).cpu().numpy(),
        targets=data.targets().transpose(0, 1).cpu().numpy(),
        attention=data.attention.permute(2, 0, 1).cpu().numpy(),
        teacher=teacher.weights.cpu().numpy(),
        settings=canonical_json(data.settings.model_dump(mode="json")),
        format=FORMAT,
    )
    write_bytes(path, made.getvalue())


def load_data(path: Path) -> tuple[Teacher, Dataset]:
    """Read a stored data set; IntegrityError for anything that `save_data` cannot have written."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise from_os_error(path, error, UsageError) from None
    if not content.startswith(b"PK"):  # numpy would take it for a pickle and say so
        raise IntegrityError(f"{path}: not a stored data set: not an .npz file")
    try:
        with np.load(BytesIO(content), allow_pickle=False) as file:
            if str(file["format"]) != FORMAT:
                raise ValueError(f"its format is not {FORMAT!r}")
            settings = build(TeacherSettings, json.loads(str(file["settings"])))
            arrays = {name: file[name] for name in ARRAYS}
    except Exception as error:  # a damaged zip or header can raise anything
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise IntegrityError(f"{path}: not a stored data set: {reason}") from None
    if problem := _problem(settings, arrays):
        raise IntegrityError(f"{path}: not a stored data set: {problem}")
    teacher = Teacher(settings, torch.from_numpy(arrays["teacher"]))
    tokens = torch.from_numpy(arrays["inputs"]).transpose(0, 1).contiguous()
    attention = torch.from_numpy(arrays["attention"]).permute(1, 2, 0).contiguous()
    data = Dataset(settings, tokens, attention)
    targets = torch.from_numpy(arrays["targets"]).transpose(0, 1)
    near: dict[str, Any] = {"rtol": 0.0, "atol": 1e-4 if tokens.dtype == torch.float32 else 1e-9}
    if not torch.allclose(attention, teacher.attention(tokens), **near):
        raise IntegrityError(f"{path}: its attention is not that of its teacher")
    if not torch.allclose(targets, data.targets(), **near):
        raise IntegrityError(f"{path}: its targets are not those of its teacher")
    return teacher, data


def _problem(s: TeacherSettings, arrays: dict[str, np.ndarray]) -> str:
    """What is wrong with the shapes and numbers; '' if nothing is."""
    n = len(arrays["inputs"]) if arrays["inputs"].ndim else 0
    shapes = {
        "inputs": (n, s.tokens, s.dim),
        "targets": (n, s.tokens, s.dim),
        "attention": (n, s.tokens, s.tokens),
        "teacher": (s.rank, s.dim),
    }
    for name, array in arrays.items():
        if array.shape != shapes[name] or not n:
            return f"{name} has the shape {array.shape}, its settings say {shapes[name]}"
        if array.dtype.name not in (DTYPES if name in ("inputs", "targets") else DTYPES[1:]):
            return f"{name} is {array.dtype.name}"
        if not np.isfinite(array).all():
            return f"{name} has a number that is not finite"
    return ""
