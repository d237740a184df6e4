"""Exact certificates: equations checked in fractions, enclosures against fifty decimal digits."""

from __future__ import annotations

import decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from attnlab.construct.exact import (
    entropy_bounds,
    exact_combination,
    norm_upper_bound,
    weight_upper_bound,
)

Array = NDArray[np.float64]
DIGITS = decimal.Context(prec=50)


def decimal_of(x: Fraction) -> decimal.Decimal:
    return DIGITS.divide(decimal.Decimal(x.numerator), decimal.Decimal(x.denominator))


def entropy_of(weights: list[Fraction]) -> decimal.Decimal:
    parts = [decimal_of(x) for x in weights if x]
    return -sum((x * x.ln(DIGITS) for x in parts), decimal.Decimal(0))


@given(st.lists(st.integers(0, 10**30), min_size=1, max_size=9).filter(any))
@settings(max_examples=120, deadline=None, derandomize=True)
def test_entropy_and_share_are_enclosed_and_tight(parts: list[int]) -> None:
    weights = [Fraction(x, sum(parts)) for x in parts]
    true = entropy_of(weights)
    low, high = entropy_bounds(weights)
    assert decimal.Decimal(low) <= true <= decimal.Decimal(high)
    # Nine terms of at most 1/e, each off by some ten units of the last place of a double.
    assert high - low < 9 * 10 * 2.3e-16
    for count in (1, 3):
        share = decimal.Decimal(count) / (count + true.exp(DIGITS))
        above = decimal.Decimal(weight_upper_bound(count, low))
        assert share <= above < share + decimal.Decimal("2e-14")


@given(st.lists(st.fractions(max_denominator=10**9), min_size=1, max_size=5))
@settings(max_examples=60, deadline=None, derandomize=True)
def test_norms_are_rounded_up(vector: list[Fraction]) -> None:
    true = DIGITS.sqrt(sum((decimal_of(x * x) for x in vector), decimal.Decimal(0)))
    found = decimal.Decimal(norm_upper_bound(vector))
    assert true <= found <= true * decimal.Decimal(1 + 3e-15)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("members", [1, 2, 3])
def test_a_rounded_combination_is_made_exact(seed: int, members: int) -> None:
    rng = np.random.default_rng(seed)
    h = 3
    rest = rng.standard_normal((11, h))
    weights = rng.dirichlet(np.ones(11))
    wanted = rng.standard_normal((members, h))
    wanted += weights @ rest - wanted.mean(axis=0)  # their plane passes through the point
    found = exact_combination(rest, wanted, weights)
    assert found is not None
    lam, a = found
    for c in range(h):
        left = sum(w * Fraction(float(x)) for w, x in zip(lam, rest[:, c], strict=True))
        right = sum(s * Fraction(float(x)) for s, x in zip(a, wanted[:, c], strict=True))
        assert left == right
    assert sum(lam) == 1
    assert sum(a) == 1
    assert min(lam) >= 0
    if members == 1:  # rounding moved nothing by more than its own size
        assert max(abs(float(x) - w) for x, w in zip(lam, weights, strict=True)) < 1e-13


def test_what_is_outside_by_one_unit_is_not_called_inside() -> None:
    """The middle of a segment, moved by the smallest double there is to move it by."""
    rest = np.array([[0.0, 0.0], [1.0, 1.0]])
    half = np.array([0.5, 0.5])
    assert exact_combination(rest, np.array([[0.5, 0.5]]), half) is not None
    assert exact_combination(rest, np.array([[0.5, np.nextafter(0.5, 1)]]), half) is None
    assert (
        exact_combination(rest, np.array([[np.nextafter(1.0, 2)] * 2]), np.array([0.0, 1.0]))
        is None
    )
    # Beyond an end of the segment the equations have a solution, with a weight below zero.
    assert (
        exact_combination(rest, np.array([[np.nextafter(1.0, 2)] * 2]), np.array([1e-9, 1.0]))
        is None
    )
