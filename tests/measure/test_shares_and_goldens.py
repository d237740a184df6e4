"""Wilson, Newcombe, bootstrap, Holm, t: against scipy and statsmodels.

origin of the goldens: statsmodels 0.15.0 with scipy 1.17.1 and numpy 2.4.6 on a CPU, by
proportion_confint(k, n, alpha, method="wilson"), confint_proportions_2indep(..., "newcomb"),
multipletests(p, method="holm"), DescrStatsW(v).tconfint_mean() and .ttest_mean().
"""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.measure.intervals import (
    AT_ONCE,
    bootstrap_mean,
    difference_of_shares,
    holm,
    mean_interval,
    t_test_p,
    wilson,
)

WILSON = [
    (26, 500, 0.95, 0.035730265115705276, 0.07510114393784555),
    (122, 500, 0.95, 0.20839885546022197, 0.2835048068560928),
    (0, 11, 0.95, 0.0, 0.2588329669680318),
    (11, 11, 0.95, 0.7411670330319682, 1.0),
    (2033, 3270, 0.95, 0.6049569894952914, 0.6381824569355493),
    (3, 7, 0.9, 0.186443190363956, 0.7105229089864071),
    (1, 2, 0.99, 0.06171307677810173, 0.9382869232218982),
]
NEWCOMBE = [
    ((122, 500), (97, 500), -0.0013028043710694923, 0.10101186842360613),
    ((56, 70), (48, 80), 0.05243147240236498, 0.33387265403690614),
    ((9, 10), (3, 10), 0.1705227239345029, 0.809017973535488),
    ((0, 13), (5, 29), -0.3454843989019524, 0.07522960102742665),
    ((2033, 3270), (93, 500), 0.39559210219929697, 0.4714055949849175),
]
P_VALUES = [0.0121, 0.0003, 0.2, 0.044, 0.031, 0.0121, 0.7]
HOLM = [0.0726, 0.0021, 0.4, 0.132, 0.124, 0.0726, 0.7]
RUNS = [0.31, -0.12, 0.57, 0.44, 0.2, 0.09, 0.73]
OTHER = [0.11, 0.02, 0.3, 0.41, 0.25, -0.1, 0.6]
SAME = 1e-12  # two libraries, the same formula in float64
shares = st.integers(1, 997).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@pytest.mark.parametrize(("k", "n", "level", "low", "high"), WILSON)
def test_wilson_is_that_of_statsmodels(
    k: int, n: int, level: float, low: float, high: float
) -> None:
    found = wilson(k, n, level)
    assert (found.value, found.low, found.high) == pytest.approx((k / n, low, high), abs=SAME)
    assert found.n == n and "Wilson" in found.method and f"{level:.0%}" in found.method


@given(shares, st.sampled_from([0.5, 0.9, 0.95, 0.99]))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_wilson_is_that_of_scipy(share: tuple[int, int], level: float) -> None:
    found, (k, n) = wilson(*share, level), share
    expected = scipy.stats.binomtest(k, n).proportion_ci(level, method="wilson")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=SAME)
    assert 0 <= found.low <= found.value <= found.high <= 1


def test_wilson_covers_the_truth_about_as_often_as_it_says() -> None:
    """Exactly, by summing over k: near its level, though not at every share (Brown et al. 2001)."""
    n, shares_ = 47, np.linspace(0.05, 0.95, 91)
    found = [wilson(k, n) for k in range(n + 1)]
    mass = scipy.stats.binom.pmf(np.arange(n + 1), n, shares_[:, None])
    inside = np.array([[e.low <= p <= e.high for e in found] for p in shares_])
    covers = (mass * inside).sum(axis=1)
    assert np.mean(covers) == pytest.approx(0.95, abs=0.01) and covers.min() > 0.9


def test_wilson_edges() -> None:
    assert math.isnan(wilson(0, 0).value) and not wilson(0, 0).has_interval
    for k, n in [(-1, 3), (4, 3)]:
        with pytest.raises(ValueError, match="not a share"):
            wilson(k, n)


@pytest.mark.parametrize(("one", "other", "low", "high"), NEWCOMBE)
def test_difference_of_shares_is_that_of_statsmodels(
    one: tuple[int, int], other: tuple[int, int], low: float, high: float
) -> None:
    found = difference_of_shares(one, other)
    assert (found.low, found.high) == pytest.approx((low, high), abs=SAME)
    assert found.value == pytest.approx(one[0] / one[1] - other[0] / other[1])
    back = difference_of_shares(other, one)
    assert (back.low, back.high) == pytest.approx((-high, -low), abs=SAME)


def test_holm_is_that_of_statsmodels() -> None:
    assert holm(P_VALUES) == pytest.approx(HOLM, rel=1e-12)


def test_t_intervals_are_those_of_statsmodels() -> None:
    one, pair = mean_interval(RUNS), mean_interval(np.subtract(RUNS, OTHER))
    assert (one.low, one.high) == pytest.approx((0.048580949168743504, 0.5857047651169707))
    assert t_test_p(RUNS) == pytest.approx(0.027710165285654134, rel=1e-9)
    assert (pair.low, pair.high) == pytest.approx((-0.04728067526765228, 0.22728067526765228))
    gaps = np.subtract(RUNS, OTHER)
    assert t_test_p(gaps) == pytest.approx(0.15979737777634886, rel=1e-9)
    expected = np.asarray(scipy.stats.ttest_rel(RUNS, OTHER))[1]
    assert t_test_p(gaps) == pytest.approx(float(expected), rel=1e-9)


def test_bootstrap_is_that_of_scipy() -> None:
    rng = np.random.default_rng(41)
    items = rng.exponential(1, 199) - rng.exponential(0.7, 199)
    draws = 9973
    found = bootstrap_mean(items, np.random.default_rng(43), draws=draws)
    other = scipy.stats.bootstrap(
        (items,),
        np.mean,
        n_resamples=draws,
        method="percentile",
        rng=np.random.default_rng(47),
    )
    low, high = other.confidence_interval
    # a quantile at 2.5 % of 9,973 draws: standard error √(.025·.975/draws)/density = 0.027 sd
    noise = 4 * math.sqrt(2) * 0.027 * float(other.standard_error)
    assert (found.low, found.high) == pytest.approx((float(low), float(high)), abs=noise)
    assert found.value == pytest.approx(float(items.mean()))
    assert found.n == 199 and found.method.startswith("bootstrap")


def test_a_bootstrap_in_pieces_draws_the_same_items(monkeypatch: pytest.MonkeyPatch) -> None:
    items = np.random.default_rng(53).normal(size=31)
    whole = bootstrap_mean(items, np.random.default_rng(59), draws=997)
    assert AT_ONCE > 31 * 997
    monkeypatch.setattr("attnlab.measure.intervals.AT_ONCE", 31 * 7)
    pieces = bootstrap_mean(items, np.random.default_rng(59), draws=997)
    assert (pieces.low, pieces.high) == (whole.low, whole.high)
