"""What is claimed of the exercise and of random keys; theorems and identities are checks."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from attnlab.construct.example import KEYS, REPORTED_QUERIES
from attnlab.construct.goals import TOLERANCE
from attnlab.lab.claim import Claim, Reported, judge, judge_check, judge_law
from attnlab.lab.table import Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.attention_design.gaussian import asymptotic_share, exact_share, facet_share
from attnlab.studies.attention_design.study import (
    GAUSSIAN,
    SPHERE,
    AttentionDesign,
    DesignSettings,
    share,
)

COURSE = "a course report: q = k_a + k_b"
REPORT = "the course report whose keys these are"
FACETS = "a formula for Gaussian hulls, often quoted without saying that it counts facets"
ROUNDING = 1e-9


def claims(study: AttentionDesign, table: Table) -> list[Claim]:
    """What a query can do, what it costs, and what is proved impossible."""
    s = study.settings
    return [*_exercise(table, s), *_hulls(table, s), *_costs(table, s)]


def computed(values: Sequence[float] | np.ndarray) -> Estimate:
    """The largest of some numbers without sampling error; NaN where there is none."""
    largest = float(max(values, default=math.nan))
    return Estimate(largest, n=1, method="computed, not sampled", exact=True)


def _exercise(table: Table, s: DesignSettings) -> list[Claim]:
    rows = table.where(kind="exercise")
    of_exercise = partial(judge, trials=rows.ids)
    scores = ", ".join(f"{score:g}" for score in s.scores).replace("-", "−")
    found = [  # TOLERANCE: what `attnlab construct` counts as an average
        judge_check(
            "corners-only",
            "The exercise: exactly the corners of the convex hull can be selected",
            abs(rows.column("selected") - rows.column("corners")),
            below=ROUNDING,
            quantity="|selected − corners|",
            trials=rows.ids,
        ),
        of_exercise(
            "least-squares",
            "The exercise: least squares for the logarithms of ½, ½, almost 0 averages two values",
            computed(rows.column("least squares error")),
            below=TOLERANCE,
            quantity="largest error of a weight",
        ),
        of_exercise(
            "hand-picked-scores",
            f"The exercise: least squares for the scores {scores} averages the first two values",
            computed(rows.column("scores error")),
            below=TOLERANCE,
            quantity="largest error of a weight",
        ),
        of_exercise(
            "unit-key",
            "The exercise: with a unit key in place of key 2 that query returns value 2",
            computed(rows.column("unit key weight")),
            above=s.weight - ROUNDING,
            quantity="largest weight of a unit key",
        ),
        of_exercise(
            "together",
            "The exercise: query and unit key chosen together average first, then return value 2",
            computed(rows.column("together weight")),
            above=s.weight - ROUNDING,
            quantity="weight on key 2",
        ),
    ]
    if s.keys == KEYS:
        printed = math.hypot(*REPORTED_QUERIES[0])
        found.append(
            of_exercise(
                "shorter-query",
                f"The exercise: a query shorter than the printed one selects key 0 ({s.weight:g})",
                computed(rows.column("select 0 norm")),
                below=printed,
                quantity="norm of the shortest query",
                reported=Reported(printed, f"{REPORT}: the norm of the query that it prints"),
            )
        )
    return found


def _hulls(table: Table, s: DesignSettings) -> list[Claim]:
    n, low, high = max(s.sizes), min(s.dims), max(s.dims)
    sphere, gaussian = (table.where(kind="selectable", law=law) for law in (SPHERE, GAUSSIAN))
    ratios = [  # for each seed the mean over n and h of the measured share over the exact one
        np.mean([row["share"] / exact_share(row["n"], row["h"]) for row in rows])
        for rows in gaussian.groups("seed").values()
    ]
    return [
        judge_check(
            "sphere",
            "On a sphere every key can be selected",
            1 - sphere.column("share"),
            below=1e-12,
            quantity="share of keys that no query selects",
            trials=sphere.ids,
        ),
        judge(
            "collapse",
            f"Of {n:,} Gaussian keys in {low} dimensions fewer can be selected than on a sphere",
            share(table, GAUSSIAN, n, low),
            below=1.0,
            quantity="share of selectable keys",
            trials=gaussian.where(n=n, h=low).ids,
        ),
        judge_law(
            "exact-law",
            "For Gaussian keys the measured shares agree with the exact law",
            mean_interval(ratios),
            exact=1.0,
            quantity="measured / exact, mean over n and h",
            trials=gaussian.ids,
        ),
        judge(
            "facets",
            "(2^h/√h)(π ln n)^((h−1)/2)/n is the limit of the share of corners",
            computed([asymptotic_share(n, high) / facet_share(n, high)]),
            above=1 - ROUNDING,
            below=1 + ROUNDING,
            quantity=f"limit of the exact law / this formula, h = {high}",
            reported=Reported(1.0, FACETS),
        ),
        judge(
            "late",
            f"At n = {n:,}, h = {high} the exact law still lies below its limit",
            computed([exact_share(n, high) / asymptotic_share(n, high)]),
            below=1.0,
            quantity="exact / limit",
            kind="check",
        ),
    ]


def _costs(table: Table, s: DesignSettings) -> list[Claim]:
    norms, targets, pairs, angles = (
        table.where(kind=kind) for kind in ("norms", "targets", "pair", "subspaces")
    )

    def equals_closed_form(name: str, statement: str, rows: Table, metric: str) -> Claim:
        off = abs(rows.column(metric) / rows.column("closed form") - 1)
        of = {"quantity": "largest relative difference", "trials": rows.ids}
        return judge_check(name, statement, off, below=ROUNDING, **of)

    return [
        judge_check(
            "margin-is-longer",
            "For weight ½ no query along the max-margin direction is shorter than the shortest",
            1 - norms.column("longer at 0.5"),
            below=ROUNDING,
            quantity="largest 1 − its norm / the shortest",
            trials=norms.ids,
        ),
        judge_check(
            "squares-lose",
            "For random targets least squares never has a smaller KL than the best query",
            -targets.column("least gap"),
            below=ROUNDING,
            quantity="largest least KL − KL of least squares",
            trials=targets.ids,
        ),
        judge(
            "no-scale",
            f"Without a scale, q = k_a + k_b leaves at most {100 * s.tolerance:g} % to other keys",
            computed(pairs.column("weight without scale")),
            above=1 - s.tolerance,
            quantity="weight on the pair",
            reported=Reported(1.0, COURSE),
            trials=pairs.ids,
        ),
        equals_closed_form(
            "beta",
            "The scale β that the average needs is ln((n − 2)(1 − tol)/(2 tol))",
            pairs,
            "beta",
        ),
        equals_closed_form(
            "extraction",
            "The matrix that recovers v_a from (v_a + v_b)/2 has norm 2/sin θ",
            angles,
            "matrix norm",
        ),
    ]
