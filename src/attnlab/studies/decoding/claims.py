"""What may be concluded: the limits, exactly; differences over prompts; order along T, k and p."""

import math
from collections.abc import Sequence

from attnlab.lab.claim import Claim, judge
from attnlab.lab.table import Row
from attnlab.measure.intervals import LEVEL, Estimate
from attnlab.studies.decoding.evidence import GREEDY, PEOPLE, Evidence, steepest
from attnlab.studies.decoding.settings import DecodingSettings

SAMPLE = "sample"
EXACT = 1 - 1e-12  # shares of equal tokens are ratios of small whole numbers: nothing lies between
LIMITS = (
    ("limits-greedy", GREEDY, "T = 0, T → 0, k = 1, p = 0, p → 0 and min-p 1 are greedy"),
    ("limits-sampling", SAMPLE, "T = 1, k = 0, k = |V|, p = 1, min-p 0 and typical 1 are sampling"),
)
# name, one, other, measure, whether among the prompts people went on from, statement, quantity
PAIRS = (
    (
        "greedy-repeats",
        GREEDY,
        SAMPLE,
        "repetition",
        False,
        "Greedy texts repeat themselves more than sampled ones",
        "share of n-grams said before",
    ),
    (
        "beam-likelier",
        GREEDY,
        "beam",
        "nll",
        False,
        "Beam search finds likelier texts than greedy",
        "nats a token",
    ),
    (
        "penalty-helps",
        GREEDY,
        "greedy:repetition",
        "repetition",
        False,
        "A penalty makes greedy texts repeat themselves less",
        "share of n-grams said before",
    ),
    (
        "greedy-too-likely",
        PEOPLE,
        GREEDY,
        "nll",
        True,
        "People's texts surprise the model more than its greedy ones",
        "nats a token",
    ),
    (
        "sampling-too-odd",
        SAMPLE,
        PEOPLE,
        "nll",
        True,
        "Sampled texts surprise the model more than people's do",
        "nats a token",
    ),
    (
        "greedy-nearer-prompt",
        GREEDY,
        SAMPLE,
        "margin",
        False,
        "Greedy texts keep nearer to their prompts than sampled ones",
        "cosine above other prompts'",
    ),
)
# name, curve, measure, statement: the measure rises with the value
CURVES = (
    ("colder-likelier", "temperature", "nll", "Perplexity falls as T falls"),
    ("fewer-likelier", "top-k", "nll", "Perplexity falls as k falls"),
    ("smaller-likelier", "top-p", "nll", "Perplexity falls as p falls"),
    ("hotter-diverse", "temperature", "distinct_2", "Texts of one prompt differ more as T rises"),
)
ENDS = {"temperature": (0.0, 1.0), "top-k": (1.0, math.inf), "top-p": (0.0, 1.0)}


def claims(e: Evidence) -> list[Claim]:
    """Limits; pairs whose strategies are part of the run; curves; nearness above chance."""
    found = [_limit(e, *limit) for limit in LIMITS]
    for name, one, other, measure, real, statement, quantity in PAIRS:
        one, other = (_chosen(e.s, arm) for arm in (one, other))
        if one and other and (e.s.has_human or not real):
            found.append(_pair(e, (name, statement, quantity), (one, other), measure, real))
    found += [_curve(e, *curve) for curve in CURVES]
    return [*found, _above_chance(e)]


def curve(s: DecodingSettings, name: str) -> dict[float, str]:
    """Values and strategies of T, k or p, rising; greedy and plain sampling where they belong."""
    low, high = ENDS[name]
    found = {**s.curve(name), low: GREEDY, high: SAMPLE}
    return {value: found[value] for value in sorted(found)}


def nearness(s: DecodingSettings) -> str:
    """Who judges how near a text is to its prompt: the encoder, or shared words without one."""
    return "words" if s.judge == "none" else "judge"


def limits_row(e: Evidence) -> Row | None:
    """The trial that compared limits."""
    return next(iter(e.rows("limits")), None)


def _limit(e: Evidence, name: str, anchor: str, statement: str) -> Claim:
    row = limits_row(e)
    shares = (
        {}
        if row is None
        else {key: float(str(v)) for key, v in row.metrics.items() if key.startswith(f"{anchor} =")}
    )
    if row is None or not shares:
        estimate = Estimate(math.nan, method="the trial of limits did not end")
    else:
        estimate = Estimate(
            min(shares.values()),
            n=int(row["prompts"]),
            exact=True,
            method=f"every token of {row['prompts']} texts compared",
        )
    return judge(
        name,
        statement,
        estimate,
        above=EXACT,
        trials=e.ids("limits"),
        quantity="smallest share of equal tokens, over limits and prompts",
    )


def _chosen(s: DecodingSettings, arm: str) -> str:
    """The first strategy of the run that begins so; people are none."""
    known = [PEOPLE, *s.strategies()]
    return next((text for text in known if text == arm), "") or next(
        (text for text in known if text.startswith(f"{arm}:") or text.startswith(f"{arm}=")), ""
    )


def _pair(
    e: Evidence, said: tuple[str, str, str], arms: tuple[str, str], measure: str, real: bool
) -> Claim:
    name, statement, quantity = said
    measure = f"margin_{nearness(e.s)}" if measure == "margin" else measure
    return judge(
        name,
        statement,
        e.difference(*arms, measure, real=real),
        above=0.0,
        quantity=f"{quantity}, {arms[0]} − {arms[1]}",
        trials=e.ids(*arms),
        runs=[float(v) for v in e.gaps(*arms, measure, real=real)],
    )


def _curve(e: Evidence, name: str, which: str, measure: str, statement: str) -> Claim:
    """Neighbours on the curve, each interval widened for there being several; the worst decides."""
    arms = list(curve(e.s, which).values())
    pairs = list(zip(arms[1:], arms[:-1], strict=True))
    level = 1 - (1 - LEVEL) / len(pairs)
    found = [e.difference(*pair, measure, level=level) for pair in pairs]
    worst = steepest(found)
    quantity = "nats a token" if measure == "nll" else "distinct-2"
    return judge(
        name,
        statement,
        found[worst],
        above=0.0,
        trials=e.ids(*arms),
        quantity=f"{quantity}, {pairs[worst][0]} − {pairs[worst][1]}: the step that decides",
        runs=[float(v) for v in e.gaps(*pairs[worst], measure)],
    )


def _above_chance(e: Evidence) -> Claim:
    column = f"rank_{nearness(e.s)}"
    values: Sequence[float] = [float(v) - 0.5 for v in e.items(SAMPLE, column)]
    return judge(
        "on-topic",
        "Sampled texts are nearer to their own prompt than to a shuffled one",
        e.estimate(SAMPLE, column),
        above=0.5,
        trials=e.ids(SAMPLE),
        runs=values,
        quantity="share of other prompts that are less like the text (chance: 0.5)",
    )
