"""data-order: are the data shuffled anew every epoch, and the same way in every rerun?

Runs: digests of the first batches of several epochs, asked for twice, for each number of loading
processes. Number: pairs of epochs that begin alike. Fails when two epochs have the same order (no
shuffling, or a generator that starts anew), when asking again gives another order (a seed that is
not fixed), or when batches repeat within an epoch (random draws that every loading process makes
alike). Whether the order depends on the number of processes is reported.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import combinations, islice
from typing import Any

from attnlab.audit.finding import Finding
from attnlab.measure.content import digest

NAME = "data-order"
FIRST = 6  # batches looked at, an epoch
REPEATED = 1 / 3  # two processes that draw alike repeat half of them; rows that occur twice, few


def data_order(
    epoch: Callable[[int, int], Iterable[Any]],
    *,
    epochs: int = 3,
    workers: Sequence[int] = (0,),
    first: int = FIRST,
) -> Finding:
    """Judge `epoch(number, workers)`: the batches of an epoch as a fresh run would meet them.

    It is called twice for the same epoch and must start from the run's own seed each time.
    """
    if epochs < 2 or not workers:
        return Finding(NAME, "not-applicable", None, 0, "one epoch: nothing to compare")
    found = {(w, e): _digests(epoch(e, w), first) for w in workers for e in range(epochs)}
    again = {key: _digests(epoch(key[1], key[0]), first) for key in found}
    if any(not batches for batches in found.values()):
        return Finding(NAME, "not-applicable", None, 0, "an epoch without a batch")
    alike = [
        (w, a, b)
        for w in workers
        for a, b in combinations(range(epochs), 2)
        if found[w, a] == found[w, b]
    ]
    differ = [key for key in found if found[key] != again[key]]
    repeats = [key for key, batches in found.items() if _repeated_share(batches) >= REPEATED]
    evidence: dict[str, Any] = {
        "epochs": epochs,
        "workers": list(workers),
        "batches": first,
        "first_batch": {f"workers {w}, epoch {e}": d[0][:12] for (w, e), d in found.items()},
        "same_for_all_workers": all(
            found[w, e] == found[workers[0], e] for w in workers for e in range(epochs)
        ),
    }
    problem = ""
    if differ:
        w, e = differ[0]
        problem = f"epoch {e} with {w} workers has another order when asked for again"
    elif alike:
        w, a, b = alike[0]
        problem = f"epochs {a} and {b} have the same order (with {w} workers): not shuffled anew"
    elif repeats:
        w, e = repeats[0]
        share = _repeated_share(found[w, e])
        problem = (
            f"{share:.0%} of the first batches of epoch {e} occur twice (with {w} "
            "workers): the loading processes draw alike"
        )
    if problem:
        return Finding(NAME, "fail", len(alike), 0, problem, evidence)
    same = "" if evidence["same_for_all_workers"] else "; it depends on the number of workers"
    why = f"another order in each of {epochs} epochs, the same when asked for again{same}"
    return Finding(NAME, "pass", 0, 0, why, evidence)


def _digests(batches: Iterable[Any], first: int) -> list[str]:
    return [digest(batch) for batch in islice(batches, first)]


def _repeated_share(batches: list[str]) -> float:
    """Share of batches that occurred before."""
    return 1 - len(set(batches)) / len(batches)
