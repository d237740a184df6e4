"""Fill a Markdown template with numbers and verdicts: a study's answer and discussion.

    {% if claim("solves").verdict == "holds" %}
    Yes: {{ arms.estimate("positional", "accuracy") | percent }} of the positions are right.
    {% else %}
    Not settled: {{ claim("solves") | verdict }}.
    {% endif %}

    ## What it means

    A paragraph. Paragraphs are separated by blank lines.

    {{ table(["arm", "accuracy"], rows) }}

The text before the first heading is the answer. A template may use `claim(name)`, `by_name` (the
same as a mapping, for claims that not every run has), `table(head, rows)`, `settings`, `arms` (the
study's evidence) and whatever its `facts` returns; the filters are `number`, `interval`, `percent`,
`points`, `decimals`, `verdict`, `measured`, `listed`, `counted`, `typeset` and Jinja's own. Studies
in one folder share text with `{% include "shared.md" %}`. An unknown name is an error. Text that
comes from data is put on one line, so it cannot become a heading.

The words of a study's figures may be in `figures.md` beside its template: see `with_words`.
"""

import hashlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2

from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, Study
from attnlab.measure.intervals import Estimate
from attnlab.report.text import counted, number, typeset, with_interval

if TYPE_CHECKING:
    from matplotlib.figure import Figure as MatplotlibFigure

Drawn = tuple[Callable[[], "MatplotlibFigure"], Sequence[str]]  # how to draw it, its trials
_TABLE = "\x00table {}\x00"


def study_prose(study: Study, evidence: Any, claims: Sequence[Claim]) -> tuple[str, list[Section]]:
    """Render the study's template: its answer and its sections."""
    claims = [replace(claim, why=typeset(claim.why)) for claim in claims]
    by_name = {claim.name: claim for claim in claims}
    names: dict[str, Any] = {
        "claim": by_name.__getitem__,
        "by_name": by_name,
        "claims": claims,
        "settings": study.settings,
        "arms": evidence,
        **study.facts(evidence, claims),
    }
    file = template_file(study)
    return render_prose(file.read_text(encoding="utf-8"), names, file.parent)


def template_file(study: Study) -> Path:
    """The path of the study's template, in the folder of the class that names it."""
    owner = next(kind for kind in type(study).__mro__ if "template" in vars(kind))
    file = inspect.getsourcefile(owner) or getattr(sys.modules[owner.__module__], "__file__", "")
    return Path(str(file)).parent / study.template


def hash_words(study: Study) -> str:
    """Hash of the Markdown files beside the study's template; "" for a study without one."""
    if not study.template:
        return ""
    texts = sorted(template_file(study).parent.glob("*.md"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in texts)).hexdigest()


def with_words(study: Study, drawn: Mapping[str, Drawn], **names: Any) -> list[Figure]:
    """Figures by name, with their words from `figures.md`; one without trials is left out.

        ## learning

        A title in one line

        A caption that says what to see.

        An alternative text for those who cannot see it.

    In it one may use `settings` and `names`.
    """
    folder = template_file(study).parent
    template = (folder / "figures.md").read_text(encoding="utf-8")
    _, sections = render_prose(template, {"settings": study.settings, **names}, folder)
    words = {section.heading: section.paragraphs for section in sections}
    figures = []
    for name, (draw, trials) in drawn.items():
        title, caption, alt = words[name]
        if trials:
            figures.append(Figure(name, title, caption, alt, draw, tuple(trials)))
    return figures


def render_prose(
    template: str, names: Mapping[str, Any], folder: Path | None = None
) -> tuple[str, list[Section]]:
    """Render a template with `names`: the answer (before the first `## `) and the sections.

    Included templates are read from `folder`.
    """
    tables: list[tuple[tuple[str, ...], ...]] = []

    def table(head: Sequence[object], rows: Sequence[Sequence[object]]) -> str:
        tables.append(tuple(tuple(str(cell) for cell in row) for row in (head, *rows)))
        return _TABLE.format(len(tables) - 1)

    text = _environment(folder).from_string(template).render({**names, "table": table})
    answer, *parts = ("\n" + text).split("\n## ")
    sections = [_section(part, tables) for part in parts]
    return " ".join(answer.split()), [section for section in sections if not section.empty]


def _section(text: str, tables: Sequence[tuple[tuple[str, ...], ...]]) -> Section:
    heading, _, body = text.partition("\n")
    blocks = [" ".join(block.split()) for block in body.split("\n\n") if block.strip()]
    places = {" ".join(_TABLE.format(i).split()): table for i, table in enumerate(tables)}
    shown = next((places[block] for block in blocks if block in places), ())
    return Section(heading.strip(), tuple(b for b in blocks if b not in places), shown)


def _environment(folder: Path | None) -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder) if folder else None,
        autoescape=False,  # plain text: the page escapes it
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    filters: list[Callable[..., str]] = [number, interval, percent, points, decimals]
    filters += [verdict, measured, listed, counted, typeset]
    environment.filters |= {function.__name__: function for function in filters}
    return environment


def _shown(value: object) -> object:
    """An estimate with its interval; a text on one line: data cannot add headings or paragraphs."""
    if isinstance(value, Estimate):
        return interval(value)
    if not isinstance(value, str):
        return value
    flat = " ".join(value.split()) if "\n" in value else value
    return flat.removeprefix("## ")


def interval(e: Estimate) -> str:
    """`1.251 ± 0.012` or `1.25 [1.23, 1.29]`."""
    return with_interval(e.value, [e.low, e.high] if e.has_interval else None)


def percent(e: Estimate | float, decimals: int = 1) -> str:
    """A share as `85.1 % [83.0, 87.2]`; no interval goes beyond 0 and 100."""
    e = (e if isinstance(e, Estimate) else Estimate(float(e))).clip()
    return _in_percent(e, decimals, " %")


def points(e: Estimate, decimals: int = 1) -> str:
    """A difference of shares as `33.5 [30.3, 36.8]` percentage points."""
    return _in_percent(e, decimals, "").replace("-", "−")


def _in_percent(e: Estimate, decimals: int, unit: str) -> str:
    if not math.isfinite(e.value):
        return "not measured"
    value, low, high = (f"{100 * x:.{decimals}f}" for x in (e.value, e.low, e.high))
    return f"{value}{unit} [{low}, {high}]" if e.has_interval else f"{value}{unit}"


def decimals(e: Estimate, digits: int = 3, sign: str = "") -> str:
    """`0.123 [0.100, 0.150]`; with sign "+" a difference.

    What rounds to 0 keeps its sign in a difference only: there it says on which side of 0 it lies.
    """

    def one(value: float) -> str:
        rounded = value if sign else round(value, digits) + 0.0
        return f"{rounded:{sign}.{digits}f}"

    ends = f" [{one(e.low)}, {one(e.high)}]" if e.has_interval else ""
    return f"{one(e.value)}{ends}".replace("-", "−")


def verdict(claim: Claim) -> str:
    """`holds (interval [1.2, 1.3] lies inside …)`."""
    return f"{claim.verdict} ({claim.why})"


def measured(claim: Claim) -> str:
    """`1.25 [1.23, 1.29] (rotary-wins: fails)`: the estimate with the claim's name and verdict."""
    known = math.isfinite(claim.estimate.value)
    value = interval(claim.estimate) if known else "not measured"
    return f"{value} ({claim.name}: {claim.verdict})"


def listed(words: Sequence[str], last: str = "and") -> str:
    """`a`, `a and b`, `a, b and c`."""
    items = [str(word) for word in words]
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"
