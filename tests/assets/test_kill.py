"""kill -9 anywhere, and several processes at once: whole or absent, and the next one goes on."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from attnlab import assets
from attnlab.assets.cache import download_of

from . import packing
from .conftest import shown
from .server import Shop

HERE = Path(__file__).parent


def right(files: dict[str, bytes]) -> str:
    parts = (file.encode() + files[file] for file in sorted(files))
    return hashlib.sha256(b"".join(parts)).hexdigest()


@pytest.fixture
def drive(tmp_path: Path) -> list[str]:
    """The command of a process that knows our catalogue."""
    text = tmp_path / "catalogue.toml"
    text.write_text(packing.CATALOGUE, encoding="utf-8")
    return [sys.executable, "-W", "error", str(HERE / "drive.py"), str(text)]


def start(command: list[str]) -> "subprocess.Popen[str]":
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("name", ["pebbles", pytest.param("deep", marks=pytest.mark.slow)])
def test_killed_in_front_of_every_step(
    pebbles: Path, wheels: Path, drive: list[str], monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    done = subprocess.run([*drive, "sweep", name], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 20  # opens, writes through, renames


@pytest.mark.parametrize("sent", [0, 4001])
def test_killed_in_the_middle_of_a_download(
    shop: Shop, pebbles: Path, drive: list[str], sent: int
) -> None:
    shop.plan[:] = [f"hang:{sent}"]
    process = start([*drive, "get", "pebbles"])
    assert shop.hanging.wait(60)
    process.kill()
    process.communicate()
    shop.go_on.set()
    assert shown(pebbles) == {}
    arrived = download_of(packing.WHEEL[0]).stat().st_size
    assert arrived <= sent
    again = start([*drive, "get", "pebbles"])
    out, err = again.communicate(timeout=60)
    assert again.returncode == 0, err
    assert out.strip() == right(packing.FILES)
    assert shop.asked[-1] == (f"bytes={arrived}-" if arrived else "")


def test_several_processes_at_once_fetch_once(shop: Shop, pebbles: Path, drive: list[str]) -> None:
    shop.plan[:] = ["slow:2003"]
    first = start([*drive, "get", "pebbles"])
    assert shop.hanging.wait(60)
    others = [start([*drive, "get", name]) for name in ("pebbles", "shells", "pebbles")]
    for process in others:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=0.7)
    shop.go_on.set()
    for process, files in zip(
        (first, *others), (packing.FILES, packing.FILES, packing.OTHER, packing.FILES), strict=True
    ):
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert out.strip() == right(files)
    assert len(shop.asked) == 1


def test_the_next_one_takes_over_when_the_fetching_one_is_killed(
    shop: Shop, pebbles: Path, drive: list[str]
) -> None:
    shop.plan[:] = ["hang:2003"]
    first = start([*drive, "get", "pebbles"])
    assert shop.hanging.wait(60)
    second = start([*drive, "get", "pebbles"])
    with pytest.raises(subprocess.TimeoutExpired):
        second.wait(timeout=1.0)
    first.kill()
    first.communicate()
    shop.go_on.set()
    out, err = second.communicate(timeout=60)
    assert second.returncode == 0, err
    assert out.strip() == right(packing.FILES)


def test_readers_while_it_is_removed_and_fetched(
    pebbles: Path, wheels: Path, drive: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    processes = [start([*drive, "get", "sand"]) for _ in range(2)]
    for _ in range(20):
        assets.get("sand")
        assets.remove("sand")
    for process in processes:
        process.communicate(timeout=60)
    assert assets.get("sand").path.is_dir()
    assert assets.verify("sand") == []
    assert not [name for name in os.listdir(pebbles) if name.startswith(".partial-")]
