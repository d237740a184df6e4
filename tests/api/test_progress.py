"""Progress lines: a pace that says something however slow the trials are."""

from attnlab.api.progress import pace


def test_a_pace_is_a_rate_of_fast_trials_and_a_time_of_slow_ones() -> None:
    assert pace(3.14) == "3.1/s" and pace(1.0) == "1.0/s"
    assert pace(1 / 14) == "14 s each" and pace(1 / 200) == "3 min 20 s each"
