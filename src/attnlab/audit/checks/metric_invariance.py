"""metric-invariance: is the metric one number, however the data are cut into batches?

Runs: the same data at batch sizes 1, 7 and 64, and with extra padding. Number: the largest relative
movement. Fails above 1e-6: a mean of batch means, padding that is scored, or rows that read
their neighbours; batch size and padding, changed one at a time, tell which.
"""

import math
from collections.abc import Callable, Sequence

from attnlab.audit.finding import Finding, NotApplicable, audit

NAME = "metric-invariance"
LIMIT = 1e-6
SIZES = (1, 7, 64)
PADS = (0, 3)


@audit(NAME, threshold=LIMIT)
def metric_invariance(
    metric: Callable[[int, int], float],
    *,
    sizes: Sequence[int] = SIZES,
    pads: Sequence[int] = PADS,
    rows: int | None = None,
) -> Finding:
    """Judge `metric(batch, pads)`: all the data at this batch size, every batch padded by more.

    Where nothing can be padded, pads=(0,). rows: how many there are, if that may be too few.
    """
    if len(set(sizes)) * len(set(pads)) < 2:
        raise NotApplicable("only one batch size and padding: nothing to compare")
    if rows is not None and rows < 2:
        raise NotApplicable(f"{rows} rows cannot be batched")
    metrics = {(size, pad): float(metric(size, pad)) for size in sizes for pad in pads}
    base = metrics[sizes[0], pads[0]]
    values = {f"batch {size}, {pad} pads": value for (size, pad), value in metrics.items()}
    evidence = {"values": {k: v if math.isfinite(v) else str(v) for k, v in values.items()}}
    bad = [key for key, value in values.items() if not math.isfinite(value)]
    if bad:
        why = f"the metric at {bad[0]} is {values[bad[0]]}"
        return Finding(NAME, "fail", math.inf, LIMIT, why, evidence)
    size = abs(base) or 1.0
    gaps = {key: abs(value - base) / size for key, value in metrics.items()}
    worst = max(gaps, key=lambda key: gaps[key])
    if gaps[worst] <= LIMIT:
        why = f"{base:.6g} at every batch size and padding (movement {gaps[worst]:.1g})"
        return Finding(NAME, "pass", gaps[worst], LIMIT, why, evidence)
    cause = "batch size and padding together"
    if max(gaps[sizes[0], p] for p in pads) > LIMIT:
        cause = "padding is scored"
    elif max(gaps[s, pads[0]] for s in sizes) > LIMIT:
        cause = "a mean of batch means, or rows that read their neighbours"
    why = (
        f"{base:.6g} at batch {sizes[0]} becomes {metrics[worst]:.6g} at batch {worst[0]} with "
        f"{worst[1]} extra pads: {cause}"
    )
    return Finding(NAME, "fail", gaps[worst], LIMIT, why, evidence)
