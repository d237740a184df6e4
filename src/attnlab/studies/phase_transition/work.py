"""One trial: an instance, a ridge search, a theory curve, critical points, stability."""

import time
from typing import Any

import numpy as np

from attnlab.core.config import build
from attnlab.core.devices import free_cached_memory
from attnlab.lab.trial import Outcome, Scalar, Trial
from attnlab.solvable import phase
from attnlab.solvable import quadrature as integrate
from attnlab.solvable.stability import Replicas
from attnlab.solvable.theory import Model, curve, fixed_point, linear_test_error

PER_STUDENT = (
    "m",
    "theta",
    "q",
    "train_error",
    "test_error",
    "test_standard_error",
    "test_error_exact",
    "leave_one_out",
    "evaluations",
    "gradient_max",
    "converged",
    "start_norm",
    "returned",
)


def rule_of(config: dict[str, Any], dimension: int = 4, times: int = 1) -> integrate.Rule:
    """The point set a theory trial integrates with; `times` as many points where noise is large."""
    points, name = times * config["points"], config.get("rule", "sobol")
    if name == "lattice":
        return integrate.lattice(points, seed=1, dimension=dimension)
    seed, count = (0, points) if name == "sobol" else (1, points // 2)
    return integrate.sobol(count, seed=seed, dimension=dimension)


def model_of(config: dict[str, Any]) -> Model:
    """The theory's parameters in a trial's configuration."""
    (a, b), (c, d) = config["mixing"]
    return Model(config["sigma"], config["omega"], config["ridge"], ((a, b), (c, d)))


def instance(trial: Trial, device: str) -> Outcome:
    """Simulate one instance; metrics are named `<start>_<quantity>`."""
    from attnlab.solvable.simulation import SimulationSettings, simulate

    fields = SimulationSettings.model_fields
    settings = build(SimulationSettings, {k: v for k, v in trial.config.items() if k in fields})
    found = simulate(settings, trial.stream, device)
    metrics: dict[str, Scalar] = {
        "linear_train_error": found.linear_train_error,
        "linear_test_error": found.linear_test_error,
        "score_variance": found.score_variance,
        "largest_weight": found.largest_weight,
    }
    for student in found.students:
        values = student.as_json()
        metrics |= {f"{student.start}_{name}": values[name] for name in PER_STUDENT}
        if settings.student_rank > 1:
            for index, value in enumerate(student.theta_values):
                metrics[f"{student.start}_theta_{index}"] = value
    return Outcome(metrics, cost={"seconds": found.seconds})


def ridge(trial: Trial, device: str) -> Outcome:
    """Held-out error of every λ by k folds and by leave-one-out, beside the test error of each."""
    import torch

    from attnlab.solvable.generalisation import linear_fit, sample_test_error
    from attnlab.solvable.simulation import SimulationSettings, start_weights
    from attnlab.solvable.solve import minimise
    from attnlab.solvable.student import Loss
    from attnlab.solvable.teacher import Teacher
    from attnlab.solvable.validate import cross_validate, leave_one_out

    config, began = trial.config, time.perf_counter()
    fields = SimulationSettings.model_fields
    s = build(SimulationSettings, {k: v for k, v in config.items() if k in fields})
    ridges: list[float] = list(config["ridges"])
    teacher = Teacher.draw(s.teacher, trial.stream.child("teacher"), device)
    data = teacher.sample(s.samples, trial.stream.child("train"), s.torch_dtype)
    starts = start_weights(s, teacher, trial.stream)
    folded = cross_validate(
        data, starts, ridges, config["folds"], trial.stream.child("folds"), s.solver
    )
    loss = Loss.of(data, torch.tensor(ridges, dtype=torch.float64).repeat(len(starts)))
    found = minimise(loss, starts.repeat_interleave(len(ridges), dim=0), s.solver)
    once = leave_one_out(loss, found.weights).reshape(len(starts), -1)
    linear, _ = linear_fit(data, s.ridge)
    stream = trial.stream.child("test")
    test = sample_test_error(teacher, found.weights, linear, s.test_samples, stream)
    true = test.students.reshape(len(starts), -1)
    own, metrics = ridges.index(s.ridge), dict[str, Scalar]()
    for row, start in enumerate(s.starts):
        for name, errors in (("cv", folded.errors), ("loo", once)):
            best = int(errors[row].argmin())
            metrics[f"{start}_ridge_{name}"] = ridges[best]
            metrics[f"{start}_test_error_{name}"] = float(true[row, best])
            off = float(errors[row, own] / true[row, own] - 1)
            metrics[f"{start}_{name}_relative_error"] = abs(off)
        metrics[f"{start}_test_error_default"] = float(true[row, own])
    curves = {
        f"{start}_{name}": errors[row].tolist()
        for row, start in enumerate(s.starts)
        for name, errors in (("cv", folded.errors), ("loo", once), ("test", true))
    }
    return Outcome(metrics, {"seconds": time.perf_counter() - began}, curves=curves)


def theory_curve(trial: Trial) -> Outcome:
    """A branch of the theory at every α; points that did not converge are NaN-free but flagged."""
    config, began = dict(trial.config), time.perf_counter()
    points = curve(model_of(config), config["alphas"], config["branch"], rule_of(config))
    names = ("alpha", "q", "m", "V", "theta", "train_error", "test_error")
    curves = {name: [float(getattr(p, name)) for p in points] for name in names}
    curves["converged"] = [float(p.converged) for p in points]
    metrics: dict[str, Scalar] = {
        "converged_points": sum(p.converged for p in points),
        "linear_test_error": linear_test_error(model_of(config)),
    }
    return Outcome(metrics, {"seconds": time.perf_counter() - began}, curves=curves)


def critical(trial: Trial) -> Outcome:
    """α_c, α_l and α_w at one ω; a crossing that does not exist is None with its reason."""
    config, began = dict(trial.config), time.perf_counter()
    crossings = phase.critical_alphas(model_of(config), rule_of(config), rule_of(config, times=8))
    metrics: dict[str, Scalar] = {}
    reasons: dict[str, str] = {}
    for name, found in crossings.items():
        usable = bool(found.converged and np.isfinite(found.value))
        metrics[name] = float(found.value) if usable else None
        if not usable:
            reasons[name] = found.reason or "did not converge"
    return Outcome(metrics, {"seconds": time.perf_counter() - began}, reasons=reasons)


def stability(trial: Trial) -> Outcome:
    """The branch at one (ω, α), and the separation Δ*/q its two replicas go to."""
    config, began = dict(trial.config), time.perf_counter()
    model = model_of(config)
    point = fixed_point(model, config["alpha"], config["branch"], rule_of(config))
    metrics: dict[str, Scalar] = {"converged": point.converged}
    reasons: dict[str, str] = {}
    for name in ("m", "theta", "q", "train_error", "test_error"):
        metrics[name] = getattr(point, name) if point.converged else None
    if point.converged:
        found = Replicas(model, point, rule_of(config, dimension=6, times=8)).separation()
        metrics["separation"] = found.relative
    else:
        metrics["separation"] = None
        reasons = dict.fromkeys((k for k, v in metrics.items() if v is None), "did not converge")
    return Outcome(metrics, {"seconds": time.perf_counter() - began}, reasons=reasons)


def work(trial: Trial, device: str) -> Outcome:
    """Do what the trial's kind says."""
    kind = trial.config["kind"]
    if kind in ("instance", "ridge"):
        found = (instance if kind == "instance" else ridge)(trial, device)
        free_cached_memory(
            device
        )  # other workers may share the GPU, and the next trial may be smaller
        return found
    return {"curve": theory_curve, "critical": critical, "stability": stability}[kind](trial)
