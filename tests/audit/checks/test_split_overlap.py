"""split-overlap: fires on a shared row, on choosing by the test split, on hidden labels."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.audit.checks.split_overlap import NAME, split_overlap
from attnlab.measure.content import digest

SPLITS = {
    "train": [f"a sentence number {i}" for i in range(31)],
    "dev": [f"a sentence number {i}" for i in range(31, 43)],
    "test": [f"a sentence number {i}" for i in range(43, 60)],
}
LABELS = {"train": [0, 1] * 101, "dev": [1, 0] * 31, "test": [0, 1, 1] * 13}


def test_the_clean_twin_passes() -> None:
    found = split_overlap(SPLITS, labels=LABELS, classes=2, chosen_on="dev", reported_on="test")
    assert (found.name, found.verdict, found.number) == (NAME, "pass", 0)
    assert "chosen on 'dev', reported on 'test'" in found.why


def test_one_shared_row_is_caught_and_named() -> None:
    splits = {**SPLITS, "test": [*SPLITS["test"], SPLITS["train"][7]]}
    found = split_overlap(splits)
    assert (found.verdict, found.number) == ("fail", 1)
    assert "'train' contains 1 row of 'test' (5.6%)" in found.why
    assert found.evidence["train and test"]["first"] == [[17, 7]]


def test_case_and_spaces_do_not_hide_a_row() -> None:
    splits = {**SPLITS, "dev": ["  A Sentence  number 3\n"]}
    assert split_overlap(splits).number == 1


@pytest.mark.parametrize(
    "row",
    [
        [3, 1, 4],
        np.array([3, 1, 4], dtype=np.int32),
        torch.tensor([3, 1, 4]),
        ("where?", [3, 1]),
        {"q": "where?", "ids": torch.tensor([1, 2])},
    ],
    ids=["list", "array", "tensor", "pair", "mapping"],
)
def test_rows_of_any_kind(row: Any) -> None:
    assert split_overlap({"train": [[0, 1], row], "test": [row]}).number == 1
    assert split_overlap({"train": [[0, 1], [3, 1, 5]], "test": [row]}).verdict == "pass"


def test_chosen_on_test_is_caught() -> None:
    found = split_overlap(SPLITS, chosen_on="test", reported_on="test")
    assert found.verdict == "fail" and "chosen on 'test'" in found.why


def test_hidden_labels_are_caught() -> None:
    found = split_overlap({}, labels={**LABELS, "test": [-1] * 39}, classes=2)
    assert found.verdict == "fail"
    assert "39 labels of 'test' are not classes from 0 to 1, the first is -1" in found.why
    unknown = split_overlap({}, labels={**LABELS, "test": [-1] * 39})
    assert "'test' has labels that 'train' does not have: -1" in unknown.why


def test_a_label_missing_beyond_chance_is_caught() -> None:
    found = split_overlap({}, labels={"train": [0, 1] * 50, "test": [0] * 50})
    assert found.verdict == "fail" and "no row labelled 1" in found.why
    rare = split_overlap({}, labels={"train": [0] * 999 + [1], "test": [0] * 50})
    assert rare.verdict == "pass"


def test_numpy_labels_are_labels() -> None:
    labels = {"train": list(np.array([0, 1, 1])), "test": list(np.array([1, 0]))}
    assert split_overlap({}, labels=labels, classes=2).verdict == "pass"


def test_not_applicable() -> None:
    assert split_overlap({"train": SPLITS["train"]}).verdict == "not-applicable"
    assert split_overlap({}).verdict == "not-applicable"


@given(st.sets(st.integers(0, 97), min_size=2), st.data())
@settings(max_examples=60, derandomize=True, deadline=None)
def test_counts_what_sets_would(rows: set[int], data: st.DataObject) -> None:
    train = data.draw(st.sets(st.sampled_from(sorted(rows)), min_size=1))
    test = data.draw(st.sets(st.sampled_from(sorted(rows)), min_size=1))
    found = split_overlap({"train": sorted(train), "test": sorted(test)})
    assert found.number == len(train & test)


@given(st.lists(st.text(max_size=5), max_size=4), st.lists(st.text(max_size=5), max_size=4))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_digests_are_equal_exactly_for_equal_content(one: list[str], other: list[str]) -> None:
    assert (digest(one) == digest(other)) == (one == other)
