"""Tables and numbers that the report's template needs besides the claims."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.lab.claim import Claim
from attnlab.measure.intervals import Estimate
from attnlab.report.prose import percent
from attnlab.studies.knowledge.arms import READS, KnowledgeArms
from attnlab.studies.knowledge.study import Knowledge

REPORTED = {
    "none": 0.020,
    "pretrained": 0.186,
    "perceiver-wide-6": 0.050,
    "perceiver-weights-6": 0.050,
}
KNOWN = {
    "read": "correct, of people it only read about",
    "seen": "of these, place is an answer in fine-tuning",
    "unseen": "place is not",
    "unread": "correct, of real people not in the text",
}
PEOPLE = ("taught", "read", "unread", "invented")


def facts(study: Knowledge, arms: KnowledgeArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """Shares of people by arm, confidence, answers to people who do not exist."""
    names = arms.names()
    # with a course's files there are no real people who are not in the text
    unread = any(arms.values(arm, "unread_accuracy") for arm in names)
    known = {kind: words for kind, words in KNOWN.items() if kind != "unread" or unread}
    readers = [arm for arm in names if arms.share(arm, "recalled").n]

    def shares(rows: Sequence[str], kinds: Sequence[str]) -> list[list[str]]:
        return [[arms.label(a), *(share_text(arms.share(a, k)) for k in kinds)] for a in rows]

    return {
        "known_head": ["arm", *known.values()],
        "known": shares(names, list(known)),
        "rates": [[arms.label(arm), *_rates(arms, arm)] for arm in names if arm in READS],
        "perceivers": any(arm in READS for arm in study.settings.arms),
        "memorised": shares(readers, ("recalled", "memorised", "forgotten")),
        "confidence": [[arms.label(arm), *_confidence(arms, arm)] for arm in names],
        "surnames": {
            arm: list(arms.values(arm, "surname_p").values())
            for arm in ("none", "pretrained")
            if arms.values(arm, "surname_p")
        },
        "reported": {arm: value for arm, value in REPORTED.items() if arms.rows(arm)},
        "share": lambda arm: share_text(arms.share(arm, "read")),
    }


def _rates(arms: KnowledgeArms, arm: str) -> list[str]:
    """The learning rates chosen, seed by seed, and all that were tried."""
    searches = arms.searches(arm)
    tried = sorted({rate for *_, rates in searches for rate in rates})
    chosen = (rate for _, rate, _ in searches)
    return [", ".join(f"{rate:g}" for rate in rates) for rates in (chosen, tried)]


def share_text(e: Estimate) -> str:
    """'71.0 % [52.1, 84.6]'; a single seed, which says nothing of others, is named."""
    return f"{percent(e)}{', 1 seed' if e.n == 1 else ''}"


def _confidence(arms: KnowledgeArms, arm: str) -> list[str]:
    """Mean confidence by kind of people, the calibration error, the commonest inventions."""
    values = [arms.mean(arm, f"{kind}_confidence") for kind in PEOPLE]
    values.append(arms.mean(arm, "calibration_error"))
    top = Counter[str]()
    for row in arms.rows(arm):
        for part in str(row.get("invented_top") or "").split("; "):
            answer, _, count = part.rpartition(" ")
            top[answer] += int(count) if count.isdigit() else 0
    often = ", ".join(f"{answer or '(nothing)'} {n}" for answer, n in top.most_common(3) if n)
    return [*(f"{value:.2f}" if math.isfinite(value) else "–" for value in values), often]
