"""The table condensed: theory at any α, estimates over instances, crossings in α."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.phase_transition.settings import PhaseSettings

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
        method = f"range over {len(values)} integration rules"
        if "sobol" not in values:
            return Estimate(math.nan, method="the theory did not converge here"), rows.ids
        found = list(values.values())
        best = Estimate(values["sobol"], min(found), max(found), len(found), method, exact=True)
        return best, rows.ids


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


def fitted_crossing(alphas: np.ndarray, values: np.ndarray) -> float:
    """The zero of a straight line through values(α), when it lies within 20 % of the range."""
    good = np.isfinite(values)
    if good.sum() < 2:
        return math.nan
    slope, level = np.polyfit(alphas[good], values[good], 1)
    zero = -level / slope if slope > 0 else math.nan
    reach = 0.2 * (alphas.max() - alphas.min())
    inside = alphas.min() - reach <= zero <= alphas.max() + reach
    return float(zero) if inside else math.nan


def crossings_by_instance(
    table: Table, value: Value, find: Finder = fitted_crossing
) -> list[float]:
    """One crossing an instance: the same seed is the same teacher at every α."""
    found = []
    for rows in _by_seed(table).values():
        alphas, values = rows.column("alpha"), np.array([value(r) for r in rows])
        found.append(find(alphas, values))
    return [v for v in found if math.isfinite(v)]


def _by_seed(table: Table) -> dict[int, Table]:
    seeds = sorted({row.seed for row in table})
    return {seed: Table([r for r in table if r.seed == seed]) for seed in seeds}


def size_crossings(evidence: Evidence) -> dict[int, Estimate]:
    """α_c of simulation at every D of the finite-size scaling."""
    sizes = evidence.part("finite size").groups("dim")
    return {
        int(key[0]): mean_interval(crossings_by_instance(rows, gap)) for key, rows in sizes.items()
    }
