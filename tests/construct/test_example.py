"""The keys of the course exercise follow from the queries that its report prints."""

import numpy as np
import pytest

from attnlab import construct
from attnlab.construct.example import KEYS, REPORTED_QUERIES, SCORES, query_for_scores

K, Q = np.array(KEYS), np.array(REPORTED_QUERIES)


def test_the_keys_follow_from_the_printed_queries_and_give_them_back() -> None:
    assert np.abs(np.linalg.pinv((Q / 100).T) - K).max() < 1e-6
    assert np.abs(query_for_scores(K, 100 * np.eye(4)).T - Q).max() < 5e-5 + 1e-9


def test_the_averaging_query_of_the_report_does_not_average() -> None:
    weights = construct.attention_weights(K, query_for_scores(K, np.array(SCORES)))
    assert weights[:2] == pytest.approx([0.549, 0.446], abs=5e-4)


def test_the_shortest_selecting_query_is_a_twelfth_of_the_printed_one() -> None:
    found = construct.select(K, 0, weight=0.99)
    assert found.feasible and found.norm == pytest.approx(4.957, abs=5e-4)
    assert np.linalg.norm(Q[0]) == pytest.approx(61.38, abs=5e-3)


def test_no_unit_key_is_selected_by_that_query_but_both_together_can_be_chosen() -> None:
    query = query_for_scores(K, np.array(SCORES))
    fixed = construct.replace_key(K, query, 2, "select:2", unit_norm=True)
    assert not fixed.feasible and fixed.weights is not None
    assert fixed.weights[2] == pytest.approx(0.6433, abs=5e-5)
    rng = np.random.default_rng(1)  # no unit key at random does better
    for key in rng.normal(size=(200, 3)):
        moved = K.copy()
        moved[2] = key / np.linalg.norm(key)
        assert construct.attention_weights(moved, query)[2] <= fixed.weights[2] + 1e-12
    both = construct.design(K, ("average:0,1", "select:2"), free=[2], unit_norm=True)
    assert both.feasible and both.key is not None
    assert np.linalg.norm(both.key) == pytest.approx(1.0, abs=1e-9)
