"""What the exercise says, what it leaves out, whether exact law and simulation agree."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from attnlab.lab.claim import Claim, Reported, judge, judge_difference, judge_law
from attnlab.measure.intervals import Estimate, exp_estimate, mean_interval
from attnlab.studies.head_robustness.study import (
    ARMS,
    BETA,
    EQUAL,
    NOISE,
    SPREAD,
    VARIES,
    Evidence,
    HeadRobustness,
    paired,
)

NEVER = Reported(
    0.0,
    "course exercise, usual answer: two heads return the average",
    note="“never off”; for β ≫ 0 and α → 0",
)
OFF = "share of outputs off the average"
MISSING = Estimate(math.nan, method="the exact law was not computed")


def claims(study: HeadRobustness, e: Evidence) -> list[Claim]:
    """The exercise's two statements, where they stop, and whether both ways agree."""
    return [*_exercise(e), *_sweeps(e), *(_exact_agrees(e, arm) for arm in ARMS)]


def _exercise(e: Evidence) -> list[Claim]:
    """Equal lengths, then one that varies."""
    tolerance, rows = e.settings.tolerance, e.drawn(VARIES)
    of_part_two = partial(judge, trials=rows.ids)
    logs = [
        math.log(row["two_variance_a"] / row["one_variance_a"])
        for row in rows
        if row["two_variance_a"] > 0 and row["one_variance_a"] > 0
    ]
    negative = e.exact(VARIES, "negative")
    return [
        judge(
            "equal-lengths",
            f"No length varies (α = {e.settings.alpha:g}): one head averages more often than not",
            e.estimate(EQUAL, "one_off"),
            below=0.5,
            quantity=OFF,
            trials=e.drawn(EQUAL).ids,
        ),
        of_part_two(
            "one-head-swings",
            "The length of k_a varies: one head is off more often than not",
            e.estimate(VARIES, "one_off"),
            above=0.5,
            quantity=OFF,
        ),
        of_part_two(
            "mean-hides-it",
            f"The mean of its outputs is not off: within {tolerance:g} of 1/2 of v_a",
            e.estimate(VARIES, "one_mean_a"),
            above=0.5 - tolerance,
            below=0.5 + tolerance,
            quantity="mean weight of a, one head",
        ),
        of_part_two(
            "two-heads-swing-less",
            "Two heads' output varies less along v_a than one head's",
            exp_estimate(mean_interval(logs)),
            below=1.0,
            quantity="variance, two heads / one",
            comparison=True,
        ),
        of_part_two(
            "two-heads-off-less",
            "Two heads are off less often than one",
            mean_interval([row["two_off"] - row["one_off"] for row in rows]),
            below=0.0,
            quantity="share off, two heads − one",
            comparison=True,
        ),
        of_part_two(
            "not-never",
            "Two heads are off in some draws, not never",
            e.estimate(VARIES, "two_off"),
            above=0.0,
            quantity=OFF,
            reported=NEVER,
        ),
        judge_law(
            "negative-score",
            f"k_a·μ_a is negative with probability Φ(−1/σ){_equals(negative)}",
            e.estimate(VARIES, "negative"),
            negative,
            quantity="share of k_a·μ_a < 0",
            trials=rows.ids,
        ),
    ]


def _equals(exact: float) -> str:
    """' = 0.0786'; nothing where it was not computed."""
    return f" = {exact:.4f}" if math.isfinite(exact) else ""


def _sweeps(e: Evidence) -> list[Claim]:
    """Larger β on the same keys; each arrangement at its best β; noise alone."""
    top, usual = max(e.settings.betas), e.settings.beta
    limit, at_top = _equals(e.exact(VARIES, "limit")), e.drawn(BETA, top).ids
    one, two = (
        {seed: distance for seed, (distance, _) in e.best_betas(arm).items()} for arm in ARMS
    )
    changes = {
        arm: paired(e.by_seed(BETA, top, f"{arm}_off"), e.by_seed(VARIES, usual, f"{arm}_off"))
        for arm in ARMS
    }
    return [
        judge(
            "large-beta-limit",
            f"At β = {top:g} two heads are still off in some draws (hard attention{limit})",
            e.estimate(BETA, "two_off", top),
            above=0.0,
            quantity=OFF,
            reported=NEVER,
            trials=at_top,
        ),
        judge_difference(
            "larger-beta-one",
            f"With β = {top:g} instead of {usual:g} one head is off more often",
            changes["one"],
            above=0.0,
            quantity="change of the share off, one",
            trials=at_top,
        ),
        judge_difference(
            "larger-beta-two",
            f"With β = {top:g} instead of {usual:g} two heads are off less often",
            changes["two"],
            below=0.0,
            quantity="change of the share off, two",
            trials=at_top,
        ),
        judge_difference(
            "no-beta-saves-one-head",
            "Each at its best β, one head's output is further from the average (root mean square)",
            paired(one, two),
            above=0.0,
            quantity="distance, one head − two",
            trials=e.drawn(BETA).ids,
        ),
        _noise_alone(e),
    ]


def _noise_alone(e: Evidence) -> Claim:
    """At the first α where one head is off half the time by the exact law, two are not."""
    alpha = first_swing(e)
    if math.isnan(alpha):
        statement = "Noise alone swings one head, not two"
        return judge("noise-alone", statement, MISSING, comparison=True)
    rows = e.drawn(NOISE, alpha)
    return judge_difference(
        "noise-alone",
        f"Equal lengths but α = {alpha:g}: one head is off more often than two",
        [row["one_off"] - row["two_off"] for row in rows],
        above=0.0,
        quantity="share off, one head − two",
        trials=rows.ids,
    )


def first_swing(e: Evidence) -> float:
    """The smallest simulated α at which one head is off half the time; NaN where there is none."""
    line = e.line(NOISE)
    return min((a for a in e.points(NOISE) if line.at(a, "one_off") > 0.5), default=math.nan)


def _exact_agrees(e: Evidence, arm: str) -> Claim:
    """Simulation − exact: for every seed one mean over the points of both sweeps."""
    gaps: dict[int, list[float]] = {}
    for part in (BETA, SPREAD):
        line = e.line(part)
        for x in e.points(part):
            for seed, share in e.by_seed(part, x, f"{arm}_off").items():
                gaps.setdefault(seed, []).append(share - line.at(x, f"{arm}_off"))
    means = [sum(values) / len(values) for _, values in sorted(gaps.items())]
    heads = "one head" if arm == "one" else "two heads"
    return judge_law(
        f"exact-agrees-{arm}",
        f"Exact and simulated shares off of {heads} agree",
        mean_interval(means),
        exact=0.0,
        quantity="simulation − exact",
        trials=e.ids(BETA, SPREAD),
    )


def facts(study: HeadRobustness, e: Evidence, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """Shares off, the exact line at the exercise's β, the best β of each."""
    line, sweep = e.line(VARIES), e.line(BETA)
    if not e.points(VARIES) or not line:
        return {"complete": False}
    alpha, beta, off = first_swing(e), e.settings.beta, e.estimate(VARIES, "two_off")
    best = {arm: int(sweep[f"{arm}_square"].argmin()) for arm in ARMS if sweep}
    return {
        "complete": True,
        "one_off": e.estimate(VARIES, "one_off"),
        "two_off": off,
        "lost_share": 100 * e.estimate(VARIES, "off_and_lost").value / off.value
        if off.value > 0
        else None,
        "negative": e.exact(VARIES, "negative"),
        "limit": e.exact(VARIES, "limit"),
        "exact": lambda name: line.at(beta, name),
        "distance": lambda arm: math.sqrt(line.at(beta, f"{arm}_square")),
        "best": {  # the β of the exact line closest to the average, and that distance
            arm: (float(sweep["x"][i]), math.sqrt(sweep[f"{arm}_square"][i]))
            for arm, i in best.items()
        },
        "alpha": None if math.isnan(alpha) else alpha,
        "noise_size": 2 * beta * math.sqrt(alpha) if alpha > 0 else None,
        "noise_off": {arm: e.estimate(NOISE, f"{arm}_off", alpha) for arm in ARMS},
    }
