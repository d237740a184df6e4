"""Where a token stands: learned, sinusoidal three ways, rotary, ALiBi, none, attention off."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from attnlab.lab.claim import Claim, Reported
from attnlab.lab.table import Table
from attnlab.studies.mini_gpt.arms import POSITIONS, Arm
from attnlab.studies.mini_gpt.evidence import Arms, against_baseline, ratio_claim
from attnlab.studies.mini_gpt.study import COURSE, MiniStudy, said

REPORTED = Reported(486 / 381, COURSE, comparable=False, note="486 / 381; only ratios compare")


class Positions(MiniStudy):
    """Learned positions reported 401/381 (train/dev perplexity), sinusoidal ones 525/486."""

    name = "positions"
    question = "Do sinusoidal positions lose to learned ones, and if so, why?"
    source = "A course report on a 3-layer GPT: learned 401/381, sinusoidal 525/486 (train/dev)"
    expected: ClassVar = {
        "smoke": "about 40 seconds on two cores",
        "quick": "about 11 minutes on two cores",
        "full": "not measured",
    }

    def arms(self) -> Mapping[str, Arm]:
        """One position part each; the last has no attention."""
        return POSITIONS

    def claims(self, table: Table) -> list[Claim]:
        """Each is a ratio of dev perplexities, paired by seed."""
        a = Arms(table)
        return [
            ratio_claim(
                a,
                "sinusoidal-loses",
                "Sinusoids as reported (size 0.7) do worse than learned",
                ("sinusoidal as reported", "learned"),
                above=1.0,
                metric="dev_sentence_mean",
                reported=REPORTED,
            ),
            ratio_claim(
                a,
                "amplitude-is-why",
                "Scaled to the size of embeddings they match learned (±3 %)",
                ("sinusoidal scaled", "learned"),
                above=0.97,
                below=1.03,
            ),
            ratio_claim(
                a,
                "exponent-is-not-why",
                "Reported and standard exponents are level (±3 %)",
                ("sinusoidal as reported", "sinusoidal"),
                above=0.97,
                below=1.03,
            ),
            ratio_claim(
                a,
                "rotary-wins",
                "Rotary positions do better than learned",
                ("rotary", "learned"),
                below=1.0,
            ),
            ratio_claim(
                a,
                "alibi-wins",
                "ALiBi does better than learned positions",
                ("alibi", "learned"),
                below=1.0,
            ),
            ratio_claim(
                a,
                "none-is-close",
                "Without positions the loss is within 10 % of learned",
                ("none", "learned"),
                above=0.9,
                below=1.1,
            ),
            ratio_claim(
                a,
                "attention-helps",
                "Attention is worth something: switched off is worse",
                ("attention off", "learned"),
                above=1.0,
            ),
            against_baseline(a, "learned", "bigram"),
            against_baseline(a, "learned", "trigram"),
        ]

    def answer(self, claims: Sequence[Claim]) -> str:
        """Yes or no, and the amplitude."""
        found = {c.name: c for c in claims}
        lose, why = found["sinusoidal-loses"], found["amplitude-is-why"]
        if lose.verdict == "undecided":
            return f"Not settled at this scale: {lose.why}."
        number = f"{lose.estimate.value:.3f} [{lose.estimate.low:.3f}, {lose.estimate.high:.3f}]"
        if lose.verdict == "fails":
            return f"No: sinusoids as reported reach {number} times the perplexity of learned ones."
        cause = {
            "holds": "and their amplitude is why: scaled down they match",
            "fails": "and scaling them down does not bring them level",
            "undecided": "whether their amplitude is why is not settled",
        }[why.verdict]
        return f"Yes: {number} times the perplexity of learned positions, {cause}."

    def meaning(self, arms: Arms, found: Mapping[str, Claim]) -> list[str]:
        """Amplitude, worth of attention, what no position does."""
        off = found["attention-helps"]
        return [
            "A sinusoid has root mean square 0.7; a word's embedding starts with entries of size "
            "0.02. Added as they are, the positions drown the words at first: "
            f"as reported, {said(found['sinusoidal-loses'])}; scaled to the words' size, "
            f"{said(found['amplitude-is-why'])}. The unusual exponents of the report are not the "
            f"cause: {said(found['exponent-is-not-why'])}.",
            "How much could any position change? Only what attention is worth here: switched off, "
            f"perplexity is {off.estimate.value:.3f} times that of the full model ({off.verdict}). "
            "Differences between position parts must be read against that number.",
            f"Relative positions: rotary {said(found['rotary-wins'])}; ALiBi "
            f"{said(found['alibi-wins'])}. Without any: {said(found['none-is-close'])}; the causal "
            "mask alone tells a layer how much has been read, so order is not lost entirely.",
        ]
