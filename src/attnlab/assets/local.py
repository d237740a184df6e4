"""An asset from a local path: the package file, a folder with it, or the asset's own files."""

from pathlib import Path

from attnlab.assets.archive import unpack
from attnlab.assets.catalogue import Entry, File
from attnlab.assets.stream import copy_verified
from attnlab.core.errors import IntegrityError, UsageError, storage_errors
from attnlab.core.files import sha256_file


def _find_package(entry: Entry, path: Path) -> Path | None:
    """The package file at `path` or inside it; None for the asset's own files."""
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    if path.is_dir():
        held = path / entry.package.name
        return held if held.is_file() else None
    if not path.is_file():
        raise UsageError(f"{path}: neither a file nor a folder")
    only = entry.files[0] if len(entry.files) == 1 else None
    return None if only and path.stat().st_size == only.size else path


def check(entry: Entry, path: Path) -> bool:
    """Verify the files at `path`; True if it is the package. IntegrityError on other bytes."""
    package = _find_package(entry, path)
    if package is not None:
        _check_hash(package, entry.package)
        return True
    for file in entry.files:
        _check_hash(_find_file(entry, file, path), file)
    return False


def copy(entry: Entry, path: Path, target: Path) -> None:
    """Copy the entry's files from `path` to `target` and verify them on the way."""
    package = _find_package(entry, path)
    if package is not None:
        unpack(package, entry, target)
        return
    for file in entry.files:
        original = _find_file(entry, file, path)
        with storage_errors(original), original.open("rb") as source:
            copy_verified(source, target / file.name, file)


def _check_hash(path: Path, file: File) -> None:
    with storage_errors(path):
        same = path.stat().st_size == file.size and sha256_file(path) == file.sha256
    if not same:
        raise IntegrityError(f"{path}: SHA-256 is not the catalogue's for {file.name}")


def _find_file(entry: Entry, file: File, path: Path) -> Path:
    """The file: `path` itself, inside `path`, or inside the package unpacked there."""
    for place in (path, path / file.name, path / entry.within / file.name):
        if place.is_file():
            return place
    raise IntegrityError(f"{path}: contains neither {entry.package.name} nor {file.name}")
