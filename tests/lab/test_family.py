"""Holm's correction over a study's whole family, from the trials to the verdicts."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from attnlab.api.conclude import draw_conclusions
from attnlab.lab.arms import Arms, ArmStudy
from attnlab.lab.claim import ERROR, Claim, correct, judge, judge_difference
from attnlab.lab.study import StudySettings, setting
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.intervals import mean_interval

NULLS, SEEDS, STUDIES = 9, 5, 2000
BASELINE = "baseline"


class NineComparisons(ArmStudy):
    """Nine arms against a baseline; an arm's score is its effect plus noise."""

    name, question = "nine-comparisons", "Which of nine arms beats the baseline?"
    arms = {BASELINE: BASELINE} | {f"arm {i}": f"arm {i}" for i in range(NULLS)}

    class Settings(StudySettings):
        """Five seeds an arm."""

        seeds: int = setting("independent repetitions of every arm", SEEDS, ge=1)
        effect: float = setting("what arm 0 gains over the baseline, in standard deviations", 0.0)
        draw: int = setting("which of the simulated studies", 0)

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """One score."""
        noise = trial.stream.child(trial.config["arm"], trial.config["draw"]).numpy_generator()
        gain = trial.config["effect"] if trial.config["arm"] == "arm 0" else 0.0
        return Outcome({"score": float(noise.standard_normal()) + gain})

    def claims(self, arms: Arms) -> Sequence[Claim]:
        """Every arm against the baseline."""
        return [
            arms.difference(arm, "It is better", (arm, "score"), (BASELINE, "score"), above=0.0)
            for arm in self.arms
            if arm != BASELINE
        ]


def decided(effect: float, studies: int) -> np.ndarray:
    """Whether each of nine claims is decided, in many studies: trials -> table -> claims."""
    verdicts = []
    for draw in range(studies):
        study = NineComparisons.at(effect=effect, draw=draw)
        rows = [
            Row(t.id, t.seed, "done", t.config, study.run(t, TrialContext()).metrics)
            for t in study.trials()
        ]
        concluded = draw_conclusions(study, Table(rows))
        verdicts.append([claim.verdict != "undecided" for claim in concluded.claims])
    return np.array(verdicts)


def test_nine_true_nulls_are_decided_in_one_study_of_twenty_at_most() -> None:
    wrong = float(decided(0.0, STUDIES).any(axis=1).mean())
    monte_carlo = 3 * math.sqrt(ERROR * (1 - ERROR) / STUDIES)
    assert wrong <= ERROR + monte_carlo
    assert wrong > 0.01, "a correction that never decides anything would pass as well"


def test_a_real_effect_is_found_among_nulls() -> None:
    found = decided(5.0, 200)
    assert found[:, 0].mean() > 0.5
    assert found[:, 1:].any(axis=1).mean() <= ERROR + 3 * math.sqrt(ERROR * (1 - ERROR) / 200)


def gaps(p: float, n: int = SEEDS) -> list[float]:
    """Differences whose two-sided t-test gives exactly this p."""
    from scipy.stats import t

    shape = np.linspace(-1, 1, n)
    return list(shape + t.isf(p / 2, n - 1) * shape.std(ddof=1) / math.sqrt(n))


# p in percent -> p adjusted by statsmodels 0.14, multipletests(p, method="holm")
HOLM = [
    ([4.9], [4.9]),
    ([5.1], [5.1]),
    ([2.4, 4.9], [4.8, 4.9]),
    ([2.6, 2.7], [5.2, 5.2]),
    ([1.0, 2.6, 4.0], [3.0, 5.2, 5.2]),
    ([4.0, 1.6, 2.4], [4.8, 4.8, 4.8]),
    ([1.21, 0.03, 20.0, 4.4, 3.1, 1.21, 70.0], [7.26, 0.21, 40.0, 13.2, 12.4, 7.26, 70.0]),
]


@pytest.mark.parametrize(("ps", "adjusted"), HOLM)
def test_decided_are_those_whose_adjusted_p_is_below_five_percent(
    ps: list[float], adjusted: list[float]
) -> None:
    claims = [judge_difference(f"c{i}", "", gaps(p / 100), above=0.0) for i, p in enumerate(ps)]
    decided = [claim.verdict == "holds" for claim in correct(claims)]
    assert decided == [p < 100 * ERROR for p in adjusted]


def test_undecided_and_missing_comparisons_count() -> None:
    sure = judge_difference("sure", "", gaps(0.02), above=0.0)
    assert correct([sure])[0].verdict == "holds"
    none = [judge_difference(f"none {i}", "", [], above=0.0) for i in range(4)]
    corrected = correct([sure, *none])
    assert [claim.verdict for claim in corrected] == ["undecided"] * 5
    assert "Holm over 5 comparisons" in corrected[0].why
    assert "99 %" in corrected[0].estimate.method


def test_levels_are_not_corrected_and_keep_their_place() -> None:
    level = judge("level", "", mean_interval([0.9, 0.91, 0.92]), above=0.5)
    one, other = (judge_difference(n, "", gaps(0.001), above=0.0) for n in ("one", "other"))
    corrected = correct([one, level, other])
    assert [claim.name for claim in corrected] == ["one", "level", "other"]
    assert corrected[1] == level


def test_equal_runs_are_no_certainty() -> None:
    claim = judge_difference("same", "It is better", [0.5] * 3, above=0.0)
    assert claim.verdict == "undecided"
    assert "3 equal runs" in claim.why
