"""The engine's benchmark measures what it says, at small numbers; each part once."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import engine as benchmark

from attnlab.lab.record import Record


def test_the_lab_and_joblib_do_the_same_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "EMPTY", 23)
    (row,) = benchmark.empty_rows(tmp_path / "empty", 0)
    assert row.theirs is not None and row.ratio == row.theirs / row.ours and row.target == 60
    monkeypatch.setattr(benchmark, "EVERY", 7)
    rows = list(benchmark.flat_rows(tmp_path / "flat", 0))
    assert [row.name.split(",")[0] for row in rows] == ["memory", "descriptors", "threads"]
    (row,) = benchmark.second_rows(tmp_path / "second", 2)
    assert row.ours >= 1 and row.theirs is not None and row.theirs >= 1


def test_a_filled_store_is_a_run_with_groups_and_a_csv(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(benchmark, "STORE", 2003)
    listed, reported, size = benchmark.store_rows(tmp_path, 0)
    assert (listed.target, reported.target) == (1.0, 10.0) and size.unit == "MB"
    (path,) = tmp_path.iterdir()
    record = Record.open(path)
    assert record.verify().ok and record.complete and len(record.table()) == 2003
    lines = (path / "trials.csv").read_text().splitlines()
    assert len(lines) == 2004 and lines[0] == "id,seed,state,group,value,cost_seconds"
    page = (path / "report.html").read_text()
    assert "shown as one group (5 groups)" in page
    assert "<tr><td>0<td>401<td>401<td>142.9 (0 to 285.7)<td>0.01" in page, (
        "seeds 0, 5, … 2000: their mean / 7 is 142.9"
    )
