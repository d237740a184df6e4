"""Selecting, averaging, matching: what one query can do with given keys, with proof either way."""

import json
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, ClassVar

from pydantic import model_validator

from attnlab.construct.example import KEYS, SCORES, Matrix
from attnlab.lab.claim import Claim
from attnlab.lab.study import Study, StudySettings, deferred, setting
from attnlab.lab.table import Table
from attnlab.lab.trial import Trial
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.attention_design.gaussian import asymptotic_share, exact_share

GAUSSIAN, SPHERE = "Gaussian", "sphere"
ORDER = ("select", "average", "match", "scores", "replace", "query")  # of the exercise's parts
VALUES: Matrix = tuple(tuple(int(i == j) for i in range(4)) for j in range(4))


class DesignSettings(StudySettings):
    """One exercise with given keys, and keys drawn at random."""

    keys: Matrix = setting("keys of the exercise, one per row, three or more", KEYS)
    values: Matrix = setting("values of the exercise, one per row", VALUES)
    scores: tuple[float, ...] = setting(
        "scores, one per key, that a least-squares query should reach to average keys 0 and 1",
        SCORES,
    )
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

    @model_validator(mode="after")
    def _the_exercise_fits(self) -> "DesignSettings":
        if len(self.keys) < 3:
            raise ValueError("keys must be three or more: two are averaged, the third is replaced")
        if {len(self.values), len(self.scores)} != {len(self.keys)}:
            raise ValueError(f"values and scores must have one entry per key, {len(self.keys)}")
        return self


class AttentionDesign(Study):
    """One exercise with given keys, and laws of random ones."""

    name = "attention-design"
    question = "What can one query make attention do, and how long must it be?"
    source = "Course exercises on attention by hand, one with its keys; hulls of random points"
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
    claims = deferred(".claims:claims")
    figures = deferred(".figures:figures")

    def trials(self) -> Sequence[Trial]:
        """The exercise once; every size, dimension and law with every seed."""
        s, seeds = self.settings, range(self.settings.seeds)
        hulls = {"weight": s.weight, "checked": s.checked}
        norms = {"n": s.norm_keys, "h": s.norm_dim}
        targets = {"n": s.target_keys, "h": s.target_dim, "targets": s.targets}
        return [
            self._trial(
                0, "exercise", keys=s.keys, values=s.values, scores=s.scores, weight=s.weight
            ),
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

    def facts(self, table: Table, claims: Sequence[Claim]) -> Mapping[str, Any]:
        """Measured shares beside the laws, and the price of the max-margin direction."""
        n, h = max(self.settings.sizes), max(self.settings.dims)
        norms = table.where(kind="norms")
        return {
            "exercise": exercise_parts(table),
            "share": share(table, GAUSSIAN, n, h),
            "exact": exact_share(n, h),
            "limit": asymptotic_share(n, h),
            "longer": {
                odds: mean_interval(norms.column(f"longer at {odds}")) for odds in ("0.5", "0.99")
            },
            "squares": mean_interval(table.where(kind="targets").column("log ratio")),
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
