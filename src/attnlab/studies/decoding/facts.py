"""What the report's template shows: measures, differences, limits, sample texts.

A measure tells a strategy apart from people, or from plain sampling, if the interval of their
difference, over the same prompts, excludes 0 after Bonferroni's correction for all strategies and
measures.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from attnlab.lab.claim import Claim
from attnlab.measure.intervals import LEVEL, Estimate
from attnlab.report.prose import decimals
from attnlab.studies.decoding.claims import LIMITS, limit_shares
from attnlab.studies.decoding.evidence import TextArms
from attnlab.studies.decoding.strategies import PEOPLE, SAMPLE
from attnlab.studies.decoding.study import Decoding

SHORT = {
    "colder-likelier": "texts get likelier as T falls",
    "hotter-diverse": "texts of one prompt differ more as T rises",
    "greedy-repeats": "greedy repeats itself more than sampling",
    "greedy-too-likely": "greedy texts are likelier than people's",
    "sampling-too-odd": "sampled texts are less likely than people's",
}


def facts(study: Decoding, arms: TextArms, claims: Sequence[Claim]) -> Mapping[str, Any]:
    """What the template needs besides the claims."""
    people, sampling, limits = compare_with(arms), compare_with(arms, SAMPLE), arms.first("limits")
    greedy = next((claim for claim in claims if claim.name == "greedy-repeats"), None)
    return {
        "counts": "" if greedy and greedy.estimate.n else study.answer(claims),
        "short": {
            verdict: [SHORT[c.name] for c in claims if c.name in SHORT and c.verdict == verdict]
            for verdict in ("holds", "fails", "undecided")
        },
        "label": arms.label,
        "labels_of": lambda names: [arms.label(arm) for arm in names],
        "people": people,
        "sampling": sampling,
        "measures": measures(arms),
        "between": measures(arms, people=False),
        "with_unit": lambda columns: [f"{m.words} ({m.unit})" for m in columns],
        "rows": [_measured(arms, arm) for arm in arms.names()],
        "people_rows": people.rows(arms) if people else [],
        "sampling_rows": sampling.rows(arms) if sampling else [],
        "human": [decimals(arms.estimate(PEOPLE, m.name, real=True)) for m in measures(arms)],
        "real": len(arms.real()),
        "limits": limits,
        "limit_shares": {
            name: {"anchor": anchor, "shares": limit_shares(limits, anchor)}
            for name, (anchor, _) in LIMITS.items()
        },
        **_samples(arms),
    }


class Measure(NamedTuple):
    """A measure of texts: its name in the evidence, in words, and its unit."""

    name: str
    words: str
    unit: str


def measures(arms: TextArms, people: bool = True) -> list[Measure]:
    """Likelihood, repetition, diversity, similarity; people have only one text per prompt."""
    across = Measure("across", "distinct-2 over prompts", "share")
    within = Measure("self_bleu", "self-BLEU", "one prompt's texts")
    margin = f"margin_{arms.judge}"
    return [
        Measure("nll", "log-perplexity", "nats per token"),
        Measure("repetition", "repetition", f"share of repeated {arms.s.repeat}-grams"),
        across if people else within,
        Measure(margin, "similarity to the prompt", "cosine above other prompts'"),
    ]


@dataclass(frozen=True)
class Comparison:
    """Corrected differences from people, or from one strategy, by strategy and measure."""

    differences: dict[tuple[str, str], Estimate]

    @property
    def arms(self) -> list[str]:
        """The strategies that are compared."""
        return list(dict.fromkeys(arm for arm, _ in self.differences))

    def tells_apart(self, arm: str, measure: str) -> bool:
        """Whether the corrected interval of the difference excludes 0."""
        d = self.differences[arm, measure]
        return d.low > 0 or d.high < 0

    def nearest(self, measure: str) -> str:
        """The strategy with the smallest difference."""
        return min(self.arms, key=lambda arm: abs(self.differences[arm, measure].value))

    def not_told_apart(self) -> list[str]:
        """Strategies that no measure tells apart from the other side."""
        told = {arm for arm, measure in self.differences if self.tells_apart(arm, measure)}
        return [arm for arm in self.arms if arm not in told]

    def rows(self, arms: TextArms) -> list[list[str]]:
        """One row per strategy; (real) marks differences whose corrected interval excludes 0."""
        rows = {arm: [arms.label(arm)] for arm in self.arms}
        for (arm, measure), difference in self.differences.items():
            real = " (real)" if self.tells_apart(arm, measure) else ""
            rows[arm].append(f"{decimals(difference, sign='+')}{real}")
        return list(rows.values())


def compare_with(arms: TextArms, other: str = PEOPLE) -> Comparison | None:
    """Every strategy minus people, or minus one strategy; None where these have no texts."""
    people = other == PEOPLE
    names = [arm for arm in arms.names() if arm != other]
    if not names or not arms.rows(other):
        return None
    pairs = [(arm, measure.name) for arm in names for measure in measures(arms, people)]
    level = 1 - (1 - LEVEL) / len(pairs)
    return Comparison(
        {(arm, name): arms.gap(arm, other, name, real=people, level=level) for arm, name in pairs}
    )


def _measured(arms: TextArms, arm: str) -> list[str]:
    """The row of a strategy in the table of all measures."""

    def value(measure: str) -> float:
        return arms.estimate(arm, measure).value

    def shown(measure: str, digits: int = 3) -> str:
        return decimals(arms.shown(arm, measure), digits)

    return [
        arms.label(arm),
        shown("nll", 2),
        "/".join(f"{value(f'distinct_{n}'):.2f}" for n in (1, 2, 3)),
        shown("self_bleu"),
        shown("repetition"),
        f"{value('tokens'):.1f}, {value('ended'):.0%}",
        f"{shown('prefix')} / {shown('agreement')}",
        f"{shown(f'margin_{arms.judge}')}, {value(f'rank_{arms.judge}'):.2f}",
    ]


def _samples(arms: TextArms) -> dict[str, Any]:
    """The first prompt and the different texts that each strategy wrote after it."""
    names = arms.names()
    documents = arms.rows(names[0])[0].documents if names else {}
    if not arms.s.shown or "prompts.json" not in documents:
        return {"prompt": "", "samples": {}}
    samples = {}
    for arm in names:
        texts = dict.fromkeys(text.strip() for row in arms.rows(arm) for text in row.samples)
        samples[arms.label(arm)] = [text or "(nothing)" for text in list(texts)[: arms.s.shown]]
    return {"prompt": json.loads(documents["prompts.json"])[0], "samples": samples}
