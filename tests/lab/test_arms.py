"""Arms: paired differences and ratios, curves, claims; which of them are comparisons."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import pytest

from attnlab.lab.arms import Arms, ArmStudy, Share
from attnlab.lab.study import StudySettings, setting
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.intervals import mean_interval

LABELS = {"a": "the first", "b": "the second", "never": "not run"}
VALUES = {"a": (3.0, 5.0, 11.0), "b": (2.0, 3.0, 7.0)}


def row(arm: str, seed: int, value: float) -> Row:
    return Row(
        f"{arm}{seed}",
        seed,
        "done",
        {"arm": arm},
        {"x": value, "gone": None},
        {"seconds": float(seed)} if seed else {},
        load_arrays=lambda: {"parts": np.array([value, -value])},
        load_curves=lambda: {"step": [1.0, 2.0], "y": [value, 2 * value]},
    )


ROWS = [row(arm, seed, v) for arm, values in VALUES.items() for seed, v in enumerate(values)]
ARMS = Arms(Table(ROWS[::-1]), LABELS)  # any order of rows


def test_trials_by_arm_and_seed() -> None:
    assert ARMS.names() == ["a", "b"] and ARMS.label("b") == "the second"
    assert ARMS.ids("b") == ["b0", "b1", "b2"] and len(ARMS.ids()) == 6
    assert ARMS.values("a", "x") == {0: 3.0, 1: 5.0, 2: 11.0} and ARMS.values("a", "gone") == {}
    assert ARMS.mean("b", "x") == pytest.approx(4) and math.isnan(ARMS.mean("never", "x"))
    assert ARMS.geometric("a", "x").value == pytest.approx(165 ** (1 / 3))
    assert [a.tolist() for a in ARMS.arrays("b", "parts")] == [[2, -2], [3, -3], [7, -7]]
    assert ARMS.arrays("never", "parts") == []
    steps, means = ARMS.curve("b", "step", "y")
    assert steps.tolist() == [1, 2] and [e.value for e in means] == pytest.approx([4, 8])
    assert ARMS.curve("never", "step", "y")[1] == []
    first = ARMS.first("b")
    assert first is not None and first.id == "b0" and ARMS.first("never") is None
    assert ARMS.mean_cost("b", "seconds") == 1.5  # seed 0 has none
    assert math.isnan(ARMS.mean_cost("b", "memory"))


def test_differences_and_ratios_are_paired_by_seed() -> None:
    assert ARMS.differences(("a", "x"), ("b", "x")) == [1.0, 2.0, 4.0]
    assert ARMS.differences(("a", "x"), ("b", "x"), seeds={0, 2}) == [1.0, 4.0]
    assert np.exp(ARMS.log_ratios(("a", "x"), ("b", "x"))) == pytest.approx([3 / 2, 5 / 3, 11 / 7])
    fewer = Arms(Table([r for r in ROWS if r.id != "b1"]), LABELS)
    assert fewer.differences(("a", "x"), ("b", "x")) == [1.0, 4.0]


def test_claims_say_what_they_compare() -> None:
    better = ARMS.difference("better", "a > b", ("a", "x"), ("b", "x"), above=0.0)
    assert better.comparison and better.quantity == "x, the first − the second"
    assert set(better.trials) == {"a0", "a1", "a2", "b0", "b1", "b2"}
    close = ARMS.difference("close", "a ~ b", ("a", "x"), ("b", "x"), above=-2, below=9)
    assert close.comparison and close.verdict == "holds"
    ratio = ARMS.ratio("larger", "a > b", ("a", "x"), ("b", "x"), above=1.0)
    assert ratio.estimate.n == 3 and ratio.verdict == "holds"
    assert ratio.estimate.value == pytest.approx((3 / 2 * 5 / 3 * 11 / 7) ** (1 / 3))
    assert ARMS.ratio("half", "a > b/2", ("a", "x"), ("b", "x"), above=0.5).comparison
    level = ARMS.level("level", "b is 4", ("b", "x"), above=4.5)
    assert level.verdict == "undecided" and level.quantity == "x, the second"
    assert level.trials == ("b0", "b1", "b2")


def shares_of(**values: tuple[float, ...]) -> Arms:
    """Shares of 500 items, by metric: one number per seed."""
    seeds = range(len(next(iter(values.values()))))
    rows = [
        Row(f"a{i}", i, "done", {"arm": "a", "scored": 500}, {k: v[i] for k, v in values.items()})
        for i in seeds
    ]
    declared = {name: Share("scored") for name in values} | {"uncounted": Share()}
    return Arms(Table(rows), LABELS, shares=declared)


def test_intervals_of_shares_cover_items_and_end_at_0_and_1() -> None:
    plain = Arms(shares_of(x=(0.9, 0.99, 1.0)).table, LABELS)
    assert plain.estimate("a", "x").high > 1, "a t interval over three seeds"
    found = shares_of(x=(0.9, 0.99, 1.0)).estimate("a", "x")
    assert found.value == pytest.approx(0.9633, abs=1e-4) and found.n == 3
    assert 0 < found.low < found.high <= 1
    all_right = shares_of(x=(1.0, 1.0, 1.0)).level("solves", "It solves it", ("a", "x"), above=0.9)
    assert all_right.verdict == "holds" and all_right.estimate.low == pytest.approx(0.988, abs=1e-3)
    uncounted = shares_of(uncounted=(0.9, 0.99, 1.0)).estimate("a", "uncounted")
    assert uncounted.high == 1 and "t interval" in uncounted.method
    broken = shares_of(x=(0.9, math.nan, 1.0)).estimate("a", "x")
    assert broken.n == 2 and broken.value == pytest.approx(0.95)


def test_shares_that_are_equal_in_every_seed_differ_by_what_their_items_allow() -> None:
    arms = shares_of(x=(1.0, 1.0, 1.0), y=(1.0, 1.0, 1.0), z=(0.2, 0.25, 0.27))
    same = arms.difference("same", "x is y", ("a", "x"), ("a", "y"), above=-0.05, below=0.05)
    assert same.comparison and same.verdict == "holds" and same.estimate.low < 0
    more = arms.difference("more", "x > z", ("a", "x"), ("a", "z"), above=0.0)
    assert more.estimate == mean_interval([0.8, 0.75, 0.73])


def test_curves_of_shares_end_at_0_and_1() -> None:
    declared = Arms(Table(ROWS), LABELS, shares={"y": Share()})
    assert all(e.low >= 0 and e.high <= 1 for e in declared.curve("b", "step", "y")[1])


def test_right_answers_are_those_of_the_seed_nearest_to_one_half() -> None:
    shares = {"a": (0.9, 0.3), "b": (0.2, 0.96)}
    rows = [row(arm, seed, x) for arm, pair in shares.items() for seed, x in enumerate(pair)]
    found = Arms(Table(rows), LABELS).right_answers("x", 50)
    assert found == {"the first": (15, 50), "the second": (10, 50)}
    assert Arms(Table(rows), LABELS).right_answers("gone", 50) == {}


class Small(ArmStudy):
    """Two arms; `points` is a setting that no trial depends on."""

    class Settings(StudySettings):
        """One of each kind."""

        width: int = 3
        points: int = 7

    name = "small"
    question = "?"
    arms = {"a": "the first", "b": "the second"}  # noqa: RUF012
    not_of_a_trial = ("points",)

    def arm_settings(self, arm: str) -> Mapping[str, Any]:
        return {"width": 5} if arm == "b" else {}

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        return Outcome({})

    def claims(self, arms: Arms) -> list[Any]:
        return []


def test_trials_are_arms_times_seeds() -> None:
    trials = Small.at("quick", seeds=2).trials()
    assert [(t.config["arm"], t.config["width"], t.seed) for t in trials] == [
        ("a", 3, 0),
        ("a", 3, 1),
        ("b", 5, 0),
        ("b", 5, 1),
    ]
    assert {t.id for t in trials} == {t.id for t in Small.at("full", seeds=2, points=9).trials()}
    assert not {"points", "seeds", "trial_seconds"} & trials[0].config.keys()
    assert Small.at("quick").evidence(Table(ROWS)).names() == ["a", "b"]


def test_settings_carry_their_values_at_the_scales() -> None:
    class Scaled(StudySettings):
        width: int = setting("model width", 8, smoke=2, full=64)
        depth: int = setting("layers", 3, full=6)

    class Study(Small):
        Settings = Scaled  # pyright: ignore[reportAssignmentType]
        presets: ClassVar = {"full": {"seeds": 5, "depth": 7}}

    values = {
        scale: (s["width"], s["depth"], s["seeds"])
        for scale in ("smoke", "quick", "full")
        if (s := Study.at(scale).settings_json())
    }
    assert values == {"smoke": (2, 3, 3), "quick": (8, 3, 3), "full": (64, 7, 5)}
    assert Study.at("smoke", width=5).settings_json()["width"] == 5
