"""A verdict follows from where the interval lies, from the number of runs, and from the audits."""

import math
from typing import Any

import pytest

from attnlab.audit.finding import Finding
from attnlab.lab.claim import (
    MIN_SEEDS,
    Claim,
    Reported,
    apply_audits,
    judge,
    judge_check,
    judge_difference,
    judge_law,
    judge_ratio,
)
from attnlab.measure.intervals import Estimate, mean_interval


def claim(low: float, high: float, n: int = MIN_SEEDS, above: float = 1.0) -> Claim:
    return judge("c", "a", Estimate((low + high) / 2, low, high, n), above=above, below=2.0)


@pytest.mark.parametrize(
    ("low", "high", "verdict", "words"),
    [
        (1.1, 1.9, "holds", "[1.1, 1.9] lies inside the range 1 to 2"),
        (1.0, 1.9, "undecided", "crosses the edge"),
        (1.1, 2.0, "undecided", "crosses the edge"),
        (0.5, 1.0, "fails", "lies outside"),
        (2.0, 2.5, "fails", "lies outside"),
        (0.5, 2.5, "undecided", "[0.5, 2.5] crosses the edge of the range 1 to 2"),
    ],
)
def test_the_interval_decides(low: float, high: float, verdict: str, words: str) -> None:
    judged = claim(low, high)
    assert judged.verdict == verdict and words in judged.why


@pytest.mark.parametrize("n", [1, MIN_SEEDS - 1])
def test_too_few_runs_decide_nothing(n: int) -> None:
    judged = claim(1.1, 1.9, n)
    runs = "1 independent run," if n == 1 else f"{n} independent runs,"
    assert judged.verdict == "undecided"
    assert judged.why == f"not a result: {runs} at least {MIN_SEEDS} needed"


def test_an_exact_number_needs_no_runs_and_no_number_is_undecided() -> None:
    exact = Estimate(1.5, math.nan, math.nan, 1, exact=True)
    assert judge("c", "a", exact, above=1.0).verdict == "holds"
    assert judge("c", "a", exact, above=1.0).why.endswith("the range above 1")
    assert judge("c", "a", exact, below=1.0).why.endswith("outside the range below 1")
    nothing = judge("c", "a", Estimate(math.nan, math.nan, math.nan, 0), above=1.0)
    assert (nothing.verdict, nothing.why) == ("undecided", "no estimate: nothing was measured")


def test_a_number_of_which_nothing_is_claimed_is_shown_and_not_judged() -> None:
    measured = judge("c", "a", Estimate(1.5, 1.4, 1.6, 5))
    assert (measured.verdict, measured.estimate.value) == ("not judged", 1.5)
    assert judge("c", "a", Estimate(1.5, 1.4, 1.6, MIN_SEEDS - 1)).verdict == "undecided"


def test_a_law_holds_where_a_wide_interval_covers_it() -> None:
    """Runs 1, 2, 3: mean 2, standard error 0.577, t of 99 % with 2 degrees of freedom 9.925."""
    runs = mean_interval([1.0, 2.0, 3.0])
    near, far = (judge_law("c", "a law", runs, exact) for exact in (2 + 5.72, 2 + 5.74))
    assert (near.verdict, far.verdict) == ("holds", "fails") and near.kind == "check"
    assert near.estimate.low == pytest.approx(2 - 9.925 / 3**0.5, abs=1e-3)
    assert judge_law("c", "a law", runs, math.nan).verdict == "undecided"
    assert judge_law("c", "a law", mean_interval([1.0, 2.0]), 1.5).verdict == "undecided"


def test_a_check_counts_every_case_and_one_wrong_case_refutes_it() -> None:
    clean = judge_check("c", "an identity", [0.0, 1e-15, 3e-16], below=1e-12)
    assert (clean.verdict, clean.kind, clean.estimate.n) == ("holds", "check", 3)
    assert clean.as_json()["kind"] == "check" and clean.estimate.exact
    assert judge_check("c", "an identity", [0.0, 1e-6, 0.0], below=1e-12).verdict == "fails"
    assert judge_check("c", "an identity", [0.0, math.nan], below=1e-12).verdict == "undecided"
    assert judge_check("c", "an identity", [], below=1e-12).verdict == "undecided"
    assert claim(1.1, 1.9).as_json()["kind"] == "finding"


@pytest.mark.parametrize(("make", "mean"), [(judge_difference, 0.2), (judge_ratio, math.exp(0.2))])
def test_paired_runs_are_a_comparison_whatever_its_range(make: Any, mean: float) -> None:
    for limits in ({"above": 0.0}, {"below": 1.0}, {"above": 0.0, "below": 2.0}, {}):
        claim = make("c", "a", [0.1, 0.2, 0.3], **limits)
        assert claim.comparison and claim.estimate.value == pytest.approx(mean)
        assert claim.at(0.99).estimate.half_width > claim.estimate.half_width


def test_an_audit_that_does_not_pass_undermines_the_claims_it_names() -> None:
    sound, leak = (
        Finding("causality", verdict, 1.0, 0.5, "it leaks", undermines=("c",))
        for verdict in ("pass", "fail")
    )
    before = claim(1.1, 1.9)
    assert apply_audits([before], [sound]) == [before]
    (after,) = apply_audits([before], [leak])
    assert after.verdict == "undecided" and before.why in after.why and "it leaks" in after.why
    assert after.estimate == before.estimate


def test_what_is_stored() -> None:
    estimate = Estimate(1.5, 1.1, math.inf, 7, "bootstrap")
    reported = Reported(1.4, "a book", comparable=False, note="other data")
    stored = judge("c", "a", estimate, above=1.0, reported=reported, trials=["t"]).as_json()
    assert (stored["effect"], stored["n"], stored["trials"]) == (1.5, 7, ["t"])
    assert (stored["reported"], stored["comparable"]) == (1.4, False)
    assert judge("c", "a", estimate, above=1.0).as_json()["comparable"] is None
