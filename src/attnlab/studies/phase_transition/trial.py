"""One trial: an instance, a ridge search, a theory curve, critical points, stability.

A ridge search chooses λ from training data, and goes on beyond an end of its grid: two ways to
choose, k folds and leave-one-out from one fit, judge the same λ for every start, and where one of
them prefers the smallest or the largest λ, the next one beyond is solved too.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from attnlab.core.config import build
from attnlab.core.devices import free_cached_memory
from attnlab.lab.trial import Outcome, Scalar, Trial, TrialContext
from attnlab.solvable import phase
from attnlab.solvable import quadrature as integrate
from attnlab.solvable.generalisation import linear_fit, sample_test_error
from attnlab.solvable.simulation import SimulationSettings, simulate, start_weights
from attnlab.solvable.solve import minimise
from attnlab.solvable.stability import Replicas
from attnlab.solvable.student import Loss
from attnlab.solvable.teacher import Teacher
from attnlab.solvable.theory import Model, curve, fixed_point, linear_test_error
from attnlab.solvable.validate import cross_validate, leave_one_out, widen_ridges

if TYPE_CHECKING:
    from attnlab.studies.phase_transition.study import PhaseTransition

ORDER_PARAMETERS = ("m", "theta", "q", "train_error", "test_error")
WAYS = ("cv", "loo")
Errors = dict[str, Tensor]  # way, or "test" -> start × ridge


def run(study: "PhaseTransition", trial: Trial, context: TrialContext) -> Outcome:
    """Simulate or integrate, depending on the trial's kind."""
    config, fields = trial.config, SimulationSettings.model_fields
    if config["kind"] in THEORY:
        return THEORY[config["kind"]](config)
    settings = build(SimulationSettings, {k: v for k, v in config.items() if k in fields})
    outcome = SIMULATION[config["kind"]](trial, settings, context.device)
    free_cached_memory(context.device)  # other workers may share the GPU
    return outcome


def instance(trial: Trial, s: SimulationSettings, device: str) -> Outcome:
    """Train one student per start on one data set; metrics are named `<start>_<quantity>`."""
    result = simulate(s, trial.stream, device)
    names = ("linear_train_error", "linear_test_error", "score_variance", "largest_weight")
    metrics: dict[str, Scalar] = {name: getattr(result, name) for name in names}
    for student in result.students:
        values = student.as_json()
        start, thetas = values.pop("start"), values.pop("theta_values")
        metrics |= {f"{start}_{name}": value for name, value in values.items()}
        if s.student_rank > 1:
            metrics |= {f"{start}_theta_{index}": value for index, value in enumerate(thetas)}
    return Outcome(metrics)


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


def integration_rule(
    config: Mapping[str, Any], dimension: int = 4, times: int = 1
) -> integrate.Rule:
    """The points a theory trial integrates with; `times` as many where noise is large."""
    points, name = times * config["points"], config.get("rule", "sobol")
    if name == "lattice":
        return integrate.lattice(points, seed=1, dimension=dimension)
    seed, count = (0, points) if name == "sobol" else (1, points // 2)
    return integrate.sobol(count, seed=seed, dimension=dimension)


def theory_model(config: Mapping[str, Any]) -> Model:
    """The theory's parameters in a trial's configuration."""
    (a, b), (c, d) = config["mixing"]
    return Model(config["sigma"], config["omega"], config["ridge"], ((a, b), (c, d)))


def theory_curve(config: Mapping[str, Any]) -> Outcome:
    """A branch of the theory at every α; `converged` marks the points that can be used."""
    model = theory_model(config)
    points = curve(model, config["alphas"], config["branch"], integration_rule(config))
    names = ("alpha", "q", "m", "V", "theta", "train_error", "test_error", "converged")
    metrics: dict[str, Scalar] = {
        "converged_points": sum(p.converged for p in points),
        "linear_test_error": linear_test_error(model),
    }
    curves = {name: [float(getattr(p, name)) for p in points] for name in names}
    return Outcome(metrics, curves=curves)


def critical(config: Mapping[str, Any]) -> Outcome:
    """α_c, α_l and α_w at one ω; a crossing that does not exist is None with its reason."""
    rule, fine = integration_rule(config), integration_rule(config, times=8)
    metrics: dict[str, Scalar] = {}
    reasons: dict[str, str] = {}
    for name, point in phase.critical_alphas(theory_model(config), rule, fine).items():
        usable = bool(point.converged and np.isfinite(point.value))
        metrics[name] = float(point.value) if usable else None
        if not usable:
            reasons[name] = point.reason or "did not converge"
    return Outcome(metrics, reasons=reasons)


def stability(config: Mapping[str, Any]) -> Outcome:
    """The branch at one (ω, α), and the separation Δ*/q that its two replicas reach."""
    model = theory_model(config)
    point = fixed_point(model, config["alpha"], config["branch"], integration_rule(config))
    if not point.converged:
        missing = (*ORDER_PARAMETERS, "separation")
        metrics = {"converged": False, **dict.fromkeys(missing)}
        return Outcome(metrics, reasons=dict.fromkeys(missing, "did not converge"))
    replicas = Replicas(model, point, integration_rule(config, dimension=6, times=8))
    values = {name: getattr(point, name) for name in ORDER_PARAMETERS}
    separation = replicas.separation().relative
    return Outcome({"converged": point.converged, **values, "separation": separation})


SIMULATION = {"instance": instance, "ridge": search_ridge}
THEORY = {"curve": theory_curve, "critical": critical, "stability": stability}
