"""score-scale: fires on scores without 1/√D and on a saturated softmax; silent on the clean one."""

import numpy as np
import pytest

from attnlab.audit.checks.score_scale import NAME, SLOPE_LIMIT, score_scale
from attnlab.audit.finding import AUDIT_MARKS, Finding
from attnlab.core.seeds import Seed

DIMS = (31, 67, 131, 257)
SEEDS = 3


def measured(power: float, sharpness: float = 1.0) -> Finding:
    """Scores q·k / D^power of independent normal tokens, as a model would make them."""
    dims, variances, largest = [], [], []
    for dim in DIMS:
        for seed in range(SEEDS):
            rng = Seed(seed).child("score-scale", dim).numpy_generator()
            q, k = rng.normal(size=(101, dim)), rng.normal(size=(13, dim))
            scores = sharpness * q @ k.T / dim**power
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            dims.append(dim)
            variances.append(float(scores.var()))
            largest.append(float(weights.max(axis=1).mean()))
    return score_scale(dims, variances, largest)


def test_the_clean_twin_passes() -> None:
    found = measured(power=0.5)
    assert (found.name, found.verdict, found.threshold) == (NAME, "pass", SLOPE_LIMIT)
    assert found.number == pytest.approx(0, abs=0.1)
    assert len(found.evidence["dims"]) == len(DIMS) * SEEDS


def test_scores_without_the_root_of_the_width_are_caught() -> None:
    found = measured(power=0.0)
    assert found.verdict == "fail"
    assert found.number == pytest.approx(1, abs=0.1)  # var(q·k) = D for independent tokens
    assert "goes like D^" in found.why


def test_a_saturated_softmax_is_caught_though_it_does_not_grow() -> None:
    found = measured(power=0.5, sharpness=1e4)
    assert found.verdict == "fail"
    assert found.number == pytest.approx(0, abs=0.1)
    assert "saturated" in found.why


@pytest.mark.parametrize(
    ("dims", "variances"), [([], []), ([31, 31], [1.0, 1.1]), ([31, 67], [1.0, 0.0])]
)
def test_not_applicable(dims: list[int], variances: list[float]) -> None:
    found = score_scale(dims, variances, [0.5] * len(dims))
    assert found.verdict == "not-applicable"
    assert found.number is None
    assert "two widths" in found.why


def test_json_and_marks() -> None:
    said = measured(power=0.0).as_json()
    assert set(said) == {"name", "verdict", "number", "threshold", "why", "evidence"}
    assert Finding("x", "fail", float("nan"), 0.5, "why").as_json()["number"] is None
    assert set(AUDIT_MARKS) == {"pass", "fail", "not-applicable", "could-not-be-judged"}
