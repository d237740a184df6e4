"""The numbers in the report's sentences that are not estimates of claims."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from attnlab.lab.claim import Claim
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.studies.phase_transition.evidence import Evidence, OpenPoint, gap, over_instances
from attnlab.studies.phase_transition.study import PhaseTransition

POINTS_TO_RANK = 4  # fewer have no rank correlation worth a sentence


def facts(study: PhaseTransition, e: Evidence, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """What the template needs besides the claims."""
    converged = [
        bool(row[key])
        for row in e.table.where(kind="instance")
        if row["part"] != "scaling"
        for key in row.metrics
        if key.endswith("_converged")
    ]
    points = sorted(e.measured_points, key=lambda p: p.separation)
    points = points if len(points) >= POINTS_TO_RANK else []
    return {
        "students": len(converged),
        "unconverged": converged.count(False),
        "published": [c for c in claims if c.name.endswith("-theory") and c.reported],
        "matched": _matched_norms(e),
        "course": _course(e),
        "sizes": e.size_crossings,
        "alpha_c": e.critical_at("alpha_c"),
        "points": points,
        "rank": rank_correlation(points),
        "returned": max((p.returned.value for p in points), default=math.nan),
        "other": _other_mixing(e),
        "unscaled": _unscaled(e),
    }


def rank_correlation(points: Sequence[OpenPoint]) -> float:
    """Spearman's ρ between the theory's instability and the excess of simulation over theory."""
    from scipy.stats import rankdata

    if not points:
        return math.nan
    ranks = rankdata([(p.separation, p.gap.value) for p in points], axis=0)
    return float(np.corrcoef(ranks, rowvar=False)[0, 1])


def _matched_norms(e: Evidence) -> Estimate | None:
    """Change of the positional loss, in percent, by a start of norm √D on the same instances."""
    rows = e.part("matched norms")
    plain, long = (
        {r.seed: r["positional_train_error"] for r in rows if (r["positional_norm"] is None) == x}
        for x in (True, False)
    )
    seeds = sorted(plain.keys() & long.keys())
    if len(seeds) < 3:
        return None
    base = float(np.mean([plain[seed] for seed in seeds]))
    return mean_interval([100 * (long[seed] - plain[seed]) / base for seed in seeds])


def _course(e: Evidence) -> list[str]:
    """Two standard errors of one instance's test error under the course recipe, for every D."""
    lines = []
    for (dim,), rows in e.part("course recipe").groups("dim").items():
        errors = rows.column("semantic_test_standard_error") / rows.column("semantic_test_error")
        lines.append(f"±{float(np.mean(2 * errors)):.0%} at D = {dim:,}")
    return lines


def _other_mixing(e: Evidence) -> dict[str, Any] | None:
    """α_c of theory for the other F, and the α at which each solution wins in simulation."""
    mixing = [list(row) for row in e.settings.other_mixing]
    rows = e.table.where(kind="critical", mixing=mixing).rows
    if not rows or rows[0]["alpha_c"] is None or not math.isfinite(e.critical_at("alpha_c").value):
        return None
    gaps = over_instances(e.part("other F"), gap, "alpha")
    return {
        "alpha_c": rows[0]["alpha_c"],
        "positional": [f"{alpha:g}" for alpha, g in gaps.items() if g.high < 0],
        "semantic": [f"{alpha:g}" for alpha, g in gaps.items() if g.low > 0],
    }


def _unscaled(e: Evidence) -> dict[str, Any] | None:
    """What becomes of the student at the largest D without the factors 1/√D."""
    rows = e.part("scaling").where(scaling="unscaled")
    if not len(rows):
        return None
    largest = rows.where(dim=max(r["dim"] for r in rows))
    means = {
        name: float(np.mean(largest.column(name)))
        for name in ("largest_weight", "semantic_train_error", "semantic_converged")
    }
    return {"dim": int(largest.rows[0]["dim"]), "audit": e.score_scale("unscaled"), **means}
