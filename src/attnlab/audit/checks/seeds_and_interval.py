"""seeds-and-interval: does every comparison rest on enough independent runs?

Number: the fewest runs behind a comparison. Fails with fewer than 3: an interval over two runs says
next to nothing, and one run has none. The verdicts themselves are corrected for the number of
comparisons in lab/claim.py. A comparison without any run was not made with these settings and is
only counted.
"""

from collections.abc import Mapping

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.core.plural import counted

NAME = "seeds-and-interval"
MIN_RUNS = 3


@audit(NAME, threshold=MIN_RUNS)
def seeds_and_interval(runs: Mapping[str, int]) -> Finding:
    """Judge the number of independent runs behind each comparison, by its name."""
    made = {name: count for name, count in runs.items() if count}
    if not made:
        raise NotApplicable("no comparison was made")
    fewest = min(made, key=lambda name: made[name])
    few = tuple(name for name, count in made.items() if count < MIN_RUNS)
    if few:
        others = f" (and {len(few) - 1} more)" if len(few) > 1 else ""
        why = (
            f"{fewest!r}{others} rests on {counted(made[fewest], 'run')}, and at least {MIN_RUNS} "
            "are needed: not a result"
        )
        return Finding(NAME, "fail", made[fewest], MIN_RUNS, why, {"runs": dict(runs)}, few)
    what = f"all {len(made)} comparisons rest" if len(made) > 1 else "the one comparison rests"
    why = f"{what} on at least {made[fewest]} runs; verdicts are corrected over {len(runs)} (Holm)"
    return Finding(NAME, "pass", made[fewest], MIN_RUNS, why, {"runs": dict(runs)})
