"""One trial: an instance, a ridge search, a theory curve, critical points, stability."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlab.core.config import build
from attnlab.core.devices import free_cached_memory
from attnlab.lab.trial import Outcome, Scalar, Trial, TrialContext
from attnlab.solvable import phase
from attnlab.solvable import quadrature as integrate
from attnlab.solvable.stability import Replicas
from attnlab.solvable.theory import Model, curve, fixed_point, linear_test_error

if TYPE_CHECKING:
    from attnlab.solvable.simulation import SimulationSettings
    from attnlab.studies.phase_transition.study import PhaseTransition

ORDER_PARAMETERS = ("m", "theta", "q", "train_error", "test_error")


def run(study: "PhaseTransition", trial: Trial, context: TrialContext) -> Outcome:
    """Simulate or integrate, depending on the trial's kind."""
    kind = trial.config["kind"]
    if kind in THEORY:
        return THEORY[kind](trial.config)
    outcome = SIMULATION[kind](trial, context.device)
    free_cached_memory(context.device)  # other workers may share the GPU
    return outcome


def simulation_settings(trial: Trial) -> "SimulationSettings":
    """The part of a trial's configuration that describes one instance."""
    from attnlab.solvable.simulation import SimulationSettings

    fields = SimulationSettings.model_fields
    return build(SimulationSettings, {k: v for k, v in trial.config.items() if k in fields})


def instance(trial: Trial, device: str) -> Outcome:
    """Train one student per start on one data set; metrics are named `<start>_<quantity>`."""
    from attnlab.solvable.simulation import simulate

    settings = simulation_settings(trial)
    result = simulate(settings, trial.stream, device)
    metrics: dict[str, Scalar] = {
        "linear_train_error": result.linear_train_error,
        "linear_test_error": result.linear_test_error,
        "score_variance": result.score_variance,
        "largest_weight": result.largest_weight,
    }
    for student in result.students:
        values = student.as_json()
        start, thetas = values.pop("start"), values.pop("theta_values")
        metrics |= {f"{start}_{name}": value for name, value in values.items()}
        if settings.student_rank > 1:
            metrics |= {f"{start}_theta_{index}": value for index, value in enumerate(thetas)}
    return Outcome(metrics)


def ridge(trial: Trial, device: str) -> Outcome:
    """λ chosen by k folds and by leave-one-out, and what the choice is worth on test samples."""
    from attnlab.studies.phase_transition.ridge_search import search_ridge

    return search_ridge(trial, simulation_settings(trial), device)


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


SIMULATION = {"instance": instance, "ridge": ridge}
THEORY = {"curve": theory_curve, "critical": critical, "stability": stability}
