"""What leaves the room: plain JSON, no NaN, a reason for what does not exist; stable weights."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from attnlab.construct import Construction, attention_weights, resolve_scale
from attnlab.construct.result import plain
from attnlab.core.errors import UsageError


def test_only_fields_that_apply_and_in_order() -> None:
    found = Construction(feasible=True, why="so", query=np.array([1.0, 2.0]), norm=np.float64(3.0))
    assert list(found.as_json()) == ["query", "feasible", "norm", "why"]
    assert found.as_json()["query"] == [1.0, 2.0]


def test_numbers_that_do_not_exist_are_null_with_a_reason() -> None:
    told = plain(
        {"margin": math.inf, "also": {"ratio": np.float64("nan")}, "list": [1.0, math.nan]}
    )
    assert told["margin"] is None
    assert "margin" in told["reason"]
    assert told["also"]["ratio"] is None
    assert "ratio" in told["also"]["reason"]
    assert plain({"x": math.nan, "reason": "own words"})["reason"] == "own words"
    json.dumps(told, allow_nan=False)


def test_a_notebook_shows_the_sentence_escaped() -> None:
    found = Construction(feasible=False, why="a < b", weights=np.full(20, 0.05))
    shown = found._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "a &lt; b" in shown
    assert "…" in shown


def test_weights_are_stable_and_need_no_small_keys() -> None:
    keys = np.array([[1.0, 0], [0, 1]])
    assert attention_weights(keys, np.array([5000.0, 0])) == pytest.approx([1, 0], abs=0)
    query = np.array([0.3, -0.2])
    # 2^40 + k is exact here, but (2^40 + k) . q is rounded to 2^40 eps = 2e-4.
    far = attention_weights(keys + 2.0**40, query)
    assert far == pytest.approx(attention_weights(keys, query), abs=1e-15)


def test_scales() -> None:
    assert resolve_scale("sqrt", 16) == 0.25
    assert resolve_scale("1", 16) == resolve_scale(1, 3) == 1.0
    for wrong in ("", "one", -1.0, math.nan, math.inf, None):
        with pytest.raises(UsageError):
            resolve_scale(wrong, 3)  # type: ignore[arg-type]
