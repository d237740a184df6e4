"""Query, key and value maps as ReLU networks of depth d: no effect, or no attention?"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.study import Figure, StudySettings
from attnlab.lab.table import Table
from attnlab.measure.intervals import mean_interval
from attnlab.studies.mini_gpt.arms import OFF, Arm, depth_arm
from attnlab.studies.mini_gpt.evidence import Arms, exponential, ratio_claim
from attnlab.studies.mini_gpt.settings import FULL, SMOKE, MiniSettings, about
from attnlab.studies.mini_gpt.study import COURSE, MiniStudy, said

ALL_DEPTHS = (1, 4, 7, 10, 13, 17, 20, 23, 26, 30)
NO_EFFECT = Reported(1.0, COURSE, comparable=False, note="“no effect, only slower”")


class DepthSettings(MiniSettings):
    """The depths; fewer seeds than in the other studies, for the deep ones are slow."""

    depths: tuple[int, ...] = about("hidden layers d of each map", (1, 4, 10, 30), min_length=2)
    seeds: int = about("models an arm", 3, ge=1)


def arm_name(depth: int, initial: str) -> str:
    """'depth 10, torch' (its default initialisation) or 'depth 10, preserving'."""
    return f"depth {depth}, {initial}"


class ProjectionDepth(MiniStudy):
    """Reported: depth has no effect, it is only slower."""

    name = "projection-depth"
    question = "Do deeper query, key and value maps change what attention can do?"
    source = "A course report: d in {1, 4, …, 30} hidden layers, no effect on perplexity"
    Settings: ClassVar[type[StudySettings]] = DepthSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "smoke": {**SMOKE, "depths": [1, 6]},
        "full": {**FULL, "depths": list(ALL_DEPTHS), "steps": 2500},
    }
    expected: ClassVar = {
        "smoke": "about 40 seconds on two cores",
        "quick": "about 13 minutes on two cores",
        "full": "about 20 minutes on one H200 with 15 workers",
    }

    def arms(self) -> Mapping[str, Arm]:
        """The deepest first, for they take longest; then the linear map, and no attention."""
        deep = {
            arm_name(depth, initial): depth_arm(depth, initial)
            for depth in sorted(self.depths, reverse=True)
            for initial in ("torch", "preserving")
        }
        return {**deep, "linear": {}, "attention off": OFF}

    @property
    def depths(self) -> tuple[int, ...]:
        """Hidden layers of the maps."""
        return cast("DepthSettings", self.settings).depths

    @property
    def ends(self) -> tuple[int, int]:
        """The shallowest and the deepest."""
        return min(self.depths), max(self.depths)

    def claims(self, table: Table) -> list[Claim]:
        """The reported flat line; what dies on the way; what lives when variance is kept."""
        a, (low, high) = Arms(table), self.ends
        deep, shallow = arm_name(high, "torch"), arm_name(low, "torch")
        kept, kept_low = arm_name(high, "preserving"), arm_name(low, "preserving")
        return [
            ratio_claim(
                a,
                "flat",
                f"torch's start: depth {high} is level with depth {low} (±5 %)",
                (deep, shallow),
                above=0.95,
                below=1.05,
                reported=NO_EFFECT,
            ),
            _scores(
                a,
                "scores-die",
                f"torch's start: scores at depth {high} are below 1e-6 of those at {low}",
                (deep, shallow),
                below=1e-6,
            ),
            ratio_claim(
                a,
                "no-attention",
                f"Depth {high} (torch) equals attention off (±2 %)",
                (deep, "attention off"),
                above=0.98,
                below=1.02,
            ),
            _scores(
                a,
                "scores-live",
                f"Variance kept: scores at depth {high} are above 1 % of those at {low}",
                (kept, kept_low),
                above=0.01,
            ),
            ratio_claim(
                a,
                "depth-costs",
                f"Variance kept: depth {high} is worse than depth {low}",
                (kept, kept_low),
                above=1.0,
            ),
            ratio_claim(
                a,
                "linear-is-enough",
                f"The linear map is as good as depth {low} (+2 %)",
                ("linear", shallow),
                below=1.02,
            ),
            ratio_claim(
                a,
                "attention-helps",
                "Attention is worth something: switched off is worse",
                ("attention off", "linear"),
                above=1.0,
            ),
        ]

    def figures(self, table: Table) -> list[Figure]:
        """Against depth first."""
        from attnlab.studies.mini_gpt.depth_figures import depth_figures

        own = depth_figures(Arms(table), self.depths, self.settings.seeds)
        return [*own, *super().figures(table)]

    def answer(self, claims: Sequence[Claim]) -> str:
        """Flat because nothing is left, or flat because depth does not matter?"""
        found = {c.name: c for c in claims}
        if found["flat"].verdict == "undecided":
            return f"Not settled at this scale: {found['flat'].why}."
        line = "flat" if found["flat"].verdict == "holds" else "not flat"
        if found["no-attention"].verdict == found["scores-die"].verdict == "holds":
            return (
                f"With torch's initialisation perplexity against depth is {line}, and at depth "
                f"{self.ends[1]} that means no attention: the scores are dead and the model equals "
                "one with attention switched off."
            )
        return f"With torch's initialisation perplexity against depth is {line}; see the claims."

    def meaning(self, arms: Arms, found: Mapping[str, Claim]) -> list[str]:
        """Dead signals, living ones, cost."""
        return [
            "torch initialises a linear layer with weights of variance 1/(3·width): each ReLU "
            "layer keeps about a sixth of the variance, so d layers shrink queries and keys "
            f"by about 6^(−d/2) each. Measured at the start: {said(found['scores-die'])}. The "
            "gradient that reaches them shrinks alike. Is attention still there? "
            f"{said(found['no-attention'])}.",
            "With He's initialisation the hidden layers keep their variance: "
            f"{said(found['scores-live'])}; the price of depth is then visible or not: "
            f"{said(found['depth-costs'])}.",
            f"“No effect” ({said(found['flat'])}) has therefore to be read with the scale of "
            "the scores beside it, which the figures show.",
        ]


def _scores(
    a: Arms,
    name: str,
    statement: str,
    pair: tuple[str, str],
    *,
    above: float = -math.inf,
    below: float = math.inf,
) -> Claim:
    """Ratio of the scores' spread before training; both must exist, and a zero counts as tiny."""
    ours, theirs = (a.values(arm, "initial_score_spread") for arm in pair)
    logs = [math.log(max(ours[s], 1e-300) / theirs[s]) for s in sorted(ours.keys() & theirs.keys())]
    return judge(
        name,
        statement,
        exponential(mean_interval(logs)),
        above=above,
        below=below,
        quantity=f"score spread, {pair[0]} / {pair[1]}",
        trials=a.ids(*pair),
    )
