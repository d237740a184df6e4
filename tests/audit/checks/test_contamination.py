"""contamination: fires when test rows are in the text and score better for it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.audit.checks.contamination import NAME, contained, contamination

TEXT = (
    "Ada Lovelace was born in London. Blaise Pascal, who was born in Clermont-Ferrand, died in "
    "Paris in 1662 after years of illness that he bore with much patience. Romeo spoke."
)
LONG = "he said that he died in Paris in 1662 after years of illness that he bore with no patience"


def test_the_clean_twin_passes() -> None:
    found = contamination(["Vienna", "Rome", "New York"], TEXT)
    assert (found.name, found.verdict, found.number) == (NAME, "pass", 0)


def test_rows_in_the_text_are_caught() -> None:
    found = contamination(["LONDON", "Vienna", "clermont ferrand"], TEXT)
    assert found.verdict == "fail" and found.number == pytest.approx(2 / 3)
    assert found.evidence["first"] == [0, 2] and "no scores were given" in found.why


def test_words_are_whole() -> None:
    assert contained(["Rome", "Lond", "born in London", "in London born"], TEXT) == [
        False,
        False,
        True,
        False,
    ]


def test_a_long_row_counts_by_thirteen_words_of_it() -> None:
    assert contained([LONG], TEXT) == [True]
    assert contained([LONG], TEXT, window=19) == [False]
    assert contained([LONG.replace("illness", "sickness")], TEXT) == [False]


def test_a_score_that_is_memory_is_caught_and_split() -> None:
    rows = ["London", "Vienna"] * 50
    right = [row == "London" or i % 10 == 1 for i, row in enumerate(rows)]
    found = contamination(rows, TEXT, right)
    assert found.verdict == "fail" and found.number == 0.5
    assert found.evidence["right_inside"] == [50, 50]
    assert found.evidence["right_outside"] == [10, 50]
    assert "100.0% of those are right, 20.0% of the others" in found.why


def test_a_score_that_does_not_depend_on_it_passes_with_its_share() -> None:
    rows = ["London", "Vienna"] * 50
    right = list(np.random.default_rng(3).random(100) < 0.6)
    found = contamination(rows, TEXT, right)
    assert found.verdict == "pass" and found.number == 0.5
    assert found.evidence["interval"][0] < 0 < found.evidence["interval"][1]


def test_everything_in_the_text_leaves_nothing() -> None:
    found = contamination(["London", "Paris"], TEXT, [True, False])
    assert found.verdict == "fail" and "no other row is left" in found.why


def test_documents_one_by_one() -> None:
    """A run of words across two documents is in neither."""
    documents = ["it ends in Lon", "don bridge"]
    assert contained(["lon don", "don bridge"], iter(documents)) == [False, True]


def test_not_applicable() -> None:
    assert contamination([], TEXT).verdict == "not-applicable"
    assert contamination(["...", "?"], TEXT).verdict == "not-applicable"
    with pytest.raises(ValueError, match="1 scores for 2 rows"):
        contamination(["a", "b"], TEXT, [True])


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), min_size=1))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_contained_is_what_a_search_finds(row: list[str], text: list[str]) -> None:
    expected = bool(row) and f" {' '.join(row)} " in f" {' '.join(text)} "
    assert contained([" ".join(row)], " ".join(text)) == [expected]
