"""Templates: answer, sections, tables, filters; data cannot change the structure."""

import math
from pathlib import Path
from typing import Any

import jinja2
import pytest

from attnlab.lab.claim import judge
from attnlab.measure.intervals import Estimate
from attnlab.report.prose import (
    listed,
    measured,
    percent,
    points,
    render_prose,
    verdict,
    with_words,
)

SHARE = Estimate(0.851, 0.83, 0.872, 5)


def fill(template: str, folder: Path | None = None, **names: Any) -> str:
    return render_prose(template, names, folder)[0]


def test_answer_sections_and_tables() -> None:
    template = (
        "The answer,\nin two lines.\n\n## First\n\nOne\nparagraph.\n\nAnother.\n\n"
        "{{ table(['a', 'b'], [[1, 2]]) }}\n\n## Empty\n\n## Last\n\n{{ word }}\n"
    )
    answer, sections = render_prose(template, {"word": "end"})
    assert answer == "The answer, in two lines."
    assert [section.heading for section in sections] == ["First", "Last"], "empty ones are left out"
    assert sections[0].paragraphs == ("One paragraph.", "Another.")
    assert sections[0].table == (("a", "b"), ("1", "2")) and sections[1].table == ()


def test_text_from_data_makes_no_heading_and_no_paragraph() -> None:
    for text in ("## Mine\n\nrest", "one\n## Mine\ntwo"):
        answer, sections = render_prose("{{ text }}", {"text": text})
        assert sections == [] and "Mine" in answer


def test_a_name_that_does_not_exist_raises() -> None:
    with pytest.raises(jinja2.UndefinedError):
        fill("{{ nothing }}")


def test_templates_include_others_of_their_folder(tmp_path: Path) -> None:
    (tmp_path / "shared.md").write_text("## Shared\n\n{{ word }}\n", encoding="utf-8")
    _, sections = render_prose('{% include "shared.md" %}', {"word": "same"}, tmp_path)
    assert sections[0].heading == "Shared" and sections[0].paragraphs == ("same",)
    with pytest.raises(jinja2.TemplateNotFound):
        fill('{% include "other.md" %}', tmp_path)


def test_filters() -> None:
    assert percent(SHARE) == "85.1 % [83.0, 87.2]" and percent(0.5, 0) == "50 %"
    assert percent(Estimate(0.99, 0.9, 1.2, 3)).endswith("[90.0, 100.0]")
    assert percent(math.nan) == points(Estimate(math.nan)) == "not measured"
    assert points(Estimate(-0.1, -0.2, 0.1, 3)) == "−10.0 [−20.0, 10.0]"
    assert [listed(list("abc")[:n]) for n in (1, 2, 3)] == ["a", "a and b", "a, b and c"]
    claim = judge("solves", "it does", SHARE, above=0.5)
    assert verdict(claim).startswith("holds (interval")
    assert measured(claim) == "0.851 ± 0.021 (solves: holds)"
    unknown = judge("solves", "it does", Estimate(math.nan), above=0.5)
    assert measured(unknown) == "not measured (solves: undecided)"
    near = Estimate(0.01, -0.0001, 0.02, 5)
    assert fill("{{ e | decimals }}, {{ e | decimals(2, '+') }}", e=near) == (
        "0.010 [0.000, 0.020], +0.01 [−0.00, +0.02]"
    )
    assert fill("{{ 1 | counted('trial') }}, {{ share | interval }}", share=SHARE) == (
        "1 trial, 0.851 ± 0.021"
    )
    assert fill("{{ share }}", share=SHARE) == "0.851 ± 0.021", "an estimate needs no filter"


def test_figures_take_their_words_from_the_file_beside_the_template() -> None:
    """In the order of the drawings; without trials a figure is left out; a missing name raises."""
    from matplotlib.figure import Figure as Drawing

    from attnlab.studies.counting.study import Counting

    study = Counting.at("smoke")
    found = with_words(
        study, {"learning": (Drawing, ["a"]), "maps": (Drawing, []), "parts": (Drawing, ["b"])}
    )
    assert [figure.name for figure in found] == ["learning", "parts"]
    assert found[0].title == "Accuracy during training" and found[0].trials == ("a",)
    assert found[0].caption.startswith("On test rows") and found[0].alt.startswith("A curve")
    with pytest.raises(KeyError):
        with_words(study, {"unknown": (Drawing, ["a"])})
