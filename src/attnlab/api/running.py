"""The first door in Python: `attnlab.run("phase-transition")` does what `attnlab run` does."""

import copy
import gc
import html
import re
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from attnlab.core.config import build
from attnlab.core.devices import resolve_device
from attnlab.core.errors import AttnlabError, IntegrityError, UsageError
from attnlab.core.extras import require
from attnlab.lab.claim import MARKS, Claim, apply_audits
from attnlab.lab.engine import Engine, engine_named
from attnlab.lab.execute import Progress, running
from attnlab.lab.record import Record
from attnlab.lab.source import Source, load_study_class, read_source, source_of
from attnlab.lab.study import Figure, Study
from attnlab.lab.table import Table
from attnlab.lab.trial import FINISHED, Trial

T = TypeVar("T")
REPORT = "report.html"
MOST_TRIALS = 200_000  # refused as settings or while being declared, not when memory is gone
LARGEST = 2**53  # beyond it integers are no longer exact in JSON, and no setting means it
FIGURE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


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

    @property
    def failed_audits(self) -> list[str]:
        """The audits that found something."""
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
        return _complete(study), source_of(study)
    _refuse_devices(study)
    source = read_source(study)
    chosen, kind = dict(settings or {}), load_study_class(source)
    if chosen.get("device", "auto") == "auto":
        # what is wrong is said first: to ask for a GPU is to load torch, which is slow
        planned(_complete(kind.at(scale, **chosen | {"device": "cpu"})))
        chosen["device"] = resolve_device("auto")
    return _complete(kind.at(scale, **chosen)), source


def _refuse_devices(text: str) -> None:
    """A study's file is a file: /dev/zero has no end, and a pipe may never begin."""
    try:
        if "/" in text and Path(text).exists() and not Path(text).is_file():
            raise UsageError(f"{text}: not a file")
    except OSError as error:
        raise UsageError(f"{text[:60]}: {error.strerror}") from None


def planned(study: Study) -> Sequence[Trial]:
    """The study's trials; UsageError when its code fails, or as soon as they are too many."""
    counting, made = copy.copy(study), 0

    def trial(seed: int, **config: object) -> Trial:
        nonlocal made
        made += 1
        if made > MOST_TRIALS:
            raise UsageError(
                f"study {study.name!r} declares more than {MOST_TRIALS:,} trials: use fewer seeds"
            )
        return study.trial(seed, **config)

    vars(counting)["trial"] = trial
    searching = gc.isenabled()
    gc.disable()  # all trials are kept: to search them for garbage would take half of the time
    try:
        return _ask(study, "trials", lambda: list(counting.trials()))
    finally:
        if searching:
            gc.enable()


def run(  # noqa: PLR0913  (the options of `attnlab run`)
    study: str | Study,
    *,
    scale: str = "quick",
    out: str | Path = "runs",
    workers: int | None = None,
    engine: str | Engine = "local",
    address: str | None = None,
    progress: Progress | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Run:
    """Run what is missing of a study, judge its claims, draw its figures, write its report."""
    # first: a name that does not exist must not leave a folder behind
    chosen = engine_named(engine, address) if isinstance(engine, str) else engine
    made, source = prepare(study, scale, settings)
    planned(made)
    for extra in made.extras:
        require(extra, f"study {made.name}")
    made.fetch()
    with running(
        made,
        out=Path(out),
        scale=scale,
        source=source,
        workers=workers,
        engine=chosen,
        progress=progress,
    ) as record:
        if not record.complete:
            conclude(record, made)
        if not (record.path / REPORT).is_file():
            raise IntegrityError(f"run {record.name} is damaged: {REPORT}: missing")
        return Run(record, record.read_results())


def conclude(record: Record, study: Study) -> None:
    """Claims, audits, figures and report of a table; the caller owns the run's lock."""
    from attnlab.report.build import add_report
    from attnlab.report.style import save_svg

    record.begin()
    table = record.table()
    done = table.done()
    claims = _ask(study, "claims", lambda: list(study.claims(done)))
    findings = _ask(study, "audits", lambda: list(study.audits(done)))
    claims = apply_audits(claims, findings)
    figures = _figures(study, done)
    for figure in figures:
        picture = _ask(study, f"figure {figure.name}", figure.draw)
        save_svg(picture, record.path / _figure_file(figure))
    counts: dict[str, int] = {}
    for row in table:
        counts[row.state] = counts.get(row.state, 0) + 1
    results = {
        "question": study.question,
        "source": study.source,
        **_said(study, done, claims),
        "audits": _ask(study, "audits", lambda: [f.as_json() for f in findings]),
        "figures": [_figure_json(figure) for figure in figures],
        "counts": counts,
        "defaults": type(study).at().settings_json(),
        "cost": {"seconds": sum(row.cost.get("seconds", 0.0) for row in table)},
    }
    _ask(study, "results", lambda: record.write_results(results))
    add_report(record)
    record.seal(complete=all(row.state in FINISHED for row in table))


def _said(study: Study, done: Table, claims: Sequence[Claim]) -> dict[str, Any]:
    """What the study's own code says about its table, as plain values."""
    return {
        "answer": _ask(study, "answer", lambda: str(study.answer(claims))),
        "claims": _ask(study, "claims", lambda: [claim.as_json() for claim in claims]),
        "discussion": _ask(
            study, "discussion", lambda: [asdict(s) for s in study.discussion(done, claims)]
        ),
    }


def _complete(study: Study) -> Study:
    """The study, if it says its question and every number in its settings can be meant."""
    if not isinstance(getattr(study, "question", None), str):
        raise UsageError(f"study {study.name!r} has no `question`: one sentence, as text")
    for key, value in study.settings_json().items():
        numbers = _numbers(value)
        if any(abs(number) > LARGEST for number in numbers):
            raise UsageError(f"setting {key!r}: a number beyond 2**53 is too large")
        if key.endswith("seeds") and any(number > MOST_TRIALS for number in numbers):
            raise UsageError(f"setting {key!r} asks for more than {MOST_TRIALS:,} trials")
    return study


def _numbers(value: object) -> list[float]:
    if isinstance(value, int | float):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return (
        [number for item in value for number in _numbers(item)] if isinstance(value, list) else []
    )


def _figures(study: Study, done: Table) -> list[Figure]:
    """The study's figures; a name becomes a file's name, so it must be one."""
    figures = _ask(study, "figures", lambda: list(study.figures(done)))
    for figure in figures:
        if not FIGURE_NAME.fullmatch(figure.name):
            raise UsageError(f"figure {figure.name!r}: its name must match {FIGURE_NAME.pattern}")
    return figures


def _figure_json(figure: Figure) -> dict[str, Any]:
    words = {name: getattr(figure, name) for name in ("name", "title", "caption", "alt")}
    return {**words, "file": _figure_file(figure), "trials": list(figure.trials)}


def _figure_file(figure: Figure) -> str:
    return f"figures/{figure.name}.svg"


def _ask(study: Study, what: str, question: Callable[[], T]) -> T:
    """A study's own code may fail: then one line says where, and the trials are safe."""
    try:
        return question()
    except AttnlabError:
        raise
    except (Exception, SystemExit) as error:
        if study.__class__.__module__.startswith("attnlab.studies"):
            raise
        last = traceback.extract_tb(error.__traceback__)[-1]
        kept = "" if what == "trials" else "; its trials are stored"
        raise UsageError(
            f"study {study.name!r}, {what}: {type(error).__name__}: {error} "
            f"({Path(last.filename).name}, line {last.lineno}){kept}"
        ) from error


def draw_pdf(path: Path) -> list[Path]:
    """The run's figures as PDF, beside their SVGs; the run is sealed again."""
    from attnlab.report.style import save_pdf

    record = Record.open(path)
    study = _study_of(record)
    figures = _figures(study, record.table().done())
    pictures = [_ask(study, f"figure {figure.name}", figure.draw) for figure in figures]
    made = [path / f"figures/{figure.name}.pdf" for figure in figures]
    with record.lock():
        complete = record.ended
        record.begin(complete)
        for picture, file in zip(pictures, made, strict=True):
            save_pdf(picture, file)
        record.seal(complete)
    return made


def _study_of(record: Record) -> Study:
    """The study object a run was made with; a user's own file must lie in the current folder."""
    spec, source = record.spec, record.spec.source
    if isinstance(source, dict):
        file = Path(source["file"]).name
        if not Path(file).is_file() or read_source(f"./{file}").sha256 != source["sha256"]:
            raise UsageError(
                f"run {record.name} came from {file}, which is not in this folder as it was then: "
                "go where it is"
            )
        kind = load_study_class(f"./{file}")
    else:
        kind = load_study_class(spec.study)
    return kind(build(kind.Settings, spec.settings))
