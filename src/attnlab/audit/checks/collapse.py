"""collapse: are the predictions those of a model, or of a constant?

Runs: share of the most frequent prediction, entropy of the predictions, what is right against the
best constant answer, the metric of every epoch. Number: share of the most frequent prediction.
Fails when one prediction makes up more than 95 % (and the gold answers do not); when predictions
are more concentrated than the gold answers and no more often right than one constant answer
would be; or when the metric is the same to the last digit in every epoch, three or more.
"""

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.measure.content import to_list
from attnlab.measure.intervals import wilson

NAME = "collapse"
MOST = 0.95
EPOCHS = 3
PERFECT = 1.0  # a solved task is constant too


@audit(NAME, threshold=MOST)
def collapse(
    predictions: Sequence[Hashable] = (),
    gold: Sequence[Hashable] | None = None,
    by_epoch: Sequence[float] = (),
) -> Finding:
    """Judge predictions (classes, or answers as text), with the gold answers where known."""
    predictions, by_epoch = to_list(predictions), to_list(by_epoch)
    gold = None if gold is None else to_list(gold)
    if gold is not None and len(gold) != len(predictions):
        raise ValueError(f"{len(predictions)} predictions for {len(gold)} gold answers")
    if not predictions and len(by_epoch) < EPOCHS:
        raise NotApplicable(f"it needs predictions, or a metric of {EPOCHS} epochs")
    evidence = _describe(predictions, gold) if predictions else {}
    share = evidence.get("top_share")
    if len(by_epoch) >= EPOCHS and len(set(by_epoch)) == 1 and by_epoch[0] != PERFECT:
        problem = f"the metric is {by_epoch[0]!r} in all {len(by_epoch)} epochs: nothing is learned"
    else:
        problem = _constant_predictions(evidence) if predictions else ""
    evidence["by_epoch"] = list(by_epoch)
    why = f"the metric moves over {len(by_epoch)} epochs; no predictions were given"
    if share is not None:
        why = (
            f"{evidence['distinct']} different predictions, the most frequent is {share:.1%} "
            f"of them (entropy {evidence['entropy']:.2f} nats)"
        )
    return Finding.judged(NAME, problem, why, share, MOST, evidence)


def _describe(predictions: Sequence[Hashable], gold: Sequence[Hashable] | None) -> dict[str, Any]:
    counts, n = Counter(predictions), len(predictions)
    top = counts.most_common(5)
    evidence: dict[str, Any] = {
        "n": n,
        "distinct": len(counts),
        "entropy": _entropy(counts),
        "top": str(top[0][0]),
        "top_share": top[0][1] / n,
        "top_5_share": sum(c for _, c in top) / n,
    }
    if gold:
        answers = Counter(gold)
        right = sum(p == g for p, g in zip(predictions, gold, strict=True))
        evidence |= {
            "right": right,
            "best_constant": str(answers.most_common(1)[0][0]),
            "right_by_best_constant": answers.most_common(1)[0][1],
            "gold_entropy": _entropy(answers),
            "matthews": _matthews(counts, answers, right),
        }
    return evidence


def _constant_predictions(described: dict[str, Any]) -> str:
    """Whether a constant model would predict this; equally one-sided gold answers excuse it."""
    share, n, gold = described["top_share"], described["n"], "gold_entropy" in described
    gold_share = wilson(described["right_by_best_constant"], n) if gold else None
    if share > MOST and (gold_share is None or gold_share.high < share):
        return (
            f"{share:.1%} of the predictions are {described['top']!r}: a constant would do the same"
        )
    if gold_share is None or share <= gold_share.high:
        return ""
    accuracy, constant = wilson(described["right"], n), described["right_by_best_constant"]
    if accuracy.low > constant / n:
        return ""
    return (
        f"{share:.1%} of the predictions are {described['top']!r} and {described['right']} of {n} "
        f"are right, where always answering {described['best_constant']!r} gets {constant}"
    )


def _entropy(counts: Counter[Hashable]) -> float:
    """−Σ p ln p."""
    n = counts.total()
    return -sum(c / n * math.log(c / n) for c in counts.values()) + 0.0


def _matthews(predicted: Counter[Hashable], gold: Counter[Hashable], right: int) -> float | None:
    """(n·right − Σ p_k g_k) / √((n² − Σ p_k²)(n² − Σ g_k²)); of a constant it does not exist."""
    n = gold.total()
    both = sum(predicted[k] * gold[k] for k in gold)
    spread = [n * n - sum(c * c for c in side.values()) for side in (predicted, gold)]
    return (n * right - both) / math.sqrt(spread[0] * spread[1]) if all(spread) else None
