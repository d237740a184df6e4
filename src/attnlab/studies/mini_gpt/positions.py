"""Position parts compared: learned, sinusoidal in four ways, rotary, ALiBi, none."""

from collections.abc import Sequence
from typing import ClassVar

from attnlab.lab.claim import Claim
from attnlab.studies.mini_gpt.study import OFF, GPTArms, MiniGPTStudy, Parts, reported_ratio

# embeddings start with entries of size 0.02; sinusoids have root mean square 1/√2
AS_SMALL_AS_EMBEDDINGS = 0.02 * 2**0.5

# two exponents × two amplitudes: neighbours differ in one of them
AS_REPORTED, STANDARD = "sinusoidal as reported", "sinusoidal"
AS_REPORTED_SCALED, STANDARD_SCALED = "sinusoidal as reported, scaled", "sinusoidal scaled"


def _sinusoidal(exponent: str, scale: float = 1.0) -> Parts:
    return {"position": {"name": "sinusoidal", "exponent": exponent, "scale": scale}}


POSITIONS: dict[str, Parts] = {
    "learned": {"position": {"name": "learned"}},
    AS_REPORTED: _sinusoidal("reported"),
    AS_REPORTED_SCALED: _sinusoidal("reported", AS_SMALL_AS_EMBEDDINGS),
    STANDARD: _sinusoidal("standard"),
    STANDARD_SCALED: _sinusoidal("standard", AS_SMALL_AS_EMBEDDINGS),
    "rotary": {"position": {"name": "rotary"}},
    "alibi": {"position": {"name": "alibi"}},
    "none": {"position": {"name": "none"}},
    "attention off": OFF,
}


class Positions(MiniGPTStudy):
    """Reported train/dev perplexities: learned positions 401/381, sinusoidal ones 525/486."""

    name = "positions"
    question = "Do sinusoidal positions lose to learned ones, and if so, why?"
    source = "A course report on a 3-layer GPT: learned 401/381, sinusoidal 525/486 (train/dev)"
    expected: ClassVar = {
        "smoke": "about 40 seconds on two cores",
        "quick": "about 12 minutes on two cores",
        "full": "about 4 minutes on one H200 with 7 workers",
    }
    parts = POSITIONS
    plain = "learned"
    template = "positions.md"

    def claims(self, arms: GPTArms) -> Sequence[Claim]:
        """Ratios of dev perplexities, paired by seed."""
        return [
            arms.compare(
                "sinusoidal-loses",
                "Sinusoids as reported (root mean square 0.7) do worse than learned positions",
                (AS_REPORTED, "learned"),
                "dev_sentence_mean",
                above=1.0,
                reported=reported_ratio(486),
            ),
            arms.compare(
                "amplitude-is-why",
                "The reported sinusoids do better when nothing but their amplitude is changed, to "
                "the size of the embeddings",
                (AS_REPORTED_SCALED, AS_REPORTED),
                below=1.0,
            ),
            arms.compare(
                "scaled-is-level",
                "So scaled, the reported sinusoids match learned positions (±3 %)",
                (AS_REPORTED_SCALED, "learned"),
                above=0.97,
                below=1.03,
            ),
            arms.compare(
                "exponent-is-not-why",
                "With nothing but the exponents changed, to the standard ones, sinusoids still do "
                "worse than learned positions",
                (STANDARD, "learned"),
                above=1.0,
            ),
            arms.compare(
                "exponents-are-equal",
                "At the small amplitude the reported and the standard exponents are level (±3 %)",
                (AS_REPORTED_SCALED, STANDARD_SCALED),
                above=0.97,
                below=1.03,
            ),
            arms.compare(
                "rotary-wins",
                "Rotary positions do better than learned positions",
                ("rotary", "learned"),
                below=1.0,
            ),
            arms.compare(
                "alibi-wins",
                "ALiBi does better than learned positions",
                ("alibi", "learned"),
                below=1.0,
            ),
            arms.compare(
                "none-is-close",
                "Without positions the perplexity is within 10 % of that with learned ones",
                ("none", "learned"),
                above=0.9,
                below=1.1,
            ),
            *arms.shared_claims("learned"),
        ]
