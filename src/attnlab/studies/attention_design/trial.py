"""One trial: what is random comes from its own stream, and what is solved is certified."""

import json
import math
from typing import Any

import numpy as np

from attnlab import construct
from attnlab.audit.finding import Finding
from attnlab.construct.example import query_for_scores
from attnlab.construct.goals import Target
from attnlab.construct.inputs import AttentionInputs
from attnlab.construct.numerics import orthonormal_basis
from attnlab.construct.result import Construction
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.attention_design.study import SPHERE, AttentionDesign

WEIGHTS = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95, 0.99, 0.999, 0.9999)
THIRD = 2  # the key that is replaced
TOGETHER = f"query and key {THIRD} together, length 1"  # the part that chooses both
RESIDUAL = 1e-6  # relative; solvers stop near 1e-12, rounding of the curvature costs the rest


def run(study: AttentionDesign, trial: Trial, context: TrialContext) -> Outcome:
    """Draw, solve, certify, as the trial's kind says."""
    return KINDS[trial.config["kind"]](trial)


def optimality(residual: float) -> Finding:
    """`optimality`: every query of the trial meets the conditions of optimality."""
    met = residual < RESIDUAL
    why = f"{'every' if met else 'not every'} query meets the conditions of optimality"
    return Finding("optimality", "pass" if met else "fail", residual, RESIDUAL, why)


def hull_agreement(disagree: int, checked: int) -> Finding:
    """`hull-agreement`: `select` and the convex hull agree on which keys can be selected."""
    if not checked:
        return Finding.not_applicable("hull-agreement", "no key was checked", threshold=0)
    words = f"disagree on {disagree} of" if disagree else "agree on all"
    why = f"`select` and the convex hull (qhull) {words} {checked} keys checked"
    return Finding("hull-agreement", "fail" if disagree else "pass", disagree, 0, why)


def exercise(trial: Trial) -> Outcome:
    """Every part of it: select each, average, match, replace a key, choose query and key."""
    c = trial.config
    keys, values, scores = (np.array(c[name], float) for name in ("keys", "values", "scores"))
    parts = exercise_constructions(keys, values, scores, c["weight"])
    selections = [part for name, part in parts.items() if name.startswith("select ")]
    residual = max((float(p.residual or 0.0) for p in selections if p.feasible), default=0.0)
    squares = parts["match ½, ½"].also["least_squares"]["weights"]
    fitted = weights_of(parts["scores by least squares"])
    pair = np.eye(len(keys))[:2].mean(axis=0)
    metrics: dict[str, Any] = {
        **{f"{name} feasible": part.feasible for name, part in parts.items()},
        **{f"{name} norm": part.norm for name, part in parts.items() if part.norm is not None},
        "selected": sum(part.feasible for part in selections),
        "corners": len(hull_corners(keys)),
        "residual": residual,
        "least squares error": float(np.abs(squares - pair).max()),
        "scores error": float(np.abs(fitted - pair).max()),
        "unit key weight": float(weights_of(parts[f"replace {THIRD}: select it, length 1"])[THIRD]),
        "together weight": float(weights_of(parts[TOGETHER])[THIRD]),
    }
    documents = {f"{name}.json": json.dumps(part.as_json()) for name, part in parts.items()}
    # what each weight above one half costs, for every key that can have it
    curves = {"weight": [w for w in WEIGHTS if w > 0.5]}
    for j, part in enumerate(selections):
        if part.feasible:
            shortest = (construct.select(keys, j, weight=w) for w in curves["weight"])
            curves[f"shortest {j}"] = [float(s.norm or 0.0) for s in shortest]
    return Outcome(metrics, curves=curves, documents=documents, findings=[optimality(residual)])


def weights_of(part: Construction) -> np.ndarray:
    """The weights of a part that has a query even where it misses its goal."""
    assert part.weights is not None
    return part.weights


def exercise_constructions(
    keys: np.ndarray, values: np.ndarray, scores: np.ndarray, weight: float
) -> dict[str, Construction]:
    """The parts of the exercise by name; a part that is impossible comes with its proof."""
    n = len(keys)
    parts: dict[str, Construction] = {
        f"select {j}": construct.select(keys, j, weight=weight, values=values) for j in range(n)
    }
    parts["average all"] = construct.average(keys, list(range(n)), values=values)
    parts["average 0, 1"] = construct.average(keys, [0, 1], weight=weight, values=values)
    target = np.eye(n)[:2].mean(axis=0)
    parts["match ½, ½"] = construct.match(keys, target, values=values)
    fitted = parts["scores by least squares"] = fit_scores(keys, values, scores)
    assert fitted.query is not None
    select, both = f"select:{THIRD}@{weight}", f"average:0,1@{weight}"
    for words, goal, unit in (
        ("average 0, 1 and it", f"average:0,1,{THIRD}", False),
        ("select it, any length", select, False),
        ("select it, length 1", select, True),
    ):
        parts[f"replace {THIRD}: {words}"] = construct.replace_key(
            keys, fitted.query, THIRD, goal, unit_norm=unit, values=values
        )
    goals = (both, select)
    parts[TOGETHER] = construct.design(keys, goals, [THIRD], unit_norm=True, values=values)
    return parts


def fit_scores(keys: np.ndarray, values: np.ndarray, scores: np.ndarray) -> Construction:
    """Least squares for scores chosen by hand, and whether the weights average keys 0 and 1."""
    query = query_for_scores(keys, scores)
    inputs = AttentionInputs.check(keys, 1.0, values)
    weights = inputs.weights(query)
    goal = Target.of("average:0,1", len(keys), np.eye(len(keys)))
    listed = ", ".join(f"{score:g}" for score in scores)
    lead = float(keys[0] @ query - keys[1] @ query)
    unequal = f": the score of key 0 leads by {lead:.4g}, and a longer query is even less equal"
    return Construction.of_query(
        inputs,
        query,
        feasible=goal.met(weights),
        why=f"Least squares for the scores {listed} gives keys 0 and 1 the weights"
        f" {weights[0]:.4f} and {weights[1]:.4f}{unequal if abs(lead) > RESIDUAL else ''}.",
    )


def random_keys(trial: Trial, *, sphere: bool = False) -> np.ndarray:
    """n Gaussian keys in h dimensions; on the sphere they are normalised."""
    size = (trial.config["n"], trial.config["h"])
    keys = trial.stream.child("keys").numpy_generator().normal(size=size)
    return keys / np.linalg.norm(keys, axis=1, keepdims=True) if sphere else keys


def hull_corners(keys: np.ndarray) -> set[int]:
    """Keys that are no average of the others: the vertices of their convex hull, by qhull.

    Keys may lie in a line or plane, where qhull needs fewer coordinates; equal keys are no corners.
    """
    from scipy.spatial import ConvexHull

    distinct, first, count = np.unique(keys, axis=0, return_index=True, return_counts=True)
    flat = (distinct - distinct.mean(axis=0)) @ orthonormal_basis(distinct - distinct[0])
    if len(flat) == flat.shape[1] + 1:  # a simplex: a point, a segment, a triangle
        corners = range(len(flat))
    elif flat.shape[1] == 1:
        corners = (flat.argmin(), flat.argmax())
    else:
        corners = ConvexHull(flat).vertices
    return {int(first[i]) for i in corners if count[i] == 1}


def distinct_keys(keys: np.ndarray) -> set[int]:
    """On a sphere k_j·k_j − k_i·k_j = ½|k_i − k_j|², so q = k_j selects j unless another equals it.

    Compared by distances: products of neighbours 1e-8 apart round to the same number.
    """
    from scipy.spatial import KDTree

    nearest = KDTree(keys).query(keys, k=2)[0][:, 1]
    return {int(j) for j in np.flatnonzero(nearest > 0)}


def selectable(trial: Trial) -> Outcome:
    """The share of keys that some query selects: the vertices of their convex hull."""
    c = trial.config
    sphere, checked = c["law"] == SPHERE, min(c["checked"], c["n"])
    keys = random_keys(trial, sphere=sphere)
    corners = distinct_keys(keys) if sphere else hull_corners(keys)
    rng = trial.stream.child("checked").numpy_generator()
    # a weight above one half is reached exactly by the corners: no other key can have more
    disagree = sum(
        construct.select(keys, int(j), weight=c["weight"]).feasible != (int(j) in corners)
        for j in rng.choice(c["n"], size=checked, replace=False)
    )
    metrics = {"share": len(corners) / c["n"], "corners": len(corners), "disagree": disagree}
    return Outcome(metrics, findings=[hull_agreement(disagree, checked)])


def norms(trial: Trial) -> Outcome:
    """Query norm that each weight takes: the shortest query, and the max-margin direction."""
    keys = random_keys(trial, sphere=True)
    selections = [construct.select(keys, 0, weight=w) for w in WEIGHTS]
    shortest = [float(s.norm or 0.0) for s in selections]
    margin = [float(s.also["max_margin"]["norm"]) for s in selections]
    residual = max(float(s.residual or 0.0) for s in selections)
    longer = dict(zip(WEIGHTS, (m / s for m, s in zip(margin, shortest, strict=True)), strict=True))
    return Outcome(
        {"longer at 0.5": longer[0.5], "longer at 0.99": longer[0.99], "residual": residual},
        curves={"weight": list(WEIGHTS), "shortest": shortest, "margin": margin},
        findings=[optimality(residual)],
    )


def targets(trial: Trial) -> Outcome:
    """Random distributions: the best query, and least squares on the logarithms of the target."""
    n = trial.config["n"]
    rng, keys = trial.stream.child("targets").numpy_generator(), random_keys(trial)
    matches = [
        construct.match(keys, rng.dirichlet(np.full(n, 0.5)))
        for _ in range(trial.config["targets"])
    ]
    best = [float(match.kl or 0.0) for match in matches]
    naive = [float(match.also["least_squares"]["kl"]) for match in matches]
    residual = max(float(match.residual or 0.0) for match in matches)
    metrics = {
        "best kl": float(np.mean(best)),
        "least squares kl": float(np.mean(naive)),
        "least gap": float(np.subtract(naive, best).min()),
        "log ratio": float(np.log(np.divide(naive, best)).mean()),
        "residual": residual,
    }
    curves = {"best": best, "least squares": naive}
    return Outcome(metrics, curves=curves, findings=[optimality(residual)])


def pair(trial: Trial) -> Outcome:
    """β(k_a + k_b) among n orthonormal keys: the β it takes, and the weight for β = 1."""
    n, tolerance = trial.config["n"], trial.config["tolerance"]
    keys = np.eye(n)
    plain = construct.attention_weights(keys, keys[0] + keys[1])
    return Outcome(
        {
            "beta": float(construct.average_scale(keys, 0, 1, tolerance).also["beta"]),
            "closed form": math.log((n - 2) * (1 - tolerance) / (2 * tolerance)),
            "weight without scale": float(plain[:2].sum()),
        }
    )


def subspaces(trial: Trial) -> Outcome:
    """v_a out of (v_a + v_b)/2: planes in R⁵ whose least angle is given."""
    rng = trial.stream.child("bases").numpy_generator()
    theta = math.radians(trial.config["angle"])
    frame = np.linalg.qr(rng.normal(size=(5, 5)))[0].T
    a = frame[:2]
    b = np.stack([math.cos(theta) * frame[0] + math.sin(theta) * frame[2], frame[3]])
    m = construct.extract(a, b).matrix
    assert m is not None
    u, v = rng.normal(size=(2, 2))
    return Outcome(
        {
            "matrix norm": float(np.linalg.norm(m, 2)),
            "closed form": 2 / math.sin(theta),
            "error": float(np.linalg.norm(m @ (u @ a + v @ b) / 2 - u @ a) / np.linalg.norm(u @ a)),
        }
    )


KINDS = {kind.__name__: kind for kind in (exercise, selectable, norms, targets, pair, subspaces)}
