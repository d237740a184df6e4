"""apply: the scores, weights and output of a given query."""

import numpy as np
import pytest

from attnlab.construct import apply
from attnlab.core.errors import UsageError

# the example of a course exercise on argmax attention
KEYS = [[0, 1, 2], [1, 1, 2], [-1, 1, -2], [0, -1, -2]]
VALUES = [[3, 2, -4], [3, -2, 4], [3, 2, 0], [3, 2, 0]]
QUERY = [-2, 1, 1]


def test_argmax_returns_the_value_of_the_highest_score() -> None:
    found = apply(KEYS, QUERY, VALUES, hard=True)
    assert found.scores.tolist() == [3, 1, 1, -3] and found.weights.tolist() == [1, 0, 0, 0]
    assert found.output is not None and found.output.tolist() == [3, 2, -4]
    assert (found.ties, found.lead) == ((0,), 2.0)
    assert (
        found.why == "Key 0 has the highest score, 3, 2 above the next, and gets all of the weight"
    )


@pytest.mark.parametrize(("scale", "factor"), [(1.0, 1.0), ("sqrt", 3**-0.5)])
def test_softmax_with_and_without_the_usual_scale(scale: str | float, factor: float) -> None:
    found = apply(KEYS, QUERY, VALUES, scale)
    weights = np.exp(factor * np.array([3, 1, 1, -3]))
    weights /= weights.sum()
    assert found.weights == pytest.approx(weights, abs=1e-14)
    assert found.output == pytest.approx(weights @ np.array(VALUES), abs=1e-13)


def test_ties_are_told_and_the_first_wins() -> None:
    found = apply(KEYS, [0, 1, 0], VALUES, hard=True)
    assert found.ties == (0, 1, 2) and found.weights.tolist() == [1, 0, 0, 0]
    assert found.why.startswith("Keys 0, 1 and 2 tie for the highest score, 1: argmax takes the")
    soft = apply(KEYS, [0, 0, 0])
    assert soft.lead is None and soft.output is None and "weight 0.25" in soft.why
    assert "lead" not in soft.as_json() and "output" not in soft.as_json()


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="query must be 3 numbers"):
        apply(KEYS, [1, 2])
    with pytest.raises(UsageError, match="4 keys but 2 values"):
        apply(KEYS, QUERY, VALUES[:2])
