"""Selecting, averaging, matching: what one query can do with given keys, with proof either way."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.attention_design.evidence import GAUSSIAN, SPHERE, Found, first
from attnlab.studies.attention_design.gaussian import (
    asymptotic_share,
    exact_share,
    facet_share,
)
from attnlab.studies.attention_design.settings import FULL, SMOKE, DesignSettings

COURSE = "a course report: q = k_a + k_b"
FACETS = "a formula for Gaussian hulls, often quoted without saying that it counts facets"


class AttentionDesign(Study):
    """One exercise with given keys, and laws of random ones."""

    name = "attention-design"
    question = "What can one query make attention do, and how long must it be?"
    source = "Course exercises on attention by hand; convex hulls of random points"
    extras = ("construct",)
    Settings: ClassVar[type[StudySettings]] = DesignSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"smoke": SMOKE, "full": FULL}
    expected: ClassVar = {
        "smoke": "about 10 seconds on two cores",
        "quick": "about a minute on two cores",
        "full": "about 10 minutes on two cores",
    }
    settings: DesignSettings

    def trials(self) -> Sequence[Trial]:
        """The exercise once; every size, dimension and law with every seed."""
        s = self.settings
        seeds = range(s.seeds)
        given = {"keys": s.keys, "values": s.values, "weight": s.weight}
        hulls = {"weight": s.weight, "checked": s.checked}
        found = [self.trial(0, kind="exercise", part="exercise", **given)]
        found += [
            self.trial(seed, kind="selectable", part="selectable", law=law, n=n, h=h, **hulls)
            for seed in seeds
            for h in s.dims
            for n in s.sizes
            for law in (GAUSSIAN, SPHERE)
            if n > h + 1
        ]
        found += [
            self.trial(seed, kind="norms", part="norms", n=s.norm_keys, h=s.norm_dim)
            for seed in seeds
        ]
        found += [
            self.trial(
                seed,
                kind="targets",
                part="targets",
                n=s.target_keys,
                h=s.target_dim,
                targets=s.targets,
            )
            for seed in seeds
        ]
        found += [
            self.trial(0, kind="pair", part="pairs", n=n, tolerance=s.tolerance) for n in s.pairs
        ]
        return found + [
            self.trial(seed, kind="subspaces", part="subspaces", angle=angle)
            for angle in s.angles
            for seed in range(min(3, s.seeds))
        ]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Draw, solve, certify."""
        from attnlab.studies.attention_design.work import work

        return work(trial)

    def claims(self, table: Table) -> list[Claim]:
        """What a query can do, what it costs, and what is proved impossible."""
        found = Found(table)
        return [*self._exercise(found), *self._hulls(found), *self._costs(found)]

    def _exercise(self, found: Found) -> list[Claim]:
        row = first(found.rows("exercise"))
        ids = [] if row is None else [row.id]
        gap = math.nan if row is None else float(row["selected"]) - float(row["corners"])
        return [
            judge(
                "corners-only",
                "The exercise: exactly the corners of the hull can be selected",
                exact(gap),
                above=-0.5,
                below=0.5,
                quantity="selected − corners",
                trials=ids,
            ),
            judge(
                "least-squares",
                "The exercise: least squares on target scores is no average",
                exact(math.nan if row is None else float(row["least squares tv"])),
                above=0.05,
                quantity="distance of its weights from the target (total variation)",
                trials=ids,
            ),
        ]

    def _hulls(self, found: Found) -> list[Claim]:
        s = self.settings
        n, low, high = max(s.sizes), min(s.dims), max(s.dims)
        sphere, plane = found.rows("selectable", law=SPHERE), found.rows("selectable", law=GAUSSIAN)
        return [
            judge(
                "sphere",
                "On a sphere every key can be selected",
                mean_interval(sphere.column("share")),
                above=1 - 1e-12,
                below=1 + 1e-12,
                quantity="share of selectable keys",
                trials=[r.id for r in sphere],
            ),
            judge(
                "collapse",
                f"Gaussian keys, h = {low}: of {n:,} fewer than 2 % can be selected",
                found.share(GAUSSIAN, n, low),
                below=0.02,
                quantity="share of selectable keys",
                trials=[r.id for r in plane.where(n=n, h=low)],
            ),
            judge(
                "exact-law",
                "Gaussian keys: the measured shares are the exact law's (±3 %)",
                mean_interval(found.over_theory()),
                above=0.97,
                below=1.03,
                quantity="measured / exact, mean over n and h",
                trials=[r.id for r in plane],
            ),
            judge(
                "facets",
                "(2^h/√h)(π ln n)^((h−1)/2)/n is the limit of the share of corners",
                exact(asymptotic_share(n, high) / facet_share(n, high)),
                above=0.99,
                below=1.01,
                quantity=f"limit of the exact law / this formula, h = {high}",
                reported=Reported(1.0, FACETS, comparable=True),
            ),
            judge(
                "late",
                f"At n = {n:,}, h = {high} the exact law is far from its limit (> 20 %)",
                exact(exact_share(n, high) / asymptotic_share(n, high)),
                below=0.8,
                quantity="exact / limit",
            ),
        ]

    def _costs(self, found: Found) -> list[Claim]:
        norms, targets, pairs = (found.rows(kind) for kind in ("norms", "targets", "pair"))
        half = np.log(norms.column("longer at 0.5"))
        shares = pairs.column("weight without scale")
        beta = np.abs(pairs.column("beta") / pairs.column("closed form") - 1)
        angles = found.rows("subspaces")
        extracted = np.abs(angles.column("matrix norm") / angles.column("closed form") - 1)
        return [
            judge(
                "margin-is-longer",
                "Weight ½: the max-margin direction needs a longer query",
                mean_interval(half),
                above=0.0,
                quantity="log(its norm / the shortest)",
                trials=[r.id for r in norms],
                runs=list(half),
            ),
            judge(
                "squares-lose",
                "Random targets: least squares is farther off than need be",
                mean_interval(targets.column("log ratio")),
                above=0.0,
                quantity="log(KL of least squares / least KL)",
                trials=[r.id for r in targets],
                runs=list(targets.column("log ratio")),
            ),
            judge(
                "no-scale",
                "k_a + k_b without a scale is an average among 16 keys or more",
                exact(_largest(pairs, shares, 16)),
                above=0.9,
                quantity="weight on the pair",
                reported=Reported(1.0, COURSE, comparable=True),
                trials=[r.id for r in pairs],
            ),
            judge(
                "beta",
                "The β it takes is ln((n − 2)(1 − tol)/(2 tol))",
                exact(float(beta.max(initial=0.0))),
                below=1e-9,
                quantity="largest relative difference",
                trials=[r.id for r in pairs],
            ),
            judge(
                "extraction",
                "v_a comes out of (v_a + v_b)/2 with norm 2/sin θ",
                exact(float(extracted.max(initial=0.0))),
                below=1e-9,
                quantity="largest relative difference",
                trials=[r.id for r in angles],
            ),
        ]

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Seeds and intervals; the two ways to decide whether a key can be selected agree."""
        claims = self.claims(table)
        decided = {c.name: c.runs for c in claims if c.runs and c.verdict != "undecided"}
        found = Found(table)
        return [seeds_and_interval(decided), *certified(found)]

    def figures(self, table: Table) -> list[Figure]:
        """The exercise in the plane, then the laws."""
        from attnlab.studies.attention_design.figures import figures

        return figures(Found(table), self.settings)

    def answer(self, claims: Sequence[Claim]) -> str:
        """In one sentence."""
        found = {c.name: c for c in claims}
        if found["corners-only"].verdict != "holds":
            return f"Not settled: {found['corners-only'].why}."
        n, h = max(self.settings.sizes), min(self.settings.dims)
        share = found["collapse"].estimate.value
        return (
            "It selects a key exactly if that key is a corner of their convex hull: on a sphere "
            f"each one, of {n:,} Gaussian keys in {h} dimensions {share:.1%}; an average or a copy "
            "is then a matter of the query's length, which is computed, and the rest is proved "
            "impossible."
        )

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """What it means."""
        from attnlab.studies.attention_design.discussion import sections

        return sections(Found(table), {c.name: c for c in claims}, self.settings)


def exact(value: float) -> Estimate:
    """A number without sampling error."""
    return Estimate(value, n=1, method="computed, not sampled", exact=True)


def _largest(pairs: Table, shares: np.ndarray, least: int) -> float:
    """The best weight on the pair among enough keys."""
    chosen = [s for row, s in zip(pairs, shares, strict=True) if row["n"] >= least]
    return max(chosen, default=math.nan)


def certified(found: Found) -> list[Finding]:
    """Two checks of the solver by other means, over every trial."""
    disagree, residual = found.worst("disagree"), found.worst("residual")
    sets = len(found.rows("selectable"))
    agree = "pass" if disagree == 0 else "fail"
    return [
        Finding(
            "hull-agreement",
            agree if sets else "not-applicable",
            disagree,
            0.0,
            f"`select` and the convex hull (qhull) agree on every key asked, in {sets} sets"
            if disagree == 0
            else "`select` and the convex hull (qhull) disagree on a key",
            {"sets": sets},
            () if disagree == 0 else ("corners-only", "collapse", "sphere"),
        ),
        Finding(
            "optimality",
            "pass" if residual < RESIDUAL else "fail",
            residual,
            RESIDUAL,
            "every query meets the conditions of optimality"
            if residual < RESIDUAL
            else "a query does not meet the conditions of optimality",
            {},
            () if residual < RESIDUAL else ("margin-is-longer", "squares-lose"),
        ),
    ]


RESIDUAL = 1e-6  # relative; solvers stop near 1e-12, rounding of the curvature costs the rest
