"""From the finished table of a run to its claims, audits, figures and report."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.checks.small_sample import NAME as SMALL_SAMPLE
from attnlab.audit.finding import Finding
from attnlab.core.config import build
from attnlab.core.errors import UsageError
from attnlab.lab.claim import Claim, apply_audits, correct
from attnlab.lab.findings import ABOUT_RESULTS, summarize
from attnlab.lab.plan import call_study
from attnlab.lab.record import Record
from attnlab.lab.source import load_study_class, read_source
from attnlab.lab.study import Figure, Section, Study
from attnlab.lab.table import Table
from attnlab.lab.trial import FINISHED

SMOKE = "smoke"
NO_ANSWER = (
    "No answer: a smoke run shows that the study runs from end to end, and nothing else. "
    "For an answer, run it at the quick scale."
)
FIGURE_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,60}")


def conclude(record: Record, study: Study) -> None:
    """Judge the claims, run the audits, draw the figures, write the report, seal the run.

    The caller holds the run's lock.
    """
    from attnlab.report.build import add_report
    from attnlab.report.prose import hash_words
    from attnlab.report.style import save_svg

    record.begin()
    table = record.table()
    drawn = draw_conclusions(study, table.done(), record.spec.scale)
    figures = _figures(study, drawn.evidence)
    for figure in figures:
        picture = call_study(study, f"figure {figure.name}", figure.draw)
        save_svg(picture, record.path / f"figures/{figure.name}.svg")
    results = {
        "question": study.question,
        "source": study.source,
        "answer": drawn.answer,
        "claims": call_study(study, "claims", lambda: [c.as_json() for c in drawn.claims]),
        "discussion": call_study(study, "discussion", lambda: [asdict(s) for s in drawn.sections]),
        "audits": call_study(study, "audits", lambda: [f.as_json() for f in drawn.findings]),
        "figures": [_figure_json(figure) for figure in figures],
        "counts": Counter(row.state for row in table),
        "defaults": type(study).at().settings_json(),
        "words": hash_words(study),
        "cost": {"seconds": sum(row.cost.get("seconds", 0.0) for row in table)},
    }
    call_study(study, "results", lambda: record.write_results(results))
    add_report(record)
    record.seal(complete=all(row.state in FINISHED for row in table))


@dataclass(frozen=True)
class Conclusions:
    """What a study concludes from a table; `claims` as they stand after the audits."""

    evidence: Any
    claims: Sequence[Claim]
    findings: Sequence[Finding]
    answer: str
    sections: Sequence[Section]


def draw_conclusions(study: Study, table: Table, scale: str = "quick") -> Conclusions:
    """Judge the claims, run the audits (which may make claims undecided), write the answer.

    At the smoke scale everything is computed too, so that the machinery is tried, but nothing is
    concluded.
    """
    evidence = call_study(study, "evidence", lambda: study.evidence(table))
    claims = call_study(study, "claims", lambda: correct(list(study.claims(evidence))))
    runs = {c.name: c.estimate.n for c in claims if c.comparison and not c.estimate.exact}
    findings = [
        *([seeds_and_interval(runs)] if runs else []),
        *call_study(study, "audits", lambda: list(study.audits(evidence, claims))),
        *summarize(table, claims, study.may_fail, study.must_fail),
    ]
    claims = apply_audits(claims, findings)
    answer, sections = _prose(study, evidence, claims)
    if scale == SMOKE:
        answer = NO_ANSWER
        claims = [
            replace(c, verdict="not judged", why="a smoke run decides nothing") for c in claims
        ]
        kept = [f for f in findings if f.name not in ABOUT_RESULTS | {SMALL_SAMPLE}]
        return Conclusions(evidence, claims, kept, answer, [])
    return Conclusions(evidence, claims, findings, answer, sections)


def _prose(study: Study, evidence: Any, claims: Sequence[Claim]) -> tuple[str, Sequence[Section]]:
    """The answer and the discussion: from the study's template, or from its methods."""
    if study.template:
        from attnlab.report.prose import study_prose

        return call_study(study, "template", lambda: study_prose(study, evidence, claims))
    answer = call_study(study, "answer", lambda: str(study.answer(claims)))
    return answer, call_study(study, "discussion", lambda: study.discussion(evidence, claims))


def _figures(study: Study, evidence: Any) -> list[Figure]:
    """The study's figures; UsageError for a name that cannot be a file name."""
    figures = call_study(study, "figures", lambda: list(study.figures(evidence)))
    for figure in figures:
        if not FIGURE_NAME.fullmatch(figure.name):
            raise UsageError(f"figure {figure.name!r}: its name must match {FIGURE_NAME.pattern}")
    return figures


def _figure_json(figure: Figure) -> dict[str, Any]:
    words = {name: getattr(figure, name) for name in ("name", "title", "caption", "alt")}
    return {**words, "file": f"figures/{figure.name}.svg", "trials": list(figure.trials)}


def words_edited(record: Record, study: Study) -> bool:
    """Whether the report was written from other templates than the study's present ones."""
    from attnlab.report.prose import hash_words

    return record.read_results().get("words", "") not in ("", hash_words(study))


def draw_pdf(path: Path) -> list[Path]:
    """Write the run's figures as PDF files beside the SVG files and seal the run again."""
    from attnlab.report.style import save_pdf

    record = Record.open(path)
    study = study_of(record)
    figures = _figures(study, study.evidence(record.table().done()))
    pictures = [call_study(study, f"figure {figure.name}", figure.draw) for figure in figures]
    files = [path / f"figures/{figure.name}.pdf" for figure in figures]
    with record.lock():
        complete = record.ended
        record.begin(complete)
        for picture, file in zip(pictures, files, strict=True):
            save_pdf(picture, file)
        record.seal(complete)
    return files


def study_of(record: Record) -> Study:
    """Rebuild the study of a run; a user's own study file must be in the current folder."""
    spec, source = record.spec, record.spec.source
    if isinstance(source, dict) and "file" in source:
        file = Path(source["file"]).name
        if not Path(file).is_file() or read_source(f"./{file}").sha256 != source["sha256"]:
            raise UsageError(
                f"run {record.name} was made with {file}, which is not in the current folder or "
                "has changed since: change to the folder that has it"
            )
        kind = load_study_class(f"./{file}")
    else:
        kind = load_study_class(spec.study)
    return kind(build(kind.Settings, spec.settings))
