"""What a run shows, part by part: theory at an α, estimates over instances, crossings in α."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from attnlab.audit.checks.grid_edge import Choice
from attnlab.audit.checks.score_scale import score_scale
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.findings import resting_on
from attnlab.lab.table import Row, Table
from attnlab.measure.crossings import Finder, line_crossing, mean_crossing
from attnlab.measure.intervals import Estimate, mean_interval

if TYPE_CHECKING:
    from attnlab.studies.phase_transition.study import PhaseSettings

PUBLISHED_AT = {"omega": 0.3, "sigma": 0.5, "ridge": 0.01, "mixing": ((0.6, 0.4), (0.4, 0.6))}
OVERLAPS = {"positional": "m", "semantic": "theta"}  # branch -> the overlap that names it
ON_TUNED_RIDGE = {  # start -> claims
    "semantic": ("validated-ridge", "tuned-attention-beats-linear"),
    "positional": ("tuned-attention-beats-linear",),
}
Value = Callable[[Row], float]


@dataclass(frozen=True)
class Branch:
    """One theory curve: only its converged points."""

    alpha: np.ndarray
    columns: dict[str, np.ndarray]

    def at(self, alpha: float, name: str) -> float:
        """The quantity at α, linear between neighbouring points; NaN outside them."""
        if self.alpha.size == 0:
            return math.nan
        return float(np.interp(alpha, self.alpha, self.columns[name], left=np.nan, right=np.nan))


@dataclass(frozen=True)
class OpenPoint:
    """One branch at one (ω, α): the theory's row beside the instances at the largest D."""

    omega: float
    alpha: float
    branch: str
    theory: Row
    instances: Table

    @property
    def label(self) -> str:
        """`ω=0.3, α=1.25`, for figures."""
        return f"ω={self.omega:g}, α={self.alpha:g}"

    @property
    def overlap(self) -> str:
        """The overlap that names the branch: m or theta."""
        return OVERLAPS[self.branch]

    @property
    def separation(self) -> float:
        """Δ*/q of the theory's two replicas; NaN where the theory did not converge."""
        value = self.theory["separation"]
        return math.nan if value is None else float(value)

    @property
    def gap(self) -> Estimate:
        """Overlap of simulation over that of theory, − 1; NaN where theory has none."""
        expected = self.theory[self.overlap]
        if not expected:
            return Estimate(math.nan, method="theory has no overlap here")
        return mean_interval(self.instances.column(f"{self.branch}_{self.overlap}") / expected - 1)

    @property
    def returned(self) -> Estimate:
        """Δ/q left after trained students were displaced and descended again."""
        return mean_interval(self.instances.column(f"{self.branch}_returned"))


@dataclass(frozen=True)
class Evidence:
    """Views of a run's table that claims, figures and the discussion share."""

    table: Table
    settings: "PhaseSettings"

    @property
    def is_published_model(self) -> bool:
        """ω, σ, λ and F are the paper's: only then do its numbers and our check values apply."""
        return all(getattr(self.settings, key) == value for key, value in PUBLISHED_AT.items())

    def part(self, name: str) -> Table:
        """The trials of one part of the plan."""
        return self.table.where(part=name)

    def theory(self, branch: str) -> Branch:
        """A branch at the study's ω, by the finest integration rule."""
        rows = self.table.where(kind="curve", branch=branch, rule="sobol").rows
        if not rows:
            return Branch(np.array([]), {})
        curves = {name: np.array(values) for name, values in rows[0].curves.items()}
        good = curves["converged"] > 0
        return Branch(curves["alpha"][good], {k: v[good] for k, v in curves.items()})

    @cached_property
    def linear_test_error(self) -> float:
        """Test error of the linear baseline for D → ∞; NaN without a theory curve."""
        rows = self.table.where(kind="curve").rows
        return float(rows[0]["linear_test_error"]) if rows else math.nan

    def critical_trials(self, **values: object) -> Table:
        """The critical points for the study's F."""
        mixing = [list(row) for row in self.settings.mixing]
        return self.table.where(kind="critical", mixing=mixing, **values)

    def critical_line(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """ω, and the critical α there where it is finite."""
        rows = self.critical_trials(rule="sobol")
        pairs = sorted((r["omega"], r[name]) for r in rows if r[name] is not None)
        return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])

    def critical_at(self, name: str) -> Estimate:
        """A critical α at the study's ω: the finest rule, with the range over all rules."""
        rows = self.critical_trials(omega=self.settings.omega)
        values = {r["rule"]: r[name] for r in rows if r[name] is not None}
        if "sobol" not in values:
            missing = "the theory did not converge here" if len(rows) else "theory was not run here"
            return Estimate(math.nan, method=missing)
        best, n = values["sobol"], len(values)
        if n < 2:
            return Estimate(best, n=1, method="one integration rule only")
        method = f"range over {n} integration rules"
        return Estimate(best, min(values.values()), max(values.values()), n, method, exact=True)

    @cached_property
    def open_points(self) -> list[OpenPoint]:
        """Both branches at every point of the open questions that theory and simulation have."""
        points = []
        for (omega, alpha), rows in self.part("open questions").groups("omega", "alpha").items():
            largest = rows.where(dim=max(r["dim"] for r in rows))
            for branch in OVERLAPS:
                theory = self.table.where(kind="stability", omega=omega, alpha=alpha, branch=branch)
                points += [OpenPoint(omega, alpha, branch, row, largest) for row in theory]
        return points

    @cached_property
    def measured_points(self) -> list[OpenPoint]:
        """Those of the open points at which theory and simulation both have a number."""
        return [p for p in self.open_points if math.isfinite(p.gap.value + p.separation)]

    @cached_property
    def size_crossings(self) -> dict[int, Estimate]:
        """α_c of simulation at every D of the finite-size scaling."""
        sizes = self.part("finite size").groups("dim")
        return {int(key[0]): pooled_crossing(rows, gap) for key, rows in sizes.items()}

    def by_ridge(self, rows: Table, name: str) -> dict[float, Estimate]:
        """A curve of the ridge search at every λ that all of these instances tried."""
        curves = [dict(zip(r.curves["ridge"], r.curves[name], strict=True)) for r in rows]
        shared = sorted(set.intersection(*map(set, curves))) if curves else []
        return {ridge: mean_interval([curve[ridge] for curve in curves]) for ridge in shared}

    def ridge_choices(self, claims: Sequence[Claim]) -> list[Choice]:
        """For the audit `grid-edge`: the λ that folds chose for every instance, both starts."""
        return [
            Choice(
                f"{self.settings.folds}-fold cross-validation ({start}, α = {row['alpha']:g})",
                "ridges",
                float(row[f"{start}_ridge_cv"]),
                tuple(row.curves["ridge"]),
                resting_on([c for c in claims if c.name in ON_TUNED_RIDGE[start]], [row.id]),
            )
            for start in OVERLAPS
            for row in self.part("ridge")
        ]

    def score_scale(self, scaling: str) -> Finding:
        """The audit of score sizes on one arm of the scaling experiment."""
        rows = self.part("scaling").where(scaling=scaling)
        variances, weights = (rows.column(name) for name in ("score_variance", "largest_weight"))
        return score_scale([int(r["dim"]) for r in rows], list(variances), list(weights))


def gap(row: Row, quantity: str = "train_error") -> float:
    """positional − semantic: above zero the semantic solution is the better one."""
    return row[f"positional_{quantity}"] - row[f"semantic_{quantity}"]


def chosen(row: Row, quantity: str) -> float:
    """A quantity of the student with the lower training loss, which a careful learner keeps."""
    start = "semantic" if gap(row) > 0 else "positional"
    return row[f"{start}_{quantity}"]


def excess(row: Row) -> float:
    """Test error of the lower-loss student − the linear baseline's on the same samples."""
    return chosen(row, "test_error") - row["linear_test_error"]


def over_instances(table: Table, value: Value, key: str) -> dict[float, Estimate]:
    """Mean and t interval of `value` over the instances that agree on `key`."""
    return {
        group[0]: mean_interval([value(row) for row in rows])
        for group, rows in table.groups(key).items()
    }


def pooled_crossing(table: Table, value: Value, find: Finder = line_crossing) -> Estimate:
    """Where the mean of `value` over instances crosses zero in α."""
    seeds = sorted({row.seed for row in table})
    alphas = np.array(sorted({row["alpha"] for row in table}))
    values = np.full((len(seeds), alphas.size), np.nan)
    for row in table:
        values[seeds.index(row.seed), np.searchsorted(alphas, row["alpha"])] = value(row)
    return mean_crossing(alphas, values, find)
