"""`attnlab.run("phase-transition")`: what `attnlab run` does, from Python."""

import html
import textwrap
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnlab.api.conclude import conclude, words_edited
from attnlab.api.progress import ProgressChoice, resolve_progress
from attnlab.core.devices import resolve_device
from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.extras import require
from attnlab.lab.claim import MARKS
from attnlab.lab.engine import Engine, engine_named
from attnlab.lab.execute import running
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.run_spec import REPORT
from attnlab.lab.source import load_study_class, read_source, source_of
from attnlab.lab.study import Study
from attnlab.lab.table import Table
from attnlab.lab.trial import FINISHED
from attnlab.report.text import with_interval


@dataclass(frozen=True, repr=False)
class Run:
    """A finished run: its folder, table, claims, audits and report."""

    record: Record
    results: Mapping[str, Any]

    @property
    def path(self) -> Path:
        """The run's folder."""
        return self.record.path

    @property
    def report(self) -> Path:
        """The report, one HTML file."""
        return self.path / REPORT

    @property
    def table(self) -> Table:
        """Every trial with its metrics."""
        return self.record.table()

    @property
    def failed(self) -> dict[str, int]:
        """How many trials ended in each state without a result."""
        return {k: v for k, v in self.results["counts"].items() if k not in FINISHED}

    @property
    def failed_audits(self) -> list[str]:
        """The names of the failed audits."""
        return [a["name"] for a in self.results["audits"] if a["verdict"] == "fail"]

    def as_json(self) -> dict[str, Any]:
        """What `attnlab run --json` prints."""
        return {
            "run": self.record.name,
            "report": str(self.report),
            "answer": self.results["answer"],
            "trials": self.results["counts"],
            "claims": self.results["claims"],
            "audits": self.results["audits"],
        }

    def __repr__(self) -> str:
        """The run's name, its answer in short, and how its claims were decided."""
        verdicts = Counter(claim["verdict"] for claim in self.results["claims"])
        decided = ", ".join(f"{count} {verdict}" for verdict, count in sorted(verdicts.items()))
        answer = textwrap.shorten(self.results["answer"], 80, placeholder=" …")
        return f"<Run {self.record.name}: {answer} ({decided or 'no claims'})>"

    def _repr_html_(self) -> str:
        """In a notebook: the answer, the claims with their numbers, failed audits, the report."""
        rows = "".join(
            f"<tr><td>{MARKS[c['verdict']]} {c['verdict']}</td>"
            f"<td style='text-align:left'>{html.escape(c['statement'])}</td>"
            f"<td>{html.escape(with_interval(c['effect'], c['interval']))}</td>"
            f"<td>{c['n']}</td></tr>"
            for c in self.results["claims"]
        )
        head = "<tr><th>verdict</th><th>claim</th><th>ours</th><th>n</th></tr>"
        failed = "".join(
            f"<p>✗ audit {html.escape(a['name'])}: {html.escape(a['why'])}</p>"
            for a in self.results["audits"]
            if a["verdict"] == "fail"
        )
        return (
            f"<p><b>{html.escape(self.results['answer'])}</b></p>"
            f"<table>{head}{rows}</table>{failed}<p>{html.escape(str(self.report))}</p>"
        )


def plan(
    study: str | Study | Plan, scale: str = "quick", settings: Mapping[str, Any] | None = None
) -> Plan:
    """The study object and its trials, as `run` would run them; device 'auto' is resolved.

    A plan is returned unchanged.
    """
    if isinstance(study, Plan):
        return study
    if isinstance(study, Study):
        if settings:
            raise UsageError(
                "a study object already has its settings: build it with Study.at(scale, name=value)"
            )
        return Plan.of(study, source_of(study), scale)
    source = read_source(study)
    chosen, kind = dict(settings or {}), load_study_class(source)
    if chosen.get("device", "auto") != "auto":
        return Plan.of(kind.at(scale, **chosen), source, scale)
    # check the settings first: looking for a GPU loads torch, which is slow
    on_cpu = Plan.of(kind.at(scale, **chosen | {"device": "cpu"}), source, scale)
    device = resolve_device("auto")
    if device == "cpu":
        return on_cpu
    return Plan.of(kind.at(scale, **chosen | {"device": device}), source, scale)


def run(  # noqa: PLR0913  (the options of `attnlab run`)
    study: str | Study | Plan,
    *,
    scale: str = "quick",
    out: str | Path = "runs",
    workers: int | None = None,
    engine: str | Engine = "local",
    address: str | None = None,
    progress: ProgressChoice = None,
    settings: Mapping[str, Any] | None = None,
    seeds: int | None = None,
    device: str | None = None,
    accept_edits: bool = False,
) -> Run:
    """Run the missing trials of a study, judge its claims, draw its figures, write its report.

    `study`: a name of `attnlab list`, a file ("./mine.py") or a study object. `seeds` and `device`
    are settings like any other; `progress=True` shows how far the run is. `accept_edits`: the
    study's code was edited since its trials were stored, but not what they compute.
    """
    # before any folder is made: the name of the engine may be wrong
    chosen = engine_named(engine, address) if isinstance(engine, str) else engine
    named = {"seeds": seeds, "device": device}
    given = {key: value for key, value in named.items() if value is not None}
    planned = plan(study, scale, {**(settings or {}), **given})
    for extra in planned.study.extras:
        require(extra, f"study {planned.study.name}")
    planned.study.fetch()
    shown = resolve_progress(progress, planned.trials)
    with running(
        planned,
        out=Path(out),
        workers=workers,
        engine=chosen,
        progress=shown,
        accept_edits=accept_edits,
    ) as record:
        if not record.complete or words_edited(record, planned.study):
            conclude(record, planned.study)
        if not (record.path / REPORT).is_file():
            raise IntegrityError(f"run {record.name} is damaged: {REPORT}: missing")
        return Run(record, record.read_results())
