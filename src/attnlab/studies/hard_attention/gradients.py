"""Slopes of attention's output: a given example, random instances, and very many of them.

d output / d query = (s / T) Σ_i w_i (v_i − output) k_iᵀ,    w = softmax(s·K q / T),  s = 1/√h
"""

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.apply import hard_attention, jacobian_norms
from attnlab.construct.inputs import attention_weights
from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome, Scalar, Trial

Array = NDArray[np.float64]
Instance = tuple[Array, Array, Array]  # keys, query, values
WHOM = ("query", "keys", "values")
SLOPES = tuple(whom + method for whom in WHOM for method in ("", "_difference"))
BLIND = ("query", "keys", "query_difference", "keys_difference")  # what argmax gives no slope
SHOWN = (1.0, 0.3, 0.1)  # T of the given example's picture
TURN = 721  # angles of its query, both ends included
CLEAR = 1e4  # only slopes this many times the rounding floor are compared: known to 1/CLEAR


def random_slopes(trial: Trial) -> Outcome:
    """Medians over instances, by kind, argument, method and temperature."""
    c = trial.config
    stream, shape = trial.stream.child("instances"), (c["keys"], c["dim"], c["outputs"])
    every = [instance(shape, stream.child(i)) for i in range(c["instances"])]
    temperatures = [float(t) for t in c["temperatures"]]
    grids = {"softmax": temperatures, "straight-through": temperatures, "argmax": [1.0]}
    found = {kind: slopes_of(every, kind, grid) for kind, grid in grids.items()}
    curves = {"temperature": temperatures}
    for kind, slopes in found.items():
        curves |= {f"{kind}_{name}": np.median(slopes[name], axis=1).tolist() for name in SLOPES}
    curves |= by_formula(shape, temperatures, c["many"], trial.stream.child("many"))
    soft, through, hard = found.values()
    keys, query, values = (np.stack(part) for part in zip(*every, strict=True))
    formula = np.stack([query_slopes(keys, query, values, t) for t in temperatures])
    gaps = np.concatenate([np.abs(gap(soft, whom, soft[f"{whom}_difference"])) for whom in WHOM])
    unseen = gap(through, "query", through["query_difference"])
    metrics: dict[str, Scalar] = {
        "softmax_gap": float(gaps.max()) if gaps.size else None,
        "argmax_largest": max(float(hard[name].max()) for name in BLIND),
        "argmax_values": float(hard["values"].min()),
        "through_unseen": float(unseen.min()) if unseen.size else None,
        "formula_gap": float(np.abs(gap(soft, "query", formula)).max(initial=0.0)),
    }
    reasons = {name: "no slope is clear of rounding" for name, v in metrics.items() if v is None}
    return Outcome(metrics, curves=curves, reasons=reasons)


def instance(shape: tuple[int, int, int], seed: Seed) -> Instance:
    """Keys, query and values, all entries N(0, 1): scores k·q/√h then have a spread near 1."""
    n, h, outputs = shape
    rng = seed.numpy_generator()
    return rng.normal(size=(n, h)), rng.normal(size=h), rng.normal(size=(n, outputs))


def slopes_of(every: list[Instance], kind: str, temperatures: list[float]) -> dict[str, Array]:
    """By name, temperatures × instances: slopes by autograd and by differences, and their floor."""
    rows = [[jacobian_norms(k, q, v, kind, t, "sqrt") for k, q, v in every] for t in temperatures]
    return {
        name: np.array([[getattr(norms, name) for norms in row] for row in rows])
        for name in (*SLOPES, "floor")
    }


def gap(slopes: dict[str, Array], whom: str, other: Array) -> Array:
    """(slope − other) / slope, of the slopes that are clear of rounding."""
    clear = slopes[whom] > CLEAR * slopes["floor"]
    slope = slopes[whom][clear]
    return (slope - other[clear]) / slope


def by_formula(
    shape: tuple[int, int, int], temperatures: list[float], count: int, seed: Seed
) -> dict[str, list[float]]:
    """Query slopes of very many instances: their median, their mean, who carries it.

    `formula_share`: the share of instances that makes up half of the sum of squares.
    """
    n, h, outputs = shape
    rng = seed.numpy_generator()
    keys, query = rng.normal(size=(count, n, h)), rng.normal(size=(count, h))
    values = rng.normal(size=(count, n, outputs))
    rows: dict[str, list[float]] = {"median": [], "mean": [], "share": []}
    for temperature in temperatures:
        sizes = query_slopes(keys, query, values, temperature)
        energy = np.cumsum(np.sort(sizes**2)[::-1])
        carrying = int(np.searchsorted(energy, energy[-1] / 2)) + 1
        rows["median"].append(float(np.median(sizes)))
        rows["mean"].append(float(sizes.mean()))
        rows["share"].append(carrying / count)
    return {f"formula_{name}": values for name, values in rows.items()}


def query_slopes(keys: Array, query: Array, values: Array, temperature: float) -> Array:
    """‖d output / d query‖ of a stack of instances, by the formula above."""
    factor = keys.shape[-1] ** -0.5 / temperature
    scores = factor * np.einsum("bnh,bh->bn", keys, query)
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    weights /= weights.sum(axis=1, keepdims=True)
    away = values - np.einsum("bn,bnm->bm", weights, values)[:, None]
    slope = factor * np.einsum("bn,bnm,bnh->bmh", weights, away, keys)
    return np.sqrt((slope**2).sum(axis=(1, 2)))


def given(trial: Trial) -> Outcome:
    """The example of the settings: what argmax returns, its slopes, and its query turned round."""
    c = trial.config
    keys, query = np.array(c["keys"], dtype=float), np.array(c["query"], dtype=float)
    values = np.array(c["values"], dtype=float)[:, None]
    hard = hard_attention(keys, query, values)
    metrics: dict[str, Scalar] = {
        "index": hard.index,
        "output": float(hard.output[0]),
        "ties": len(hard.ties),
        "gap": hard.gap,
    }
    reasons = {} if hard.gap is not None else {"gap": "all scores are equal"}
    for kind in ("argmax", "softmax", "straight-through"):
        s = jacobian_norms(keys, query, values, kind, 1.0)
        metrics |= {
            f"{kind}_{name}": getattr(s, name)
            for name in ("query", "query_difference", "keys", "keys_difference", "values")
        }
    angles = np.linspace(-np.pi, np.pi, TURN)
    length = float(np.linalg.norm(query))
    turned = length * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    picked = [hard_attention(keys, q, values) for q in turned]
    curves = {
        "angle": np.degrees(angles).tolist(),
        "argmax": [float(p.output[0]) for p in picked],
        "picked": [float(p.index) for p in picked],
    }
    for temperature in SHOWN:
        pairs = [turned_slope(keys, values[:, 0], q, temperature) for q in turned]
        curves[f"output_{temperature:g}"] = [output for output, _ in pairs]
        curves[f"slope_{temperature:g}"] = [slope for _, slope in pairs]
    return Outcome(metrics, curves=curves, reasons=reasons)


def turned_slope(
    keys: Array, values: Array, query: Array, temperature: float
) -> tuple[float, float]:
    """Output, and by how much it changes a degree as the query turns: (1/T) Σ w (v − out) k·q'."""
    weights = attention_weights(keys, query, 1 / temperature)
    output = float(weights @ values)
    sideways = np.array([-query[1], query[0]]) * np.pi / 180
    return output, float((weights * (values - output)) @ (keys @ sideways)) / temperature
