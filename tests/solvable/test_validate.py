"""Validation sees training data only, and predicts the error on data it has not seen."""

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from attnlab.core.config import build
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.solvable.generalisation import exact_test_error
from attnlab.solvable.solve import minimise
from attnlab.solvable.student import Loss, sample_losses
from attnlab.solvable.teacher import Dataset, Teacher, TeacherSettings
from attnlab.solvable.validate import cross_validate, leave_one_out, widen_ridges


def make(dim: int, alpha: float, seed: int = 1) -> tuple[Teacher, Dataset]:
    teacher = Teacher.draw(build(TeacherSettings, {"dim": dim}), Seed(seed))
    return teacher, teacher.sample(round(alpha * dim), Seed(seed).child("train"))


def test_folds_equal_training_without_each_fold_by_hand() -> None:
    teacher, data = make(31, 2.0)
    found = cross_validate(data, teacher.weights[None], [0.01, 0.1], 3, Seed(7))
    order = torch.randperm(62, generator=Seed(7).torch_generator())
    fold = torch.empty_like(order)
    fold[order] = torch.arange(62) % 3
    for column, ridge in enumerate((0.01, 0.1)):
        total = 0.0
        for k in range(3):
            kept, held = fold != k, fold == k
            train = Dataset(data.settings, data.tokens[:, kept], data.attention[:, :, kept])
            test = Dataset(data.settings, data.tokens[:, held], data.attention[:, :, held])
            fitted = minimise(Loss.of(train, ridge), teacher.weights[None]).weights
            total += float(Loss.of(test, 0.0).value_and_gradient(fitted)[0])
        assert abs(float(found.errors[0, column]) - total / 62) < 1e-6
    assert found.best(0) == (0.01, 0.1)[int(found.errors[0].argmin())]


def test_leave_one_out_equals_leaving_one_out() -> None:
    """The cavity formula against 48 honest refits, within 15 % at this small D."""
    teacher, data = make(97, 1.5)
    loss = Loss.of(data, 0.01)
    fitted = minimise(loss, teacher.weights[None]).weights
    predicted = float(leave_one_out(loss, fitted)[0])
    count = data.samples
    chosen = torch.arange(0, count, count // 48)[:48]
    keep = torch.ones(count, 48, dtype=torch.float64)
    keep[chosen, torch.arange(48)] = 0
    left = minimise(Loss.of(data, 0.01, keep), fitted.repeat(48, 1, 1)).weights
    values, _ = sample_losses(loss.fields(left), loss.blocks, data.settings)
    honest = float(values[chosen, torch.arange(48)].mean())
    trained, _ = sample_losses(loss.fields(fitted), loss.blocks, data.settings)
    seen = float(trained[chosen, 0].mean())
    assert seen < 0.8 * honest  # refitting matters: this test can fail
    # the 48 chosen samples against all: compare how much leaving out costs
    assert 0.85 < (predicted / float(trained.mean())) / (honest / seen) < 1.15


def test_leave_one_out_predicts_the_test_error() -> None:
    ratios = []
    for seed in range(4):
        teacher, data = make(211, 1.5, seed)
        loss = Loss.of(data, 0.01)
        fitted = minimise(loss, teacher.weights[None]).weights
        ratios.append(float(leave_one_out(loss, fitted)[0]) / exact_test_error(teacher, fitted[0]))
    assert 0.85 < sum(ratios) / 4 < 1.15, ratios


def test_bad_requests_are_refused() -> None:
    teacher, data = make(13, 1.0)
    with pytest.raises(UsageError):
        cross_validate(data, teacher.weights[None], [0.01], 1, Seed(1))
    with pytest.raises(UsageError):
        cross_validate(data, teacher.weights[None], [0.01], 14, Seed(1))
    with pytest.raises(UsageError):
        leave_one_out(Loss.of(data, 0.01), torch.zeros(1, 2, 13, dtype=torch.float64))


def parabola(lowest: float, asked: list[float]) -> Callable[[Sequence[float]], dict[str, Tensor]]:
    """Errors of two starts, both least at this ridge; counts what was asked."""

    def score(ridges: Sequence[float]) -> dict[str, Tensor]:
        asked.extend(ridges)
        errors = torch.tensor([(math.log(r / lowest)) ** 2 for r in ridges])
        return {"cv": torch.stack([errors, 2 * errors]), "test": torch.stack([errors, errors])}

    return score


@pytest.mark.parametrize(
    ("lowest", "tried"),
    [
        (0.003, [0.001, 0.003, 0.01]),  # inside: nothing more is solved
        (0.0003, [0.0001, 0.0003, 0.001, 0.003, 0.01]),
        (0.09, [0.001, 0.003, 0.01, 0.03, 0.09, 0.3]),
        (1e-9, [0.0001, 0.0003, 0.001, 0.003, 0.01]),  # twice at most
    ],
)
def test_a_grid_of_ridges_grows_beyond_the_end_that_is_chosen(
    lowest: float, tried: list[float]
) -> None:
    asked: list[float] = []
    most = 3 if lowest > 0.01 else 2
    found, errors = widen_ridges(parabola(lowest, asked), [0.01, 0.001, 0.003], ["cv"], 3.0, most)
    assert found == pytest.approx(tried) and sorted(asked) == found
    assert errors["cv"].shape == errors["test"].shape == (2, len(found))
    expected = parabola(lowest, [])(found)
    assert torch.equal(errors["cv"], expected["cv"])
