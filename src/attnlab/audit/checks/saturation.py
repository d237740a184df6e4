"""score-scale of one model: is its softmax a choice already made?

Runs: one forward in which the scores of every attention are watched. Number: the largest weight of
a query, on average over the second half of the positions and all heads. Fails above 0.99: scores
are not O(1) (a missing 1/√d), one weight is 1, and no gradient reaches queries and keys.
"""

from attnlab.audit.checks.score_scale import NAME, SATURATED
from attnlab.audit.finding import Finding
from attnlab.audit.probing.attention_scores import RecordScores
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.subject import Subject


def saturation(subject: Subject, probe: Probe) -> Finding:
    """Judge any model whose attention can be watched."""
    length = probe.short(subject)
    with RecordScores(length) as watched:
        subject.logits(probe.rows(subject, length, rows=2))
    if not watched.found:
        why = "no softmax over positions was seen"
        return Finding(NAME, "not-applicable", None, SATURATED, why)
    weights = [scores.double().softmax(dim=-1)[..., length // 2 :, :] for scores in watched.found]
    largest = [float(w.amax(dim=-1).nanmean()) for w in weights]
    number = max(largest)
    evidence = {"mean_largest_weight": [round(x, 4) for x in largest]}
    if number > SATURATED:
        why = (
            f"in attention {largest.index(number)} one weight is {number:.3f} on average: scores "
            "are too large, the softmax is saturated"
        )
        return Finding(NAME, "fail", number, SATURATED, why, evidence)
    why = f"no softmax is saturated (the largest weight is {number:.2f} on average)"
    return Finding(NAME, "pass", number, SATURATED, why, evidence)
