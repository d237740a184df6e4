"""The trials, part by part: draws at every point with every seed, and the exact law beside them.

equal lengths       every key N(μ_i, αI): part one of the exercise
one length varies   key a has αI + spread·μ_a μ_aᵀ: part two
beta, spread        part two again, with that number varied
noise               part one again, with α varied
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlab.lab.trial import Trial

if TYPE_CHECKING:
    from attnlab.studies.head_robustness.study import RobustnessSettings

Make = Callable[..., Trial]
EQUAL, VARIES, BETA, SPREAD, NOISE = "equal lengths", "one length varies", "beta", "spread", "noise"
SWEPT = {EQUAL: "beta", VARIES: "beta", BETA: "beta", SPREAD: "spread", NOISE: "alpha"}
POINT = ("keys", "dims", "alpha", "spread", "beta", "tolerance")


def points(s: "RobustnessSettings", part: str) -> list[float]:
    """The values of the number this part varies."""
    grids = {BETA: s.betas, SPREAD: s.spreads, NOISE: s.alphas}
    return sorted(grids.get(part, (s.beta,)))


def plan(s: "RobustnessSettings", make: Make) -> list[Trial]:
    """Every trial: the exact lines first, they take longest."""
    exact = [
        make(0, kind="exact", part=part, x=line(points(s, part), s.line_points), **base(s, part))
        for part in SWEPT
    ]
    shown = {EQUAL: s.shown, VARIES: s.shown}
    return exact + [
        make(
            seed,
            kind="draws",
            part=part,
            draws=s.draws,
            shown=shown.get(part, 0) if seed == 0 else 0,
            **{**base(s, part), SWEPT[part]: value},
        )
        for part in SWEPT
        for value in points(s, part)
        for seed in range(s.seeds)
    ]


def base(s: "RobustnessSettings", part: str) -> dict[str, Any]:
    """The configuration of a part, before the number it varies is put in."""
    point = {key: getattr(s, key) for key in POINT}
    return {**point, "spread": 0.0} if part in (EQUAL, NOISE) else point


def line(values: Sequence[float], between: int) -> list[float]:
    """The values themselves, and this many more spaced evenly in the logarithm over their range."""
    low, high = min(values), max(values)
    more = np.geomspace(low, high, between + 2)[1:-1] if high > low else []
    return sorted({*values, *(float(f"{x:.6g}") for x in more)})
