"""Pages are read as they are written; numbers of ours come from finished, undamaged runs only."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from attnlab.api.answers import (
    FIELDS,
    Evidence,
    documents,
    find_document,
    parse_page,
    stored_answers,
)
from attnlab.core.errors import IntegrityError, UsageError
from tests.api.pebbles import CODE, PAGE, built_in, make_run, stones

ASKED = stones().questions[0]


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with built_in(tmp_path, monkeypatch) as file:
        yield file


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "runs"


def test_a_page_is_read_into_questions_and_fields() -> None:
    document = stones()
    assert (document.number, document.name, document.title) == ("7", "stones", "Stones")
    assert document.about.startswith("What stones are like")
    assert [(q.id, q.title) for q in document.questions] == [
        ("1a", "Are pebbles round?"),
        ("Q1.b", "Why?"),
    ]
    assert tuple(ASKED.fields) == FIELDS
    assert ASKED.fields["reported"] == "0.97."
    assert ASKED.fields["ours"].endswith("| 5 | 1.01 |")
    assert "## 1b. Not a heading" in ASKED.fields["reproduce"]
    assert list(document.questions[1].fields) == ["question", "answer"]


def test_evidence_names_studies_and_claims() -> None:
    assert ASKED.evidence == [Evidence("pebbles", ("round", "square"))]
    text = PAGE.replace(
        "study `pebbles`: claims `round`, `square` (fails, as it must); audit `light`",
        "study `a`, part `p`: claim `x`; figure `f`; study `b` asks more; study `c`: audit `y`,\n"
        "claims `u`,\n`v` and `w`",
    )
    assert parse_page(7, "stones", text).questions[0].evidence == [
        Evidence("a", ("x",)),
        Evidence("b"),
        Evidence("c", ("u", "v", "w")),
    ]
    assert stones().questions[1].evidence == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("# 7. Stones", "# 8. Stones"), ("## Q1.b. Why?", "## Why"), ("## Q1.b.", "## 1a.")],
)
def test_a_page_of_another_form_is_refused(old: str, new: str) -> None:
    with pytest.raises(IntegrityError, match=r"docs/answers/7-stones\.md"):
        parse_page(7, "stones", PAGE.replace(old, new))


def test_documents_and_questions_are_found_or_the_nearest_is_named() -> None:
    assert [document.number for document in documents()] == ["0", "1", "2", "3", "4"]
    third = find_document("3")
    assert find_document("knowledge") is find_document("3-knowledge") is third
    assert third.find("2D.").id == "2d"
    with pytest.raises(UsageError, match="did you mean 'knowledge'"):
        find_document("knowlege")
    with pytest.raises(UsageError, match="document 3 has no question '2e': did you mean '2"):
        third.find("2e")
    assert third.find("1.a.i").id == "1a-i"
    with pytest.raises(UsageError, match=r"1a of document 3 has parts: ask for 1a-i, .* or 1a-iv"):
        third.find("1a")


def test_without_a_run_nothing_is_told(study: Path, out: Path) -> None:
    assert stored_answers(ASKED, out) == ([], [])
    make_run(out, finish=False)
    assert stored_answers(ASKED, out) == ([], [])


def test_a_smoke_run_is_never_told(study: Path, out: Path) -> None:
    make_run(out, "smoke", size=6)
    assert stored_answers(ASKED, out) == ([], [])


def test_a_finished_run_tells_the_claims_that_are_named(study: Path, out: Path) -> None:
    name = make_run(out)
    (told,), refused = stored_answers(ASKED, out)
    assert (told.run, told.study, told.scale, told.changed) == (name, "pebbles", "quick", {})
    assert not told.edited and not refused
    assert [(c["name"], c["verdict"], c["n"]) for c in told.claims] == [
        ("round", "holds", 3),
        ("square", "fails", 3),
    ]
    assert told.claims[0]["effect"] == pytest.approx(1.01)
    assert stored_answers(stones().questions[1], out) == ([], [])


def test_the_larger_scale_is_told_and_changed_settings_with_it(study: Path, out: Path) -> None:
    full = make_run(out, "full", seeds=4)
    make_run(out)
    ((told,), _) = stored_answers(ASKED, out)
    assert (told.run, told.changed) == (full, {"seeds": 4})


def test_a_damaged_run_is_not_told_and_the_next_one_is(study: Path, out: Path) -> None:
    damaged, sound = make_run(out, "full", seeds=4), make_run(out)
    (out / damaged / "report.html").write_text("nothing", encoding="utf-8")
    ((told,), (why,)) = stored_answers(ASKED, out)
    assert told.run == sound
    assert why.startswith(f"run {damaged} is not used: it is damaged: report.html")


def test_a_run_of_other_code_is_told_as_such(study: Path, out: Path) -> None:
    make_run(out)
    study.write_text(CODE + "\n# edited\n", encoding="utf-8")
    ((told,), _) = stored_answers(ASKED, out)
    assert told.edited


def test_a_run_of_another_version_is_not_told(
    study: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from attnlab.lab.source import load_study_class

    name = make_run(out)
    monkeypatch.setattr(load_study_class("pebbles"), "version", 2)
    told, (why,) = stored_answers(ASKED, out)
    assert told == []
    assert why == f"run {name} is not used: it was made by version 1 of pebbles; now it is 2"
