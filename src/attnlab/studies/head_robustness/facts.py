"""Numbers that the report's template needs besides the claims."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.lab.claim import Claim
from attnlab.studies.head_robustness.claims import first_swing
from attnlab.studies.head_robustness.evidence import Evidence
from attnlab.studies.head_robustness.plan import BETA, NOISE, VARIES
from attnlab.studies.head_robustness.study import HeadRobustness


def facts(study: HeadRobustness, e: Evidence, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """Shares off, the exact line at the exercise's β, the best β of each."""
    if not len(e.drawn(VARIES)) or not e.line(VARIES).trials:
        return {"complete": False}
    alpha, beta, line = first_swing(e), e.settings.beta, e.line(VARIES)
    off = e.estimate(VARIES, "two_off")
    lost = e.estimate(VARIES, "off_and_lost").value
    return {
        "complete": True,
        "one_off": e.estimate(VARIES, "one_off"),
        "two_off": off,
        "lost_share": 100 * lost / off.value if off.value > 0 else None,
        "negative": e.exact(VARIES, "negative"),
        "limit": e.exact(VARIES, "limit"),
        "exact": lambda name: line.at(beta, name),
        "distance": lambda arm: math.sqrt(line.at(beta, f"{arm}_square")),
        "best": {arm: _best(e, arm) for arm in ("one", "two")},
        "alpha": None if math.isnan(alpha) else alpha,
        "noise_size": 2 * beta * math.sqrt(alpha) if alpha > 0 else None,
        "noise_off": {arm: e.estimate(NOISE, f"{arm}_off", alpha) for arm in ("one", "two")},
    }


def _best(e: Evidence, arm: str) -> tuple[float, float] | None:
    """The β of the exact line closest to the average, and that distance."""
    line = e.line(BETA)
    if not line.x.size:
        return None
    index = int(line[f"{arm}_square"].argmin())
    return float(line.x[index]), math.sqrt(line[f"{arm}_square"][index])
