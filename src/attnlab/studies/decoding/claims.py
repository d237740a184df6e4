"""Claims: the limits, exactly; differences over prompts; the order along T, k and p."""

import math
from typing import NamedTuple

from attnlab.lab.claim import Claim, judge
from attnlab.lab.table import Row
from attnlab.measure.intervals import LEVEL, Estimate
from attnlab.studies.decoding.evidence import TextArms, weakest_step, worst_step
from attnlab.studies.decoding.strategies import GREEDY, PEOPLE, SAMPLE
from attnlab.studies.decoding.study import Decoding, DecodingSettings

EXACT = 1 - 1e-12  # shares of equal tokens are ratios of small whole numbers
AUDITS = "audits"  # the trial that audits model and sampler for all strategies
# name, strategy, statement, trials that the claim rests on
LIMITS = (
    ("limits-greedy", GREEDY, "T = 0, T → 0, k = 1, p = 0, p → 0 and min-p 1 are greedy", ()),
    (
        "limits-sampling",
        SAMPLE,
        "T = 1, k = 0, k = |V|, p = 1, min-p 0 and typical 1 are plain sampling",
        (AUDITS,),
    ),
)


class Pair(NamedTuple):
    """A measure is larger for one strategy than for the other."""

    name: str
    one: str
    other: str
    measure: str
    statement: str

    @property
    def real(self) -> bool:
        """Whether only prompts that begin texts by people are compared."""
        return PEOPLE in (self.one, self.other)


PAIRS = (
    Pair(
        "greedy-repeats",
        GREEDY,
        SAMPLE,
        "repetition",
        "Greedy texts repeat themselves more than sampled ones",
    ),
    Pair("beam-likelier", GREEDY, "beam", "nll", "Beam search finds likelier texts than greedy"),
    Pair(
        "penalty-helps",
        GREEDY,
        "greedy:repetition",
        "repetition",
        "A repetition penalty makes greedy texts repeat themselves less",
    ),
    Pair(
        "greedy-too-likely",
        PEOPLE,
        GREEDY,
        "nll",
        "Texts by people are less likely under the model than greedy ones",
    ),
    Pair(
        "sampling-too-odd",
        SAMPLE,
        PEOPLE,
        "nll",
        "Sampled texts are less likely under the model than texts by people",
    ),
    Pair(
        "greedy-nearer-prompt",
        GREEDY,
        SAMPLE,
        "margin",
        "Greedy texts are more similar to their prompts than sampled ones",
    ),
)
# name, curve, measure, statement: the measure rises with T, k or p
CURVES = (
    ("colder-likelier", "temperature", "nll", "Perplexity falls as T falls"),
    ("fewer-likelier", "top-k", "nll", "Perplexity falls as k falls"),
    ("smaller-likelier", "top-p", "nll", "Perplexity falls as p falls"),
    ("hotter-diverse", "temperature", "distinct_2", "Texts of one prompt differ more as T rises"),
)
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
    known = [pair for pair in PAIRS if s.has_human or not pair.real]
    chosen = [pair._replace(one=_first(s, pair.one), other=_first(s, pair.other)) for pair in known]
    return [
        *(_limit(arms, *limit) for limit in LIMITS),
        *(_compare(arms, pair) for pair in chosen if pair.one and pair.other),
        *(_rise(arms, *curve) for curve in CURVES),
        _above_chance(arms),
    ]


def curve_of(s: DecodingSettings, name: str) -> dict[float, str]:
    """Value -> strategy along T, k or p; greedy and plain sampling are the ends."""
    low, high = ENDS[name]
    strategies = {**s.curve(name), low: GREEDY, high: SAMPLE}
    return {value: strategies[value] for value in sorted(strategies)}


def judge_of(s: DecodingSettings) -> str:
    """What compares texts with prompts: the encoder ("judge"), or shared words without one."""
    return "words" if s.judge == "none" else "judge"


def limit_shares(row: Row | None, anchor: str) -> dict[str, float]:
    """Strategy -> smallest share of equal tokens with the strategy that it must equal."""
    metrics = row.metrics if row else {}
    prefix = f"{anchor} = "
    return {
        key.removeprefix(prefix): float(str(value))
        for key, value in metrics.items()
        if key.startswith(prefix)
    }


def _limit(
    arms: TextArms, name: str, anchor: str, statement: str, audits: tuple[str, ...]
) -> Claim:
    row = arms.first("limits")
    shares = limit_shares(row, anchor)
    estimate = Estimate(math.nan, method="the trial of the limits did not end")
    if row is not None and shares:
        method = f"every token of {row['prompts']} texts compared"
        n = int(row["prompts"])
        estimate = Estimate(min(shares.values()), n=n, exact=True, method=method)
    return judge(
        name,
        statement,
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


def _compare(arms: TextArms, pair: Pair) -> Claim:
    measure = f"margin_{judge_of(arms.s)}" if pair.measure == "margin" else pair.measure
    return judge(
        pair.name,
        pair.statement,
        arms.gap(pair.one, pair.other, measure, real=pair.real),
        above=0.0,
        quantity=f"{QUANTITIES[pair.measure]}, {pair.one} − {pair.other}",
        trials=arms.ids(pair.one, pair.other, AUDITS),
        comparison=True,
    )


def _rise(arms: TextArms, name: str, which: str, measure: str, statement: str) -> Claim:
    """Neighbours on the curve, with intervals corrected for several steps; the worst decides."""
    strategies = list(curve_of(arms.s, which).values())
    pairs = list(zip(strategies[1:], strategies[:-1], strict=True))
    steps = [arms.gap(*pair, measure) for pair in pairs]
    decides = worst_step(steps)
    widened = (step.at(1 - (1 - LEVEL) / len(steps)) for step in steps)
    high, low = pairs[weakest_step(list(widened))]
    return judge(
        name,
        statement,
        decides,
        above=0.0,
        trials=arms.ids(*strategies, AUDITS),
        quantity=f"{QUANTITIES[measure]}, {high} − {low}: the step that decides",
        comparison=True,
    )


def _above_chance(arms: TextArms) -> Claim:
    column = f"rank_{judge_of(arms.s)}"
    return judge(
        "on-topic",
        "Sampled texts are more similar to their own prompt than to a shuffled one",
        arms.estimate(SAMPLE, column),
        above=0.5,
        trials=arms.ids(SAMPLE, AUDITS),
        comparison=True,
        quantity="share of other prompts that are less similar to the text (chance: 0.5)",
    )
