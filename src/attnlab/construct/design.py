"""Query and replaced key chosen together: before the change q meets one goal, after it another.

    design(K, {"before": "average:0,1", "after": "average:0,1,2"}, free=[2], unit_norm=True)

With the query given a unit key is often too short (`replace_key`); here q is free too, as long as
is needed. Conditions on scores are convex (`plan.py`): the shortest query, or lambda that refutes
every query (`conflict.py`). Unit length adds score <= scale |q|, which is not convex: it is met by
a part of q across all keys, by another direction (`cone.longest`), or refuted by bounds on boxes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace as changed
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.construct.cone import find_direction, null_space
from attnlab.construct.conflict import (
    describe_conflict,
    describe_unit_limit,
    proves_infeasible,
    strongest_refutation,
)
from attnlab.construct.convex_solver import shortest_query
from attnlab.construct.design_problem import DesignProblem
from attnlab.construct.goals import Goal, Target
from attnlab.construct.inputs import (
    Scale,
    attention_weights,
    check_keys,
    check_members,
    check_values,
    resolve_scale,
)
from attnlab.construct.replacement import replace_free_keys
from attnlab.construct.result import Construction
from attnlab.core.errors import UsageError

Array = NDArray[np.float64]
Goals = Goal | str | Mapping[str, Goal | str | None] | Sequence[Goal | str | None]

_HOLDS = 1e-9  # an excess this small is rounding
_DOUBLINGS = 60
_HALVINGS = 50
_SHARES = (1e-3, 1e-6)  # where a tenth is too much to keep back
_POLISH = 6
_POLISHED = 3  # candidates
_SMALL = 1000  # numbers in K: more than one start is cheap
_AXES = 8  # directions tried where no better guess is at hand


def design(
    keys: Any,
    goals: Goals,
    free: Sequence[int],
    unit_norm: bool = False,
    scale: Scale = 1.0,
    values: Any = None,
) -> Construction:
    """A query that meets goals["before"] with the keys as given and goals["after"] once the keys
    in `free` are replaced, and those keys (of length 1 if asked).

    `goals`: a mapping, a pair (before, after), or the goal after alone. `key` is the new key (a
    matrix, one row each, where several are replaced); `weights` and `output` are those after, the
    ones before are in `also`. Impossible: the certificate says why.
    """
    found = check_keys(keys)
    n, h = found.shape
    given = check_values(values, n)
    first, second = _two(goals)
    plan = DesignProblem(
        keys=found,
        scale=resolve_scale(scale, h),
        before=None if first is None else Target.of(first, n, given),
        after=Target.of(second, n, given),
        free=tuple(check_members(free, n)),
        unit_norm=unit_norm,
    )
    answer = _decided(plan)
    for share in _SHARES if plan.leaving else ():
        if answer.feasible or (answer.certificate or {})["kind"] != "open":
            break
        answer = _decided(changed(plan, share=share))
    return answer


def _decided(plan: DesignProblem) -> Construction:
    """Refuted, or searched for."""
    start, refuted = find_direction(plan.cone)
    if refuted is not None and proves_infeasible(plan, refuted.rows):
        return _impossible(plan, *describe_conflict(plan, refuted))
    base = shortest_query(plan)
    if base is None and refuted is not None and (proof := strongest_refutation(plan)) is not None:
        return _impossible(plan, *describe_conflict(plan, proof))
    return _search(plan, base, start)


def _two(goals: Goals) -> tuple[Goal | str | None, Goal | str]:
    """(before, after)."""
    if isinstance(goals, Goal | str):
        return None, goals
    if isinstance(goals, Mapping):
        if set(goals) - {"before", "after"}:
            raise UsageError(f"goals are before and after: got {', '.join(map(str, goals))}")
        first, second = goals.get("before"), goals.get("after")
    elif len(goals) == 2:
        first, second = goals
    else:
        raise UsageError(f"give two goals, before and after: got {len(goals)}")
    if second is None:
        raise UsageError("a goal after the change is needed: average:0,1,2 or select:2")
    return first, second


def _search(plan: DesignProblem, base: Array | None, start: Array | None) -> Construction:
    """The shortest candidate that meets everything; else what stands in the way."""
    for found in (_near(plan, base), _straight(plan, base, start), _bent(plan, start)):
        queries = sorted(found, key=lambda q: float(np.linalg.norm(q)))
        if plan.unit_norm:
            tried = queries[: _POLISHED if plan.keys.size <= _SMALL else 1]
            better = [_polished(plan, q) for q in tried if q is not base]
            queries = sorted([*queries, *better], key=lambda q: float(np.linalg.norm(q)))
        for q in queries:
            if (answer := _answer(plan, q, base)) is not None:
                return answer
    return _impossible(plan, *_obstacle(plan), near=base)


def _straight(plan: DesignProblem, base: Array | None, start: Array | None) -> Iterator[Array]:
    """Along known directions and axes; with unit keys also for keys along the axes."""
    known = [d for d in (base, start) if d is not None and d.any()]
    basis = plan.cone.basis.T[:_AXES]
    axes = [*basis, *-basis]
    yield from (q for d in [*known, *axes] if (q := _along(plan, d)) is not None)
    if plan.unit_norm and plan.keys.size <= _SMALL:
        found = (shortest_query(plan, d) for d in axes)
        yield from (q for q in found if q is not None and plan.excess(q) <= _HOLDS)


def _near(plan: DesignProblem, base: Array | None) -> Iterator[Array]:
    """The shortest query without limits on the new keys, as it is or lengthened across all keys."""
    if base is None:
        return
    tiny = plan.needs_query and float(np.abs(plan.scale * (plan.keys @ base)).max()) < 1
    if plan.excess(base) <= _HOLDS and not tiny:
        yield base
    across = null_space(plan.keys)
    if (
        plan.unit_norm
        and across.shape[1]
        and (q := _lengthened(plan, base, across[:, 0])) is not None
    ):
        yield q


def _bent(plan: DesignProblem, start: Array | None) -> Iterator[Array]:
    """Towards the direction in the closed cone that is longest for its scores."""
    if not plan.unit_norm or start is None or plan.cone.basis.shape[1] == 0:
        return
    far, _ = plan.far
    if far is None:
        return
    inner = start / float(np.linalg.norm(start)) if start.any() else start
    for share in (0.3, 0.1, 0.03, *(10.0**-k for k in range(2, 11))):
        d = far / float(np.linalg.norm(far)) + share * inner
        if (q := _along(plan, d)) is not None:
            yield q


def _along(plan: DesignProblem, d: Array) -> Array | None:
    """The shortest beta d that holds, by doubling and then halving.

    Keys of any length could answer to the faintest query: there some score is to be 1 at least.
    """
    size = plan.scale * float(np.abs(plan.keys @ d).max())
    most = plan.scale * float(np.linalg.norm(d)) * float(np.linalg.norm(plan.keys, axis=1).max())
    if size <= 1e-9 * most:  # across all keys: only the length counts
        size = most or plan.scale * float(np.linalg.norm(d))
    first, last = (-10, 50) if plan.unit_norm else (0, 50)
    powers = [*range(first, last), *range(first - 1, first - 40, -1)]
    beta = next((2.0**p / size for p in powers if plan.excess(2.0**p / size * d) <= 0), None)
    if beta is None:
        return _at_the_end(plan, 2.0**last / size * d)
    if not plan.unit_norm and beta * size <= 1:
        return beta * d
    low, high = beta / 2, beta
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (low, middle) if plan.excess(middle * d) <= 0 else (middle, high)
    return high * d


def _at_the_end(plan: DesignProblem, q: Array) -> Array | None:
    """A score that equals scale |q| exactly is beyond it by rounding: allow that, at any length."""
    for _ in range(_DOUBLINGS):
        q = q / 2
        if 0 < plan.excess(q) <= _HOLDS:
            return q
    return None


def _lengthened(plan: DesignProblem, q: Array, across: Array) -> Array | None:
    """q plus the least part across all keys: no score changes, only |q|."""
    size = float(np.linalg.norm(q)) or 1 / (plan.scale * float(np.abs(plan.keys).max() or 1.0))
    step = 2.0**-10 * size
    for _ in range(_DOUBLINGS):
        if plan.excess(q + step * across) <= 0:
            break
        step *= 2
    else:
        return None
    low, high = 0.0, step
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        good = plan.excess(q + middle * across) <= 0
        low, high = (low, middle) if good else (middle, high)
    return q + high * across


def _polished(plan: DesignProblem, q: Array) -> Array:
    """Shorter, as long as the convex problem along q / |q| makes it so."""
    for _ in range(_POLISH):
        size = float(np.linalg.norm(q))
        better = shortest_query(plan, q / size) if size else None
        if better is None or plan.excess(better) > _HOLDS:
            break
        if float(np.linalg.norm(better)) >= size * (1 - 1e-6):
            break
        q = better
    return q


def _answer(plan: DesignProblem, q: Array, base: Array | None) -> Construction | None:
    """The construction at q, judged by the attention it really gives; None if it misses a goal."""
    first = attention_weights(plan.keys, q, plan.scale)
    if plan.before is not None and not plan.before.met(first):
        return None
    found = replace_free_keys(plan, q)
    if not found.feasible:
        return None
    least = None if base is None else float(np.linalg.norm(base))
    size = float(np.linalg.norm(q))
    also = {
        **found.also,
        "before": _seen(plan, first),
        "shortest": not plan.leaving and least is not None and size <= least * (1 + 1e-6),
    }
    if least is not None and not plan.leaving:
        also["norm_bound"] = least
    lead = "" if plan.before is None else f"Before: {_brief(plan.before, first)}. "
    return changed(found, why=f"{lead}{found.why}", also=also, residual=max(plan.excess(q), 0.0))


def _seen(plan: DesignProblem, weights: Array) -> dict[str, Any]:
    """Attention with the keys as given."""
    found: dict[str, Any] = {"weights": weights}
    if plan.after.values is not None:
        found["output"] = weights @ plan.after.values
    if plan.before is not None:
        found["total"] = plan.before.total(weights)
        found["output_error"] = plan.before.output_error(weights)
    return {name: value for name, value in found.items() if value is not None}


def _brief(target: Target, weights: Array) -> str:
    return f"{target.goal} with {target.total(weights):.4g} of the weight"


def _obstacle(plan: DesignProblem) -> tuple[dict[str, Any], str]:
    """Why no candidate worked: proven, or said to be open."""
    if plan.cone.basis.shape[1] == 0:
        said = "The equal scores asked for leave only the query zero, which sees no key."
        return {"kind": "zero-query", "equations": plan.equations}, said
    if plan.unit_norm and plan.width == 1 and plan.fixed and plan.joining:
        size = abs(float(plan.keys[plan.fixed[0], 0]))
        said = f"In one dimension a unit key is 1 or -1, and never scores like one of {size:.4g}."
        return {"kind": "one-dimension", "key_size": size}, said
    if plan.unit_norm:  # q = 0 has been tried
        far, ratio = plan.necessary
        if far is None and ratio < 1 + 1e-6:
            return describe_unit_limit(plan, ratio)
    return {"kind": "open"}, "No query was found, and none was proven impossible."


def _impossible(
    plan: DesignProblem, certificate: dict[str, Any], why: str, near: Array | None = None
) -> Construction:
    """The query that does the first goal, where there is one, with the best key for the second."""
    if near is None and plan.before is not None:
        alone = changed(plan, after=plan.before, free=tuple(plan.staying[:0]))
        near = shortest_query(alone)
    q = np.zeros(plan.width) if near is None else near
    found = replace_free_keys(plan, q)
    first = attention_weights(plan.keys, q, plan.scale)
    also = {**found.also, "before": _seen(plan, first)}
    return changed(found, feasible=False, why=why, certificate=certificate, also=also)
