"""Write a run's report as one HTML file that loads nothing from outside and runs no script.

The content of the folder is not trusted: Jinja2 escapes every value, figures are images in data:
URIs (a script inside an SVG image never runs), and the page's content security policy allows only
its styles and those images. The same folder gives the same bytes.
"""

import base64
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from attnlab.core.errors import UsageError
from attnlab.lab.record import Record
from attnlab.lab.run_spec import CSV, REPORT
from attnlab.lab.table import Table
from attnlab.report import view
from attnlab.report.pages import package_file, page_template
from attnlab.report.text import MISSING
from attnlab.report.trials import MANY, every_trial, id_lists, trials_view

_SUBSCRIPT = re.compile(r"\b([^\W\d_])_(\w{1,2})\b")  # one letter: batch_size stays as it is
_UNIT = re.compile(r"(?<=\d) (?=%)|(?<=\d) (?=± ?\d)|(?<=±) (?=\d)")  # 95 %, 1.2 ± 0.1
NO_BREAK = "\N{NO-BREAK SPACE}"
LIMIT_BYTES = 5_000_000
_FIGURE_BYTES = 2_200_000  # of base64, all figures together
_TABLE_BYTES = 2_000_000  # with LISTED_BYTES for ids this leaves 200 kB for words


def write_report(run_folder: Path) -> Path:
    """Write the run's report.html in one step; an identical file is left as it is.

    Takes the run's lock and seals the run again. Inside the lock use `add_report`.
    """
    record = Record.open(run_folder)
    path, files = run_folder / REPORT, _files(record)
    if record.sealed and all(_holds(run_folder / name, data) for name, data in files.items()):
        return path
    with record.lock():
        ended = record.ended
        record.begin(ended)
        for name, data in files.items():
            record.write_file(name, data)
        record.seal(ended)
    return path


def add_report(record: Record) -> Path:
    """Write the report of a run whose lock the caller holds; the caller then seals the run."""
    for name, data in _files(record).items():
        record.write_file(name, data)
    return record.path / REPORT


def _files(record: Record) -> dict[str, bytes]:
    """report.html, and trials.csv if there are too many trials for a page."""
    table = record.table()
    files = {REPORT: render(record, table).encode()}
    return files | {CSV: every_trial(table)} if len(table) > MANY else files


def _holds(path: Path, data: bytes) -> bool:
    return path.is_file() and not path.is_symlink() and path.read_bytes() == data


def render(record: Record, table: Table | None = None) -> str:
    """Render the page; UsageError if it would be larger than LIMIT_BYTES."""
    results, table = record.read_results(), record.table() if table is None else table
    sets = view.TrialSets()
    claims = view.claims(results.get("claims") or [], sets)
    figures = _figures(results.get("figures") or [], record.path, sets)
    trials = trials_view(table, _TABLE_BYTES)
    defaults = results.get("defaults") or {}
    changed, everything = view.settings_rows(record.spec.settings, defaults)
    template = page_template("template.html.jinja", filters={"maths": subscripts})
    page = template.render(
        css=Markup(package_file("style.css")),  # safe: a file of this package
        study=record.spec.study,
        scale=record.spec.scale,
        run=record.path.resolve().name,
        question=str(results.get("question") or record.spec.study),
        source=str(results.get("source") or ""),
        answer=str(results.get("answer") or ""),
        claims=claims,
        missing=MISSING,
        audits=view.audits(results.get("audits") or []),
        figures=figures,
        discussion=results.get("discussion") or [],
        has_defaults=bool(defaults),
        changed=changed,
        everything=everything,
        counts=view.counts_text(results.get("counts") or Counter(row.state for row in table)),
        cost=view.cost_text(results, table),
        seeds=view.seeds_text(table),
        commits=view.commits(record.sessions()),
        machines=view.machines(record.sessions()),
        trials=trials,
        id_lists=id_lists(sets, table, trials["shown"]),
    )
    size = len(page.encode())
    if size > LIMIT_BYTES:
        raise UsageError(
            f"the report would be {size:,} bytes, more than {LIMIT_BYTES:,}: shorten the texts "
            "of the study (claims, captions, discussion, settings)"
        )
    return page


def _figures(
    stored: Iterable[Mapping[str, Any]], folder: Path, sets: view.TrialSets
) -> list[dict[str, Any]]:
    """Each figure with its image as a data: URI, or the reason why there is none."""
    made: list[dict[str, Any]] = []
    left = _FIGURE_BYTES
    for index, figure in enumerate(stored, start=1):
        uri, problem = _data_uri(folder, str(figure.get("file") or ""), left)
        left -= len(uri)
        trials = figure.get("trials") or []
        made.append(
            {
                "number": index,
                "title": str(figure.get("title") or figure.get("name") or ""),
                "caption": str(figure.get("caption") or ""),
                "alt": str(figure.get("alt") or figure.get("title") or ""),
                "uri": uri,
                "problem": problem,
                "trials": len(trials),
                "set_key": sets.key_of(trials, f"figure {index}"),
            }
        )
    return made


def _data_uri(folder: Path, file: str, left: int) -> tuple[str, str]:
    """The image as a data: URI and '', or '' and the problem; reads only figures/*.svg."""
    name = file.replace("\\", "/").rpartition("/")[2]
    path = folder / "figures" / name
    if not name.endswith(".svg") or path.is_symlink() or not path.is_file():
        return "", f"The file figures/{name} is not in the run folder."
    if path.stat().st_size * 4 / 3 + 64 > left:
        return "", f"Too large to embed here: open figures/{name} in the run folder."
    return "data:image/svg+xml;base64," + base64.b64encode(path.read_bytes()).decode(), ""


def subscripts(text: str) -> Markup:
    """HTML with α_c as a real subscript and numbers that stay with their unit; else escaped."""
    whole = _UNIT.sub(NO_BREAK, str(escape(text)))
    return Markup(_SUBSCRIPT.sub(r"\1<sub>\2</sub>", whole))
