"""Numbers as text: four significant digits, a true minus sign, decimals that fit the interval.

Shared by the report and the terminal; imports nothing that loads slowly.
"""

import math
import re
from collections.abc import Mapping, Sequence

from attnlab.core.plural import counted as counted  # part of this vocabulary
from attnlab.core.plural import shorten

MISSING = "–"
SIGNIFICANT = 4
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_EXPONENT = re.compile(r"(?<![\w.])(-?\d+(?:\.\d+)?)e([+-]?\d{1,3})(?!\w)", re.ASCII)
_HYPHEN_MINUS = re.compile(r"(?<![\w.)\]-])-(?=\.?\d)")  # a sign, not a hyphen: not after a word
_SYMMETRIC = 0.05  # an interval this near to symmetric is written with ±


def number(x: float | int | None) -> str:
    """Write 1.25, −0.003142, 12,346 or 1.2 × 10⁻⁷; integers in full; None and NaN as a dash."""
    if x is None or (isinstance(x, float) and math.isnan(x)):
        return MISSING
    if math.isinf(x):
        return "∞" if x > 0 else "−∞"
    if isinstance(x, int):
        return _minus(f"{x:,}")
    if x == 0:
        return "0"
    rounded = float(f"{x:.{SIGNIFICANT - 1}e}")  # decide the form after rounding: 9999.9 is 10,000
    if abs(rounded) >= 1e7 or abs(rounded) < 1e-4:
        return _scientific(x)
    if abs(rounded) >= 1e4:
        return _minus(f"{x:,.0f}")
    return _minus(f"{x:.{SIGNIFICANT}g}")


def with_interval(effect: float | None, interval: Sequence[float | None] | None) -> str:
    """`1.251 ± 0.012` when symmetric, else `1.25 [1.23, 1.29]`; decimals follow the width."""
    if effect is None or not math.isfinite(effect):
        return MISSING
    low, high = tuple(interval) if interval is not None else (None, None)
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return number(effect)
    half = high / 2 - low / 2  # high - low may overflow
    scale = max(abs(effect), abs(low), abs(high))
    if half <= 1e-12 * scale:  # rounding of the machine, not a width
        return f"{number(effect)} ± {number(float(half))}"
    power = 0 if 1e-3 <= scale < 1e7 else math.floor(math.log10(scale))
    body = _same_decimals(*(_divide_by_power(x, power) for x in (effect, low, high)))
    return body if power == 0 else f"({body}) × 10{_superscript(power)}"


def duration(seconds: float | None) -> str:
    """Write a time as 0.42 s, 4.2 s, 42 s, 3 min 20 s, 2 h 05 min or 3 d 4 h."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return MISSING
    if seconds < 59.5:
        digits = 2 if seconds < 0.995 else 1 if seconds < 9.95 else 0
        return f"{seconds:.{digits}f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    if minutes < 24 * 60:
        return f"{minutes // 60} h {minutes % 60:02d} min"
    hours = round(seconds / 3600)
    return f"{hours // 24} d {hours % 24} h"


def plain(value: object, longest: int = 200) -> str:
    """Any stored value as one line: numbers by `number`, lists with commas, long text cut."""
    if value is None:
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, Mapping):
        text = ", ".join(f"{k} = {plain(v, longest)}" for k, v in value.items())
    elif isinstance(value, list | tuple):
        text = ", ".join(plain(v, longest) for v in value)
    else:
        text = str(value)
    return shorten(text, longest)


def typeset(text: str) -> str:
    """Replace -0.5 and 3e-05 in a sentence by −0.5 and 3 × 10⁻⁵."""
    raised = _EXPONENT.sub(lambda m: f"{m[1]} × 10{_superscript(int(m[2]))}", text)
    return _HYPHEN_MINUS.sub("−", raised)


def _divide_by_power(x: float, power: int) -> float:
    """x / 10^power; in two steps for the smallest floats, because 10.0**-324 is 0."""
    first = max(power, -300)
    return x / 10.0**first / 10.0 ** (power - first)


def _same_decimals(effect: float, low: float, high: float) -> str:
    """Two significant digits of the half width decide the decimals of all the numbers."""
    half = (high - low) / 2
    places = min(max(0, 1 - math.floor(math.log10(half))), 15)
    skew = abs((high - effect) - (effect - low))
    if skew <= _SYMMETRIC * (high - low):
        return f"{_fixed(effect, places)} ± {_fixed(half, places)}"
    return f"{_fixed(effect, places)} [{_fixed(low, places)}, {_fixed(high, places)}]"


def _fixed(x: float, places: int) -> str:
    text = f"{x:,.{places}f}"
    # −0.00 reads as a sign that is not there
    return _minus(text) if float(text.replace(",", "")) != 0 else text.lstrip("-")


def _scientific(x: float) -> str:
    mantissa, exponent = f"{x:.{SIGNIFICANT - 1}e}".split("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{_minus(mantissa)} × 10{_superscript(int(exponent))}"


def _superscript(power: int) -> str:
    return str(power).translate(_SUPERSCRIPT)


def _minus(text: str) -> str:
    return text.replace("-", "−")
