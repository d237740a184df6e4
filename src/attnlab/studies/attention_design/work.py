"""One trial: what is random comes from its own stream, and what is solved is certified."""

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from attnlab import construct
from attnlab.construct.design import design
from attnlab.construct.extract import extract
from attnlab.construct.pair import average_scale
from attnlab.construct.replace import replace_key
from attnlab.construct.result import Construction
from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome, Trial

WEIGHTS = (0.1, 0.2, 0.35, 0.5, 0.7, 0.85, 0.95, 0.99, 0.999, 0.9999)


def work(trial: Trial) -> Outcome:
    """By its kind."""
    kinds: dict[str, Callable[[Trial], Outcome]] = {
        "exercise": exercise,
        "selectable": selectable,
        "norms": norms,
        "targets": targets,
        "pair": pair,
        "subspaces": subspaces,
    }
    return kinds[trial.config["kind"]](trial)


def exercise(trial: Trial) -> Outcome:
    """Every part of it: select each, average, match, replace a key, choose query and key."""
    c = trial.config
    keys, values = np.array(c["keys"], dtype=float), np.array(c["values"], dtype=float)
    found = parts_of_the_exercise(keys, values, c["weight"])
    documents = {f"{name}.json": json.dumps(each.as_json()) for name, each in found.items()}
    metrics: dict[str, Any] = {f"{name} feasible": each.feasible for name, each in found.items()}
    for name, each in found.items():
        metrics |= {f"{name} norm": each.norm} if each.norm is not None else {}
    selected = [each for name, each in found.items() if name.startswith("select ")]
    corners = [each for each in selected if each.feasible]
    metrics |= {
        "selected": sum(each.feasible for each in selected),
        "corners": len(_corners(keys)),
        "residual": max((float(each.residual or 0.0) for each in corners), default=0.0),
        "least squares tv": found["match ½, ½"].also["least_squares"]["total_variation"],
        "best tv": found["match ½, ½"].also["total_variation"],
    }
    return Outcome(metrics=metrics, documents=documents)


def parts_of_the_exercise(
    keys: np.ndarray, values: np.ndarray, weight: float
) -> dict[str, Construction]:
    """Name -> construction."""
    n = len(keys)
    pair = [0, 1]
    target = np.array([0.5, 0.5] + [0.0] * (n - 2))
    found: dict[str, Construction] = {
        f"select {j}": construct.select(keys, j, weight=weight, values=values) for j in range(n)
    }
    found["average all"] = construct.average(keys, list(range(n)), values=values)
    found["average 0, 1"] = construct.average(keys, pair, weight=weight, values=values)
    found["match ½, ½"] = construct.match(keys, target, values=values)
    first = found["select 0"].query
    assert first is not None
    last = n - 1
    for unit, words in ((False, "any length"), (True, "length 1")):
        found[f"replace {last}: select it, {words}"] = replace_key(
            keys, first, last, f"select:{last}", unit_norm=unit, values=values
        )
    goals = {"before": "select:0", "after": f"select:{last}"}
    found[f"query and key {last} chosen together, length 1"] = design(
        keys, goals, free=[last], unit_norm=True, values=values
    )
    return found


def _corners(keys: np.ndarray) -> set[int]:
    """Keys that no average of the others is: the vertices of the hull, by qhull."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return {int(v) for v in ConvexHull(keys).vertices}
    except (QhullError, ValueError):  # all on a line, say
        return set()


def selectable(trial: Trial) -> Outcome:
    """The share of keys that some query selects: the vertices of their convex hull."""
    c = trial.config
    keys = _drawn(trial.stream, c["n"], c["h"], sphere=c["law"] == "sphere")
    corners = _apart(keys) if c["law"] == "sphere" else _corners(keys)
    rng = trial.stream.child("checked").numpy_generator()
    agree = 0
    for j in rng.choice(c["n"], size=min(c["checked"], c["n"]), replace=False):
        # a weight above one half is reached exactly by the corners: no other key can have more
        agree += construct.select(keys, int(j), weight=c["weight"]).feasible == (int(j) in corners)
    return Outcome(
        metrics={
            "share": len(corners) / c["n"],
            "corners": len(corners),
            "disagree": min(c["checked"], c["n"]) - agree,
        }
    )


def _drawn(stream: Seed, n: int, h: int, *, sphere: bool = False) -> np.ndarray:
    keys = stream.child("keys").numpy_generator().normal(size=(n, h))
    return keys / np.linalg.norm(keys, axis=1, keepdims=True) if sphere else keys


def _apart(keys: np.ndarray) -> set[int]:
    """On a sphere k_j·k_j − k_i·k_j = ½|k_i − k_j|², so q = k_j selects j unless another equals it.

    Asked by distances: products of neighbours 1e-8 apart round to the same number.
    """
    from scipy.spatial import KDTree

    nearest = KDTree(keys).query(keys, k=2)[0][:, 1]
    return {int(j) for j in np.flatnonzero(nearest > 0)}


def norms(trial: Trial) -> Outcome:
    """How long the query must be for a weight: the shortest, and along the max-margin direction."""
    c = trial.config
    keys = _drawn(trial.stream, c["n"], c["h"], sphere=True)
    found = [construct.select(keys, 0, weight=w) for w in WEIGHTS]
    shortest = [float(each.norm or 0.0) for each in found]
    margin = [float(each.also["max_margin"]["norm"]) for each in found]
    half, most = WEIGHTS.index(0.5), WEIGHTS.index(0.99)
    return Outcome(
        metrics={
            "longer at 0.5": margin[half] / shortest[half],
            "longer at 0.99": margin[most] / shortest[most],
            "residual": max(float(each.residual or 0.0) for each in found),
        },
        curves={"weight": list(WEIGHTS), "shortest": shortest, "margin": margin},
    )


def targets(trial: Trial) -> Outcome:
    """Random distributions: the best query, and least squares on the logarithms of the target."""
    c = trial.config
    rng = trial.stream.child("targets").numpy_generator()
    keys = _drawn(trial.stream, c["n"], c["h"])
    best, naive, residuals = [], [], []
    for _ in range(c["targets"]):
        found = construct.match(keys, rng.dirichlet(np.full(c["n"], 0.5)))
        best.append(float(found.kl or 0.0))
        naive.append(float(found.also["least_squares"]["kl"]))
        residuals.append(float(found.residual or 0.0))
    gaps = np.subtract(naive, best)
    return Outcome(
        metrics={
            "best kl": float(np.mean(best)),
            "least squares kl": float(np.mean(naive)),
            "least gap": float(gaps.min()),
            "log ratio": float(np.log(np.divide(naive, best)).mean()),
            "residual": max(residuals),
        },
        curves={"best": best, "least squares": naive},
    )


def pair(trial: Trial) -> Outcome:
    """β(k_a + k_b) among n orthonormal keys: the β it takes, and the weight without any."""
    n = trial.config["n"]
    found = average_scale(np.eye(n), 0, 1, trial.config["tolerance"])
    plain = construct.attention_weights(np.eye(n), np.eye(n)[0] + np.eye(n)[1])
    tolerance = trial.config["tolerance"]
    return Outcome(
        metrics={
            "beta": float(found.also["beta"]),
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
    found = extract(a, b)
    u, v = rng.normal(size=(2, 2))
    m = found.matrix
    assert m is not None
    error = float(np.linalg.norm(m @ (u @ a + v @ b) / 2 - u @ a) / np.linalg.norm(u @ a))
    return Outcome(
        metrics={
            "matrix norm": float(np.linalg.norm(m, 2)),
            "closed form": 2 / math.sin(theta),
            "error": error,
        }
    )
