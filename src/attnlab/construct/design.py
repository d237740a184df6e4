"""design: a query and new keys chosen together, for one goal before the change and one after it.

    design(K, {"before": "average:0,1", "after": "average:0,1,2"}, free=[2], unit_norm=True)

With a given query a unit key is often too short (`replace_key`); here the query is free as well and
may be as long as needed. The conditions on scores are convex (design_problem.py): the result is the
shortest query, or a lambda that refutes every query (design_report.py). Unit length adds the
condition score <= scale |q|, which is not convex: it is met by a part of q orthogonal to all keys
or by another direction (`cone.find_long_direction`), or refuted by branch and bound.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from attnlab.construct.cone import find_direction, null_space
from attnlab.construct.design_problem import DesignProblem, shortest_query
from attnlab.construct.design_report import (
    describe_conflict,
    explain_failure,
    infeasible,
    proves_infeasible,
    replace_free_keys,
    report_before,
    strongest_refutation,
)
from attnlab.construct.goals import Goal, Target
from attnlab.construct.inputs import AttentionInputs, Scale, attention_weights, check_members
from attnlab.construct.numerics import Array, norm
from attnlab.construct.result import Construction, name_keys
from attnlab.core.errors import UsageError
from attnlab.core.extras import require

Goals = Goal | str | Mapping[str, Goal | str | None] | Sequence[Goal | str | None]

_ROUNDING = 1e-9  # a condition violated by less than this holds but for rounding
_DOUBLINGS = 60
_HALVINGS = 50
_SHARES = (1e-3, 1e-6)  # tried where a tenth of the weight outside is too much to reserve
_REFINEMENTS = 6  # convex solves per candidate
_REFINED = 3  # candidates
_SMALL = 1000  # entries of K up to which several starts are cheap
_AXES = 8  # coordinate directions tried as starts


def design(
    keys: Any,
    goals: Goals,
    free: Sequence[int],
    unit_norm: bool = False,
    scale: Scale = 1.0,
    values: Any = None,
) -> Construction:
    """A query for both goals, and the new keys in place of those in `free`.

    The query meets goals["before"] with the keys as given and goals["after"] once the keys in
    `free` are replaced (by keys of length 1 if asked). `goals` is a mapping, a pair (before,
    after), or the goal after alone. `key` of the result is the new key, or a matrix of new keys;
    `weights` and `output` are those after the change, and `also` holds those before. Where no
    query exists, the certificate proves it.
    """
    require("construct", "construct design")
    inputs = AttentionInputs.check(keys, scale, values)
    n = len(inputs.keys)
    first, second = _split_goals(goals)
    problem = DesignProblem(
        keys=inputs.keys,
        scale=inputs.scale,
        before=None if first is None else Target.of(first, n, inputs.values),
        after=Target.of(second, n, inputs.values),
        free=tuple(check_members(free, n)),
        unit_norm=unit_norm,
    )
    answer = _solve(problem)
    for share in _SHARES if problem.leaving else ():
        if answer.feasible or (answer.certificate or {})["kind"] != "open":
            break
        answer = _solve(replace(problem, share=share))
    return answer


def _solve(problem: DesignProblem) -> Construction:
    """Refute the problem where a certificate is found; otherwise search for a query."""
    start, refutation = find_direction(problem.cone)
    if refutation is not None and proves_infeasible(problem, refutation.rows):
        return infeasible(problem, *describe_conflict(problem, refutation))
    base = shortest_query(problem)
    if base is None and refutation is not None:
        proof = strongest_refutation(problem)
        if proof is not None:
            return infeasible(problem, *describe_conflict(problem, proof))
    return _search(problem, base, start)


def _split_goals(goals: Goals) -> tuple[Goal | str | None, Goal | str]:
    """The goals before and after the change, from any of the accepted forms."""
    if isinstance(goals, Goal | str):
        return None, goals
    if isinstance(goals, Mapping):
        if set(goals) - {"before", "after"}:
            raise UsageError(
                f"the goals are called before and after: got {', '.join(map(str, goals))}"
            )
        first, second = goals.get("before"), goals.get("after")
    elif len(goals) == 2:
        first, second = goals
    else:
        raise UsageError(f"give two goals, before and after: got {len(goals)}")
    if second is None:
        raise UsageError("a goal after the change is needed: average:0,1,2 or select:2")
    return first, second


def _search(problem: DesignProblem, base: Array | None, start: Array | None) -> Construction:
    """The shortest candidate that meets both goals, or the reason why there is none."""
    for candidates in (
        _near_base(problem, base),
        _along_directions(problem, base, start),
        _towards_long_direction(problem, start),
    ):
        queries = sorted((q for q in candidates if q is not None), key=norm)
        if problem.unit_norm:
            tried = queries[: _REFINED if problem.keys.size <= _SMALL else 1]
            better = [_refine(problem, q) for q in tried if q is not base]
            queries = sorted([*queries, *better], key=norm)
        for q in queries:
            if (answer := _describe(problem, q, base)) is not None:
                return answer
    return infeasible(problem, *explain_failure(problem), near=base)


def _along_directions(
    problem: DesignProblem, base: Array | None, start: Array | None
) -> Iterator[Array | None]:
    """Queries along known directions and axes; with unit keys also for keys along the axes."""
    known = [d for d in (base, start) if d is not None and d.any()]
    basis = problem.cone.basis.T[:_AXES]
    axes = [*basis, *-basis]
    yield from (_scale_direction(problem, d) for d in [*known, *axes])
    if problem.unit_norm and problem.keys.size <= _SMALL:
        queries = (shortest_query(problem, d) for d in axes)
        yield from (q for q in queries if q is not None and problem.excess(q) <= _ROUNDING)


def _near_base(problem: DesignProblem, base: Array | None) -> Iterator[Array | None]:
    """The shortest query for free new keys, as it is or lengthened orthogonally to all keys."""
    if base is None:
        return
    # A new key that must have another score than the rest needs a query.
    needs_query = problem.leaving or (problem.free and not problem.fixed)
    tiny = needs_query and float(np.abs(problem.scale * (problem.keys @ base)).max()) < 1
    if problem.excess(base) <= _ROUNDING and not tiny:
        yield base
    orthogonal = null_space(problem.keys)
    if problem.unit_norm and orthogonal.shape[1]:
        yield _lengthen(problem, base, orthogonal[:, 0])


def _towards_long_direction(problem: DesignProblem, start: Array | None) -> Iterator[Array | None]:
    """Queries close to the direction of the cone with the largest norm for its scores."""
    if not problem.unit_norm or start is None or problem.cone.basis.shape[1] == 0:
        return
    long, _ = problem.long_direction()
    if long is None:
        return
    inner = start / norm(start) if start.any() else start
    for share in (0.3, 0.1, 0.03, *(10.0**-k for k in range(2, 11))):
        yield _scale_direction(problem, long / norm(long) + share * inner)


def _scale_direction(problem: DesignProblem, d: Array) -> Array | None:
    """The shortest query beta d that meets the conditions, by doubling and then bisection.

    New keys of any length would do with a query as short as one likes: then some score must be
    at least 1.
    """
    size = problem.scale * float(np.abs(problem.keys @ d).max())
    most = problem.scale * norm(d) * float(np.linalg.norm(problem.keys, axis=1).max())
    if size <= 1e-9 * most:  # orthogonal to all keys: only the length counts
        size = most or problem.scale * norm(d)
    first, last = (-10, 50) if problem.unit_norm else (0, 50)
    powers = [*range(first, last), *range(first - 1, first - 40, -1)]
    beta = next((2.0**p / size for p in powers if problem.excess(2.0**p / size * d) <= 0), None)
    if beta is None:  # a score that should equal scale |q| may exceed it, but only by rounding
        shorter = (2.0 ** (last - halving) / size * d for halving in range(1, _DOUBLINGS + 1))
        return next((q for q in shorter if 0 < problem.excess(q) <= _ROUNDING), None)
    if not problem.unit_norm and beta * size <= 1:
        return beta * d
    return _bisect(lambda x: problem.excess(x * d) <= 0, beta / 2, beta) * d


def _bisect(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The smallest x in [low, high] from which the condition holds, given that it holds at high."""
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _lengthen(problem: DesignProblem, q: Array, orthogonal: Array) -> Array | None:
    """q plus the smallest part orthogonal to all keys that suffices: only |q| changes."""
    size = norm(q) or 1 / (problem.scale * float(np.abs(problem.keys).max() or 1.0))
    steps = (2.0**power * size for power in range(-10, _DOUBLINGS - 10))
    step = next((s for s in steps if problem.excess(q + s * orthogonal) <= 0), None)
    if step is None:
        return None
    shortest = _bisect(lambda x: problem.excess(q + x * orthogonal) <= 0, 0.0, step)
    return q + shortest * orthogonal


def _refine(problem: DesignProblem, q: Array) -> Array:
    """Shorten q by solving the convex problem along q / |q| repeatedly."""
    for _ in range(_REFINEMENTS):
        size = norm(q)
        better = shortest_query(problem, q / size) if size else None
        if better is None or problem.excess(better) > _ROUNDING:
            break
        if norm(better) >= size * (1 - 1e-6):
            break
        q = better
    return q


def _describe(problem: DesignProblem, q: Array, base: Array | None) -> Construction | None:
    """The construction at q, judged by the attention that it gives; None if it misses a goal."""
    before = attention_weights(problem.keys, q, problem.scale)
    if problem.before is not None and not problem.before.met(before):
        return None
    result = replace_free_keys(problem, q)
    if not result.feasible:
        return None
    least = None if base is None else norm(base)
    size = norm(q)
    also = {
        **result.also,
        "before": report_before(problem, before),
        "shortest": not problem.leaving and least is not None and size <= least * (1 + 1e-6),
    }
    if least is not None and not problem.leaving:
        also["norm_bound"] = least
    why = result.why
    if problem.before is not None:
        total = f"{problem.before.total(before):.4g} of the weight in total"
        names = name_keys(problem.before.members)
        does = "averages" if len(problem.before.members) > 1 else "selects"
        why = f"Before the change the query {does} {names}: {total}. {why}"
    return replace(result, why=why, also=also, residual=max(problem.excess(q), 0.0))
