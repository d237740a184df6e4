"""A model hub's snapshot, by id and commit: weights in safetensors or GGUF, and text.

Code is left there, unless it is asked for by its commit; it then lies on a shelf of its own.

The hub's own client downloads into its own cache, which other programs share; from there the files
are linked (or copied) onto the shelf and hashed. A blob's name in that cache is its hash: checked.
"""

import errno
import fnmatch
import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attnlab.assets.cache import Held, Manifest, folder_of
from attnlab.assets.stream import CHUNK, on_disk
from attnlab.core.errors import IntegrityError, MissingError, StorageError

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
ENCODERS = ("roberta-base", "bert-base-cased", "bert-base-uncased", "distilbert-base-uncased")
WEIGHTS = ("*.safetensors", "*.gguf")
CODE = ("*.py",)
KEPT = (*WEIGHTS, "*.json", "*.jsonl", "*.txt", "*.csv", "*.tsv", "*.parquet")
_DATASETS = "datasets/"
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def is_encoder_name(name: str) -> bool:
    """owner/name, or one of the encoders that a hub has had since before owners."""
    return HUB_NAME.fullmatch(name) is not None or name in ENCODERS


@dataclass(frozen=True)
class HubName:
    """`owner/name` of a model, `datasets/owner/name` of a data set."""

    text: str
    code: bool = False  # with the Python files of the repository

    @property
    def kept(self) -> tuple[str, ...]:
        """Patterns of the files that are taken."""
        return (*KEPT, *CODE) if self.code else KEPT

    @property
    def id(self) -> str:
        """The id as the hub spells it."""
        return self.text.removeprefix(_DATASETS)

    @property
    def kind(self) -> str:
        """model or dataset."""
        return "dataset" if self.text.startswith(_DATASETS) else "model"

    @property
    def folder(self) -> str:
        """The name on the shelf."""
        return "hub--" + self.text.replace("/", "--") + ("--with-code" if self.code else "")


def snapshot(hub: HubName, revision: str | None, *, quiet: bool) -> Path:
    """The folder of the hub's files at `revision`, or at the newest one; MissingError without."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import tqdm

    class Hidden(tqdm):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})

    try:
        found = snapshot_download(
            hub.id,
            repo_type=hub.kind,
            revision=revision,
            allow_patterns=list(hub.kept),
            tqdm_class=Hidden if quiet else None,
        )
    except Exception as error:  # its client has a dozen kinds of "cannot be had"
        if isinstance(error, OSError) and error.errno in _DISK:
            raise StorageError(f"{error.filename}: {error.strerror}") from None
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise MissingError(
            f"{hub.id}: the hub cannot give it here ({reason[:200]}): run `attnlab assets get "
            f"{hub.text} --source hub` on a connected machine and copy its folder to "
            f"{folder_of(hub.folder)}"
        ) from None
    return Path(found)


def fill(hub: HubName, folder: Path, target: Path) -> Manifest:
    """Put the snapshot's files into `target`, each one hashed; IntegrityError if any is unsafe."""
    store = folder.parents[1].resolve()
    files: dict[str, Held] = {}
    for name in _names(folder, hub.kept):
        blob = (folder / name).resolve()
        if store not in blob.parents or not blob.is_file():
            raise IntegrityError(f"{folder / name}: leads outside the hub's cache")
        files[name] = _place(blob, target / name)
    if not files or (hub.kind == "model" and not _with_weights(files)):
        raise IntegrityError(f"{hub.id}: publishes no safetensors and no GGUF file")
    return Manifest(name=hub.folder, source="hub", origin=folder.name, files=files)


def _names(folder: Path, patterns: tuple[str, ...]) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_dir() and any(fnmatch.fnmatch(name, kept) for kept in patterns):
            yield name


def _with_weights(files: dict[str, Held]) -> bool:
    return any(fnmatch.fnmatch(name, kept) for name in files for kept in WEIGHTS)


def _place(blob: Path, target: Path) -> Held:
    with on_disk(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(blob, target)
        except OSError:  # another disk, or one without links
            shutil.copyfile(blob, target)
        size = target.stat().st_size
        sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        with target.open("rb") as file:
            while chunk := file.read(CHUNK):
                sha256.update(chunk)
                git.update(chunk)
    expected = {64: sha256.hexdigest(), 40: git.hexdigest()}.get(len(blob.name))
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", blob.name) and blob.name != expected:
        raise IntegrityError(f"{blob}: not what the hub holds (its hash differs)")
    return Held(size=size, sha256=sha256.hexdigest())
