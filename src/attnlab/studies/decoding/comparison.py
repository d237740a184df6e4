"""Every strategy minus people, and minus plain sampling, on every measure.

A measure tells two apart if the interval of their difference, over the same prompts, excludes 0
after Bonferroni's correction for all strategies and measures.
"""

from dataclasses import dataclass
from typing import NamedTuple

from attnlab.measure.intervals import LEVEL, Estimate
from attnlab.studies.decoding.claims import judge_of
from attnlab.studies.decoding.evidence import TextArms
from attnlab.studies.decoding.strategies import PEOPLE


class Measure(NamedTuple):
    """A measure of texts: its name in the evidence, in words, and its unit."""

    name: str
    words: str
    unit: str


def measures(arms: TextArms, people: bool = True) -> list[Measure]:
    """Likelihood, repetition, diversity, similarity; people have only one text per prompt."""
    return [
        Measure("nll", "log-perplexity", "nats per token"),
        Measure("repetition", "repetition", f"share of repeated {arms.s.repeat}-grams"),
        Measure("across", "distinct-2 over prompts", "share")
        if people
        else Measure("self_bleu", "self-BLEU", "one prompt's texts"),
        Measure(
            f"margin_{judge_of(arms.s)}", "similarity to the prompt", "cosine above other prompts'"
        ),
    ]


@dataclass(frozen=True)
class Comparison:
    """Corrected differences from people, or from one strategy, by strategy and measure."""

    differences: dict[tuple[str, str], Estimate]

    def tells_apart(self, arm: str, measure: str) -> bool:
        """Whether the corrected interval of the difference excludes 0."""
        d = self.differences[arm, measure]
        return d.has_interval and (d.low > 0 or d.high < 0)

    def nearest(self, measure: str) -> str:
        """The strategy with the smallest difference."""
        sizes = {arm: abs(d.value) for (arm, m), d in self.differences.items() if m == measure}
        return min(sizes, key=lambda arm: sizes[arm])

    def not_told_apart(self) -> list[str]:
        """Strategies that no measure tells apart from the other side."""
        told = {arm for arm, measure in self.differences if self.tells_apart(arm, measure)}
        return [arm for arm in dict.fromkeys(arm for arm, _ in self.differences) if arm not in told]


def compare_with(arms: TextArms, other: str = PEOPLE) -> Comparison | None:
    """Every strategy minus people, or minus one strategy; None where these have no texts."""
    people = other == PEOPLE
    names = [arm for arm in arms.names() if arm != other]
    if not names or not arms.rows(other):
        return None
    columns = [measure.name for measure in measures(arms, people)]
    level = 1 - (1 - LEVEL) / (len(names) * len(columns))
    return Comparison(
        {
            (arm, name): arms.gap(arm, other, name, real=people, level=level)
            for arm in names
            for name in columns
        }
    )
