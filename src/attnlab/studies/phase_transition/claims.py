"""What the paper says and what we add: every verdict is computed from the table."""

import math

import numpy as np

from attnlab.audit.finding import Finding
from attnlab.audit.score_scale import score_scale
from attnlab.audit.seeds_and_interval import seeds_and_interval
from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.table import Row, Table
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.phase_transition.evidence import (
    Evidence,
    chosen,
    excess,
    gap,
    size_crossings,
)
from attnlab.studies.phase_transition.settings import PhaseSettings

PAPER = "Cui et al. 2024, plotting code of Figure 2"
# The paper's own values belong to its own model; other ω, σ or F have none.
PUBLISHED = {"alpha_c": 1.2410, "alpha_l": 1.4506}
PUBLISHED_AT = {"omega": 0.3, "sigma": 0.5, "ridge": 0.01, "mixing": ((0.6, 0.4), (0.4, 0.6))}


def claims(table: Table, settings: PhaseSettings) -> list[Claim]:
    """All claims, in the order a reader wants them."""
    e = Evidence(table, settings)
    return [
        _critical(e, "alpha_c", "α_c", 1.23, 1.27),
        _simulated_transition(e),
        _below_and_above(e, below=True),
        _below_and_above(e, below=False),
        _critical(e, "alpha_l", "α_l", 1.44, 1.52),
        _linear(e, below=True),
        _linear(e, below=False),
        _agreement(e),
        _critical(e, "alpha_w", "α_w", 0.0, math.inf),
        _memory(e),
        _positional_gap(e),
        _random_starts(e),
        _ridge(e),
        _leave_one_out(e),
        _rank_two(e),
    ]


def _reported(settings: PhaseSettings, name: str) -> Reported | None:
    own = all(getattr(settings, key) == value for key, value in PUBLISHED_AT.items())
    if name not in PUBLISHED or not own:
        return None
    return Reported(PUBLISHED[name], PAPER, note="coarse quadrature, typed into a notebook")


def _critical(e: Evidence, name: str, symbol: str, above: float, below: float) -> Claim:
    """A critical point of the theory lies where it should, whatever the integration rule."""
    found, ids = e.critical_at(name)
    if e.settings.omega != PUBLISHED_AT["omega"]:
        above, below = 0.0, math.inf  # a check value exists at ω = 0.3 only
    where = f"α = {(above + below) / 2:.3g} ± {(below - above) / 2:.2g}"
    where = f"some {symbol}" if math.isinf(below) else where
    meaning = {
        "alpha_c": f"Theory: both solutions have equal training loss at {where}",
        "alpha_l": f"Theory: attention beats the linear baseline from {where} on",
        "alpha_w": f"Theory: the semantic solution begins at {where} (weak recovery)",
    }[name]
    return judge(
        name.replace("_", "-") + "-theory",
        meaning,
        found, above=above, below=below, quantity=symbol, reported=_reported(e.settings, name),
        trials=ids,
    )  # fmt: skip


def _simulated_transition(e: Evidence) -> Claim:
    """α_c of simulation at the largest D lies within 6 % of theory (and below it)."""
    sizes = size_crossings(e)
    theory, _ = e.critical_at("alpha_c")
    dim = max(sizes, default=0)
    found = sizes.get(dim, Estimate(math.nan))
    low, high = 0.94 * theory.value, 1.03 * theory.value
    return judge(
        "alpha-c-simulation",
        f"Simulation (D = {dim:,}) crosses within 6 % of the theory's α_c",
        found, above=_number(low), below=_number(high), quantity="α_c",
        reported=_reported(e.settings, "alpha_c"),
        trials=e.part("finite size").where(dim=dim).ids,
    )  # fmt: skip


def _number(value: float) -> float:
    return value if math.isfinite(value) else 0.0


def _ends(e: Evidence, below: bool, pivot: float) -> tuple[float, Table]:
    """The α of Figure 2 farthest below, or above, a pivot, and its instances."""
    alphas = sorted({r["alpha"] for r in e.part("Figure 2")})
    side = [a for a in alphas if (a < 0.85 * pivot if below else a > 1.15 * pivot)]
    alpha = (side[-1] if below else side[0]) if side else math.nan
    return alpha, e.part("Figure 2").where(alpha=alpha)


def _below_and_above(e: Evidence, *, below: bool) -> Claim:
    theory, _ = e.critical_at("alpha_c")
    alpha, rows = _ends(e, below, theory.value)
    found = mean_interval([gap(row) for row in rows])
    side, winner = ("below", "positional") if below else ("above", "semantic")
    return judge(
        f"{winner}-wins-{side}",
        f"{side.capitalize()} α_c (α = {alpha:g}) the {winner} solution has the lower loss",
        found, above=-math.inf if below else 0.0, below=0.0 if below else math.inf,
        quantity="ε_t(positional) − ε_t(semantic)", trials=rows.ids,
    )  # fmt: skip


def _linear(e: Evidence, *, below: bool) -> Claim:
    theory, _ = e.critical_at("alpha_l")
    alpha, rows = _ends(e, below, theory.value)
    found = mean_interval([excess(row) for row in rows])
    order = ("the linear baseline", "attention") if below else ("attention", "the linear baseline")
    return judge(
        f"linear-{'wins-below' if below else 'loses-above'}",
        f"At α = {alpha:g} {order[0]} predicts better than {order[1]}",
        found, above=0.0 if below else -math.inf, below=math.inf if below else 0.0,
        quantity="ε_g − ε_g(linear)", trials=rows.ids,
    )  # fmt: skip


def _agreement(e: Evidence) -> Claim:
    """θ of simulation over θ of theory, at the largest D, all α ≥ 1.15 together."""
    branch, rows = e.theory("semantic"), e.part("large D")
    used = [r for r in rows if r["alpha"] >= 1.15]
    ratios = [r["semantic_theta"] / branch.at(r["alpha"], "theta") for r in used]
    return judge(
        "semantic-agrees",
        f"For α ≥ 1.15, D = {e.settings.large_dim:,}, the semantic θ is the theory's within 3 %",
        mean_interval(ratios), above=0.97, below=1.03, quantity="θ simulation / θ theory",
        trials=[r.id for r in used],
    )  # fmt: skip


def _memory(e: Evidence) -> Claim:
    """Below the weak-recovery point descent from W* keeps an overlap that theory says is gone."""
    rows = _open_rows(e, 0.3, 0.457)
    return judge(
        "start-is-remembered",
        "Below α_w (α = 0.457) descent from W* remembers its start: θ > 0.02",
        mean_interval([r["semantic_theta"] for r in rows]), above=0.02, quantity="θ",
        trials=[r.id for r in rows],
    )  # fmt: skip


def _open_rows(e: Evidence, omega: float, alpha: float) -> list[Row]:
    rows = e.part("open questions").where(omega=omega, alpha=alpha)
    largest = max((r["dim"] for r in rows), default=0)
    return list(rows.where(dim=largest))


def _positional_gap(e: Evidence) -> Claim:
    """m of descent exceeds the replica-symmetric m at ω = 0.2, α = 1, and does not close with D."""
    rows = _open_rows(e, 0.2, 1.0)
    theory = e.table.where(kind="stability", omega=0.2, alpha=1.0, branch="positional").rows
    m = theory[0]["m"] if theory else None
    gaps = [r["positional_m"] - m for r in rows] if m is not None else []
    dim = rows[0]["dim"] if rows else 0
    return judge(
        "positional-gap-stays",
        f"At ω = 0.2, α = 1, D = {dim:,}, descent finds a larger m than theory",
        mean_interval(gaps), above=0.0, quantity="m simulation − m theory",
        trials=[r.id for r in rows],
    )  # fmt: skip


def _random_starts(e: Evidence) -> Claim:
    rows = e.part("Figure 2")
    worse = [r["random_train_error"] - chosen(r, "train_error") for r in rows]
    by_seed = [float(np.mean([w for w, r in zip(worse, rows, strict=True) if r.seed == s]))
               for s in sorted({r.seed for r in rows})]  # fmt: skip
    return judge(
        "random-starts-are-worse",
        "From a random start the loss ends above that of the better informed start",
        mean_interval(by_seed), above=0.0, quantity="ε_t(random) − lower ε_t", trials=rows.ids,
    )  # fmt: skip


def _ridge(e: Evidence) -> Claim:
    rows = e.part("ridge")
    ratio = [
        r["semantic_test_error_cv"] / r["semantic_test_error_default"] - 1
        for r in rows
        if r["alpha"] > 1.25
    ]
    return judge(
        "validated-ridge",
        f"Above α_c, λ by {e.settings.folds} folds has a lower test error than λ = "
        f"{e.settings.ridge:g}",
        mean_interval(ratio), below=0.0, quantity="relative change of ε_g", trials=rows.ids,
    )  # fmt: skip


def _leave_one_out(e: Evidence) -> Claim:
    rows = [r for r in e.part("ridge") if r["alpha"] > 1.25]
    own = int(np.argmin([abs(v - e.settings.ridge) for v in e.settings.ridges]))
    better = []
    for row in rows:
        true = row.curves["semantic_test"][own]
        folds, once = (abs(row.curves[f"semantic_{k}"][own] / true - 1) for k in ("cv", "loo"))
        better.append(folds - once)
    return judge(
        "leave-one-out-is-closer",
        f"Above α_c leave-one-out predicts the test error better than {e.settings.folds} folds",
        mean_interval(better), above=0.0, quantity="relative error of folds − of one fit",
        trials=[r.id for r in rows],
    )  # fmt: skip


def _rank_two(e: Evidence) -> Claim:
    """A rank-2 student can be positional and semantic at once: both overlaps are large."""
    rows = [r for r in e.part("rank 2") if r["alpha"] == max(e.settings.side_alphas)]
    both = [min(chosen(r, "m"), chosen(r, "theta")) for r in rows]
    return judge(
        "rank-two-does-both",
        f"A rank-2 student (α = {max(e.settings.side_alphas):g}) is both positional and semantic",
        mean_interval(both), above=0.05, quantity="min(m, θ)", trials=[r.id for r in rows],
    )  # fmt: skip


def audits(table: Table, settings: PhaseSettings) -> list[Finding]:
    """The scaling of the scores, and the runs behind every difference we conclude from."""
    e = Evidence(table, settings)
    scaled = e.part("scaling").where(scaling="paper")
    dims = [r["dim"] for r in scaled]
    found = [score_scale(dims, list(scaled.column("score_variance")),
                         list(scaled.column("largest_weight")))]  # fmt: skip
    concluded = {
        c.name: _runs_behind(e, c)
        for c in claims(table, settings)
        if c.verdict == "holds" and not c.estimate.exact
    }
    return [*found, seeds_and_interval({k: v for k, v in concluded.items() if v})]


def _runs_behind(e: Evidence, claim: Claim) -> list[float]:
    """The paired differences of the claims that compare two arms on the same instances."""
    rows = [r for r in e.table if r.id in set(claim.trials)]
    values = {
        "positional-wins-below": gap,
        "semantic-wins-above": gap,
        "linear-wins-below": excess,
        "linear-loses-above": excess,
    }
    return [values[claim.name](r) for r in rows] if claim.name in values else []
