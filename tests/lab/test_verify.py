import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attnlab.core.errors import IntegrityError
from attnlab.core.signed import read_signed
from attnlab.lab.manifest import read_manifest
from attnlab.lab.record import Record
from attnlab.lab.rows import checked_row
from attnlab.lab.run_spec import read_run_spec
from attnlab.lab.runs import list_runs
from attnlab.lab.store import StoredRow, inspect_store, read_rows
from attnlab.lab.verify import verify_run

from .conftest import run_tiny

SEED = 20260822
EVERY_BYTE_UP_TO = 600


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return shutil.copytree(finished, tmp_path / finished.name)


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".lock")


def offsets(size: int, many: int) -> Iterator[tuple[int, int]]:
    rng = random.Random(SEED)
    places = range(size) if size <= EVERY_BYTE_UP_TO else sorted(rng.sample(range(size), many))
    for place in places:
        yield place, 1 << rng.randrange(8)


def test_a_clean_run_is_clean(copy: Path) -> None:
    before = {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in files(copy)}
    found = verify_run(copy)
    assert found.ok and found.complete and found.problems == () and found.run == copy.name
    assert found.digest == Record.open(copy).digest()
    assert set(vars(found)) == {"run", "complete", "ok", "digest", "problems"}
    assert before == {p: (p.read_bytes(), p.stat().st_mtime_ns) for p in files(copy)}
    moved = copy.rename(copy.parent / "elsewhere")
    assert verify_run(moved).ok


def test_any_flipped_bit_is_found(copy: Path) -> None:
    tried = 0
    for path in files(copy):
        data = path.read_bytes()
        for place, bit in offsets(len(data), many=80):
            path.write_bytes(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])
            found = verify_run(copy)
            assert not found.ok and found.problems, f"{path.name} byte {place} bit {bit}"
            tried += 1
        path.write_bytes(data)
    assert verify_run(copy).ok and tried > 1000


@pytest.mark.slow
def test_every_bit_of_every_file(copy: Path) -> None:
    for path in files(copy):
        data = path.read_bytes()
        for place in range(0, len(data), 1 if len(data) < 8192 else 7):
            changed = bytearray(data)
            changed[place] ^= 1 << (place % 8)
            path.write_bytes(changed)
            assert not verify_run(copy).ok, f"{path.name} byte {place}"
        path.write_bytes(data)


def test_truncation_deletion_zeros_and_extra_bytes(copy: Path) -> None:
    for path in files(copy):
        data = path.read_bytes()
        n = len(data)
        for damaged in (b"", data[:1], data[: n // 2], data[:-1], data + b"\0", bytes(n)):
            path.write_bytes(damaged)
            assert not verify_run(copy).ok, f"{path.name}: {len(damaged)} of {n} bytes"
        path.unlink()
        found = verify_run(copy)
        assert not found.ok and any("missing" in problem for problem in found.problems)
        path.mkdir()
        assert not verify_run(copy).ok
        path.rmdir()
        path.write_bytes(data)
    assert verify_run(copy).ok


def test_swapped_files_are_found(copy: Path) -> None:
    found = files(copy)
    swapped = 0
    for one, other in zip(found, found[1:] + found[:1], strict=True):
        a, b = one.read_bytes(), other.read_bytes()
        if a == b:
            continue
        one.write_bytes(b)
        other.write_bytes(a)
        assert not verify_run(copy).ok, f"{one.name} and {other.name}"
        one.write_bytes(a)
        other.write_bytes(b)
        swapped += 1
    assert swapped > 5 and verify_run(copy).ok


@pytest.mark.parametrize(
    "name", ["extra.txt", "figures/extra.svg", "artefacts/x", "trials.db-journal", "a/b/c"]
)
def test_an_unexpected_file_is_found(copy: Path, name: str) -> None:
    (copy / name).parent.mkdir(parents=True, exist_ok=True)
    (copy / name).write_text("hello")
    found = verify_run(copy)
    assert not found.ok and any(name in problem for problem in found.problems)


def test_links_are_found(copy: Path, tmp_path: Path) -> None:
    (tmp_path / "outside").write_bytes((copy / "report.html").read_bytes())
    (copy / "report.html").unlink()
    (copy / "report.html").symlink_to(tmp_path / "outside")
    assert any("not a plain file" in p for p in verify_run(copy).problems)


EDITS = [
    "UPDATE trials SET metrics = replace(metrics, 'count\":5', 'count\":6')",
    "UPDATE trials SET seed = seed + 1",
    "UPDATE trials SET state = 'failed'",
    "UPDATE trials SET cost = '{}'",
    "UPDATE trials SET error = 'x'",
    "UPDATE trials SET sha256 = note_sha256",
    "DELETE FROM trials WHERE seed = 0",
    "DELETE FROM trials",
    "DELETE FROM tally",
    "UPDATE tally SET run = 'other'",
    "INSERT INTO trials SELECT id || 'x', seed, config, state, metrics, reasons, artefacts, "
    "sha256, cost, error, note_sha256 FROM trials",
    "DROP TABLE tally",
    "CREATE TABLE more (x)",
    "CREATE TRIGGER t AFTER INSERT ON trials BEGIN DELETE FROM trials; END",
    "UPDATE trials SET metrics = x'ff00'",
    "UPDATE trials SET id = NULL",
]


@pytest.fixture(scope="module")
def unsealed(finished: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run as a kill before the seal leaves it: rows are all there is to trust."""
    folder = shutil.copytree(finished, tmp_path_factory.mktemp("unsealed") / finished.name)
    record = Record.open(folder)
    with record.lock():
        record.begin()
    assert verify_run(folder).ok and not verify_run(folder).complete
    return folder


@pytest.mark.parametrize("sql", EDITS)
@pytest.mark.parametrize("sealed", [True, False])
def test_an_edited_row_is_found(
    finished: Path, unsealed: Path, tmp_path: Path, sql: str, sealed: bool
) -> None:
    folder = shutil.copytree(finished if sealed else unsealed, tmp_path / "copy")
    with sqlite3.connect(folder / "trials.db") as db:
        db.execute(sql)
    db.close()
    found = verify_run(folder)
    assert not found.ok and found.digest is None
    if not sealed:
        with pytest.raises(IntegrityError):
            Record.open(folder).table()


def test_a_flipped_bit_in_an_unfinished_run_never_gives_a_wrong_number(
    unsealed: Path, tmp_path: Path
) -> None:
    """Where the database alone speaks: the flip is found, or it was in unused space."""
    folder = shutil.copytree(unsealed, tmp_path / "copy")
    truth = Record.open(folder).digest()
    path = folder / "trials.db"
    data = path.read_bytes()
    found = 0
    for place, bit in offsets(len(data), many=300):
        path.write_bytes(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])
        answer = verify_run(folder)
        assert not answer.ok or answer.digest == truth, f"byte {place} bit {bit}"
        found += not answer.ok
    assert found > 20


def test_artefacts_of_an_unfinished_run_are_checked(unsealed: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(unsealed, tmp_path / "copy")
    for path in folder.glob("artefacts/*/*"):
        data = path.read_bytes()
        path.write_bytes(data[:-1] + bytes([data[-1] ^ 4]))
        assert not verify_run(folder).ok
        path.unlink()
        assert not verify_run(folder).ok
        path.write_bytes(data)
    orphan = folder / "artefacts" / "0123456789abcdef" / "curves.json"
    orphan.parent.mkdir()
    orphan.write_text("{}")
    assert verify_run(folder).ok, "written, but killed before its row was committed"
    with Record.open(folder).lock() as record:
        record.seal()
    assert not orphan.exists() and verify_run(folder).ok


def test_a_damaged_run_is_not_resumed(copy: Path) -> None:
    study = copy / "artefacts"
    path = next(study.glob("*/arrays.safetensors"))
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    with pytest.raises(IntegrityError, match="damaged"), Record.open(copy).lock() as record:
        record.seal(complete=False)


json_like = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
quick = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@quick
@given(data=st.binary(max_size=300) | json_like.map(lambda v: json.dumps(v).encode()))
@pytest.mark.parametrize("name", ["study.json", "MANIFEST.json", "env.json", "trials.db"])
def test_arbitrary_bytes_are_damage_and_nothing_else(copy: Path, name: str, data: bytes) -> None:
    kept = (copy / name).read_bytes()
    (copy / name).write_bytes(data)
    try:
        assert not verify_run(copy).ok
        for reader in (
            read_run_spec,
            read_manifest,
            Record.open,
            lambda p: read_signed(p / "env.json"),
        ):
            with suppress(IntegrityError):
                reader(copy)
        list_runs(copy.parent)
    finally:
        (copy / name).write_bytes(kept)


@quick
@given(
    name=st.sampled_from(["study.json", "MANIFEST.json"]),
    value=json_like,
    pick=st.randoms(use_true_random=False),
)
def test_a_mutated_document_is_damage(
    copy: Path, name: str, value: object, pick: random.Random
) -> None:
    kept = (copy / name).read_bytes()
    document = json.loads(kept)
    document[pick.choice(sorted(document))] = value
    (copy / name).write_text(json.dumps(document))
    try:
        assert not verify_run(copy).ok
    finally:
        (copy / name).write_bytes(kept)


texts = st.text(max_size=20) | json_like.map(json.dumps)


@quick
@given(row=st.builds(StoredRow, texts, st.integers(), *[texts] * 7))
def test_a_row_with_right_hashes_and_wrong_content_is_damage(row: StoredRow) -> None:
    with pytest.raises(IntegrityError):
        checked_row(Path("nowhere"), row, "tiny", 1)


def test_a_folder_without_anything(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        found = verify_run(folder)
        assert not found.ok and not found.complete and found.digest is None
    rows, problems = inspect_store(tmp_path / "absent.db", "x")
    assert rows == [] and problems
    with pytest.raises(IntegrityError):
        read_rows(tmp_path / "absent.db", "x")


def test_an_unfinished_run_is_not_damaged(tmp_path: Path) -> None:
    record = run_tiny(tmp_path, trials=1)
    with record.lock():
        record.write_results({})
    found = record.verify()
    assert found.ok and not found.complete
