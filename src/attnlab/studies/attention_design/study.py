"""Selecting, averaging, matching: what one query can do with given keys, with proof either way."""

import json
import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

import numpy as np

from attnlab.lab.claim import Claim, Reported, judge, judge_difference
from attnlab.lab.study import Study, StudySettings, deferred, setting
from attnlab.lab.table import Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.attention_design.gaussian import asymptotic_share, exact_share, facet_share

COURSE = "a course report: q = k_a + k_b"
FACETS = "a formula for Gaussian hulls, often quoted without saying that it counts facets"
GAUSSIAN, SPHERE = "Gaussian", "sphere"
ORDER = ("select", "average", "match", "replace", "query")  # of the exercise's parts
Matrix = tuple[tuple[float, ...], ...]
# Four corners and one key inside them, in the plane, so that everything can be drawn.
KEYS: Matrix = ((1.6, 0.2), (0.3, 1.5), (-1.5, 0.6), (-0.4, -1.4), (0.1, 0.3))
VALUES: Matrix = tuple(tuple(int(i == j) for i in range(5)) for j in range(5))


class DesignSettings(StudySettings):
    """One exercise with given keys, and keys drawn at random."""

    keys: Matrix = setting("keys of the exercise, one per row; drawn if two-dimensional", KEYS)
    values: Matrix = setting("values of the exercise, one per row", VALUES)
    weight: float = setting("attention weight that counts as selecting a key", 0.99, gt=0.5, lt=1)
    seeds: int = setting("independent sets of random keys", 8, smoke=3, full=16, ge=1)
    dims: tuple[int, ...] = setting(
        "dimensions h of the random keys", (2, 3, 5), smoke=(2, 3), full=(2, 3, 4, 5)
    )
    sizes: tuple[int, ...] = setting(
        "numbers n of random keys",
        (8, 32, 128, 512, 2048),
        smoke=(8, 32, 128),
        full=(8, 32, 128, 512, 2048, 8192, 32768),
    )
    checked: int = setting(
        "keys per set for which `select` is compared with the hull", 3, smoke=1, ge=0
    )
    norm_keys: int = setting("keys when norms are measured", 256, smoke=12, full=1024, ge=2)
    norm_dim: int = setting("dimension of these keys", 16, smoke=8, full=64, ge=2)
    target_keys: int = setting("keys when targets are random", 12, ge=3)
    target_dim: int = setting("dimension of these keys", 5, ge=1)
    targets: int = setting("random targets per set of keys", 10, smoke=2, full=50, ge=1)
    pairs: tuple[int, ...] = setting(
        "numbers of orthonormal keys of which two are averaged",
        (4, 8, 16, 32, 64, 128, 256, 512),
        smoke=(4, 16, 64),
        full=(4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048),
    )
    tolerance: float = setting("weight that an average may leave to other keys", 0.01, gt=0, lt=1)
    angles: tuple[float, ...] = setting(
        "least angles between two subspaces, in degrees",
        (5.0, 10.0, 20.0, 30.0, 45.0, 60.0, 90.0),
        smoke=(10, 30, 90),
    )


class AttentionDesign(Study):
    """One exercise with given keys, and laws of random ones."""

    name = "attention-design"
    question = "What can one query make attention do, and how long must it be?"
    source = "Course exercises on attention by hand; convex hulls of random points"
    extras = ("construct",)
    Settings: ClassVar[type[StudySettings]] = DesignSettings
    settings: DesignSettings
    expected: ClassVar = {
        "smoke": "about 10 seconds on two cores",
        "quick": "about a minute on two cores",
        "full": "about 10 minutes on two cores",
    }
    template = "report.md"

    run = deferred(".trial:run")
    figures = deferred(".figures:figures")

    def trials(self) -> Sequence[Trial]:
        """The exercise once; every size, dimension and law with every seed."""
        s, seeds = self.settings, range(self.settings.seeds)
        hulls = {"weight": s.weight, "checked": s.checked}
        norms = {"n": s.norm_keys, "h": s.norm_dim}
        targets = {"n": s.target_keys, "h": s.target_dim, "targets": s.targets}
        return [
            self._trial(0, "exercise", keys=s.keys, values=s.values, weight=s.weight),
            *(
                self._trial(seed, "selectable", law=law, n=n, h=h, **hulls)
                for seed, h, n, law in product(seeds, s.dims, s.sizes, (GAUSSIAN, SPHERE))
                if n > h + 1
            ),
            *(self._trial(seed, "norms", **norms) for seed in seeds),
            *(self._trial(seed, "targets", **targets) for seed in seeds),
            *(self._trial(0, "pair", n=n, tolerance=s.tolerance) for n in s.pairs),
            *(
                self._trial(seed, "subspaces", angle=angle)
                for angle, seed in product(s.angles, seeds[:3])
            ),
        ]

    def _trial(self, seed: int, kind: str, **config: Any) -> Trial:
        part = "pairs" if kind == "pair" else kind
        return self.trial(seed, kind=kind, part=part, **config)

    def claims(self, table: Table) -> Sequence[Claim]:
        """What a query can do, what it costs, and what is proved impossible."""
        return [*_exercise(table), *_hulls(table, self.settings), *_costs(table)]

    def facts(self, table: Table, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """Measured shares beside the laws, and the price of the max-margin direction."""
        n, high = max(self.settings.sizes), max(self.settings.dims)
        half = next(c for c in claims if c.name == "margin-is-longer").estimate.value
        return {
            "exercise": exercise_parts(table),
            "n": n,
            "low": min(self.settings.dims),
            "high": high,
            "share": share(table, GAUSSIAN, n, high),
            "exact": exact_share(n, high),
            "limit": asymptotic_share(n, high),
            "longer_for_half": math.exp(half),
            "longer_for_most": mean_interval(
                table.where(kind="norms").column("longer at 0.99")
            ).value,
        }


def share(table: Table, law: str, n: int, h: int) -> Estimate:
    """Share of selectable keys over independent sets."""
    rows = table.where(kind="selectable", law=law, n=n, h=h)
    return mean_interval(rows.column("share")).clip()


def exercise_parts(table: Table) -> dict[str, dict[str, Any]]:
    """Every part of the exercise, as the command `attnlab construct` answers it in JSON."""
    for row in table.where(kind="exercise"):
        parts = {name.removesuffix(".json"): json.loads(t) for name, t in row.documents.items()}
        return dict(sorted(parts.items(), key=lambda p: (ORDER.index(p[0].split()[0]), p[0])))
    return {}


def computed(values: Sequence[float] | np.ndarray) -> Estimate:
    """The largest of some numbers without sampling error; NaN where there is none."""
    largest = float(max(values, default=math.nan))
    return Estimate(largest, n=1, method="computed, not sampled", exact=True)


def _exercise(table: Table) -> list[Claim]:
    rows = table.where(kind="exercise")
    return [
        judge(
            "corners-only",
            "The exercise: exactly the corners of the convex hull can be selected",
            computed(rows.column("selected") - rows.column("corners")),
            above=-0.5,
            below=0.5,
            quantity="selected − corners",
            trials=rows.ids,
        ),
        judge(
            "least-squares",
            "The exercise: least squares on target scores does not give the average",
            computed(rows.column("least squares tv")),
            above=0.05,
            quantity="distance of its weights from the target (total variation)",
            trials=rows.ids,
        ),
    ]


def _hulls(table: Table, s: DesignSettings) -> list[Claim]:
    n, low, high = max(s.sizes), min(s.dims), max(s.dims)
    sphere, gaussian = (table.where(kind="selectable", law=law) for law in (SPHERE, GAUSSIAN))
    ratios = [  # for each seed the mean over n and h of the measured share over the exact one
        float(
            np.mean([r["share"] / exact_share(r["n"], r["h"]) for r in gaussian if r.seed == seed])
        )
        for seed in sorted({row.seed for row in gaussian})
    ]
    return [
        judge(
            "sphere",
            "On a sphere every key can be selected",
            computed(1 - sphere.column("share")),
            below=1e-12,
            quantity="largest share of keys that cannot be selected",
            trials=sphere.ids,
        ),
        judge(
            "collapse",
            f"Of {n:,} Gaussian keys in {low} dimensions fewer than 2 % can be selected",
            share(table, GAUSSIAN, n, low),
            below=0.02,
            quantity="share of selectable keys",
            trials=gaussian.where(n=n, h=low).ids,
        ),
        judge(
            "exact-law",
            "For Gaussian keys the measured shares agree with the exact law to 3 %",
            mean_interval(ratios),
            above=0.97,
            below=1.03,
            quantity="measured / exact, mean over n and h",
            trials=gaussian.ids,
        ),
        judge(
            "facets",
            "(2^h/√h)(π ln n)^((h−1)/2)/n is the limit of the share of corners",
            computed([asymptotic_share(n, high) / facet_share(n, high)]),
            above=0.99,
            below=1.01,
            quantity=f"limit of the exact law / this formula, h = {high}",
            reported=Reported(1.0, FACETS),
        ),
        judge(
            "late",
            f"At n = {n:,}, h = {high} the exact law is still more than 20 % below its limit",
            computed([exact_share(n, high) / asymptotic_share(n, high)]),
            below=0.8,
            quantity="exact / limit",
        ),
    ]


def _costs(table: Table) -> list[Claim]:
    norms, targets, pairs, angles = (
        table.where(kind=kind) for kind in ("norms", "targets", "pair", "subspaces")
    )
    return [
        judge_difference(
            "margin-is-longer",
            "For weight ½ a query along the max-margin direction is longer than the shortest",
            list(np.log(norms.column("longer at 0.5"))),
            above=0.0,
            quantity="log(its norm / the shortest)",
            trials=norms.ids,
        ),
        judge_difference(
            "squares-lose",
            "For random targets least squares has a larger KL divergence than the best query",
            list(targets.column("log ratio")),
            above=0.0,
            quantity="log(KL of least squares / least KL)",
            trials=targets.ids,
        ),
        judge(
            "no-scale",
            "Without a scale, q = k_a + k_b averages these two among 16 keys or more",
            computed([row["weight without scale"] for row in pairs if row["n"] >= 16]),
            above=0.9,
            quantity="weight on the pair",
            reported=Reported(1.0, COURSE),
            trials=pairs.ids,
        ),
        judge(
            "beta",
            "The scale β that the average needs is ln((n − 2)(1 − tol)/(2 tol))",
            _deviation(pairs, "beta"),
            below=1e-9,
            quantity="largest relative difference",
            trials=pairs.ids,
        ),
        judge(
            "extraction",
            "The matrix that recovers v_a from (v_a + v_b)/2 has norm 2/sin θ",
            _deviation(angles, "matrix norm"),
            below=1e-9,
            quantity="largest relative difference",
            trials=angles.ids,
        ),
    ]


def _deviation(rows: Table, metric: str) -> Estimate:
    """The largest relative difference from the closed form."""
    return computed(np.abs(rows.column(metric) / rows.column("closed form") - 1))
