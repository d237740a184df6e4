"""What the paper says and what we add: every verdict is computed from the table."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from attnlab.lab.claim import Claim, Reported, judge, judge_difference
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.phase_transition.evidence import Evidence, Value, chosen, excess, gap
from attnlab.studies.phase_transition.study import PhaseTransition

PAPER = "Cui et al. 2024, plotting code of Figure 2"
PUBLISHED = {"alpha_c": 1.2410, "alpha_l": 1.4506}
CRITICAL = {
    "alpha_c": "Theory: the two solutions have equal training loss at one α, α_c",
    "alpha_l": "Theory: attention beats the linear baseline from some α on, α_l",
    "alpha_w": "Theory: the semantic solution exists from some α on, α_w (weak recovery)",
}
GAP = {"value": gap, "quantity": "ε_t(positional) − ε_t(semantic)"}
EXCESS = {"value": excess, "quantity": "ε_g − ε_g(linear)"}


def claims(study: PhaseTransition, e: Evidence) -> list[Claim]:
    """All claims, in the order a reader wants them."""
    positional = "the positional solution has the lower training loss"
    semantic = "the semantic solution has the lower training loss"
    linear = "the linear baseline predicts better than attention"
    attention = "attention predicts better than the linear baseline"
    return [
        _critical(e, "alpha_c"),
        _simulated_transition(e),
        _on_one_side(e, "positional-wins-below", "Below α_c", positional, below=0.0, **GAP),
        _on_one_side(e, "semantic-wins-above", "Above α_c", semantic, above=0.0, **GAP),
        _critical(e, "alpha_l"),
        _on_one_side(e, "linear-wins-below", "Below α_c", linear, above=0.0, **EXCESS),
        _on_one_side(e, "linear-loses-above", "Above α_l", attention, below=0.0, **EXCESS),
        _agreement(e),
        _critical(e, "alpha_w"),
        _memory(e),
        _positional_gap(e),
        _random_starts(e),
        *_ridge(e),
        _rank_two(e),
    ]


def _critical(e: Evidence, name: str) -> Claim:
    """A critical point of the theory exists: α > 0, over integration rules, the paper's beside it.

    Which value it has is checked in tests/solvable/test_phase.py.
    """
    reported = None
    if e.is_published_model and name in PUBLISHED:
        note = "coarse quadrature, entered by hand"
        reported = Reported(PUBLISHED[name], PAPER, note=note)
    return judge(
        f"alpha-{name[-1]}-theory",
        CRITICAL[name],
        e.critical_at(name),
        above=0.0,
        quantity=f"α_{name[-1]}",
        reported=reported,
        trials=e.critical_trials(omega=e.settings.omega).ids,
    )


def _simulated_transition(e: Evidence) -> Claim:
    """α_c of simulation at the largest D against the theory's own, which is the threshold.

    Theory describes the best solution of each kind, descent the one near its start: the positional
    start ends in a larger m than theory (`positional-gap`), which moves the crossing.
    """
    sizes, theory = e.size_crossings, e.critical_at("alpha_c").value
    dim = max(sizes, default=0)
    estimate = sizes.get(dim, Estimate(math.nan, method="no instances"))
    if not math.isfinite(theory):
        estimate = Estimate(math.nan, method="no α_c of theory to compare with")
    return judge(
        "alpha-c-simulation",
        f"In simulation{_at(dim, 'D')} the losses cross below the theory's α_c",
        estimate,
        below=theory,
        comparison=True,
        quantity="α_c",
        reported=Reported(PUBLISHED["alpha_c"], PAPER) if e.is_published_model else None,
        trials=e.part("finite size").where(dim=dim).ids,
    )


def _at(value: float, name: str = "α") -> str:
    """' (α = 1.2)'; nothing where the run has no such point."""
    return f" ({name} = {value:,g})" if value > 0 else ""


def _on_one_side(
    e: Evidence, name: str, side: str, statement: str, value: Value, **rest: Any
) -> Claim:
    """Of the instances of Figure 2 on one side of a critical point: "Below α_c", "Above α_l".

    All of them: how far from the point an α must lie to count would be a choice.
    """
    pivot = e.critical_at(f"alpha_{side[-1]}").value
    below = side.startswith("Below")
    rows = [r for r in e.part("Figure 2") if (r["alpha"] < pivot if below else r["alpha"] > pivot)]
    alphas = [r["alpha"] for r in rows]
    averaged = f" (mean over α = {min(alphas):g} to {max(alphas):g})" if rows else ""
    ids = [r.id for r in rows]
    statement = f"{side}{averaged} {statement}"
    return judge_difference(name, statement, _by_seed(rows, value), trials=ids, **rest)


def _by_seed(rows: Sequence[Row], value: Value) -> list[float]:
    """One mean per seed: a seed has the same teacher at every α, so α are not independent runs."""
    seeds = sorted({r.seed for r in rows})
    return [float(np.mean([value(r) for r in rows if r.seed == seed])) for seed in seeds]


def _agreement(e: Evidence) -> Claim:
    """θ of simulation over θ of theory, at the largest D, all α above α_c together: measured."""
    branch, pivot = e.theory("semantic"), e.critical_at("alpha_c").value
    rows = [
        r for r in e.part("large D") if r["alpha"] > pivot and branch.at(r["alpha"], "theta") > 0
    ]
    ratios = _by_seed(rows, lambda r: r["semantic_theta"] / branch.at(r["alpha"], "theta"))
    return judge(
        "semantic-agrees",
        f"Above α_c, D = {e.settings.large_dim:,}: the semantic θ of simulation over theory's",
        mean_interval(ratios),
        quantity="θ simulation / θ theory",
        trials=[r.id for r in rows],
    )


def chance(dim: int, q: float, sigma: float) -> tuple[float, float]:
    """m and θ of a random W with this q, root mean square; both are absolute values, never 0.

    W·1 and W·W* have the variance ‖W‖² = qD/σ², m = |W·1|/D and θ = σ²|W·W*|/D.
    """
    size = math.sqrt(q / dim)
    return size / sigma, size * sigma


def _memory(e: Evidence) -> Claim:
    """Below the weak-recovery point descent from W* keeps an overlap that theory says is gone."""
    gone = [p for p in e.open_points if p.branch == "semantic" and p.theory["theta"] == 0.0]
    rows = gone[0].instances if gone else Table([])
    where = f"ω = {gone[0].omega:g}, α = {gone[0].alpha:g}" if gone else "α < α_w"
    sigma = e.settings.sigma
    kept = [r["semantic_theta"] - chance(r["dim"], r["semantic_q"], sigma)[1] for r in rows]
    return judge(
        "start-is-remembered",
        f"Where theory has θ = 0 ({where}), descent from W* keeps more θ than chance",
        mean_interval(kept),
        above=0.0,
        quantity="θ − θ of a random W of the same norm",
        trials=rows.ids,
    )


def _positional_gap(e: Evidence) -> Claim:
    """m of descent exceeds the theory's where its replicas separate most."""
    points = [p for p in e.measured_points if p.branch == "positional"]
    if not points:
        nothing = Estimate(math.nan, method="no point with theory and simulation")
        statement = "Gradient descent finds a larger m than theory"
        return judge("positional-gap", statement, nothing, comparison=True)
    point = max(points, key=lambda p: p.separation)
    rows = point.instances
    where = f"ω = {point.omega:g}, α = {point.alpha:g}, D = {int(rows.rows[0]['dim']):,}"
    return judge_difference(
        "positional-gap",
        f"At {where} gradient descent finds a larger m than theory",
        list(rows.column("positional_m") / point.theory["m"] - 1),
        above=0.0,
        quantity="m / m theory − 1",
        trials=rows.ids,
    )


def _random_starts(e: Evidence) -> Claim:
    rows = e.part("Figure 2")
    return judge_difference(
        "random-starts-are-worse",
        "A random start ends in a higher training loss than the better of the two informed starts",
        _by_seed(rows.rows, lambda r: r["random_train_error"] - chosen(r, "train_error")),
        above=0.0,
        quantity="ε_t(random) − lower ε_t",
        trials=rows.ids,
    )


def _ridge(e: Evidence) -> list[Claim]:
    """Choosing λ pays, and leave-one-out is the better estimate of the test error.

    The published λ is fixed at 0.01: does the linear map still win where folds choose λ?
    """
    pivot, folds = e.critical_at("alpha_c").value, e.settings.folds
    above = [r for r in e.part("ridge") if r["alpha"] > pivot]
    below = [r for r in e.part("ridge") if r["alpha"] < pivot]
    alpha = max((r["alpha"] for r in below), default=math.nan)
    nearest = [r for r in below if r["alpha"] == alpha]
    return [
        judge_difference(
            "validated-ridge",
            f"Above α_c, λ chosen by {folds}-fold cross-validation has a lower test error than "
            f"λ = {e.settings.ridge:g}",
            [r["semantic_test_error_cv"] / r["semantic_test_error_default"] - 1 for r in above],
            below=0.0,
            quantity="relative change of ε_g",
            trials=[r.id for r in above],
        ),
        judge_difference(
            "leave-one-out-is-closer",
            f"Above α_c leave-one-out predicts the test error better than {folds}-fold "
            "cross-validation",
            [r["semantic_cv_relative_error"] - r["semantic_loo_relative_error"] for r in above],
            above=0.0,
            quantity="relative error of the folds − of leave-one-out",
            trials=[r.id for r in above],
        ),
        judge_difference(
            "tuned-attention-beats-linear",
            f"Below α_c{_at(alpha)}, with λ chosen by {folds} folds, attention predicts better "
            "than the linear baseline",
            [r["tuned_test_error"] - r["linear_test_error"] for r in nearest],
            below=0.0,
            quantity=EXCESS["quantity"],
            trials=[r.id for r in nearest],
        ),
    ]


def _rank_two(e: Evidence) -> Claim:
    """A rank-2 student can be positional and semantic at once: both overlaps exceed chance."""
    alpha = max(e.settings.side_alphas)
    rows = e.part("rank 2").where(alpha=alpha)

    def least(row: Row) -> float:
        m, theta = chance(row["dim"], chosen(row, "q"), e.settings.sigma)
        return min(chosen(row, "m") - m, chosen(row, "theta") - theta)

    return judge(
        "rank-two-does-both",
        f"A rank-2 student (α = {alpha:g}) is positional and semantic at once: m and θ exceed "
        "chance",
        mean_interval([least(row) for row in rows]),
        above=0.0,
        quantity="the smaller of m and θ − that of a random W of the same norm",
        trials=rows.ids,
    )
