"""The result of a training: its loss curve and its evaluations."""

from typing import Any

import pytest

from attnlab.training.result import TrainResult


def result(losses: list[float]) -> TrainResult:
    log: list[dict[str, Any]] = [{"step": i + 1, "loss": loss} for i, loss in enumerate(losses)]
    log[-1]["value"] = 0.5
    return TrainResult("done", len(losses), 7, None, None, None, "", True, tuple(log))


def test_the_loss_curve_has_the_mean_of_each_part() -> None:
    """Seven steps in three parts: numpy gives the first part the one that is left over."""
    curve = result([1.0, 2.0, 3.0, 5.0, 7.0, 11.0, 13.0]).loss_curve(3)
    assert curve == {"step": [3.0, 5.0, 7.0], "train_loss": [2.0, 6.0, 12.0]}


def test_a_short_training_has_fewer_points() -> None:
    few = result([3.0, 5.0])
    assert few.loss_curve() == {"step": [1.0, 2.0], "train_loss": [3.0, 5.0]}
    assert [line["step"] for line in few.evaluations] == [2]
    assert few.losses == pytest.approx((3.0, 5.0))


def test_the_last_loss_is_the_mean_of_the_last_tenth() -> None:
    assert result([float(i) for i in range(1, 24)]).last_loss == 22.5  # two of 23 steps
    assert result([3.0, 5.0]).last_loss == 5.0
