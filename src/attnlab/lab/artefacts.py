"""What a trial leaves besides numbers: arrays (safetensors), curves, samples, documents (JSON).

Files are on the disk before the row that names them is committed: the row makes them exist. It
holds their SHA-256, and every read checks it. No pickle.
"""

import hashlib
import json
import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from attnlab.core.errors import IntegrityError, from_os_error, storage_errors
from attnlab.core.files import sync
from attnlab.core.signed import FileEntry, check_entry
from attnlab.lab.trial import Outcome

ARTEFACTS = "artefacts"
ARRAYS, CURVES = "arrays.safetensors", "curves.json"
SAMPLES, DOCUMENTS = "samples.json", "documents.json"
KINDS = frozenset({ARRAYS, CURVES, SAMPLES, DOCUMENTS})
TRIAL_ID = re.compile(r"[0-9a-f]{16}")


def encode_arrays(arrays: Mapping[str, np.ndarray]) -> bytes:
    """safetensors bytes, the same for equal arrays."""
    return save({name: np.asarray(arrays[name], order="C") for name in sorted(arrays)})


def encode_outcome(outcome: Outcome) -> dict[str, bytes]:
    """File name -> bytes for everything an outcome holds besides its metrics."""
    files: dict[str, bytes] = {}
    if outcome.arrays:
        files[ARRAYS] = encode_arrays(outcome.arrays)
    if outcome.curves:
        curves = {
            name: [number if math.isfinite(number) else None for number in outcome.curves[name]]
            for name in sorted(outcome.curves)
        }
        files[CURVES] = _json_bytes(curves)
    if outcome.samples:
        files[SAMPLES] = _json_bytes(list(outcome.samples))
    if outcome.documents:
        files[DOCUMENTS] = _json_bytes({k: outcome.documents[k] for k in sorted(outcome.documents)})
    return files


def write_artefacts(run: Path, trial_id: str, outcome: Outcome) -> dict[str, FileEntry]:
    """Put the files of a trial in its folder; what they are, by name.

    Until its row is committed the folder counts for nothing, so half a file in it does no harm.
    """
    folder = run / ARTEFACTS / trial_id
    remove_folder(folder)  # left by a run that was killed before it committed the row
    entries: dict[str, FileEntry] = {}
    for name, data in encode_outcome(outcome).items():
        with storage_errors(folder / name):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        entries[name] = FileEntry(size=len(data), sha256=hashlib.sha256(data).hexdigest())
    return entries


def sync_artefacts(run: Path, files: Sequence[Path]) -> None:
    """Everything on the disk, names included, before the rows that name it are committed."""
    for path in files:  # start all writes, then wait: one wait serves many files
        _start_write(path)
    folders = {path.parent for path in files}
    for path in [*files, *folders, run / ARTEFACTS, run] if files else []:
        with storage_errors(path):
            sync(path)


def read_artefact(run: Path, trial_id: str, name: str, entry: FileEntry) -> Any:
    """The content of one file, after its hash was checked."""
    path = run / ARTEFACTS / trial_id / name
    problem = check_entry(path, entry)
    if problem:
        raise IntegrityError(f"{path}: {problem}")
    try:
        data = path.read_bytes()
        if name == ARRAYS:
            return load(data)
        value = json.loads(data)
    except OSError as error:
        raise from_os_error(path, error, IntegrityError) from None
    except (ValueError, SafetensorError) as error:
        raise IntegrityError(f"{path}: unreadable: {error}") from None
    if name == CURVES:
        return {key: [math.nan if v is None else v for v in value[key]] for key in value}
    return value


def remove_folder(folder: Path) -> None:
    """Remove a folder and all below it, if it is there."""
    with storage_errors(folder), suppress(FileNotFoundError):
        shutil.rmtree(folder)


def _start_write(path: Path) -> None:
    if hasattr(os, "posix_fadvise"):  # on Linux this starts the write and returns
        with storage_errors(path), path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _json_bytes(value: object) -> bytes:
    return (json.dumps(value, allow_nan=False) + "\n").encode()
