"""The interval over seeds and items covers as often as it says; items alone are resampled."""

import numpy as np

from attnlab.measure.two_way_interval import item_interval, two_way_interval


def test_both_variances_are_in_the_interval() -> None:
    """Seeds and items drawn anew each time: 95 % intervals cover the mean about as often."""
    rng, inside, times = np.random.default_rng(11), 0, 400
    for _ in range(times):
        seeds, items = rng.normal(0, 0.7, (5, 1)), rng.normal(0, 1.9, (1, 43))
        e = two_way_interval(0.3 + seeds + items + rng.normal(0, 0.5, (5, 43)))
        inside += e.low < 0.3 < e.high
    # 0.95 ± 3 binomial standard errors at 400 draws; the interval may be too long, not too short
    assert inside / times > 0.95 - 3 * (0.95 * 0.05 / times) ** 0.5
    assert two_way_interval(np.ones((3, 7))).half_width == 0
    assert not two_way_interval(np.arange(3.0)[:, None]).has_interval  # one item


def test_few_items_get_a_t_interval_and_many_a_bootstrap() -> None:
    values = np.random.default_rng(7).normal(size=37)
    assert "bootstrap" in item_interval(values, "many").method
    assert "over items" in item_interval(values[:5], "few").method
    assert item_interval(values, "a").low == item_interval(values, "a").low
    assert item_interval(values, "a").low != item_interval(values, "b").low  # seeded by the name
