"""One query per key: every answer holds, and impossible keys are named."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.construct import identity, select, select_many
from attnlab.core.errors import UsageError
from tests.construct.test_select import holds


@pytest.mark.parametrize(("n", "h"), [(101, 17), (101, 3), (7, 31), (53, 1)])
@pytest.mark.parametrize("weight", [0.05, 0.99])
def test_every_answer_holds(n: int, h: int, weight: float) -> None:
    keys = np.random.default_rng(n + h).standard_normal((n, h))
    chosen = list(range(0, n, 3))
    for index, found in zip(chosen, select_many(keys, chosen, weight, "sqrt"), strict=True):
        holds(keys, index, weight, found, h**-0.5)


@given(
    keys=st.integers(1, 4).flatmap(
        lambda h: st.lists(
            st.lists(st.integers(-2, 2), min_size=h, max_size=h), min_size=1, max_size=7
        )
    ),
    weight=st.sampled_from([0.2, 0.5, 0.99]),
)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_degenerate_sets_too(keys: list[list[int]], weight: float) -> None:
    given_keys = np.array(keys, dtype=float)
    found = identity(given_keys, weight)
    assert found.feasible == all(row.feasible for row in found.rows)
    assert found.query.shape == given_keys.shape
    for index, row in enumerate(found.rows):
        holds(given_keys, index, weight, row)


def test_order_and_repeats_are_kept() -> None:
    keys = np.random.default_rng(3).standard_normal((11, 3))
    found = select_many(keys, [7, 2, 7], 0.9)
    for index, row in zip([7, 2, 7], found, strict=True):
        assert row.as_json() == select(keys, index, 0.9).as_json()
    with pytest.raises(UsageError):
        select_many(keys, [11])


def test_identity_returns_every_value_unmixed() -> None:
    keys = np.random.default_rng(4).standard_normal((13, 29))
    values = np.random.default_rng(5).standard_normal((13, 3))
    found = identity(keys, 0.999, values=values)
    assert found.feasible
    assert found.output is not None
    # 0.001 of the weight is elsewhere: off by at most that times the spread of the values.
    assert np.abs(found.output - values).max() <= 1e-3 * np.ptp(values)
    told = found.as_json()
    json.dumps(told, allow_nan=False)
    assert np.array(told["query"]).shape == (13, 29)
    assert len(told["rows"]) == 13
    assert "13 keys" in found.why
    assert "<table>" in found._repr_html_()  # pyright: ignore[reportPrivateUsage]


def test_identity_names_the_keys_that_cannot_be_selected() -> None:
    found = identity([[0.0, 0], [1, 0], [0, 1], [-1, -1]])
    assert not found.feasible
    assert "to key 0: 1 of 4 keys" in found.why
    assert [row.feasible for row in found.rows] == [False, True, True, True]
    assert identity([[2.0]]).feasible


@pytest.mark.slow
@pytest.mark.parametrize("h", [64, 5])
def test_a_thousand_among_a_thousand(h: int) -> None:
    keys = np.random.default_rng(0).standard_normal((1000, h))
    found = select_many(keys)
    for index in range(0, 1000, 97):
        holds(keys, index, 0.99, found[index])
