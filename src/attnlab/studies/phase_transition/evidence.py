"""The table condensed: theory at any α, estimates over instances, crossings in α."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval, t_quantile
from attnlab.studies.phase_transition.settings import PhaseSettings

PUBLISHED_AT = {"omega": 0.3, "sigma": 0.5, "ridge": 0.01, "mixing": ((0.6, 0.4), (0.4, 0.6))}
Value = Callable[[Row], float]
Finder = Callable[[np.ndarray, np.ndarray], float]


@dataclass(frozen=True)
class Branch:
    """One theory curve: only its converged points."""

    alpha: np.ndarray
    columns: dict[str, np.ndarray]

    def at(self, alpha: float, name: str) -> float:
        """The quantity at α, linear between neighbouring points; NaN outside them."""
        if self.alpha.size == 0:
            return math.nan
        found = np.interp(alpha, self.alpha, self.columns[name], left=np.nan, right=np.nan)
        return float(found)


@dataclass(frozen=True)
class Evidence:
    """Views of a run's table that claims, figures and the discussion share."""

    table: Table
    settings: PhaseSettings

    def part(self, name: str) -> Table:
        """The trials of one part of the plan."""
        return self.table.where(part=name)

    def theory(self, branch: str, rule: str = "sobol") -> Branch:
        """A branch at the study's ω."""
        rows = self.table.where(kind="curve", branch=branch, rule=rule).rows
        if not rows:
            return Branch(np.array([]), {})
        curves = {name: np.array(values) for name, values in rows[0].curves.items()}
        good = curves["converged"] > 0
        return Branch(curves["alpha"][good], {k: v[good] for k, v in curves.items()})

    @cached_property
    def own_mixing(self) -> list[list[float]]:
        """F of the study, as trials store it."""
        return [list(row) for row in self.settings.mixing]

    def critical(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """ω and the critical α there (finite ones only) for the study's F."""
        rows = self.table.where(kind="critical", rule="sobol", mixing=self.own_mixing)
        pairs = sorted((r["omega"], r[name]) for r in rows if r[name] is not None)
        return np.array([p[0] for p in pairs]), np.array([p[1] for p in pairs])

    def critical_at(self, name: str) -> tuple[Estimate, tuple[str, ...]]:
        """A critical α at the study's ω: the finest rule, with the spread over all rules."""
        rows = self.table.where(kind="critical", omega=self.settings.omega, mixing=self.own_mixing)
        values = {r["rule"]: r[name] for r in rows if r[name] is not None}
        if "sobol" not in values:
            missing = "the theory did not converge here" if len(rows) else "theory was not run here"
            return Estimate(math.nan, method=missing), rows.ids
        found = list(values.values())
        if len(found) < 2:
            return Estimate(values["sobol"], n=1, method="one integration rule only"), rows.ids
        method = f"range over {len(found)} integration rules"
        best = Estimate(values["sobol"], min(found), max(found), len(found), method, exact=True)
        return best, rows.ids

    @property
    def is_published_model(self) -> bool:
        """ω, σ, λ and F are the paper's: only then do its numbers and our check values apply."""
        return all(getattr(self.settings, key) == value for key, value in PUBLISHED_AT.items())

    def open_points(self) -> list["OpenPoint"]:
        """Simulation at the largest D beside theory, at every point of the open questions."""
        found = []
        for (omega, alpha), rows in self.part("open questions").groups("omega", "alpha").items():
            largest = rows.where(dim=max(r["dim"] for r in rows))
            for branch, overlap in (("positional", "m"), ("semantic", "theta")):
                theory = self.table.where(kind="stability", omega=omega, alpha=alpha, branch=branch)
                for row in theory:
                    found.append(OpenPoint(omega, alpha, branch, overlap, row, largest))
        return found


@dataclass(frozen=True)
class OpenPoint:
    """One branch at one (ω, α): the theory's row and the instances at the largest D."""

    omega: float
    alpha: float
    branch: str
    overlap: str
    theory: Row
    instances: Table

    @property
    def separation(self) -> float:
        """Δ*/q of the theory's two replicas; NaN where the theory did not converge."""
        found = self.theory["separation"]
        return math.nan if found is None else float(found)

    @property
    def gap(self) -> Estimate:
        """Overlap of simulation over that of theory, − 1; NaN where theory has none."""
        expected = self.theory[self.overlap]
        if not expected or expected < 0.01:
            return Estimate(math.nan, method="theory has no overlap here")
        return mean_interval(self.instances.column(f"{self.branch}_{self.overlap}") / expected - 1)

    @property
    def returned(self) -> Estimate:
        """Δ/q left after trained students were displaced and descended again."""
        return mean_interval(self.instances.column(f"{self.branch}_returned"))


def gap(row: Row, quantity: str = "train_error") -> float:
    """positional − semantic: above zero the semantic solution is the better one."""
    return row[f"positional_{quantity}"] - row[f"semantic_{quantity}"]


def lower_start(row: Row) -> str:
    """The start that ended in the lower training loss: the one a careful learner would keep."""
    return "semantic" if gap(row) > 0 else "positional"


def chosen(row: Row, quantity: str) -> float:
    """A quantity of the student with the lower training loss."""
    return row[f"{lower_start(row)}_{quantity}"]


def excess(row: Row) -> float:
    """Test error of the lower-loss student − the linear baseline's on the same samples."""
    return chosen(row, "test_error") - row["linear_test_error"]


def over_instances(table: Table, value: Value, *keys: str) -> dict[tuple[float, ...], Estimate]:
    """Mean and t interval of `value` over the instances that agree on `keys`."""
    return {
        key: mean_interval([value(row) for row in rows])
        for key, rows in table.groups(*keys).items()
    }


def crossing(alphas: np.ndarray, values: np.ndarray) -> float:
    """Where values(α) goes from negative to positive for the last time; NaN when it never does."""
    order = np.argsort(alphas)
    a, v = np.asarray(alphas)[order], np.asarray(values)[order]
    good = np.isfinite(v)
    a, v = a[good], v[good]
    ups = [i for i in range(len(a) - 1) if v[i] < 0 <= v[i + 1]]
    if not ups:
        return math.nan
    i = ups[-1]
    return float(a[i] - v[i] * (a[i + 1] - a[i]) / (v[i + 1] - v[i]))


def line_crossing(alphas: np.ndarray, values: np.ndarray) -> float:
    """The zero of a straight line through values(α)."""
    slope, level = np.polyfit(alphas, values, 1)
    return float(-level / slope)


def pooled_crossing(table: Table, value: Value, find: Finder = line_crossing) -> Estimate:
    """Where the mean over instances crosses zero in α, with a jackknife interval.

    Instances without a crossing of their own count too: dropping them would bias the mean.
    """
    seeds = sorted({row.seed for row in table})
    alphas = np.array(sorted({row["alpha"] for row in table}))
    values = np.full((len(seeds), alphas.size), np.nan)
    for row in table:
        values[seeds.index(row.seed), np.searchsorted(alphas, row["alpha"])] = value(row)
    values = values[np.isfinite(values).all(axis=1)]
    n = len(values)
    method = f"crossing of the mean, jackknife t interval over {n} instances, 95 %"
    if n < 2 or alphas.size < 2:
        return Estimate(math.nan, n=n, method="too few instances to fit a line")
    whole = find(alphas, values.mean(axis=0))
    left = np.array([find(alphas, np.delete(values, i, axis=0).mean(axis=0)) for i in range(n)])
    spread = math.sqrt((n - 1) / n * float(((left - left.mean()) ** 2).sum()))
    half = t_quantile(0.975, n - 1) * spread
    return Estimate(whole, whole - half, whole + half, n, method)


def size_crossings(evidence: Evidence) -> dict[int, Estimate]:
    """α_c of simulation at every D of the finite-size scaling."""
    sizes = evidence.part("finite size").groups("dim")
    return {int(key[0]): pooled_crossing(rows, gap) for key, rows in sizes.items()}
