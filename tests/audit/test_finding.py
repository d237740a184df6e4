"""Findings and verdicts: what they store, how they print, how one is looked up."""

import math

import pytest

from attnlab.audit.finding import Finding, Verdicts

FAIL = Finding("causality", "fail", 0.8125, 1e-6, "it looks <one> token ahead")
PASS = Finding("padding", "pass", 0.0, 1e-3, "padding changes nothing")
SKIPPED = Finding.not_applicable("cache-parity", "it has no cache")
BROKEN = Finding.not_judged("coverage", "the model raised ValueError: one row only")


def verdicts(*findings: Finding) -> Verdicts:
    return Verdicts("GPT", findings)


def test_when_is_stored_only_if_there_is_one() -> None:
    assert "when" not in PASS.as_json()
    end = Finding("padding", "pass", 0.0, None, "", when="end")
    assert end.as_json()["when"] == "end" and end.cells()[1] == "padding (end)"


def test_a_number_that_is_not_finite_is_stored_as_none() -> None:
    assert Finding("x", "fail", math.inf, 0, "").as_json()["number"] is None


def test_not_applicable_keeps_what_is_known() -> None:
    assert (SKIPPED.verdict, SKIPPED.number, SKIPPED.threshold) == ("not-applicable", None, None)
    known = Finding.not_applicable("x", "?", threshold=2.0, number=1.0, undermines=("claim",))
    assert (known.threshold, known.number, known.undermines) == (2.0, 1.0, ("claim",))


def test_a_finding_prints_in_one_line() -> None:
    assert repr(FAIL) == (
        "<Finding ✗ causality 0.812 (threshold 1e-06): it looks <one> token ahead>"
    )
    assert repr(SKIPPED) == "<Finding – cache-parity: it has no cache>"
    html = FAIL._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "<td>causality</td>" in html and "&lt;one&gt;" in html and "<one>" not in html


def test_the_verdict_of_all() -> None:
    assert verdicts(PASS, FAIL, SKIPPED).verdict == "fail"
    assert verdicts(SKIPPED, PASS).verdict == "pass"
    assert verdicts(PASS, BROKEN, FAIL).verdict == "fail"
    for open_ in (verdicts(PASS, BROKEN), verdicts(SKIPPED), verdicts()):
        assert open_.verdict == "could-not-be-judged"


def test_the_reason_of_the_verdict() -> None:
    assert verdicts(PASS, SKIPPED).why == "every audit that applies passes"
    assert verdicts(BROKEN, FAIL).why == "causality: it looks <one> token ahead"
    assert verdicts(PASS, BROKEN).why == "coverage: the model raised ValueError: one row only"
    asked = "no audit that was asked for applies: cache-parity: it has no cache"
    assert verdicts(SKIPPED).why == verdicts(SKIPPED).as_json()["why"] == asked


def test_verdicts_are_a_collection_by_name() -> None:
    found = verdicts(FAIL, PASS)
    assert list(found) == [FAIL, PASS] and len(found) == 2
    assert "padding" in found and "coverage" not in found and PASS not in found
    assert found["padding"] is PASS
    with pytest.raises(KeyError, match="no audit 'pading' ran: did you mean 'padding'"):
        found["pading"]


def test_verdicts_print_a_summary_and_a_table() -> None:
    found = verdicts(FAIL, PASS, SKIPPED)
    assert repr(found) == "<Verdicts GPT: 1 pass, 1 fail, 1 not applicable: causality>"
    html = found._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert html.count("<tr>") == 4 and "1 fail" in html
    words = "GPT: 1 pass, 0 fail, 1 could not be judged, 0 not applicable"
    assert verdicts(PASS, BROKEN).summary() == words
