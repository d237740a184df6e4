"""Every strategy beside people, and beside plain sampling, as far as each measure can tell.

Two are told apart on a measure when the interval of their difference, over the same prompts, leaves
0 out after Bonferroni's correction for all strategies and measures.
"""

from dataclasses import dataclass

from attnlab.measure.intervals import LEVEL, Estimate
from attnlab.studies.decoding.claims import nearness
from attnlab.studies.decoding.evidence import PEOPLE, Evidence


@dataclass(frozen=True)
class Axis:
    """A measure of texts."""

    measure: str
    words: str
    unit: str


def axes(e: Evidence, people: bool = True) -> list[Axis]:
    """Likelihood, repetition, diversity, nearness to the prompt; people have one text a prompt."""
    diverse = (
        Axis("across", "distinct-2 over prompts", "share")
        if people
        else Axis("self_bleu", "self-BLEU", "one prompt's texts")
    )
    return [
        Axis("nll", "log-perplexity", "nats a token"),
        Axis("repetition", "repetition", f"share of {e.s.repeat}-grams said before"),
        diverse,
        Axis(f"margin_{nearness(e.s)}", "nearness to the prompt", "cosine above other prompts'"),
    ]


@dataclass(frozen=True)
class Beside:
    """Differences from people, or from one strategy: by strategy and measure, corrected."""

    differences: dict[tuple[str, str], Estimate]

    def told(self, arm: str, measure: str) -> bool:
        """Whether the measure tells the strategy from them."""
        d = self.differences[arm, measure]
        return d.has_interval and (d.low > 0 or d.high < 0)

    def nearest(self, measure: str) -> str:
        """The strategy whose difference is smallest."""
        here = {arm: abs(d.value) for (arm, m), d in self.differences.items() if m == measure}
        return min(here, key=lambda arm: here[arm])

    def not_told(self) -> list[str]:
        """Strategies that no measure tells from them."""
        arms = dict.fromkeys(arm for arm, _ in self.differences)
        measures = dict.fromkeys(m for _, m in self.differences)
        return [arm for arm in arms if not any(self.told(arm, m) for m in measures)]


def beside(e: Evidence, other: str = PEOPLE) -> Beside | None:
    """Every strategy minus people, or minus one of them; None where these have no texts."""
    people = other == PEOPLE
    names = [arm for arm in e.names() if arm != other]
    if not names or not e.rows(other):
        return None
    level = 1 - (1 - LEVEL) / (len(names) * len(axes(e, people)))
    return Beside(
        {
            (arm, axis.measure): e.difference(arm, other, axis.measure, real=people, level=level)
            for arm in names
            for axis in axes(e, people)
        }
    )
