"""collapse: fires on a constant, on a near constant and on a frozen metric; else silent."""

import math

import numpy as np
import pytest
import torch

from attnlab.audit.checks.collapse import NAME, collapse


def labels(n: int, share: float) -> list[int]:
    rng = np.random.default_rng(7)
    return [int(x) for x in rng.random(n) < share]


def noisy(gold: list[int], right: float) -> list[int]:
    rng = np.random.default_rng(11)
    return [
        g if keep else 1 - g for g, keep in zip(gold, rng.random(len(gold)) < right, strict=True)
    ]


GOLD = labels(1009, 0.62)


def test_the_clean_twin_passes() -> None:
    found = collapse(noisy(GOLD, 0.8), GOLD, [0.71, 0.78, 0.8])
    assert (found.name, found.verdict) == (NAME, "pass")
    assert found.evidence["matthews"] == pytest.approx(0.57, abs=0.08)
    assert found.evidence["entropy"] < math.log(2) + 1e-12


def test_a_classifier_stuck_on_the_majority_is_caught() -> None:
    found = collapse([1] * len(GOLD), GOLD)
    assert found.verdict == "fail" and found.number == 1.0
    assert "100.0% of the predictions are '1'" in found.why
    assert found.evidence["matthews"] is None and found.evidence["entropy"] == 0


def test_without_gold_answers_too() -> None:
    assert collapse([1] * 97 + [0] * 2).verdict == "fail"
    assert collapse([1] * 90 + [0] * 9).verdict == "pass"


def test_gold_answers_as_one_sided_excuse_it() -> None:
    gold = [1] * 980 + [0] * 20
    assert collapse([1] * 975 + [0] * 25, gold).verdict == "pass"


def test_near_majority_of_open_answers_is_caught() -> None:
    """93 of 500 answers are London and 26 are right, where always London gets 25."""
    gold = ["London"] * 25 + [f"place {i}" for i in range(475)]
    said = ["London"] * 93 + [f"other {i % 85}" for i in range(407)]
    said[101] = gold[101]
    found = collapse(said, gold)
    assert found.evidence["right"] == 26 and found.evidence["distinct"] == 87
    assert found.verdict == "fail"
    assert "always answering 'London' gets 25" in found.why


def test_open_answers_of_a_model_that_knows_some_pass() -> None:
    gold = ["London"] * 25 + [f"place {i}" for i in range(475)]
    said = [g if i % 4 == 0 else f"guess {i % 53}" for i, g in enumerate(gold)]
    found = collapse(said, gold)
    assert found.verdict == "pass" and found.evidence["right"] == 125


@pytest.mark.parametrize("value", [0.6217125, 0.6838])
def test_a_metric_that_never_moves_is_caught(value: float) -> None:
    found = collapse(by_epoch=[value] * 4)
    assert found.verdict == "fail" and repr(value) in found.why
    assert collapse(noisy(GOLD, 0.8), GOLD, [value] * 4).verdict == "fail"
    assert collapse(by_epoch=[value] * 3 + [0.7]).verdict == "pass"
    assert collapse(noisy(GOLD, 0.8), GOLD, [value] * 2).verdict == "pass"


def test_a_solved_task_is_constant_too() -> None:
    assert collapse(GOLD, GOLD, [1.0] * 5).verdict == "pass"


def test_arrays_and_tensors_are_predictions() -> None:
    said = noisy(GOLD, 0.8)
    expected = collapse(said, GOLD).as_json()
    assert collapse(np.array(said), np.array(GOLD)).as_json() == expected  # pyright: ignore[reportArgumentType]
    assert collapse(torch.tensor(said), torch.tensor(GOLD)).as_json() == expected  # pyright: ignore[reportArgumentType]


def test_not_applicable() -> None:
    assert collapse().verdict == "not-applicable"
    assert collapse(by_epoch=[0.5, 0.5]).verdict == "not-applicable"
    with pytest.raises(ValueError, match="2 predictions for 3"):
        collapse([1, 0], [1, 0, 1])


def test_matthews_by_hand() -> None:
    # tp 4, tn 3, fp 2, fn 1: (4·3 − 2·1) / √(6·5·5·4)
    gold = [1] * 5 + [0] * 5
    said = [1, 1, 1, 1, 0, 1, 1, 0, 0, 0]
    assert collapse(said, gold).evidence["matthews"] == pytest.approx(10 / math.sqrt(600))
