"""Files that would run code, in the place of everything that is read: refused, and never run."""

import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attnlab import assets
from attnlab.core.config import read_toml
from attnlab.core.errors import AttnlabError, IntegrityError, exit_code_of
from attnlab.core.files import read_json
from attnlab.lab.record import Record
from attnlab.lab.verify import verify_run
from attnlab.report.build import write_report
from tests.assets import packing
from tests.lab.conftest import run_tiny

from .conftest import Note
from .pickles import CANARY, hostile, pickled

UNPICKLED: list[tuple[Any, ...]] = []
watching = False


def watch(event: str, arguments: tuple[Any, ...]) -> None:
    if watching and event == "pickle.find_class":
        UNPICKLED.append(arguments)


sys.addaudithook(watch)  # cannot be taken away again, so it listens only when told to
Open = Callable[[Path], object]


@pytest.fixture
def quiet() -> Iterator[None]:
    """Counts what is unpickled in this process."""
    global watching
    UNPICKLED.clear()
    watching = True
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "checkpoint skipped"
        yield
    watching = False


def test_the_files_do_run_when_they_are_unpickled(tmp_path: Path) -> None:
    """Otherwise nothing below would show anything."""
    canary = tmp_path / CANARY
    code = f"import pickle; pickle.loads({pickled(('os', 'mkdir', str(canary)), 2)!r})"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert canary.exists()
    files = hostile(canary)
    assert len(files) == 40 == len(set(files.values()))


def read_run(folder: Path) -> None:
    """Everything of a run that anyone reads."""
    if not verify_run(folder).ok:
        with_problems(folder)
        raise IntegrityError("found by verify")
    with_problems(folder)


def with_problems(folder: Path) -> None:
    """Read it all the same, piece by piece: each is right, or refused."""

    def open_all() -> None:
        rows = Record.open(folder).table()
        assert all(len(row.arrays) and len(row.curves) and row.samples for row in rows)

    looks: tuple[Callable[[], object], ...] = (
        lambda: Record.open(folder).sessions(),
        lambda: Record.open(folder).read_results(),
        open_all,
        lambda: write_report(folder),
    )
    for look in looks:
        try:
            look()
        except AttnlabError as error:
            assert exit_code_of(error) == 3, error


def read_checkpoint(folder: Path) -> None:
    from attnlab.training.checkpoint import latest_checkpoint, open_checkpoint

    found = latest_checkpoint(folder)
    assert found is None or found.state.step < 3, "a good one before it, or none"
    open_checkpoint(folder / "step-00000003")


def read_asset(folder: Path) -> None:
    assert assets.verify("pebbles")
    assets.get("pebbles")


def read_model(folder: Path) -> None:
    from attnlab.models.hub import load

    load(folder)


@pytest.fixture
def places(room: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[Path, Open]]:
    """Every file that is read, and who reads it."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "train"))
    from tests.train import drive

    record = run_tiny(room / "runs", trials=2)
    with record.lock():
        record.write_results({"claims": [], "answer": "42", "figures": []})
        record.write_file("figures/one.svg", b"<svg/>")
        record.seal()
    write_report(record.path)
    drive.training(room / "training", 3)
    monkeypatch.setenv("ATTNLAB_CACHE", str(room / "cache"))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setattr("attnlab.assets.catalogue.catalogue", packing.entries)
    monkeypatch.setattr("attnlab.assets.fetch.catalogue", packing.entries)
    package = room / packing.WHEEL[0]
    package.write_bytes(packing.WHEEL[1])
    shelf = assets.get("pebbles", source="path", path=package).path
    found: dict[str, tuple[Path, Open]] = {}
    for folder, read in (
        (record.path, read_run),
        (room / "training", read_checkpoint),
        (shelf, read_asset),
    ):
        for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock"):
            if path.name == "log.jsonl" and path.parent == folder:
                continue  # rebuilt from the checkpoint, never read
            found[f"{folder.name}/{path.relative_to(folder)}"] = (
                path,
                lambda _, folder=folder, read=read: read(folder),
            )
    return found


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("quiet")
def test_nothing_that_is_stored_is_ever_unpickled(
    places: dict[str, tuple[Path, Open]], room: Path, note: Note
) -> None:
    canary, tried = room / CANARY, 0
    slowest = 0.0
    for name, (path, read) in places.items():
        kept = path.read_bytes()
        for kind, data in hostile(canary).items():
            path.write_bytes(data)
            began = time.monotonic()
            with pytest.raises(AttnlabError) as caught:
                read(path)
            slowest = max(slowest, time.monotonic() - began)
            assert exit_code_of(caught.value) == 3, f"{name}, {kind}: {caught.value}"
            assert not canary.exists() and not UNPICKLED, f"{name}, {kind}"
            tried += 1
        path.write_bytes(kept)
    assert tried >= 40 * 20 and slowest < 2
    note("files that run code, in place of stored ones", tried, tried, len(UNPICKLED))


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("quiet")
def test_nothing_that_a_person_gives_is_ever_unpickled(room: Path, note: Note) -> None:
    """Settings, texts, tables, matrices, tokenizers."""
    from attnlab.construct.files import read_matrix
    from attnlab.tasks.corpus import Corpus
    from attnlab.tasks.tables import read_table
    from attnlab.tasks.texts import read_texts
    from attnlab.tasks.tokenizer import Tokenizer

    def tokenizer(path: Path) -> object:
        return Tokenizer.from_json(path.read_bytes().decode(errors="replace"))

    def matrix(path: Path) -> object:
        return read_matrix(path, "keys")

    given: dict[str, Open] = {
        "settings.toml": read_toml,
        "keys.npy": matrix,
        "keys.json": matrix,
        "keys.csv": matrix,
        "keys.pkl": matrix,
        "keys.npz": matrix,
        "my.txt": Corpus.read,
        "my.jsonl": read_texts,
        "my.json": read_texts,
        "table.csv": read_table,
        "table.jsonl": read_table,
        "tokenizer.json": tokenizer,
        "stored.json": read_json,
    }
    canary, tried = room / CANARY, 0
    for name, read in given.items():
        for kind, data in hostile(canary).items():
            (room / name).write_bytes(data)
            try:
                read(room / name)
                # a pickle of protocol 0 is a text as well, and may be read as one
                assert name in ("my.txt", "table.csv") and data.isascii(), f"{name}, {kind}"
            except AttnlabError as error:
                assert exit_code_of(error) in (2, 3), f"{name}, {kind}: {error}"
            assert not canary.exists() and not UNPICKLED, f"{name}, {kind}"
            tried += 1
    note("files that run code, given by a person", tried, tried, len(UNPICKLED))


@pytest.mark.slow
@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.usefixtures("quiet")
def test_no_model_of_others_is_ever_unpickled(room: Path, note: Note) -> None:
    from tests.models.tiny_encoder import bert_folder

    canary, tried = room / CANARY, 0
    whole = bert_folder(room / "bert")
    for name in ("model.safetensors", "pytorch_model.bin", "config.json", "tokenizer.json"):
        for kind, data in hostile(canary).items():
            folder = shutil.copytree(whole, room / "model")
            if name.endswith(".bin"):
                (folder / "model.safetensors").unlink()
            (folder / name).write_bytes(data)
            with pytest.raises(AttnlabError) as caught:
                read_model(folder)
            assert exit_code_of(caught.value) in (2, 3), f"{name}, {kind}: {caught.value}"
            assert not canary.exists() and not UNPICKLED, f"{name}, {kind}"
            tried += 1
            shutil.rmtree(folder)
    note("files that run code, in a model of others", tried, tried, len(UNPICKLED))


def test_no_archive_leads_outside(room: Path, note: Note) -> None:
    """Every hostile archive of tests/assets: names, links, devices, bombs, lies, broken ones."""
    from attnlab.assets.archive import unpack
    from attnlab.assets.catalogue import parse
    from tests.assets.test_archive import TARS, ZIPS

    tried = 0
    for file, known in (("evil-1.0-py3-none-any.whl", ZIPS), ("evil-1.0.tar.gz", TARS)):
        for what, (data, _) in known.items():
            entry = parse(packing.table("pebbles", (file, data)))["pebbles"]
            (room / file).write_bytes(data)
            target = room / "in" / "to"
            target.mkdir(parents=True)
            with pytest.raises(AttnlabError) as caught:
                unpack(room / file, entry, target)
            assert exit_code_of(caught.value) == 3, what
            assert {p.name for p in room.iterdir()} == {file, "in"}, what
            assert [p.name for p in (room / "in").iterdir()] == ["to"], what
            shutil.rmtree(room / "in")
            tried += 1
        (room / file).unlink()
    assert tried >= 60
    note("hostile archive members", tried, tried)
