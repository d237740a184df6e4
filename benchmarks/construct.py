"""1,000 selections among 1,000 keys: all at once, one after the other, and by cvxpy + clarabel.

python benchmarks/construct.py [--json] [--keys 1000] [--sample 10]

In 64 dimensions every key can be selected, in 5 most cannot. The two plain loops are timed on a
sample of the keys in the same run and scaled to all of them; that they agree is asserted.
"""

import math
import time
import warnings
from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np
from common import Row, arguments, report
from numpy.typing import NDArray

from attnlab.construct import Construction, select, select_many

Array = NDArray[np.float64]
Answer = TypeVar("Answer")
WEIGHT = 0.99
LIMIT = 60.0  # seconds for a thousand selections
AGREE = 1e-4  # clarabel stops at 1e-8 of its own residuals


def timed(work: Callable[[], Answer]) -> tuple[Answer, float]:
    """What it returns, and the seconds it took."""
    began = time.perf_counter()
    return work(), time.perf_counter() - began


def by_cvxpy(keys: Array, index: int) -> float | None:
    """min ||q|| with the weight reached, as anyone would write it.

    None where it is infeasible, NaN where the solver gives up.
    """
    import cvxpy as cp

    q = cp.Variable(keys.shape[1])
    rows = np.delete(keys, index, axis=0) - keys[index]
    level = float(np.log(1 / WEIGHT - 1))
    problem = cp.Problem(cp.Minimize(cp.norm(q)), [cp.log_sum_exp(rows @ q) <= level])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "may be inaccurate": compared below
        try:
            problem.solve(solver=cp.CLARABEL)
        except cp.SolverError:
            return math.nan
    good = problem.status in ("optimal", "optimal_inaccurate")
    return float(np.asarray(problem.value)) if good else None


def agree(ours: Construction, single: Construction, theirs: float | None) -> float:
    """The largest relative difference of the norms; verdicts must be the same."""
    assert ours.feasible == single.feasible, ours.why
    assert math.isnan(theirs or 0) or ours.feasible == (theirs is not None), ours.why
    if not ours.feasible or theirs is None or ours.norm is None or single.norm is None:
        return 0.0
    other = ours.norm if math.isnan(theirs) else theirs
    return max(abs(single.norm / ours.norm - 1), abs(other / ours.norm - 1))


def selections(h: int, n: int, sample: int) -> Iterator[Row]:
    """Gaussian keys; every answer with its certificate, and the max-margin direction beside it."""
    keys = np.random.default_rng(0).standard_normal((n, h))
    chosen = [int(i) for i in np.linspace(0, n - 1, sample)]
    select_many(keys, chosen[:2], WEIGHT)  # what is loaded when first asked for
    by_cvxpy(keys[:10], 0)
    ours, seconds = timed(lambda: select_many(keys, None, WEIGHT))
    single, alone = timed(lambda: [select(keys, i, WEIGHT) for i in chosen])
    theirs, plain = timed(lambda: [by_cvxpy(keys, i) for i in chosen])
    off = max(agree(ours[i], s, t) for i, s, t in zip(chosen, single, theirs, strict=True))
    assert off < AGREE, f"norms differ by {off:.1e}"
    found = [one for one in ours if one.feasible]
    gap = max((one.also["gap"] for one in found), default=0.0)
    name = f"{n:,} selections among {n:,} keys in {h} dimensions"
    note = (
        f"{len(found)} of {n} can be selected, the others are proven in the hull; "
        f"largest proven gap {gap:.0e}"
    )
    scaled = f"{sample} timed, scaled to {n:,}; norms differ by {off:.0e} at most"
    gave_up = sum(t is not None and math.isnan(t) for t in theirs)
    given_up = f"; clarabel gave up on {gave_up} of them" if gave_up else ""
    yield Row(f"{name}, at most", seconds, None, "s", None, LIMIT, note)
    for label, sampled, more in (
        ("select, one at a time", alone, ""),
        ("a loop of cvxpy + clarabel", plain, given_up),
    ):
        loop, title = sampled / sample * n, f"{name}, against {label}"
        yield Row(title, seconds, loop, "s", loop / seconds, None, scaled + more)


def main() -> None:
    """Run the benchmarks and print their rows."""
    parser = arguments("Speed of many selections")
    parser.add_argument("--keys", type=int, default=1000, help="keys, and selections")
    parser.add_argument("--sample", type=int, default=10, help="selections the plain loops time")
    chosen = parser.parse_args()
    rows = [row for h in (64, 5) for row in selections(h, chosen.keys, chosen.sample)]
    report(rows, chosen.json)


if __name__ == "__main__":
    main()
