"""small-sample: are there enough test items for the difference that is claimed?

Runs: the Wilson interval of every accuracy. Number: the widest half-width; threshold: the effect
claimed. Fails when a half-width is larger than the effect: the next draw of test items could have
shown the opposite.
"""

import math
from collections.abc import Mapping

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.core.plural import counted
from attnlab.measure.intervals import wilson

NAME = "small-sample"
Z2 = 1.959963984540054**2  # of 95 %


@audit(NAME)
def small_sample(counts: Mapping[str, tuple[int, int]], effect: float) -> Finding:
    """Judge accuracies, (right, items) each, against the size of the effect claimed from them."""
    if not counts or not abs(effect) > 0:
        raise NotApplicable("no accuracy was given" if not counts else "no effect is claimed")
    claimed, empty = abs(effect), [name for name, (_, n) in counts.items() if n == 0]
    given = {"counts": {name: list(pair) for name, pair in counts.items()}}
    if empty:
        why = f"{empty[0]!r} was scored on no item"
        return Finding(NAME, "fail", math.inf, claimed, why, given)
    intervals = {name: wilson(*pair) for name, pair in counts.items()}
    widest = max(intervals, key=lambda name: intervals[name].half_width)
    half, e = intervals[widest].half_width, intervals[widest]
    needed = items_needed(e.value, claimed)
    evidence = {
        "intervals": {name: [x.low, x.high] for name, x in intervals.items()},
        **given,
        "items_needed": needed,
    }
    share = f"{widest!r}, {e.value:.1%} of {counted(e.n, 'item')},"
    spread, gap = f"± {100 * half:.1f} points", f"{100 * claimed:.1f} points"
    if half > claimed:
        why = (
            f"the accuracy of {share} is known only to {spread}, more than the effect of {gap}; "
            f"about {counted(needed, 'item')} would be enough"
        )
        return Finding(NAME, "fail", half, claimed, why, evidence)
    why = f"the least certain accuracy, {share} is known to {spread}; the effect is {gap}"
    return Finding(NAME, "pass", half, claimed, why, evidence)


def items_needed(share: float, half_width: float) -> int:
    """Smallest n whose Wilson half-width at this share is at most `half_width` (95 %).

    z√(p(1−p)/n + z²/4n²) / (1 + z²/n) = h is quadratic in n: h²n² + (2h² − p(1−p))z²n + …
    """
    h2, pq = half_width**2, share * (1 - share)
    a, b, c = h2, (2 * h2 - pq) * Z2, (h2 - 0.25) * Z2 * Z2
    root = (-b + math.sqrt(max(b * b - 4 * a * c, 0.0))) / (2 * a)
    return max(1, math.ceil(root - 1e-9))
