"""Numbers that the report's template needs besides the claims."""

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.lab.claim import Claim
from attnlab.report.text import with_interval
from attnlab.studies.hard_attention.evidence import (
    BASELINES,
    COLD,
    HARD,
    HARD_FIXED,
    SOFT,
    Evidence,
)
from attnlab.studies.hard_attention.study import HardAttention

HELP = {
    "softmax-can-be-hardened": "training with softmax and reading with argmax",
    "annealing-learns": "cooling the softmax while it trains",
    "straight-through-learns": "the straight-through estimate",
}


def facts(study: HardAttention, e: Evidence, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """The given example, the peak of the slope, accuracies, the rates chosen."""
    given, grid = e.table.where(kind="given").rows, e.temperatures
    coldest = grid.index(min(grid)) if grid else 0
    gaps = e.slopes.column("formula_gap")
    return {
        "given": given[0] if given else None,
        "said": _said,
        "helps": _helps({claim.name: claim for claim in claims}),
        "peak": grid[e.peak("formula_median")] if grid else None,
        "coldest": grid[coldest] if grid else None,
        "carried": e.slope_curve("formula_share")[coldest].value if grid else None,
        "baselines": {words: e.baseline(name) for name, words in BASELINES.items()},
        "worst_gap": f"{gaps.max():.1e}" if gaps.size else "an unknown part",
        "rates": {arm: e.best(arm).rows[0]["rate"] for arm in e.names()},
        "has_argmax": bool(len(e.best(HARD)) and len(e.best(HARD_FIXED))),
        "soft": SOFT,
        "cold": COLD,
        "hard": HARD,
    }


def _said(claim: Claim) -> str:
    """'holds; median query slope: 4.593 ± 0.053', or the verdict and why."""
    e = claim.estimate
    if claim.verdict != "holds":
        return f"{claim.verdict}: {claim.why}"
    interval = [e.low, e.high] if e.has_interval else None
    return f"holds; {claim.quantity}: {with_interval(e.value, interval)}"


def _helps(claims: Mapping[str, Claim]) -> list[str]:
    """What was shown to solve the task; hardening softmax counts only where softmax learns."""
    soft = claims["softmax-learns"].verdict == "holds"
    return [
        words
        for name, words in HELP.items()
        if claims[name].verdict == "holds" and (soft or not name.startswith("softmax"))
    ]
