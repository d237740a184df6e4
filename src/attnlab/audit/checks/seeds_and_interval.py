"""seeds-and-interval: does every difference rest on enough independent runs?

Runs: over all comparisons of a study, the smallest number of runs; a paired t-test each; Holm's
correction for how many comparisons were made. Number: the smallest n. Fails with fewer than 3
runs behind any comparison, or when a corrected p exceeds 0.05 (its interval covers zero): such a
difference is "not a result", and is named.
"""

from collections.abc import Mapping, Sequence

from attnlab.audit.finding import Finding
from attnlab.audit.registry import NotApplicable, audit
from attnlab.core.plural import counted
from attnlab.measure.intervals import holm, t_test_p

NAME = "seeds-and-interval"
MIN_RUNS = 3
LEVEL = 0.05


@audit(NAME, threshold=MIN_RUNS)
def seeds_and_interval(differences: Mapping[str, Sequence[float]]) -> Finding:
    """Judge paired differences, one list of runs a comparison."""
    if not differences:
        raise NotApplicable("no comparison was made")
    counts = {name: len(values) for name, values in differences.items()}
    fewest = min(counts, key=lambda name: counts[name])
    if counts[fewest] < MIN_RUNS:
        why = (
            f"{fewest!r} rests on {counted(counts[fewest], 'run')}, and at least {MIN_RUNS} are "
            "needed: not a result"
        )
        few = tuple(name for name, count in counts.items() if count < MIN_RUNS)
        return Finding(NAME, "fail", counts[fewest], MIN_RUNS, why, {"runs": counts}, few)
    names = list(differences)
    corrected = dict(zip(names, holm([t_test_p(differences[n]) for n in names]), strict=True))
    unclear = [name for name in names if corrected[name] > LEVEL]
    evidence = {"runs": counts, "holm_p": corrected, "covers_zero": unclear}
    if unclear:
        why = f"not a result after Holm's correction: {', '.join(unclear)}"
        return Finding(NAME, "fail", counts[fewest], MIN_RUNS, why, evidence, tuple(unclear))
    runs = f"at least {counts[fewest]} runs"
    why = (
        f"all {len(names)} differences concluded from rest on {runs} and stay clear of zero"
        if len(names) > 1
        else f"the only difference concluded from rests on {runs} and stays clear of zero"
    )
    why += " after Holm's correction"
    return Finding(NAME, "pass", counts[fewest], MIN_RUNS, why, evidence)
