"""The page says everything, loads nothing, runs nothing, and stays small."""

import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from attnlab.core.errors import UsageError
from attnlab.lab.claim import judge_check
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.source import source_of
from attnlab.lab.study import Study
from attnlab.lab.table import Row
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.report import view
from attnlab.report.build import LIMIT_BYTES, add_report, render, subscripts, write_report

Make = Callable[..., Any]

HOSTILE = [
    "<script>alert(1)</script>",
    "</title><script>alert(2)</script>",
    "</style><script>alert(3)</script>",
    "<img src=x onerror=alert(4)>",
    '"><svg onload=alert(5)>',
    "'><iframe src=javascript:alert(6)>",
    "</td></table><script src=https://evil.example/x.js></script>",
    "<a href='javascript:alert(7)'>x</a>",
    "{{ 7*7 }}{% raw %}",
    "<!--<script>alert(8)//-->",
    "<base href=https://evil.example>",
    "<meta http-equiv=refresh content=0;url=https://evil.example>",
    "&lt;script&gt;alert(9)&lt;/script&gt;",
    '" onmouseover="alert(10)',
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<sub>_</sub> x_<b>",
    "\u202e<ScRiPt>alert(11)</sCrIpT>",
    "<object data=https://evil.example></object>",
    "<form action=https://evil.example><input autofocus onfocus=alert(12)>",
    "javascript:alert(13)",
]


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, attribute: str) -> list[str]:
        return [attrs[attribute] or "" for _, attrs in self.tags if attribute in attrs]


def test_everything_is_there(record: Make) -> None:
    page = Page(render(record()))
    for wanted in [
        "Does it cross?",
        "1.251 ± 0.012",
        "1.241",
        "525 not comparable",
        "fails : Two runs are not a result.",
        "Figure 1. Phases.",
        "Points cross.",
        "Because of this.",
        "a < b 0.577",
        "3 min 20 s of computing",
        "0, 1, 2, 3, 4",
        "c0ffee",
        "made-up-0123456789ab",
        "11 trials done, 1 timeout",
        "timeout : no answer after 9 s",
        "The same in every trial: dim = 7.",
    ]:
        assert wanted in page.text.replace("fails:", "fails :").replace("timeout:", "timeout :")
    assert page.all("alt") == ["Two curves"]


def test_changed_settings_are_apart_from_all_settings(record: Make) -> None:
    text = render(record())
    changed = text[text.index("differ from the defaults") : text.index("All settings")]
    assert "seeds" in changed and "dim" not in changed


def test_every_claim_has_a_word_and_a_mark(record: Make) -> None:
    text = render(record())
    table = text[text.index('class="claims"') : text.index("</table>")]
    cells = re.findall(r'<td role="cell" class="verdict (\w+)"[^>]*>(.*?)</td>', table)
    shown = [(name, " ".join(Page(cell).text.split())) for name, cell in cells]
    assert shown == [("holds", "✓ holds"), ("fails", "✗ fails"), ("undecided", "? undecided")]


def test_checks_are_listed_apart_from_findings(record: Make) -> None:
    made = record()
    identity = judge_check("identity", "Weights add up to one", [0.0], below=1e-12)
    made.results["claims"].append(identity.as_json())
    text = render(made)
    table = text[text.index('class="claims"') : text.index("</table>")]
    listed = text[
        text.index("Checks of theorems and identities") : text.index('aria-label="Audits"')
    ]
    assert "Weights add up" not in table and "The losses cross" in table
    assert "Weights add up" in listed and "✓" in listed and "The losses cross" not in listed
    assert "Checks of theorems" not in render(record())


def test_unknown_verdicts_never_look_good(record: Make) -> None:
    made = record()
    made.results["claims"][0]["verdict"] = "splendid"
    made.results["audits"][0]["verdict"] = "splendid"
    assert view.claims(made.results["claims"], view.TrialSets())[0]["verdict"] == "undecided"
    assert view.audits(made.results["audits"])[0]["verdict"] == "fail"


def test_failing_audits_come_first_and_in_words(record: Make) -> None:
    found = view.audits(record().results["audits"])
    assert [a["verdict"] for a in found] == ["fail", "pass", "not-applicable"]
    text = render(record())
    row = text[text.index('class="audits"') :]
    assert row.index("Two runs are not a result") < row.index("score-scale")


def test_first_screen_order(record: Make) -> None:
    text = render(record())
    places = [text.index(w) for w in ("<h1>", 'class="answer"', 'class="claims"', 'class="audits"')]
    places += [text.index(f'<section id="{w}"') for w in ("figures", "meaning", "verdicts")]
    places += [text.index('<section id="method"'), text.index('<section id="trials"')]
    assert places == sorted(places)


def test_numbers_lead_to_their_trials(record: Make) -> None:
    made = record()
    page = Page(render(made))
    ids = {attrs["id"] for _, attrs in page.tags if "id" in attrs}
    targets = [link[1:] for link in page.all("href")]
    assert set(targets) <= ids
    assert {"claim-1", "set-1", "set-2", "set-3", "t0"} <= set(targets)
    assert all(row.id in page.text for row in made.rows)


def test_nothing_is_loaded_from_anywhere(record: Make) -> None:
    page = Page(render(record()))
    assert all(link.startswith("#") for link in page.all("href"))
    assert all(src.startswith("data:image/svg+xml;base64,") for src in page.all("src"))
    assert not {"script", "link", "iframe", "object", "embed", "base", "form"} & {
        tag for tag, _ in page.tags
    }
    policy = [a.get("content") or "" for t, a in page.tags if t == "meta" and "http-equiv" in a]
    assert policy[0].startswith("default-src 'none'; style-src 'unsafe-inline'; img-src data:;")
    assert "url(" not in render(record()) and "@import" not in render(record())


def hostile(value: Any, text: str) -> Any:
    """The same structure with `text` in every string that is not a file, a verdict or an id."""
    if isinstance(value, dict):
        kept = {"verdict", "file", "trials"}
        return {k: v if k in kept else hostile(v, text) for k, v in value.items()}
    if isinstance(value, list):
        return [hostile(v, text) for v in value]
    return text if isinstance(value, str) else value


@pytest.mark.parametrize("text", HOSTILE)
def test_what_is_stored_cannot_become_markup(record: Make, text: str) -> None:
    made = record()
    clean = Page(render(made))
    rows = [
        replace(r, state=text, error=text, config={text: text, "v": i}, metrics={text: text})
        for i, r in enumerate(made.rows)
    ]
    rows[0] = replace(rows[0], id=text, reasons={"gone": text}, metrics={"gone": None})
    results = hostile(made.results, text)
    results["claims"][0]["trials"] = [text]
    results["counts"] = {"done": 1, text: 2}
    results["defaults"] = {text: "other"}
    spec = replace(made.spec, study=text, scale=text, settings={text: text})
    page = render(replace(made, rows=rows, results=results, spec=spec, env=[{text: text}]))
    dirty = Page(page)
    assert {t for t, _ in dirty.tags} <= {t for t, _ in clean.tags}
    assert not [a for _, attrs in dirty.tags for a in attrs if a.startswith("on")]
    assert all(link.startswith("#") for link in dirty.all("href"))
    assert all(src.startswith("data:image/svg+xml;base64,") for src in dirty.all("src"))
    assert "49" not in dirty.text or text != HOSTILE[8]
    if "_" not in text:
        assert " ".join(text.split()) in dirty.text


def test_subscripts_escape_first() -> None:
    assert subscripts("α_c(ω) < batch_size") == "α<sub>c</sub>(ω) &lt; batch_size"
    assert subscripts("<b>x_i</b>") == "&lt;b&gt;x<sub>i</sub>&lt;/b&gt;"


@pytest.mark.parametrize(
    "file", ["../../secret.svg", "figures/gone.svg", "/etc/passwd", "figures/link.svg", ""]
)
def test_only_plain_svg_files_of_the_run_are_read(record: Make, tmp_path: Path, file: str) -> None:
    made = record()
    (tmp_path / "secret.svg").write_text("<svg>secret</svg>", encoding="utf-8")
    (made.path / "figures" / "link.svg").symlink_to(tmp_path / "secret.svg")
    made.results["figures"][0]["file"] = file
    page = Page(render(made))
    assert page.all("src") == []
    assert "is not in the run folder" in page.text and "Two curves" in page.text


def test_two_thousand_trials_stay_under_the_limit(record: Make) -> None:
    made = record(trials=2_000)
    wide = [
        replace(r, metrics={f"metric_{k}": k + i / 7 for k in range(150)})
        for i, r in enumerate(made.rows)
    ]
    ids = [row.id for row in wide]
    for claim in made.results["claims"]:
        claim["trials"] = ids
    made.results["claims"] *= 5
    picture = made.path / "figures" / "phase.svg"
    picture.write_text("<svg>" + " " * 1_500_000 + "</svg>", encoding="utf-8")
    made.results["figures"] *= 3
    page = render(replace(made, rows=wide))
    assert len(page.encode()) < LIMIT_BYTES
    assert "of 2,000 trials fit on this page" in page
    assert "--csv" in page and "Too large to embed here" in page
    targets = set(re.findall(r'href="#(t\d+)"', page))
    assert targets <= set(re.findall(r'<tr id="(t\d+)"', page))


def test_two_thousand_narrow_trials_are_all_shown(record: Make) -> None:
    page = render(record(trials=2_000))
    assert page.count("<tr id=") == 2_000 and "fit in this page" not in page
    assert len(page.encode()) < LIMIT_BYTES


def test_more_trials_are_shown_as_groups(record: Make) -> None:
    made = record(trials=2_001)
    made.results["claims"][0]["trials"] = [row.id for row in made.rows]
    rows = [
        replace(
            r,
            state="failed" if i == 5 else "done",
            config={"alpha": i % 3, "name": f"<b>{i % 2}</b>", "place": i, "same": 7},
            metrics={"loss": None if i == 5 else i / 4, "word": "x", "kind": str(i % 11)},
        )
        for i, r in enumerate(made.rows)
    ]
    page = render(replace(made, rows=rows))
    assert "<tr id=" not in page and not re.findall(r'href="#t\d', page)
    assert "(6 groups)" in page and "trials.csv" in page
    assert "The same in every trial: same = 7." in page
    assert ">place</th>" not in page, "of 2,001 values: no group would have two trials"
    # i = 0, 6, … 1998: 334 trials, mean 999/4; the eleven kinds are counted, the word is said
    first = "<tr><td>0<td>&lt;b&gt;0&lt;/b&gt;<td>334<td>334<td>11 different<td>249.8 (0 to 499.5)"
    assert first + "<td>x" in page
    assert "<td>333<td>332<td>11 different<td>251 (2.75 to 499.2)" in page, "one failed"
    assert "1 trial ended without a full result" in page


def test_texts_without_end_are_refused(record: Make) -> None:
    made = record()
    made.results["answer"] = "x" * LIMIT_BYTES
    with pytest.raises(UsageError, match="shorten the texts"):
        render(made)


def test_an_empty_run_has_a_page(record: Make) -> None:
    page = Page(render(record(trials=0, results={}, env=[])))
    assert "No trial has finished yet." in page.text


def test_the_page_is_accessible(record: Make) -> None:
    page = Page(render(record()))
    assert ("html", {"lang": "en"}) in page.tags
    headings = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert headings.count(1) == 1
    assert all(b - a <= 1 for a, b in itertools.pairwise(headings))
    assert all("scope" in attrs for tag, attrs in page.tags if tag == "th")
    assert all(attrs.get("alt") for tag, attrs in page.tags if tag == "img")
    first_link = next(attrs for tag, attrs in page.tags if tag == "a")
    assert first_link == {"class": "skip", "href": "#content"}
    ids = [attrs["id"] for _, attrs in page.tags if "id" in attrs]
    assert len(ids) == len(set(ids))


class Coin(Study):
    name = "coin"
    question = "Is it fair?"

    def trials(self) -> list[Trial]:
        return [self.trial(seed) for seed in range(3)]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        return Outcome({"heads": trial.seed / 2})

    def claims(self, table: Any) -> list[Any]:
        return []


def test_a_stored_run_gets_its_report_once(tmp_path: Path) -> None:
    study = Coin.at()
    stored = Record.create_or_open(tmp_path, Plan.of(study, source_of(study)))
    with stored.lock():
        for trial in study.trials():
            stored.add(trial, "done", study.run(trial, TrialContext()))
        stored.write_results({"question": study.question, "answer": "Perhaps."})
        inside = add_report(stored)
        stored.seal()
    assert "Perhaps." in inside.read_text(encoding="utf-8")
    assert stored.verify().ok
    path = write_report(stored.path)
    after = path.stat().st_mtime_ns, path.read_bytes()
    assert write_report(stored.path) == path
    assert (path.stat().st_mtime_ns, path.read_bytes()) == after
    path.unlink()
    stored_again = Record.open(stored.path)
    assert not stored_again.verify().ok


def test_rows_keep_the_reason_of_a_missing_number(record: Make) -> None:
    made = record(trials=2)
    row: Row = made.rows[0]
    gone = replace(row, metrics={"theta": None}, reasons={"theta": "did not converge"})
    assert "did not converge" in render(replace(made, rows=[gone, made.rows[1]]))
