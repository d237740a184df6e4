"""The shelf: whole or absent, every damaged byte seen, mended by the next get, removed at once."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from attnlab import assets
from attnlab.assets import cache as shelf
from attnlab.assets.catalogue import Entry, parse
from attnlab.core.errors import (
    IntegrityError,
    MissingError,
    RunInUseError,
    StorageError,
    UsageError,
)
from attnlab.core.signed import write_signed

from . import packing
from .conftest import shown
from .packing import FILES, SDIST, WHEEL
from .server import Shop

NAMES = sorted(FILES)


@pytest.fixture
def stored(pebbles: Path, wheels: Path) -> Path:
    """`sand`, cached; no index can be reached."""
    return assets.get("sand", source="path", path=wheels / SDIST[0]).path


def state(name: str) -> str:
    return next(each.state for each in assets.listing() if each.entry.name == name)


def test_the_cache_is_where_the_variable_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ATTNLAB_CACHE", str(tmp_path / "here"))
    assert shelf.root() == tmp_path / "here" / "assets"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ATTNLAB_CACHE", "there")
    assert shelf.root() == tmp_path / "there" / "assets"
    monkeypatch.setenv("ATTNLAB_CACHE", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tmp_path in shelf.root().parents and "attnlab" in shelf.root().parts


def test_what_get_returns(stored: Path, pebbles: Path) -> None:
    found = assets.get("sand")
    assert found.path == stored == pebbles / "sand"
    assert found.files == tuple(stored / name for name in NAMES)
    assert {file.name: file.read_bytes() for file in found.files} == FILES
    assert found.as_json() == {
        "name": "sand",
        "path": str(stored),
        "files": [str(stored / name) for name in NAMES],
    }
    assert assets.verify("sand") == []


def test_listing(stored: Path) -> None:
    assert [(each.entry.name, each.state) for each in assets.listing()] == [
        ("pebbles", "no"),
        ("shells", "no"),
        ("sand", "cached"),
        ("deep", "no"),
    ]
    said = next(each.as_json() for each in assets.listing() if each.state == "cached")
    assert said["cached"] and said["size"] == sum(map(len, FILES.values()))
    assert said["download"] == len(SDIST[1]) and said["package"] == SDIST[0]
    (stored / NAMES[0]).write_bytes(b"short")
    assert state("sand") == "damaged"


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)


def test_one_bit_anywhere_is_seen(stored: Path) -> None:
    for path in (stored / name for name in NAMES):
        for at in range(0, path.stat().st_size, 211):
            flip(path, at)
            assert assets.verify("sand") == [f"{path}: SHA-256 differs"]
            flip(path, at)
    manifest = stored / "MANIFEST.json"
    for at in range(manifest.stat().st_size):
        flip(manifest, at)
        with pytest.raises(IntegrityError, match=r"MANIFEST\.json"):
            shelf.read_manifest(stored)
        flip(manifest, at)
    assert assets.verify("sand") == []


def swap(folder: Path) -> None:
    (folder / NAMES[0]).rename(folder / "x")
    (folder / NAMES[1]).rename(folder / NAMES[0])
    (folder / "x").rename(folder / NAMES[1])


def link(folder: Path) -> None:
    shutil.copy(folder / NAMES[0], folder.parent / "elsewhere")
    (folder / NAMES[0]).unlink()
    (folder / NAMES[0]).symlink_to(folder.parent / "elsewhere")


def resign(folder: Path, **changes: object) -> None:
    """A manifest changed by someone who signs it again."""
    value = json.loads((folder / "MANIFEST.json").read_text())
    value.pop("sha256")
    signed = shelf.Manifest.model_validate({**value, **changes})
    write_signed(folder / "MANIFEST.json", signed.model_dump(mode="json"))


def forge(folder: Path) -> None:
    """Another file, and a manifest that agrees with it: the catalogue does not."""
    (folder / NAMES[0]).write_bytes(b"forged")
    held = {
        name: {"size": len(data), "sha256": packing.sha256(data)} for name, data in FILES.items()
    }
    held[NAMES[0]] = {"size": 6, "sha256": packing.sha256(b"forged")}
    resign(folder, files=held)


HARM: dict[str, Callable[[Path], object]] = {
    "a bit": lambda folder: flip(folder / NAMES[0], 101),
    "zeros": lambda folder: (folder / NAMES[0]).write_bytes(bytes(len(FILES[NAMES[0]]))),
    "cut to nothing": lambda folder: (folder / NAMES[0]).write_bytes(b""),
    "cut by one": lambda folder: (folder / NAMES[0]).write_bytes(FILES[NAMES[0]][:-1]),
    "one more": lambda folder: (folder / NAMES[0]).write_bytes(FILES[NAMES[0]] + b"\0"),
    "gone": lambda folder: (folder / NAMES[0]).unlink(),
    "swapped": swap,
    "a link": link,
    "a folder in its place": lambda folder: (
        (folder / NAMES[0]).unlink(),
        (folder / NAMES[0]).mkdir(),
    ),
    "a stranger": lambda folder: (folder / "evil.py").write_text("import os"),
    "a stranger in a folder": lambda folder: (
        (folder / "deep").mkdir(),
        (folder / "deep" / "evil.py").write_text("import os"),
    ),
    "no manifest": lambda folder: (folder / "MANIFEST.json").unlink(),
    "manifest is empty": lambda folder: (folder / "MANIFEST.json").write_text(""),
    "manifest is a list": lambda folder: (folder / "MANIFEST.json").write_text("[]"),
    "manifest has a newer format": lambda folder: (folder / "MANIFEST.json").write_text(
        (folder / "MANIFEST.json").read_text().replace('"format": 1', '"format": 2')
    ),
    "manifest of another package": lambda folder: resign(folder, origin="0" * 64),
    "manifest of another asset": lambda folder: resign(folder, name="pebbles"),
    "forged": forge,
    "a file in place of the folder": lambda folder: (
        shutil.rmtree(folder),
        folder.write_text("no folder"),
    ),
    "emptied": lambda folder: (shutil.rmtree(folder), folder.mkdir()),
}


@pytest.mark.parametrize("what", HARM)
def test_damage_is_named_refused_and_mended(
    stored: Path, wheels: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    HARM[what](stored)
    assert assets.verify("sand")
    with pytest.raises(IntegrityError, match=str(stored)):  # no index: the damage is the news
        assets.get("sand")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    assert {file.name: file.read_bytes() for file in assets.get("sand").files} == FILES
    assert assets.verify("sand") == []


def test_a_folder_brought_from_another_machine(stored: Path, tmp_path: Path) -> None:
    away = tmp_path / "stick"
    shutil.copytree(stored, away)
    assert assets.remove("sand")
    with pytest.raises(MissingError):
        assets.get("sand")
    shutil.copytree(away, stored)
    assert assets.get("sand").path == stored
    assets.remove("sand")
    assert assets.get("sand", source="path", path=away).path == stored


def test_what_is_cached_needs_no_lock_and_no_write(stored: Path, pebbles: Path) -> None:
    shutil.rmtree(pebbles / ".locks")
    (pebbles / ".locks").write_text("no folder: any attempt to lock fails")
    assert assets.get("sand").path == stored
    with pytest.raises(StorageError):
        assets.get("pebbles")


def test_remove(stored: Path, pebbles: Path) -> None:
    shelf.download_of(SDIST[0]).parent.mkdir(exist_ok=True)
    shelf.download_of(SDIST[0]).write_bytes(b"half")
    assert assets.remove("sand") is True
    assert assets.remove("sand") is False
    assert not stored.exists()
    assert not shelf.download_of(SDIST[0]).exists()
    assert not list(pebbles.glob(".partial-*"))
    with pytest.raises(MissingError, match="not cached"):
        assets.verify("sand")


def test_a_catalogue_that_moved_on_fetches_again(
    stored: Path, tmp_path: Path, catalogue: Callable[[dict[str, Entry]], None]
) -> None:
    newer = packing.sdist({**packing.PEBBLES, "news": b"1"})
    catalogue(parse(packing.table("sand", (SDIST[0], newer))))
    assert state("sand") == "damaged"
    path = tmp_path / "newer.tar.gz"
    path.write_bytes(newer)
    assets.get("sand", source="path", path=path)
    assert shelf.read_manifest(stored).origin == packing.sha256(newer)


def test_what_a_killed_process_left_is_swept_away(stored: Path, pebbles: Path) -> None:
    ours, others = pebbles / f".partial-{SDIST[0]}-abc", pebbles / f".partial-{WHEEL[0]}-abc"
    for left in (ours, others):
        (left / "new").mkdir(parents=True)
        (left / "new" / "half.txt").write_bytes(b"half")
    assets.remove("sand")
    assert not ours.exists()
    assert others.exists()  # its writer may be at work


def test_waiting_for_another_writer(pebbles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "LOCK_SECONDS", 0.1)

    class Noted:
        seen: list[str] = []  # noqa: RUF012

        def start(self, what: str, total: int, done: int) -> None: ...
        def advance(self, count: int) -> None: ...
        def stop(self) -> None: ...
        def note(self, text: str) -> None:
            self.seen.append(text)

    with (
        shelf.write_lock(SDIST[0], Noted()),
        pytest.raises(RunInUseError, match="being downloaded by another"),
        shelf.write_lock(SDIST[0], Noted()),
    ):
        pass
    assert Noted.seen == [f"waiting for another process that downloads {SDIST[0]}"]


class TestPath:
    @pytest.mark.parametrize("name", ["pebbles", "shells", "sand", "deep"])
    def test_a_package_file_or_the_folder_that_holds_it(
        self, pebbles: Path, wheels: Path, name: str
    ) -> None:
        package = parse(packing.CATALOGUE)[name].package.name
        whole = assets.get(name, source="path", path=wheels / package)
        first = {file.name: file.read_bytes() for file in whole.files}
        assets.remove(name)
        again = assets.get(name, source="path", path=str(wheels))
        assert {file.name: file.read_bytes() for file in again.files} == first

    def test_the_files_themselves(self, pebbles: Path, tmp_path: Path) -> None:
        for folder in (tmp_path / "flat", tmp_path / "unpacked" / packing.FOLDER):
            folder.mkdir(parents=True)
            for name, data in FILES.items():
                (folder / name).write_bytes(data)
        for folder in (tmp_path / "flat", tmp_path / "unpacked"):
            assert shown(assets.get("pebbles", source="path", path=folder).path).keys() > set(FILES)
            assert assets.remove("pebbles")
        assert not (pebbles / "shells").exists()

    def test_the_one_file_of_an_asset(self, pebbles: Path, tmp_path: Path) -> None:
        (tmp_path / "renamed.txt").write_bytes(packing.OTHER["three.txt"])
        found = assets.get("shells", source="path", path=tmp_path / "renamed.txt")
        assert [file.name for file in found.files] == ["three.txt"]

    @pytest.mark.parametrize("cached", [False, True])
    def test_other_bytes_are_refused(self, pebbles: Path, wheels: Path, cached: bool) -> None:
        if cached:
            assets.get("pebbles", source="path", path=wheels)
        before = shown(pebbles)
        package = wheels / WHEEL[0]
        for data in (WHEEL[1][:-1], WHEEL[1] + b"x", b"", WHEEL[1][::-1]):
            package.write_bytes(data)
            with pytest.raises(IntegrityError, match="SHA-256"):
                assets.get("pebbles", source="path", path=package)
        package.unlink()
        (wheels / "one.txt").write_bytes(FILES["one.txt"])
        with pytest.raises(IntegrityError, match=r"nor two\.txt"):
            assets.get("pebbles", source="path", path=wheels)
        assert shown(pebbles) == before

    def test_bad_usage(self, pebbles: Path, wheels: Path) -> None:
        pipe = wheels / "pipe"
        os.mkfifo(pipe)
        cases: tuple[tuple[dict[str, Any], str], ...] = (
            ({"source": "path"}, "needs a path"),
            ({"path": wheels}, "needs a path"),
            ({"source": "hub", "path": wheels}, "needs a path"),
            ({"source": "path", "path": wheels, "revision": "x"}, "used with source"),
            ({"source": "regstry"}, "did you mean 'registry'"),
            ({"source": "path", "path": wheels / "none"}, "no such file"),
            ({"source": "path", "path": pipe}, "neither a file nor a folder"),
        )
        for arguments, words in cases:
            with pytest.raises(UsageError, match=words):
                assets.get("pebbles", **arguments)


def test_a_damaged_copy_is_said_and_fetched_again(shop: Shop, pebbles: Path) -> None:
    notes: list[str] = []

    class Noted:
        def start(self, what: str, total: int, done: int) -> None: ...
        def advance(self, count: int) -> None: ...
        def stop(self) -> None: ...
        def note(self, text: str) -> None:
            notes.append(text)

    folder = assets.get("pebbles").path
    flip(folder / NAMES[0], 7)
    assets.get("pebbles", progress=Noted())
    assert notes == [f"{folder / NAMES[0]}: SHA-256 differs; downloading pebbles again"]
    assert assets.verify("pebbles") == []
