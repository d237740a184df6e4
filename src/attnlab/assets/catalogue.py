"""catalogue.toml: each asset, the package that holds it, and the SHA-256 of every file."""

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Annotated, Any

from pydantic import Field

from attnlab.core.config import Settings, build, suggest
from attnlab.core.errors import UsageError

MAX_FILE_BYTES = 4_000_000_000  # of one file; everything in the catalogue is far smaller

_Hash = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Size = Annotated[int, Field(ge=0, le=MAX_FILE_BYTES)]
_Text = Annotated[str, Field(min_length=1, max_length=200)]
_Part = r"[A-Za-z0-9_+-][A-Za-z0-9._+-]*"  # does not begin with a dot: neither hidden nor `..`
_HUB = rf"(datasets/)?({_Part}/)?{_Part}"
_HubId = Annotated[str, Field(pattern=f"^({_HUB})$", max_length=200)]
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


class File(Settings):
    """A file with its size and SHA-256."""

    name: Annotated[str, Field(pattern=rf"^{_Part}$", max_length=100)]
    size: _Size
    sha256: _Hash


class Nested(File):
    """An archive inside the package, by its path there."""

    name: Annotated[str, Field(pattern=rf"^({_Part}/)*{_Part}\.zip$", max_length=200)]


class Package(File):
    """A wheel or a source archive on a package index; only read as an archive, never run."""

    name: Annotated[str, Field(pattern=rf"^{_Part}\.(whl|zip|tar\.gz)$", max_length=100)]


class Entry(Settings):
    """One asset: the `files` found under `within` of `package` (or of the archive nested in it)."""

    name: str
    project: Annotated[str, Field(pattern=rf"^{_Part}$")]
    package: Package
    nested: Nested | None = None
    within: Annotated[str, Field(pattern=rf"^({_Part}/)*$", max_length=200)]
    holds: _Text
    licence: _Text
    hub: tuple[_HubId, ...] = ()
    files: Annotated[tuple[File, ...], Field(min_length=1)]

    @property
    def size(self) -> int:
        """Bytes of all files, unpacked."""
        return sum(file.size for file in self.files)


def parse(text: str) -> dict[str, Entry]:
    """The entries of a catalogue by name; UsageError if the text is not a catalogue."""
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"catalogue: not TOML: {error}") from None
    entries = {name: _entry(name, table) for name, table in tables.items()}
    known: dict[str, Package] = {}
    for entry in entries.values():
        if known.setdefault(entry.package.name, entry.package) != entry.package:
            raise UsageError(
                f"catalogue: {entry.package.name} is described twice, in different ways"
            )
    return entries


@cache
def catalogue() -> dict[str, Entry]:
    """The catalogue that is part of this package."""
    return parse(files("attnlab.assets").joinpath("catalogue.toml").read_text("utf-8"))


def entry_of(name: str) -> Entry:
    """The entry of an asset; the UsageError for an unknown name suggests a similar one."""
    entry = catalogue().get(name)
    if entry is None:
        raise UsageError(f"unknown asset {name!r}: {suggest(name, catalogue())}")
    return entry


def is_hub_id(text: str) -> bool:
    """owner/name, or datasets/owner/name; the hub alone knows whether it exists."""
    return len(text) <= 200 and re.fullmatch(_HUB, text) is not None


def entries_in(package: Package) -> list[Entry]:
    """All assets of one package; they are downloaded together."""
    return [entry for entry in catalogue().values() if entry.package == package]


def _entry(name: str, table: Any) -> Entry:
    if not _NAME.fullmatch(name) or not isinstance(table, dict):
        raise UsageError(f"catalogue: {name[:60]!r} is not an asset")
    entry = build(Entry, {**table, "name": name})
    names = [file.name.casefold() for file in entry.files]
    if len(set(names)) != len(names):
        raise UsageError(f"catalogue: {name}: the same file is listed twice")
    return entry
