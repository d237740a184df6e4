"""A made-up run, with everything a report can show; every part can be replaced by a test."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Reported, judge
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate

SVG = '<svg xmlns="http://www.w3.org/2000/svg" width="9pt" height="9pt"><path d="M0 0h9"/></svg>'


@dataclass(frozen=True)
class FakeCard:
    study: str = "made-up"
    scale: str = "quick"
    settings: dict[str, Any] = field(default_factory=lambda: {"dim": 7, "seeds": 5})


@dataclass(frozen=True)
class FakeRecord:
    path: Path
    rows: list[Row]
    results: dict[str, Any]
    spec: FakeCard = field(default_factory=FakeCard)
    env: list[dict[str, Any]] = field(default_factory=lambda: [{"commit": "c0ffee", "cores": 2}])

    def sessions(self) -> list[dict[str, Any]]:
        return self.env

    def table(self) -> Table:
        return Table(self.rows)

    def read_results(self) -> dict[str, Any]:
        return self.results


def made_rows(n: int) -> list[Row]:
    return [
        Row(
            id=f"{index * 2654435761 % 2**64:016x}",
            seed=index % 5,
            state="done",
            config={"dim": 7, "alpha": index / 11, "start": "semantic" if index % 2 else "random"},
            metrics={"theta": index / 13, "m": -index / 17, "ok": True},
            cost={"seconds": 0.25},
        )
        for index in range(n)
    ]


def made_results(rows: list[Row]) -> dict[str, Any]:
    ids = [row.id for row in rows]
    inside = Estimate(1.251, 1.239, 1.263, 5, "t interval over runs, 95%")
    wide = Estimate(-0.01, -0.5, 0.5, 5, "t interval over runs, 95%")
    claims = [
        judge(
            "crossing",
            "The losses cross at α_c",
            inside,
            above=1.2,
            below=1.3,
            quantity="α_c",
            reported=Reported(1.241, "a paper, table 2"),
            trials=ids[:3],
        ),
        judge(
            "elsewhere",
            "It also crosses in another model",
            inside,
            above=2.0,
            reported=Reported(525.0, "another corpus", comparable=False, note="other data"),
            trials=ids,
        ),
        judge("sign", "The difference is positive", wide, above=0.0, trials=ids[:3]),
    ]
    audits = [
        Finding("score-scale", "pass", 1.5, 10.0, "Scores keep their size."),
        Finding("padding", "not-applicable", None, None, "Nothing is padded."),
        Finding("seeds", "fail", 2.0, 3.0, "Two runs are not a result."),
    ]
    figure = {"name": "phase", "title": "Phases.", "caption": "Points cross.", "alt": "Two curves"}
    return {
        "question": "Does it cross?",
        "source": "a paper",
        "answer": "Yes: at α_c = 1.251 ± 0.012.",
        "claims": [claim.as_json() for claim in claims],
        "audits": [finding.as_json() for finding in audits],
        "discussion": [
            {"heading": "Why", "paragraphs": ["Because of this.", "And of that."]},
            {"heading": "How", "paragraphs": [], "table": [["arm", "F"], ["a < b", "0.577"]]},
        ],
        "figures": [{**figure, "file": "figures/phase.svg", "trials": ids[:2]}],
        "counts": {"done": len(rows) - 1, "timeout": 1},
        "defaults": {"dim": 7, "seeds": 3},
        "cost": {"seconds": 200.0},
    }


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., FakeRecord]:
    """record(rows=..., results=...) -> a run; anything left out is made up."""
    folder = tmp_path / "made-up-0123456789ab"

    def make(trials: int = 12, **parts: Any) -> FakeRecord:
        (folder / "figures").mkdir(parents=True, exist_ok=True)
        (folder / "figures" / "phase.svg").write_text(SVG, encoding="utf-8")
        rows = made_rows(trials)
        if trials > 4:
            bad = rows[4]
            rows[4] = Row(bad.id, bad.seed, "timeout", bad.config, {}, {}, "no answer after 9 s")
        return FakeRecord(folder, **{"rows": rows, "results": made_results(rows), **parts})

    return make
