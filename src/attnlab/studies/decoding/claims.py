"""Claims: the limits, exactly; differences over prompts; the order along T, k and p."""

import math
from collections.abc import Sequence

from attnlab.lab.claim import Claim, judge
from attnlab.lab.table import Row
from attnlab.measure.intervals import Estimate
from attnlab.studies.decoding.evidence import TextArms, deciding_step
from attnlab.studies.decoding.strategies import GREEDY, PEOPLE, SAMPLE
from attnlab.studies.decoding.study import Decoding, DecodingSettings

EXACT = 1 - 1e-12  # shares of equal tokens are ratios of small whole numbers
AUDITS = "audits"  # the trial that audits model and sampler for all strategies
# the strategy of the limits, and further trials that the claim rests on
LIMITS = {"limits-greedy": (GREEDY, ()), "limits-sampling": (SAMPLE, (AUDITS,))}
# the measure is larger for the first strategy than for the second
PAIRS = {
    "greedy-repeats": (GREEDY, SAMPLE, "repetition"),
    "beam-likelier": (GREEDY, "beam", "nll"),
    "penalty-helps": (GREEDY, "greedy:repetition", "repetition"),
    "greedy-too-likely": (PEOPLE, GREEDY, "nll"),
    "sampling-too-odd": (SAMPLE, PEOPLE, "nll"),
    "greedy-nearer-prompt": (GREEDY, SAMPLE, "margin"),
}
# the measure rises with T, k or p
CURVES = {
    "colder-likelier": ("temperature", "nll"),
    "fewer-likelier": ("top-k", "nll"),
    "smaller-likelier": ("top-p", "nll"),
    "hotter-diverse": ("temperature", "distinct_2"),
}
STATEMENTS = {
    "limits-greedy": "T = 0, T → 0, k = 1, p = 0, p → 0 and min-p 1 are greedy",
    "limits-sampling": "T = 1, k = 0, k = |V|, p = 1, min-p 0 and typical 1 are plain sampling",
    "greedy-repeats": "Greedy texts repeat themselves more than sampled ones",
    "beam-likelier": "Beam search finds likelier texts than greedy",
    "penalty-helps": "A repetition penalty makes greedy texts repeat themselves less",
    "greedy-too-likely": "Texts by people are less likely under the model than greedy ones",
    "sampling-too-odd": "Sampled texts are less likely under the model than texts by people",
    "greedy-nearer-prompt": "Greedy texts are more similar to their prompts than sampled ones",
    "colder-likelier": "Perplexity falls as T falls",
    "fewer-likelier": "Perplexity falls as k falls",
    "smaller-likelier": "Perplexity falls as p falls",
    "hotter-diverse": "Texts of one prompt differ more as T rises",
    "on-topic": "Sampled texts are more similar to their own prompt than to a shuffled one",
}
ENDS = {"temperature": (0.0, 1.0), "top-k": (1.0, math.inf), "top-p": (0.0, 1.0)}
QUANTITIES = {
    "nll": "nats per token",
    "repetition": "share of repeated n-grams",
    "margin": "cosine above other prompts'",
    "distinct_2": "distinct-2",
}


def claims(study: Decoding, arms: TextArms) -> list[Claim]:
    """Limits; pairs whose strategies are part of the run; curves; similarity above chance."""
    s = study.settings
    pairs = {
        name: (_first(s, one), _first(s, other), measure)
        for name, (one, other, measure) in PAIRS.items()
        if s.has_human or PEOPLE not in (one, other)
    }
    rank = arms.estimate(SAMPLE, f"rank_{arms.judge}")
    less = "share of other prompts that are less similar to the text (chance: 0.5)"
    return [
        *(_limit(arms, name) for name in LIMITS),
        *(_compare(arms, name, *pair) for name, pair in pairs.items() if all(pair)),
        *(_rise(arms, name, *curve) for name, curve in CURVES.items()),
        _claim(arms, "on-topic", rank, less, [SAMPLE], above=0.5),
    ]


def curve_of(s: DecodingSettings, name: str) -> dict[float, str]:
    """Value -> strategy along T, k or p; greedy and plain sampling are the ends."""
    low, high = ENDS[name]
    return dict(sorted({**s.curve(name), low: GREEDY, high: SAMPLE}.items()))


def limit_shares(row: Row | None, anchor: str) -> dict[str, float]:
    """Strategy -> smallest share of equal tokens with the strategy that it must equal."""
    prefix = f"{anchor} = "
    return {
        key.removeprefix(prefix): float(str(value))
        for key, value in (row.metrics.items() if row else ())
        if key.startswith(prefix)
    }


def _limit(arms: TextArms, name: str) -> Claim:
    anchor, audits = LIMITS[name]
    row = arms.first("limits")
    shares = limit_shares(row, anchor)
    estimate = Estimate(math.nan, method="the trial of the limits did not end")
    if row is not None and shares:
        n = int(row["prompts"])
        method = f"every token of {n} texts compared"
        estimate = Estimate(min(shares.values()), n=n, exact=True, method=method)
    return judge(
        name,
        STATEMENTS[name],
        estimate,
        above=EXACT,
        trials=arms.ids("limits", *audits),
        quantity="smallest share of equal tokens, over limits and prompts",
        kind="check",
    )


def _first(s: DecodingSettings, arm: str) -> str:
    """The strategy of this name, or the first one that begins with it; '' where there is none."""
    known = [PEOPLE, *s.strategies()]
    begins = [text for text in known if text.startswith((f"{arm}:", f"{arm}="))]
    return arm if arm in known else next(iter(begins), "")


def _compare(arms: TextArms, name: str, one: str, other: str, measure: str) -> Claim:
    column = f"margin_{arms.judge}" if measure == "margin" else measure
    gap = arms.gap(one, other, column, real=PEOPLE in (one, other))
    return _claim(arms, name, gap, f"{QUANTITIES[measure]}, {one} − {other}", [one, other])


def _rise(arms: TextArms, name: str, curve: str, measure: str) -> Claim:
    """Neighbours on the curve, with intervals corrected for several steps; the worst decides."""
    strategies = list(curve_of(arms.s, curve).values())
    pairs = list(zip(strategies[1:], strategies[:-1], strict=True))
    weakest, estimate = deciding_step([arms.gap(*pair, measure) for pair in pairs])
    high, low = pairs[weakest]
    quantity = f"{QUANTITIES[measure]}, {high} − {low}: the step that decides"
    return _claim(arms, name, estimate, quantity, strategies)


def _claim(
    arms: TextArms,
    name: str,
    estimate: Estimate,
    quantity: str,
    strategies: Sequence[str],
    above: float = 0.0,
) -> Claim:
    return judge(
        name,
        STATEMENTS[name],
        estimate,
        above=above,
        quantity=quantity,
        trials=arms.ids(*strategies, AUDITS),
        comparison=True,
    )
