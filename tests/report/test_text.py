"""A number on the page is the number in the record, to four digits."""

import math
import re
import subprocess
import sys

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from attnlab.report.text import counted, duration, number, plain, typeset, with_interval

finite = st.floats(allow_nan=False, allow_infinity=False)
_RAISED = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")


def read_back(text: str) -> float:
    mantissa, _, power = text.partition(" × 10")
    value = float(mantissa.strip("()").replace("−", "-").replace(",", ""))
    return value * 10.0 ** int(power.translate(_RAISED)) if power else value


@given(finite)
@example(9999.96)
@example(0.000099999)
@example(-0.0)
def test_number_reads_back_within_half_of_the_fourth_digit(x: float) -> None:
    shown = number(x)
    assert "-" not in shown and "e" not in shown
    if abs(x) < 1e300 and abs(x) > 1e-300:
        assert math.isclose(read_back(shown), x, rel_tol=5.1e-4)
    assert len(shown) <= 16


@given(st.integers(min_value=-(10**15), max_value=10**15))
def test_integers_are_shown_in_full(x: int) -> None:
    assert int(number(x).replace("−", "-").replace(",", "")) == x


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "–"),
        (math.nan, "–"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (0.0, "0"),
        (1.25, "1.25"),
        (-0.0031415926, "−0.003142"),
        (12345.678, "12,346"),
        (20000, "20,000"),
        (1.2e-7, "1.2 × 10⁻⁷"),
        (-3.0e12, "−3 × 10¹²"),
    ],
)
def test_number_examples(value: float | None, shown: str) -> None:
    assert number(value) == shown


@pytest.mark.parametrize(
    ("effect", "interval", "shown"),
    [
        (1.2512, [1.2391, 1.2633], "1.251 ± 0.012"),
        (1.25, [1.23, 1.29], "1.250 [1.230, 1.290]"),
        (0.42, [0.18, 0.70], "0.42 [0.18, 0.70]"),
        (-0.01, [-0.5, 0.48], "−0.01 ± 0.49"),
        (-0.001, [-0.5, 0.498], "0.00 ± 0.50"),
        (1.5, None, "1.5"),
        (1.5, [None, None], "1.5"),
        (None, [1.0, 2.0], "–"),
        (2.0, [2.0, 2.0], "2 ± 0"),
        (-2.13e-5, [-3.01e-5, -1.25e-5], "(−2.13 ± 0.88) × 10⁻⁵"),
        (381.2, [372.5, 391.6], "381.2 [372.5, 391.6]"),
        (25_000.0, [24_000.0, 26_000.0], "25,000 ± 1,000"),
        (5e-324, [5e-324, 1e-323], "(4.9 [4.9, 9.9]) × 10⁻³²⁴"),
        (1.5e-310, [1e-310, 2e-310], "(1.50 ± 0.50) × 10⁻³¹⁰"),
        (0.0, [-1.7e308, 1.7e308], "(0.0 ± 1.7) × 10³⁰⁸"),
    ],
)
def test_interval_examples(
    effect: float | None, interval: list[float | None] | None, shown: str
) -> None:
    assert with_interval(effect, interval) == shown


@given(finite, st.floats(min_value=0, max_value=1e300), st.floats(min_value=0, max_value=1e300))
@example(5e-324, 0.0, 5e-324)
@example(0.0, 1.5e308, 1.5e308)
def test_interval_never_fails_and_never_shows_a_hyphen(x: float, down: float, up: float) -> None:
    shown = with_interval(x, [x - down, x + up])
    assert "-" not in shown and "nan" not in shown and len(shown) < 80


@given(
    st.floats(min_value=-1e5, max_value=1e5),
    st.floats(min_value=1e-3, max_value=1e3),
)
def test_symmetric_interval_keeps_two_digits_of_its_width(x: float, half: float) -> None:
    value, _, width = with_interval(x, [x - half, x + half]).partition(" ± ")
    assert abs(read_back(value) - x) <= 0.06 * half + 0.5e-12 or half >= 100
    assert math.isclose(read_back(width), half, rel_tol=0.06)


@given(st.floats(min_value=0, max_value=1e9))
def test_duration_says_the_time_within_its_last_digit(seconds: float) -> None:
    sizes = {"s": 1, "min": 60, "h": 3600, "d": 86400}
    parts = re.findall(r"([\d.]+) (s|min|h|d)\b", duration(seconds))
    shown = sum(float(n) * sizes[unit] for n, unit in parts)
    finest = {"s": 0.5, "min": 30, "h": 1800}[parts[-1][1]]
    assert abs(shown - seconds) <= finest * 1.001
    assert len(parts) <= 2


def test_duration_examples() -> None:
    seconds = [0.424, 4.24, 42.4, 59.6, 200, 7500, 273_600, math.nan, -1, None]
    shown = "0.42 s|4.2 s|42 s|1 min 00 s|3 min 20 s|2 h 05 min|3 d 4 h|–|–|–"
    assert [duration(s) for s in seconds] == shown.split("|")


def test_typeset_changes_signs_and_powers_only() -> None:
    assert typeset("in [-0.5, -3e-05]") == "in [−0.5, −3 × 10⁻⁵]"
    assert typeset("score-scale of t-3 on 2024-01-02") == "score-scale of t-3 on 2024-01-02"


def test_plain_values() -> None:
    assert plain([1, 2.5, True, None, "x"]) == "1, 2.5, yes, –, x"
    assert plain({"a": 1}) == "a = 1"
    assert len(plain("y" * 1000)) == 200
    assert counted(1, "trial") == "1 trial" and counted(10_000, "trial") == "10,000 trials"


def test_text_is_light_enough_for_the_terminal() -> None:
    code = "import sys, attnlab.report.text; print(*({'matplotlib', 'jinja2'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
