"""What `design` says of its result: the attention before the change, and why there may be none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from attnlab.construct.conflict import describe_unit_limit
from attnlab.construct.convex_solver import shortest_query
from attnlab.construct.design_problem import DesignProblem
from attnlab.construct.inputs import attention_weights
from attnlab.construct.numerics import Array
from attnlab.construct.replacement import replace_free_keys
from attnlab.construct.result import Construction


def report_before(problem: DesignProblem, weights: Array) -> dict[str, Any]:
    """The attention with the keys as given, and how well it meets the goal before the change."""
    report: dict[str, Any] = {"weights": weights}
    if problem.after.values is not None:
        report["output"] = weights @ problem.after.values
    if problem.before is not None:
        report["total"] = problem.before.total(weights)
        report["output_error"] = problem.before.output_error(weights)
    return {name: value for name, value in report.items() if value is not None}


def explain_failure(problem: DesignProblem) -> tuple[dict[str, Any], str]:
    """Why no candidate worked: a proof, or the admission that the question is open."""
    if problem.cone.basis.shape[1] == 0:
        sentence = "Only the zero query gives the equal scores, and it gives all keys equal weight."
        return {"kind": "zero-query", "equations": problem.equations}, sentence
    if problem.unit_norm and problem.width == 1 and problem.fixed and problem.joining:
        size = abs(float(problem.keys[problem.fixed[0], 0]))
        sentence = f"In one dimension a unit key is 1 or -1, and never scores like {size:.4g}."
        return {"kind": "one-dimension", "key_size": size}, sentence
    if problem.unit_norm:  # q = 0 has been tried
        direction, ratio = problem.necessary_direction
        if direction is None and ratio < 1 + 1e-6:
            return describe_unit_limit(problem, ratio)
    return {"kind": "open"}, "No query was found, but none was proven impossible either."


def infeasible(
    problem: DesignProblem, certificate: dict[str, Any], why: str, near: Array | None = None
) -> Construction:
    """The query for the first goal, if there is one, with the best keys for the second."""
    if near is None and problem.before is not None:
        alone = replace(problem, after=problem.before, free=tuple(problem.staying[:0]))
        near = shortest_query(alone)
    q = np.zeros(problem.width) if near is None else near
    result = replace_free_keys(problem, q)
    before = attention_weights(problem.keys, q, problem.scale)
    also = {**result.also, "before": report_before(problem, before)}
    return replace(result, feasible=False, why=why, certificate=certificate, also=also)
