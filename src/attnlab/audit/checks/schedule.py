"""schedule: does the learning rate rise once, then fall to its floor and stay there?

Runs: the rate of every step, before any training. Number: the last rate over the highest. Fails
when the rate rises again after it fell (a cosine that runs past its end re-heats), when it rises
for half of the run or more (a schedule that runs backwards), when the last rate is not the floor
(the stated one, else the lowest after the peak) to within one more step of the descent, when the
stated peak is not reached, or when a rate is negative or not finite.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from attnlab.audit.finding import Finding, NotApplicable, audit

NAME = "schedule"
SAME = 1e-9  # of the peak: a stated figure and a computed one
STILL = 1e-12  # of the peak: thousands of roundings; less in one step is no rise and no fall


@audit(NAME)
def schedule(
    rates: Callable[[int], float] | Sequence[float],
    steps: int | None = None,
    *,
    peak: float | None = None,
    floor: float | None = None,
) -> Finding:
    """Judge a rate for every step: a function of the step, from 0 on, or the rates themselves."""
    if callable(rates):
        if steps is None:
            raise ValueError("a function of the step needs the number of steps")
        values = [float(rates(step)) for step in range(steps)]
    else:
        values = [float(rate) for rate in rates][:steps]
    if len(values) < 2:
        raise NotApplicable("fewer than two steps are no schedule")
    bad = next((i for i, v in enumerate(values) if not (math.isfinite(v) and v >= 0)), None)
    if bad is not None:
        why = f"the rate of step {bad} is {values[bad]}"
        return Finding(NAME, "fail", None, None, why, {"step": bad})
    highest = max(values)
    if highest == 0:
        return Finding(NAME, "fail", 0.0, None, "the rate is 0 in every step", {})
    return _judge(values, highest, peak, floor)


def _judge(values: list[float], highest: float, peak: float | None, floor: float | None) -> Finding:
    top, last = values.index(highest), values[-1]
    again = _reheats(values, highest)
    lowest = min(values[top:]) if floor is None else floor
    last_fall = values[-2] - last  # a rate that reaches its floor only after the last step
    slack = max(0.0, last_fall) + SAME * highest
    share, limit = last / highest, (lowest + slack) / highest
    evidence: dict[str, Any] = {
        "steps": len(values),
        "peak": highest,
        "peak_step": top,
        "last": last,
        "floor": lowest,
        "rises": [list(rise) for rise in again[:5]],
    }
    problem = ""
    if again:
        start, end = again[0]
        problem = (
            f"the rate rises again after step {start}, from {values[start] / highest:.1%} "
            f"to {values[end] / highest:.1%} of its peak at step {end}"
        )
    elif peak is not None and abs(highest - peak) > SAME * peak:
        problem = f"the rate reaches {highest:.4g}, never its peak {peak:.4g}"
    elif top >= len(values) / 2:
        problem = f"the rate rises until step {top} of {len(values)}: most of the run"
    elif abs(last - lowest) > slack:
        problem = f"the rate ends at {share:.1%} of its peak, its floor is {lowest / highest:.1%}"
    why = f"at most one rise, then down to {share:.1%} of the peak in the last step"
    return Finding.judged(NAME, problem, why, share, limit, evidence)


def _reheats(values: list[float], highest: float) -> list[tuple[int, int]]:
    """(first, last step) of every rise that comes after a fall."""
    rises, fallen, start = [], False, None
    for i in range(1, len(values)):
        up = values[i] > values[i - 1] + STILL * highest
        if up and fallen and start is None:
            start = i - 1
        if not up and start is not None:
            rises.append((start, i - 1))
            start = None
        fallen = fallen or values[i] < values[i - 1] - STILL * highest
    return rises if start is None else [*rises, (start, len(values) - 1)]
