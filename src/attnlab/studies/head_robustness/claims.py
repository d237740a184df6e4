"""What the exercise says, what it leaves out, and whether exact law and simulation agree."""

import math

from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.table import Table
from attnlab.measure.intervals import Estimate, mean_interval, wilson
from attnlab.studies.head_robustness.checks import agreement, quadrature
from attnlab.studies.head_robustness.evidence import Evidence, paired, ratio
from attnlab.studies.head_robustness.plan import BETA, EQUAL, NOISE, SPREAD, VARIES
from attnlab.studies.head_robustness.settings import RobustnessSettings

NEVER = Reported(
    0.0,
    "course exercise, usual answer: two heads return the average",
    note="“never off”; for β ≫ 0 and α → 0",
)
OFF = "share of outputs off the average"


def claims(table: Table, settings: RobustnessSettings) -> list[Claim]:
    """All claims, in the order a reader wants them."""
    e = Evidence(table, settings)
    return [
        _equal_lengths(e),
        _one_head_swings(e),
        _mean_hides(e),
        _less_variance(e),
        _off_less_often(e),
        _not_never(e),
        _negative(e),
        _limit(e),
        _larger_beta(e, "one"),
        _larger_beta(e, "two"),
        _no_beta_saves(e),
        _noise_alone(e),
        *(_exact_agrees(e, arm) for arm in ("one", "two")),
    ]


def audits(table: Table, settings: RobustnessSettings) -> list[Finding]:
    """Runs behind every difference; exact law against draws everywhere; the quadrature's order."""
    decided = {
        c.name: c.runs for c in claims(table, settings) if c.runs and c.verdict != "undecided"
    }
    e = Evidence(table, settings)
    return [seeds_and_interval(decided), agreement(e), quadrature(e)]


def _equal_lengths(e: Evidence) -> Claim:
    rows = e.drawn(EQUAL)
    return judge(
        "equal-lengths",
        f"No length varies (α = {e.settings.alpha:g}): one head averages, off < 1 % of the time",
        _share(rows, "one_off"),
        below=0.01,
        quantity=OFF,
        trials=rows.ids,
    )


def _one_head_swings(e: Evidence) -> Claim:
    rows = e.drawn(VARIES)
    return judge(
        "one-head-swings",
        "The length of k_a varies: one head is off more often than not",
        mean_interval(rows.column("one_off")),
        above=0.5,
        quantity=OFF,
        trials=rows.ids,
    )


def _mean_hides(e: Evidence) -> Claim:
    rows = e.drawn(VARIES)
    return judge(
        "mean-hides-it",
        "Yet its mean output is the average: 1/2 of v_a (±0.01)",
        mean_interval(rows.column("one_mean_a")),
        above=0.49,
        below=0.51,
        quantity="mean weight of a, one head",
        trials=rows.ids,
    )


def _less_variance(e: Evidence) -> Claim:
    rows = e.drawn(VARIES)
    logs = [
        math.log(r["two_variance_a"] / r["one_variance_a"])
        for r in rows
        if r["two_variance_a"] > 0 and r["one_variance_a"] > 0
    ]
    return judge(
        "two-heads-swing-less",
        "Two heads' output varies less along v_a: under a quarter of one head's variance",
        ratio(logs),
        below=0.25,
        quantity="variance, two heads / one",
        trials=rows.ids,
        runs=logs,
    )


def _off_less_often(e: Evidence) -> Claim:
    rows = e.drawn(VARIES)
    runs = [r["two_off"] - r["one_off"] for r in rows]
    return judge(
        "two-heads-off-less",
        "Two heads are off less often than one",
        mean_interval(runs),
        below=0.0,
        quantity="share off, two heads − one",
        trials=rows.ids,
        runs=runs,
    )


def _not_never(e: Evidence) -> Claim:
    rows = e.drawn(VARIES)
    return judge(
        "not-never",
        "Not never: two heads are off more than 5 % of the time",
        mean_interval(rows.column("two_off")),
        above=0.05,
        quantity=OFF,
        reported=NEVER,
        trials=rows.ids,
    )


def _negative(e: Evidence) -> Claim:
    """The score of k_a in head 1 has the wrong sign as often as Φ says."""
    rows, exact = e.drawn(VARIES), e.exact(VARIES, "negative")
    found = mean_interval(rows.column("negative"))
    words = f" = {exact:.4f}" if math.isfinite(exact) else ""
    return judge(
        "negative-score",
        f"k_a·μ_a is negative with probability Φ(−1/σ){words} (±0.005)",
        found if math.isfinite(exact) else _missing(),
        above=exact - 0.005,
        below=exact + 0.005,
        quantity="share of k_a·μ_a < 0",
        trials=rows.ids,
    )


def _limit(e: Evidence) -> Claim:
    """β → ∞ leaves the draws in which head 1 does not find k_a."""
    top, exact = max(e.settings.betas), e.exact(VARIES, "limit")
    rows = e.drawn(BETA, top)
    words = f" {exact:.4f}" if math.isfinite(exact) else ""
    return judge(
        "large-beta-limit",
        f"At β = {top:g} two heads are off as often as hard attention,{words} (±0.015)",
        mean_interval(rows.column("two_off")) if math.isfinite(exact) else _missing(),
        above=exact - 0.015,
        below=exact + 0.015,
        quantity=OFF,
        reported=NEVER,
        trials=rows.ids,
    )


def _larger_beta(e: Evidence, arm: str) -> Claim:
    """From the exercise's β to the largest of the sweep, the same keys."""
    top, own = max(e.settings.betas), e.settings.beta
    runs = paired(e.by_seed(BETA, top, f"{arm}_off"), e.by_seed(VARIES, own, f"{arm}_off"))
    worse = arm == "one"
    verb = "is off more often" if worse else "are off less often"
    return judge(
        f"larger-beta-{arm}",
        f"With β = {top:g} instead of {own:g} {'one head' if worse else 'two heads'} {verb}",
        mean_interval(runs),
        above=0.0 if worse else -math.inf,
        below=math.inf if worse else 0.0,
        quantity=f"change of the share off, {arm}",
        trials=e.drawn(BETA, top).ids,
        runs=runs,
    )


def _no_beta_saves(e: Evidence) -> Claim:
    """Each arrangement at its best β of the sweep, seed by seed: one head may choose by luck."""
    best = {}
    for arm in ("one", "two"):
        by_beta = [e.by_seed(BETA, beta, f"{arm}_square") for beta in e.points(BETA)]
        seeds = set.intersection(*(set(found) for found in by_beta)) if by_beta else set()
        best[arm] = {seed: math.sqrt(min(found[seed] for found in by_beta)) for seed in seeds}
    runs = paired(best["one"], best["two"])
    return judge(
        "no-beta-saves-one-head",
        "Each at its best β, one head's output is further from the average (root mean square)",
        mean_interval(runs),
        above=0.0,
        quantity="distance, one head − two",
        runs=runs,
        trials=e.drawn(BETA).ids,
    )


def _noise_alone(e: Evidence) -> Claim:
    """At the first α where one head is off half the time by the exact law, two are not."""
    alpha = first_swing(e)
    if math.isnan(alpha):
        return judge("noise-alone", "Noise alone swings one head, not two", _missing())
    rows = e.drawn(NOISE, alpha)
    runs = [r["one_off"] - r["two_off"] for r in rows]
    return judge(
        "noise-alone",
        f"Equal lengths but α = {alpha:g}: one head is off more often than two, by 0.4 or more",
        mean_interval(runs),
        above=0.4,
        quantity="share off, one head − two",
        trials=rows.ids,
        runs=runs,
    )


def first_swing(e: Evidence) -> float:
    """The smallest simulated α at which one head is off half the time; NaN where there is none."""
    line = e.line(NOISE)
    return min((a for a in e.points(NOISE) if line.at(a, "one_off") > 0.5), default=math.nan)


def _exact_agrees(e: Evidence, arm: str) -> Claim:
    """Simulation − exact, one mean over the points of both sweeps for every seed."""
    runs: dict[int, list[float]] = {}
    for part in (BETA, SPREAD):
        line = e.line(part)
        for x in e.points(part):
            for seed, found in e.by_seed(part, x, f"{arm}_off").items():
                runs.setdefault(seed, []).append(found - line.at(x, f"{arm}_off"))
    means = [sum(found) / len(found) for _, found in sorted(runs.items())]
    words = "one head" if arm == "one" else "two heads"
    return judge(
        f"exact-agrees-{arm}",
        f"Exact and simulated shares off of {words} agree (±0.005)",
        mean_interval(means),
        above=-0.005,
        below=0.005,
        quantity="simulation − exact",
        trials=e.ids(BETA, SPREAD),
    )


def _share(rows: Table, name: str) -> Estimate:
    """Of all draws together: where none is off, an interval over seeds would have no width."""
    counts = [(round(row[name] * row["draws"]), int(row["draws"])) for row in rows]
    return wilson(sum(k for k, _ in counts), sum(n for _, n in counts))


def _missing() -> Estimate:
    return Estimate(math.nan, method="the exact law was not computed")
