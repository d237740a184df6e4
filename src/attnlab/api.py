"""The first door in Python: `attnlab.run("phase-transition")` does what `attnlab run` does."""

import html
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from attnlab.core.devices import resolve_device
from attnlab.core.errors import UsageError
from attnlab.lab.claim import MARKS
from attnlab.lab.execute import Progress, running
from attnlab.lab.record import Record
from attnlab.lab.source import Source, load_study_class, read_source, source_of
from attnlab.lab.study import Figure, Study
from attnlab.lab.table import Table
from attnlab.lab.trial import FINISHED

T = TypeVar("T")
REPORT = "report.html"


@dataclass(frozen=True)
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
        """How many trials ended in each state that is not a result."""
        return {k: v for k, v in self.results["counts"].items() if k not in FINISHED}

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

    def _repr_html_(self) -> str:
        """In a notebook: the answer and the verdicts."""
        rows = "".join(
            f"<tr><td>{html.escape(c['statement'])}</td>"
            f"<td>{MARKS[c['verdict']]} {c['verdict']}</td></tr>"
            for c in self.results["claims"]
        )
        return f"<p><b>{html.escape(self.results['answer'])}</b></p><table>{rows}</table>"


def prepare(
    study: str | Study, scale: str = "quick", settings: Mapping[str, Any] | None = None
) -> tuple[Study, Source]:
    """The study object and where its class comes from; device 'auto' becomes a real one."""
    if isinstance(study, Study):
        if settings:
            raise UsageError("settings belong to the study object: build it with Study.at(...)")
        return study, source_of(study)
    source = read_source(study)
    chosen = dict(settings or {})
    if chosen.get("device", "auto") == "auto":
        chosen["device"] = resolve_device("auto")
    return load_study_class(source).at(scale, **chosen), source


def run(  # noqa: PLR0913  (the options of `attnlab run`)
    study: str | Study,
    *,
    scale: str = "quick",
    out: str | Path = "runs",
    workers: int | None = None,
    engine: str = "local",
    progress: Progress | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Run:
    """Run what is missing of a study, judge its claims, draw its figures, write its report."""
    made, source = prepare(study, scale, settings)
    with running(
        made, out=Path(out), scale=scale, source=source, workers=workers, engine=engine,
        progress=progress,
    ) as record:  # fmt: skip
        if not record.complete:
            conclude(record, made)
        return Run(record, record.read_results())


def conclude(record: Record, study: Study) -> None:
    """Claims, audits, figures and report of a table; the caller owns the run's lock."""
    from attnlab.report.build import add_report
    from attnlab.report.style import save_svg

    record.begin()
    table = record.table()
    done = table.done()
    claims = _ask(study, "claims", lambda: study.claims(done))
    audits = _ask(study, "audits", lambda: study.audits(done))
    figures = _ask(study, "figures", lambda: study.figures(done))
    for figure in figures:
        drawn = _ask(study, f"figure {figure.name}", figure.draw)
        save_svg(drawn, record.path / _figure_file(figure))
    counts: dict[str, int] = {}
    for row in table:
        counts[row.state] = counts.get(row.state, 0) + 1
    record.write_results(
        {
            "question": study.question,
            "source": study.source,
            "answer": _ask(study, "answer", lambda: study.answer(claims)),
            "claims": [claim.as_json() for claim in claims],
            "audits": [finding.as_json() for finding in audits],
            "discussion": [
                asdict(section)
                for section in _ask(study, "discussion", lambda: study.discussion(done, claims))
            ],
            "figures": [
                {
                    "name": f.name,
                    "title": f.title,
                    "caption": f.caption,
                    "alt": f.alt,
                    "file": _figure_file(f),
                    "trials": list(f.trials),
                }
                for f in figures
            ],
            "counts": counts,
            "defaults": type(study).at().settings_json(),
            "cost": {"seconds": sum(row.cost.get("seconds", 0.0) for row in table)},
        }
    )
    add_report(record)
    record.seal(complete=all(row.state in FINISHED for row in table))


def _figure_file(figure: Figure) -> str:
    return f"figures/{figure.name}.svg"


def _ask(study: Study, what: str, question: Callable[[], T]) -> T:
    """A study's own code may fail: then one line says where, and the trials are safe."""
    try:
        return question()
    except Exception as error:
        if study.__class__.__module__.startswith("attnlab.studies"):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        raise UsageError(
            f"study {study.name!r}, {what}: {type(error).__name__}: {error} "
            f"({Path(last.filename).name}, line {last.lineno}); its trials are stored"
        ) from error


def draw_pdf(path: Path) -> list[Path]:
    """The run's figures as PDF, beside their SVGs; the run is sealed again."""
    from attnlab.report.style import save_pdf

    record = Record.open(path)
    study = _study_of(record)
    with record.lock():
        complete, made = record.complete, []
        record.begin()
        for figure in study.figures(record.table().done()):
            made.append(path / f"figures/{figure.name}.pdf")
            save_pdf(figure.draw(), made[-1])
        record.seal(complete)
    return made


def _study_of(record: Record) -> Study:
    """The study object a run was made with; a user's own file is not stored in the run."""
    card = record.card
    if card.source_sha256 is not None:
        raise UsageError(f"run {record.name} came from a user's file: draw its figures from there")
    from attnlab.core.config import build

    kind = load_study_class(card.study)
    return kind(build(kind.Settings, card.settings))
