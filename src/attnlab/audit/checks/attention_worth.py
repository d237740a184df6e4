"""attention-worth: can this study answer a question about attention at all?

Runs: over seeds, log(score without attention / score of the plain model), the same model trained
with attention switched off. Number: the lower end of its interval. Passes above zero. Fails when
the whole interval lies within 1 %: attention as a whole makes no difference here, so a difference
between two kinds of attention is not about attention. Between the two these runs cannot tell, and
comparisons stay undecided as well. What attention is worth is also the most that a part of it can
gain; a comparison that differs by more is named.
"""

import math
from collections.abc import Mapping, Sequence

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.measure.intervals import Estimate, mean_interval

NAME = "attention-worth"
NOTHING = 0.01  # of the score: an interval inside ± this is no difference


@audit(NAME, threshold=0.0)
def attention_worth(without: Sequence[float], compared: Mapping[str, float]) -> Finding:
    """Judge a study by its arm without attention; `compared` are its claims, as log ratios."""
    worth = mean_interval(without)
    names = tuple(compared)
    if not worth.has_interval:
        why = f"{worth.n} runs with attention switched off cannot tell what attention is worth"
        raise NotApplicable(why, undermines=names)
    larger = [name for name, size in compared.items() if abs(size) > worth.high]
    evidence = {
        "worth": [worth.value, worth.low, worth.high],
        "compared": dict(compared),
        "larger": larger,
    }
    if worth.low > 0:
        why = f"without attention the score is {_share(worth)} worse: no part of it can win more"
        why += f"; larger, so not about attention alone: {', '.join(larger)}" if larger else ""
        return Finding(NAME, "pass", worth.low, 0.0, why, evidence)
    changed = f"removing attention altogether changes the score by {_share(worth)}"
    if max(-worth.low, worth.high) < NOTHING:
        why = f"{changed}, which is nothing: no comparison of its parts can answer the question"
        return Finding(NAME, "fail", worth.low, 0.0, why, evidence, names)
    why = f"{changed}: these runs cannot tell whether it matters, so they cannot compare its parts"
    raise NotApplicable(why, number=worth.low, evidence=evidence, undermines=names)


def _share(worth: Estimate) -> str:
    value, low, high = (math.expm1(x) for x in (worth.value, worth.low, worth.high))
    return f"{value:+.1%} [{low:+.1%}, {high:+.1%}]"
