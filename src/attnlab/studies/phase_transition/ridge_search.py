"""The trial that chooses λ from training data, and goes on beyond an end of its grid.

Two ways to choose, k folds and leave-one-out from one fit, judge the same λ for every start. Where
one of them prefers the smallest or the largest λ, the next one beyond is solved too.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from attnlab.lab.trial import Outcome, Scalar, Trial
from attnlab.solvable.generalisation import linear_fit, sample_test_error
from attnlab.solvable.simulation import SimulationSettings, start_weights
from attnlab.solvable.solve import minimise
from attnlab.solvable.student import Loss
from attnlab.solvable.teacher import Teacher
from attnlab.solvable.validate import cross_validate, leave_one_out, widen_ridges

WAYS = ("cv", "loo")
Errors = dict[str, Tensor]  # way, or "test" -> start × ridge


def search_ridge(trial: Trial, s: SimulationSettings, device: str) -> Outcome:
    """For every λ the error by k folds, by leave-one-out from one fit, and on test samples."""
    c = trial.config
    score, linear = scorer(trial, s, device)
    ridges, errors = widen_ridges(score, c["ridges"], WAYS, c["widen_factor"], c["widen"])
    default, metrics = ridges.index(s.ridge), dict[str, Scalar]()
    for row, start in enumerate(s.starts):
        for way in WAYS:
            best = int(errors[way][row].argmin())
            metrics[f"{start}_ridge_{way}"] = ridges[best]
            metrics[f"{start}_test_error_{way}"] = float(errors["test"][row, best])
            off = float(errors[way][row, default] / errors["test"][row, default] - 1)
            metrics[f"{start}_{way}_relative_error"] = abs(off)
        metrics[f"{start}_test_error_default"] = float(errors["test"][row, default])
    folded = errors["cv"].min(dim=1).values
    start = s.starts[int(folded.argmin())]  # λ and start by the folds alone
    metrics |= {
        "tuned_start": start,
        "tuned_test_error": metrics[f"{start}_test_error_cv"],
        "linear_test_error": linear,
        "widened": len(ridges) - len(c["ridges"]),
    }
    curves: dict[str, Any] = {
        f"{start}_{name}": values[row].tolist()
        for row, start in enumerate(s.starts)
        for name, values in errors.items()
    }
    return Outcome(metrics, curves={"ridge": ridges, **curves})


def scorer(
    trial: Trial, s: SimulationSettings, device: str
) -> tuple[Callable[[Sequence[float]], Errors], float]:
    """A function that solves the trial's instance for given λ; the linear map's test error."""
    stream = trial.stream
    teacher = Teacher.draw(s.teacher, stream.child("teacher"), device)
    data = teacher.sample(s.samples, stream.child("train"), s.torch_dtype)
    starts = start_weights(s, teacher, stream)
    linear, _ = linear_fit(data, s.ridge)

    def test_error(weights: Tensor) -> Any:
        return sample_test_error(teacher, weights, linear, s.test_samples, stream.child("test"))

    def score(ridges: Sequence[float]) -> Errors:
        seed, folds = stream.child("folds"), trial.config["folds"]
        folded = cross_validate(data, starts, ridges, folds, seed, s.solver).errors
        loss = Loss.of(data, torch.tensor(ridges, dtype=torch.float64).repeat(len(starts)))
        fits = minimise(loss, starts.repeat_interleave(len(ridges), dim=0), s.solver)
        once = leave_one_out(loss, fits.weights).reshape(len(starts), -1)
        true = test_error(fits.weights).students.reshape(len(starts), -1)
        return {"cv": folded, "loo": once, "test": true}

    return score, test_error(starts).linear
