"""Query, key and value maps as ReLU networks: does depth not matter, or is attention dead?"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnlab.lab.claim import Claim, Reported, judge_ratio
from attnlab.lab.study import StudySettings, deferred, setting
from attnlab.studies.mini_gpt.study import OFF, GPTArms, MiniGPTSettings, MiniGPTStudy, Parts

DOCUMENT = "course report: sentences of Shakespeare's plays, model and budget not given"
NO_EFFECT = Reported(1.0, DOCUMENT, comparable=False, note="“no effect, only slower”")


class DepthSettings(MiniGPTSettings):
    """The depths; fewer seeds than in the other studies, for deep maps are slow."""

    depths: tuple[int, ...] = setting(
        "numbers of hidden layers of each map, with PyTorch's initialisation",
        (1, 4, 7, 10, 20, 30),
        smoke=(1, 6),
        full=(1, 4, 7, 10, 13, 17, 20, 23, 26, 30),
        min_length=2,
    )
    kept: tuple[int, ...] = setting(
        "the same with an initialisation that keeps the variance",
        (1, 30),
        smoke=(1, 6),
        full=(1, 10, 20, 30),
        min_length=2,
    )
    seeds: int = setting("models per arm", 3, full=5, ge=1)


def arm_name(depth: int, initial: str) -> str:
    """'depth 10, torch' (PyTorch's default initialisation) or 'depth 10, preserving' (He's)."""
    return f"depth {depth}, {initial}"


def depth_parts(depth: int, initial: str) -> Parts:
    """Query, key and value maps of `depth` hidden layers."""
    return {"project": {"name": "mlp", "depth": depth, "init": initial}}


class ProjectionDepth(MiniGPTStudy):
    """Reported: depth has no effect, it is only slower."""

    name = "projection-depth"
    question = "Do deeper query, key and value maps change what attention can do?"
    source = "A course report on Shakespeare: d in {1, 4, …, 30} hidden layers, no effect"
    Settings: ClassVar[type[StudySettings]] = DepthSettings
    settings: DepthSettings  # pyright: ignore[reportIncompatibleVariableOverride]
    expected: ClassVar = {
        "smoke": "about 40 seconds on two cores",
        "quick": "about 12 minutes on two cores",
        "full": "about 13 minutes on one H200 with 7 workers (a third of it was measured)",
    }
    not_of_a_trial = ("depths", "kept")
    plain = "linear"
    added_at_full = ", at all ten depths of the report"
    reported_mean = ""  # the report does not say which of the two it gives
    other_text = (
        "The report trained on Shakespeare too, but gives neither its vocabulary nor its split"
    )
    template = "projection_depth.md"

    figures = deferred(".figures:depth_figures")

    def by_initial(self) -> dict[str, list[int]]:
        """The depths, sorted, by initialisation."""
        return {"torch": sorted(self.settings.depths), "preserving": sorted(self.settings.kept)}

    def arm_parts(self) -> Mapping[str, Parts]:
        """The deepest first, for they take longest; then the linear map, and no attention."""
        deep = {
            arm_name(depth, initial): depth_parts(depth, initial)
            for depth in sorted({*self.settings.depths, *self.settings.kept}, reverse=True)
            for initial, depths in self.by_initial().items()
            if depth in depths
        }
        return {**deep, "linear": {}, "attention off": OFF}

    def claims(self, arms: GPTArms) -> Sequence[Claim]:
        """The reported flat line, for PyTorch's initialisation and one that keeps the variance."""
        (low, *_, high), (kept_low, *_, kept_high) = self.by_initial().values()
        shallow, deep = arm_name(low, "torch"), arm_name(high, "torch")
        kept_pair = arm_name(kept_high, "preserving"), arm_name(kept_low, "preserving")
        return [
            arms.compare(
                "flat",
                f"PyTorch's initialisation: depth {high} does as well as depth {low} (±5 %)",
                (deep, shallow),
                above=0.95,
                below=1.05,
                reported=NO_EFFECT,
            ),
            _score_spread(
                arms,
                "scores-die",
                f"PyTorch's initialisation: the spread of the scores at depth {high} is below 1e-6 "
                f"of that at depth {low}",
                (deep, shallow),
                below=1e-6,
            ),
            arms.compare(
                "no-attention",
                f"Depth {high} with PyTorch's initialisation equals attention off (±2 %)",
                (deep, "attention off"),
                above=0.98,
                below=1.02,
            ),
            _score_spread(
                arms,
                "scores-live",
                f"Variance kept: the spread of the scores at depth {kept_high} is above 1 % of "
                f"that at depth {kept_low}",
                kept_pair,
                above=0.01,
            ),
            arms.compare(
                "depth-costs",
                f"Variance kept: depth {kept_high} is worse than depth {kept_low}",
                kept_pair,
                above=1.0,
            ),
            arms.compare(
                "linear-is-enough",
                f"The linear map is as good as depth {low} (+2 %)",
                ("linear", shallow),
                below=1.02,
            ),
            *arms.shared_claims("linear"),
        ]


def _score_spread(
    arms: GPTArms, name: str, statement: str, pair: tuple[str, str], **limits: Any
) -> Claim:
    """The claim about the ratio of the scores' spreads before training; a zero counts as tiny."""
    one, other = (arms.values(arm, "initial_score_spread") for arm in pair)
    seeds = sorted(one.keys() & other.keys())
    logs = [math.log(max(one[seed], 1e-300) / other[seed]) for seed in seeds]
    quantity = f"score spread, {pair[0]} / {pair[1]}"
    return judge_ratio(name, statement, logs, quantity=quantity, trials=arms.ids(*pair), **limits)
