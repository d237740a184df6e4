"""baselines: is the claim better than what needs no model?

Chance, the majority class, the answer that is most frequent in the training data; and the
ceiling, the best that can be reached at all. Runs: the interval of the claim against each of them.
Number: the end of the claim's interval nearest the baselines; threshold: the best baseline. Fails
when a baseline lies inside the claim's interval, when the claim is worse than a baseline, or when
the whole interval lies beyond the ceiling (then the answers were read somewhere).
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.measure.content import to_list
from attnlab.measure.intervals import Estimate

NAME = "baselines"


@audit(NAME)
def baselines(
    claim: Estimate,
    known: Mapping[str, float],
    *,
    ceiling: float | None = None,
    lower_is_better: bool = False,
) -> Finding:
    """Judge a claim with an interval: `wilson(k, n)` of an accuracy, a t interval of a loss."""
    if not known or not claim.has_interval:
        missing = "baseline" if not known else "interval of the claim"
        raise NotApplicable(f"no {missing} was given")
    sign = -1 if lower_is_better else 1
    best = max(known, key=lambda name: sign * known[name])
    near = claim.high if lower_is_better else claim.low
    far = claim.low if lower_is_better else claim.high
    interval = f"{claim.value:.4g} [{claim.low:.4g}, {claim.high:.4g}]"
    evidence = {
        "value": claim.value,
        "interval": [claim.low, claim.high],
        "n": claim.n,
        "baselines": dict(known),
        "ceiling": ceiling,
    }
    not_beaten = [name for name, value in known.items() if sign * near <= sign * value]
    problem = ""
    if not_beaten:
        worst = max(not_beaten, key=lambda name: sign * known[name])
        within = sign * far >= sign * known[worst]
        relation = "cannot be told from" if within else "is worse than"
        problem = f"{interval} {relation} {worst} ({known[worst]:.4g}), which needs no model"
        evidence["not_beaten"] = not_beaten
    elif ceiling is not None and sign * near > sign * ceiling:
        problem = f"{interval} is beyond the ceiling {ceiling:.4g}: the answers must have leaked"
    why = f"{interval} is clear of the best baseline, {best} ({known[best]:.4g})"
    return Finding.judged(NAME, problem, why, near, known[best], evidence)


def answer_baselines(
    gold: Sequence[Hashable], train: Sequence[Hashable] | None = None, classes: int | None = None
) -> dict[str, float]:
    """Accuracies that need no model, from the gold answers of the evaluated items alone.

    chance: one of `classes` at random; majority: the answer most frequent in `gold`, always;
    most frequent training answer: the same, chosen without looking at `gold`.
    """
    counts = Counter(to_list(gold))
    if not counts:
        return {}
    accuracies = {"majority": counts.most_common(1)[0][1] / len(gold)}
    if classes:
        accuracies["chance"] = 1 / classes
    if train is not None and len(train):
        common = Counter(to_list(train)).most_common(1)[0][0]
        accuracies["most frequent training answer"] = counts[common] / len(gold)
    return accuracies
