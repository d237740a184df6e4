"""What the exercise says, what it leaves out, and whether exact law and simulation agree."""

import math
from typing import Any

from attnlab.lab.claim import Claim, Reported, judge, judge_difference, judge_law
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.measure.ratios import exp_estimate
from attnlab.studies.head_robustness.evidence import Evidence, paired
from attnlab.studies.head_robustness.plan import BETA, EQUAL, NOISE, SPREAD, VARIES
from attnlab.studies.head_robustness.study import HeadRobustness

NEVER = Reported(
    0.0,
    "course exercise, usual answer: two heads return the average",
    note="“never off”; for β ≫ 0 and α → 0",
)
OFF = "share of outputs off the average"
MISSING = Estimate(math.nan, method="the exact law was not computed")


def claims(study: HeadRobustness, e: Evidence) -> list[Claim]:
    """The exercise's two statements, where they stop, and whether both ways agree."""
    s, rows = e.settings, e.drawn(VARIES)
    logs = [
        math.log(row["two_variance_a"] / row["one_variance_a"])
        for row in rows
        if row["two_variance_a"] > 0 and row["one_variance_a"] > 0
    ]

    def of_part_two(name: str, statement: str, estimate: Estimate, **rest: Any) -> Claim:
        return judge(name, statement, estimate, trials=rows.ids, **{"quantity": OFF, **rest})

    return [
        judge(
            "equal-lengths",
            f"No length varies (α = {s.alpha:g}): one head averages more often than not",
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
        ),
        of_part_two(
            "mean-hides-it",
            f"Yet its mean output is not off: within {s.tolerance:g} of 1/2 of v_a",
            e.estimate(VARIES, "one_mean_a"),
            above=0.5 - s.tolerance,
            below=0.5 + s.tolerance,
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
        judge_difference(
            "two-heads-off-less",
            "Two heads are off less often than one",
            [row["two_off"] - row["one_off"] for row in rows],
            below=0.0,
            quantity="share off, two heads − one",
            trials=rows.ids,
        ),
        of_part_two(
            "not-never",
            "Not never: two heads are off in some draws",
            e.estimate(VARIES, "two_off"),
            above=0.0,
            reported=NEVER,
        ),
        _negative_score(e),
        _large_beta_limit(e),
        _larger_beta(e, "one"),
        _larger_beta(e, "two"),
        _no_beta_saves(e),
        _noise_alone(e),
        *(_exact_agrees(e, arm) for arm in ("one", "two")),
    ]


def _negative_score(e: Evidence) -> Claim:
    """The score of k_a in head 1 has the wrong sign as often as the normal law says."""
    exact = e.exact(VARIES, "negative")
    return judge_law(
        "negative-score",
        f"k_a·μ_a is negative with probability Φ(−1/σ){_equals(exact)}",
        e.estimate(VARIES, "negative"),
        exact,
        quantity="share of k_a·μ_a < 0",
        trials=e.drawn(VARIES).ids,
    )


def _large_beta_limit(e: Evidence) -> Claim:
    """β → ∞ leaves the draws in which head 1 does not find k_a."""
    top, exact = max(e.settings.betas), e.exact(VARIES, "limit")
    return judge(
        "large-beta-limit",
        f"At β = {top:g} two heads are still off in some draws (hard attention{_equals(exact)})",
        e.estimate(BETA, "two_off", top),
        above=0.0,
        quantity=OFF,
        reported=NEVER,
        trials=e.drawn(BETA, top).ids,
    )


def _equals(exact: float) -> str:
    """' = 0.0786'; nothing where it was not computed."""
    return f" = {exact:.4f}" if math.isfinite(exact) else ""


def _larger_beta(e: Evidence, arm: str) -> Claim:
    """From the exercise's β to the largest of the sweep, on the same keys."""
    top, usual = max(e.settings.betas), e.settings.beta
    one = arm == "one"
    heads = "one head is off more often" if one else "two heads are off less often"
    return judge_difference(
        f"larger-beta-{arm}",
        f"With β = {top:g} instead of {usual:g} {heads}",
        paired(e.by_seed(BETA, top, f"{arm}_off"), e.by_seed(VARIES, usual, f"{arm}_off")),
        **{"above" if one else "below": 0.0},
        quantity=f"change of the share off, {arm}",
        trials=e.drawn(BETA, top).ids,
    )


def _no_beta_saves(e: Evidence) -> Claim:
    """Each arrangement at its best β of the sweep, seed by seed: one head may choose by luck."""
    one, two = (
        {seed: distance for seed, (distance, _) in e.best_betas(arm).items()}
        for arm in ("one", "two")
    )
    return judge_difference(
        "no-beta-saves-one-head",
        "Each at its best β, one head's output is further from the average (root mean square)",
        paired(one, two),
        above=0.0,
        quantity="distance, one head − two",
        trials=e.drawn(BETA).ids,
    )


def _noise_alone(e: Evidence) -> Claim:
    """At the first α where one head is off half the time by the exact law, two are not."""
    alpha = first_swing(e)
    if math.isnan(alpha):
        statement = "Noise alone swings one head, not two"
        return judge("noise-alone", statement, MISSING, comparison=True)
    rows = e.drawn(NOISE, alpha)
    runs = [row["one_off"] - row["two_off"] for row in rows]
    return judge(
        "noise-alone",
        f"Equal lengths but α = {alpha:g}: one head is off more often than two",
        mean_interval(runs),
        above=0.0,
        quantity="share off, one head − two",
        trials=rows.ids,
        comparison=True,
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
