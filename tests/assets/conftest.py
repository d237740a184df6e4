"""A cache, a catalogue and an index of one's own: nothing here touches the user's."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from attnlab.assets import download
from attnlab.assets.catalogue import Entry

from . import packing
from .server import Shop


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a pip without any configuration and any index."""
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(download, "WAIT", 0.01)
    monkeypatch.setattr(download, "LONGEST_WAIT", 0.02)
    return tmp_path / "cache" / "assets"


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Callable[[dict[str, Entry]], None]:
    """Put another catalogue in the place of ours."""

    def use(entries: dict[str, Entry]) -> None:
        monkeypatch.setattr("attnlab.assets.catalogue.catalogue", lambda: entries)
        monkeypatch.setattr("attnlab.assets.fetch.catalogue", lambda: entries)

    return use


@pytest.fixture
def pebbles(cache: Path, catalogue: Callable[[dict[str, Entry]], None]) -> Path:
    """The catalogue of the small packages, and an empty cache."""
    catalogue(packing.entries())
    return cache


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    """A folder with the small packages."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, data in packing.PACKAGES.items():
        (folder / name).write_bytes(data)
    return folder


@pytest.fixture
def shop(pebbles: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """An index on this machine that pip is set to use."""
    with Shop.open(packing.PACKAGES) as opened:
        monkeypatch.delenv("PIP_NO_INDEX")
        monkeypatch.setenv("PIP_INDEX_URL", opened.index)
        yield opened


def shown(folder: Path) -> dict[str, bytes]:
    """Every visible file of a folder, by name."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not path.relative_to(folder).parts[0].startswith(".")
    }
