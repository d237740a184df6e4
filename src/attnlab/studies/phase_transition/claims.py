"""What the paper says and what we add: every verdict is computed from the table."""

import math

import numpy as np

from attnlab.audit.checks.score_scale import score_scale
from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.phase_transition.evidence import (
    Evidence,
    Value,
    chosen,
    excess,
    gap,
    size_crossings,
)
from attnlab.studies.phase_transition.settings import PhaseSettings

PAPER = "Cui et al. 2024, plotting code of Figure 2"
PUBLISHED = {"alpha_c": 1.2410, "alpha_l": 1.4506}
# where an independent implementation and refined quadratures put them in the paper's model
CHECKED = {"alpha_c": (1.23, 1.27), "alpha_l": (1.44, 1.52), "alpha_w": (0.70, 0.74)}


def claims(table: Table, settings: PhaseSettings) -> list[Claim]:
    """All claims, in the order a reader wants them."""
    e = Evidence(table, settings)
    return [
        _critical(e, "alpha_c"),
        _simulated_transition(e),
        _side(e, below=True),
        _side(e, below=False),
        _critical(e, "alpha_l"),
        _linear(e, below=True),
        _linear(e, below=False),
        _agreement(e),
        _critical(e, "alpha_w"),
        _memory(e),
        _positional_gap(e),
        _random_starts(e),
        _ridge(e),
        _leave_one_out(e),
        _rank_two(e),
    ]


def _critical(e: Evidence, name: str) -> Claim:
    """A critical point of the theory, over integration rules; checked in the paper's model."""
    found, ids = e.critical_at(name)
    low, high = CHECKED[name] if e.is_published_model else (0.0, math.inf)
    symbol = f"α_{name[-1]}"
    where = f"α = {(low + high) / 2:.3g} ± {(high - low) / 2:.2g}"
    where = where if e.is_published_model else f"some {symbol}"
    statement = {
        "alpha_c": f"Theory: both solutions have equal training loss at {where}",
        "alpha_l": f"Theory: attention beats the linear baseline from {where} on",
        "alpha_w": f"Theory: the semantic solution begins at {where} (weak recovery)",
    }[name]
    reported = None
    if e.is_published_model and name in PUBLISHED:
        reported = Reported(PUBLISHED[name], PAPER, note="coarse quadrature, typed in")
    return judge(
        f"alpha-{name[-1]}-theory",
        statement,
        found,
        above=low,
        below=high,
        quantity=symbol,
        reported=reported,
        trials=ids,
    )


def _simulated_transition(e: Evidence) -> Claim:
    """α_c of simulation at the largest D lies within 6 % of the theory's."""
    sizes, (theory, _) = size_crossings(e), e.critical_at("alpha_c")
    dim = max(sizes, default=0)
    found = sizes.get(dim, Estimate(math.nan, method="no instances"))
    if not math.isfinite(theory.value):
        found = Estimate(math.nan, method="no α_c of theory to compare with")
    reported = Reported(PUBLISHED["alpha_c"], PAPER) if e.is_published_model else None
    return judge(
        "alpha-c-simulation",
        f"Simulation{_at(dim, 'D')} crosses within 6 % of the theory's α_c",
        found,
        above=0.94 * theory.value,
        below=1.06 * theory.value,
        quantity="α_c",
        reported=reported,
        trials=e.part("finite size").where(dim=dim).ids,
    )


def _beyond(e: Evidence, below: bool, name: str) -> tuple[float, Table]:
    """The α of Figure 2 nearest to a critical point among those 15 % or more away from it."""
    pivot = e.critical_at(name)[0].value
    alphas = sorted({r["alpha"] for r in e.part("Figure 2")})
    side = [a for a in alphas if (a < 0.85 * pivot if below else a > 1.15 * pivot)]
    alpha = (side[-1] if below else side[0]) if side else math.nan
    return alpha, e.part("Figure 2").where(alpha=alpha)


def _at(value: float, name: str = "α") -> str:
    """' (α = 1.2)'; nothing where the run has no such point."""
    return f" ({name} = {value:,g})" if value > 0 else ""


def _difference(
    name: str, statement: str, rows: Table, value: Value, positive: bool, quantity: str
) -> Claim:
    """A difference of two arms on the same instances is above (or below) zero."""
    runs = [value(row) for row in rows]
    low, high = (0.0, math.inf) if positive else (-math.inf, 0.0)
    return judge(
        name,
        statement,
        mean_interval(runs),
        above=low,
        below=high,
        quantity=quantity,
        trials=rows.ids,
        runs=runs,
    )


def _side(e: Evidence, *, below: bool) -> Claim:
    alpha, rows = _beyond(e, below, "alpha_c")
    side, winner = ("below", "positional") if below else ("above", "semantic")
    statement = f"{side.capitalize()} α_c{_at(alpha)} the {winner} solution has the lower loss"
    return _difference(
        f"{winner}-wins-{side}", statement, rows, gap, not below, "ε_t(positional) − ε_t(semantic)"
    )


def _linear(e: Evidence, *, below: bool) -> Claim:
    alpha, rows = _beyond(e, below, "alpha_c" if below else "alpha_l")
    order = ("the linear baseline", "attention") if below else ("attention", "the linear baseline")
    where = "α_c" if below else "α_l"
    where = f"{'Below' if below else 'Above'} {where}{_at(alpha)}"
    statement = f"{where} {order[0]} predicts better than {order[1]}"
    return _difference(
        f"linear-{'wins-below' if below else 'loses-above'}",
        statement,
        rows,
        excess,
        below,
        "ε_g − ε_g(linear)",
    )


def _by_seed(rows: list[Row], value: Value) -> list[float]:
    """One mean a seed: the same seed shares its teacher over α, so α are not independent runs."""
    seeds = sorted({r.seed for r in rows})
    return [float(np.mean([value(r) for r in rows if r.seed == seed])) for seed in seeds]


def _agreement(e: Evidence) -> Claim:
    """θ of simulation over θ of theory, at the largest D, all α ≥ 1.15 together."""
    branch = e.theory("semantic")
    rows = [
        r for r in e.part("large D") if r["alpha"] >= 1.15 and branch.at(r["alpha"], "theta") > 0
    ]
    ratios = _by_seed(rows, lambda r: r["semantic_theta"] / branch.at(r["alpha"], "theta"))
    return judge(
        "semantic-agrees",
        f"For α ≥ 1.15, D = {e.settings.large_dim:,}, the semantic θ is the theory's within 3 %",
        mean_interval(ratios),
        above=0.97,
        below=1.03,
        quantity="θ simulation / θ theory",
        trials=[r.id for r in rows],
    )


def _memory(e: Evidence) -> Claim:
    """Below the weak-recovery point descent from W* keeps an overlap that theory says is gone."""
    found = [p for p in e.open_points() if p.branch == "semantic" and p.theory["theta"] == 0.0]
    rows = found[0].instances if found else Table([])
    where = f"ω = {found[0].omega:g}, α = {found[0].alpha:g}" if found else "α < α_w"
    return judge(
        "start-is-remembered",
        f"Where theory has no θ ({where}), descent from W* keeps θ > 0.02",
        mean_interval(rows.column("semantic_theta")),
        above=0.02,
        quantity="θ",
        trials=rows.ids,
    )


def _positional_gap(e: Evidence) -> Claim:
    """m of descent exceeds the theory's where its replicas separate most."""
    found = [
        p
        for p in e.open_points()
        if p.branch == "positional" and math.isfinite(p.separation) and math.isfinite(p.gap.value)
    ]
    point = max(found, key=lambda p: p.separation, default=None)
    if point is None:
        nothing = Estimate(math.nan, method="no point with theory and simulation")
        return judge("positional-gap", "Descent finds a larger m than theory", nothing)
    dim = int(point.instances.rows[0]["dim"])
    runs = list(point.instances.column("positional_m") / point.theory["m"] - 1)
    return judge(
        "positional-gap",
        f"At ω = {point.omega:g}, α = {point.alpha:g}, D = {dim:,}, descent finds a larger m than "
        "theory",
        point.gap,
        above=0.0,
        quantity="m / m theory − 1",
        trials=point.instances.ids,
        runs=runs,
    )


def _random_starts(e: Evidence) -> Claim:
    rows = list(e.part("Figure 2"))
    runs = _by_seed(rows, lambda r: r["random_train_error"] - chosen(r, "train_error"))
    return judge(
        "random-starts-are-worse",
        "From a random start the loss ends above that of the better informed start",
        mean_interval(runs),
        above=0.0,
        quantity="ε_t(random) − lower ε_t",
        trials=[r.id for r in rows],
        runs=runs,
    )


def _ridge_rows(e: Evidence) -> Table:
    """The ridge searches above α_c."""
    pivot = e.critical_at("alpha_c")[0].value
    return Table([r for r in e.part("ridge") if r["alpha"] > pivot])


def _ridge(e: Evidence) -> Claim:
    statement = (
        f"Above α_c, λ by {e.settings.folds} folds has a lower test error than "
        f"λ = {e.settings.ridge:g}"
    )
    return _difference(
        "validated-ridge",
        statement,
        _ridge_rows(e),
        lambda r: r["semantic_test_error_cv"] / r["semantic_test_error_default"] - 1,
        False,
        "relative change of ε_g",
    )


def _leave_one_out(e: Evidence) -> Claim:
    statement = (
        f"Above α_c leave-one-out predicts the test error better than {e.settings.folds} folds"
    )
    return _difference(
        "leave-one-out-is-closer",
        statement,
        _ridge_rows(e),
        lambda r: r["semantic_cv_relative_error"] - r["semantic_loo_relative_error"],
        True,
        "relative error of folds − of one fit",
    )


def _rank_two(e: Evidence) -> Claim:
    """A rank-2 student can be positional and semantic at once: both overlaps are large."""
    alpha = max(e.settings.side_alphas)
    rows = e.part("rank 2").where(alpha=alpha)
    both = [min(chosen(r, "m"), chosen(r, "theta")) for r in rows]
    return judge(
        "rank-two-does-both",
        f"A rank-2 student (α = {alpha:g}) is both positional and semantic: m, θ > 0.05",
        mean_interval(both),
        above=0.05,
        quantity="min(m, θ)",
        trials=rows.ids,
    )


def scale_audit(e: Evidence, scaling: str) -> Finding:
    """The audit of score sizes on one arm of the scaling experiment."""
    rows = e.part("scaling").where(scaling=scaling)
    return score_scale(
        [int(r["dim"]) for r in rows],
        list(rows.column("score_variance")),
        list(rows.column("largest_weight")),
    )


def audits(table: Table, settings: PhaseSettings) -> list[Finding]:
    """The scaling of the scores, and the runs behind every difference that was decided."""
    decided = {
        c.name: c.runs for c in claims(table, settings) if c.runs and c.verdict != "undecided"
    }
    return [scale_audit(Evidence(table, settings), "paper"), seeds_and_interval(decided)]
