"""A snapshot from a model hub, by id and commit: weights in safetensors or GGUF, and text files.

Python files are only downloaded on request, with their commit, into a separate folder.

The hub's client downloads into its own cache, which other programs share. From there the files are
linked (or copied) into our cache and hashed. A blob's name in the client's cache is its hash; it is
checked too.
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

from attnlab.assets.cache import Manifest, folder_of
from attnlab.assets.stream import CHUNK
from attnlab.core.errors import IntegrityError, MissingError, StorageError, storage_errors
from attnlab.core.signed import FileEntry

HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
ENCODERS = ("roberta-base", "bert-base-cased", "bert-base-uncased", "distilbert-base-uncased")
WEIGHTS = ("*.safetensors", "*.gguf")
CODE = ("*.py",)
KEPT = (*WEIGHTS, "*.json", "*.jsonl", "*.txt", "*.csv", "*.tsv", "*.parquet")
_DATASETS = "datasets/"
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM)


def is_encoder_name(name: str) -> bool:
    """owner/name, or one of the old encoders that have no owner in their name."""
    return HUB_NAME.fullmatch(name) is not None or name in ENCODERS


@dataclass(frozen=True)
class HubName:
    """`owner/name` of a model, `datasets/owner/name` of a data set."""

    text: str
    code: bool = False  # also download the Python files

    @property
    def patterns(self) -> tuple[str, ...]:
        """Patterns of the files to download."""
        return (*KEPT, *CODE) if self.code else KEPT

    @property
    def id(self) -> str:
        """The id without `datasets/`."""
        return self.text.removeprefix(_DATASETS)

    @property
    def kind(self) -> str:
        """`model` or `dataset`, the hub's repo_type."""
        return "dataset" if self.text.startswith(_DATASETS) else "model"

    @property
    def folder(self) -> str:
        """The name of its folder in our cache."""
        return "hub--" + self.text.replace("/", "--") + ("--with-code" if self.code else "")


def snapshot(hub: HubName, revision: str | None, *, quiet: bool) -> Path:
    """Download the files at `revision` (default: the newest); MissingError if that fails."""
    from huggingface_hub import snapshot_download
    from huggingface_hub.utils import tqdm

    class Hidden(tqdm):
        def __init__(self, *args: object, **kwargs: object) -> None:
            super().__init__(*args, **{**kwargs, "disable": True})

    try:
        folder = snapshot_download(
            hub.id,
            repo_type=hub.kind,
            revision=revision,
            allow_patterns=list(hub.patterns),
            tqdm_class=Hidden if quiet else None,
        )
    except Exception as error:  # the client raises a dozen kinds of errors
        if isinstance(error, OSError) and error.errno in _DISK:
            raise StorageError(f"{error.filename}: {error.strerror}") from None
        reason = next(iter(str(error).splitlines()), "") or type(error).__name__
        raise MissingError(
            f"{hub.id}: it cannot be downloaded from the hub ({reason[:200]}): run "
            f"`attnlab assets get {hub.text} --source hub` on a connected machine and copy its "
            f"folder to {folder_of(hub.folder)}"
        ) from None
    return Path(folder)


def fill(hub: HubName, folder: Path, target: Path) -> Manifest:
    """Link the snapshot's files into `target` and hash them; IntegrityError if one is unsafe."""
    store = folder.parents[1].resolve()
    files: dict[str, FileEntry] = {}
    for name in _names(folder, hub.patterns):
        blob = (folder / name).resolve()
        if store not in blob.parents or not blob.is_file():
            raise IntegrityError(f"{folder / name}: points outside the hub's cache")
        files[name] = _link_and_hash(blob, target / name)
    weights = any(fnmatch.fnmatch(name, kept) for name in files for kept in WEIGHTS)
    if not files or (hub.kind == "model" and not weights):
        raise IntegrityError(f"{hub.id}: has no safetensors and no GGUF file")
    return Manifest(name=hub.folder, source="hub", origin=folder.name, files=files)


def _names(folder: Path, patterns: tuple[str, ...]) -> Iterator[str]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if not path.is_dir() and any(fnmatch.fnmatch(name, kept) for kept in patterns):
            yield name


def _link_and_hash(blob: Path, target: Path) -> FileEntry:
    with storage_errors(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(blob, target)
        except OSError:  # on another disk, or on one without hard links
            shutil.copyfile(blob, target)
        size = target.stat().st_size
        sha256, git = hashlib.sha256(), hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        with target.open("rb") as file:
            while chunk := file.read(CHUNK):
                sha256.update(chunk)
                git.update(chunk)
    expected = {64: sha256.hexdigest(), 40: git.hexdigest()}.get(len(blob.name))
    if re.fullmatch(r"[0-9a-f]{40}|[0-9a-f]{64}", blob.name) and blob.name != expected:
        raise IntegrityError(f"{blob}: damaged: its hash differs from the hub's")
    return FileEntry(size=size, sha256=sha256.hexdigest())
