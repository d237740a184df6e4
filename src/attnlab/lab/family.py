"""Holm's correction over all comparisons a study declares, decided or not.

With nine comparisons of arms that do not differ, nine intervals at 95 % find a "difference" in up
to 37 % of all studies. Holm's procedure (1979) keeps that at 5 %, whatever the comparisons have to
do with each other: with k comparisons open, each is judged by its interval at 1 − 0.05/k. Those
that are decided leave, the others are judged again with the smaller k, until none is decided.

The family is what the study's `claims` return for its settings, not what the data happen to show:
a comparison that stays undecided, or whose trials crashed, counts as much as one that is decided.
"""

from collections.abc import Sequence
from dataclasses import replace

from attnlab.core.plural import counted
from attnlab.lab.claim import Claim

ERROR = 0.05  # chance of one wrong verdict or more in a family where no arm differs


def correct(claims: Sequence[Claim]) -> list[Claim]:
    """The claims in their order, the comparisons among them judged by Holm's procedure."""
    judged = dict(enumerate(claims))
    open_ = [i for i, claim in judged.items() if claim.comparison]
    size = len(open_)
    while open_:
        level = 1 - ERROR / len(open_)
        stage = {i: claims[i].at(level) for i in open_}
        judged |= stage
        still = [i for i in open_ if stage[i].verdict == "undecided"]
        if still == open_:
            break
        open_ = still
    return [_mention(claim, size) if claim.comparison else claim for claim in judged.values()]


def _mention(claim: Claim, size: int) -> Claim:
    """Say in the claim's reason that its interval is a wider one."""
    if size < 2 or not claim.estimate.has_interval or claim.estimate.exact:
        return claim
    return replace(claim, why=f"{claim.why} (Holm over {counted(size, 'comparison')})")
