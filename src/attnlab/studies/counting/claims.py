"""What may be concluded: both solutions exist, need attention, and are kept or left."""

from attnlab.lab.claim import Claim, judge
from attnlab.measure.intervals import mean_interval
from attnlab.studies.counting.evidence import LABELS, OWN, Starts

SOLVED = 0.9  # of the places: far above any answer without attention
LOST = 0.05  # of accuracy: more, and the solution is no longer of one kind
STILL = 0.01  # of the weights' size: who moves less has not been tried
KINDS = {"positional": "places", "semantic": "tokens"}


def claims(starts: Starts) -> list[Claim]:
    """Existence, then what attention is worth, then what remains when everything is free."""
    found = [_solves(starts, arm) for arm in KINDS]
    found += [_needs(starts, arm) for arm in KINDS]
    found += [_kept(starts, arm, way) for way in ("gentle", "strong") for arm in KINDS]
    return [*found, _untried(starts), _mixed(starts)]


def _solves(starts: Starts, arm: str) -> Claim:
    return judge(
        f"{arm}-solves",
        f"With scores made of {KINDS[arm]} alone the model counts (more than 90 % of the places)",
        starts.estimate(arm, "first_accuracy"),
        above=SOLVED,
        quantity=f"test accuracy, {LABELS[arm]}",
        trials=starts.ids(arm),
    )


def _needs(starts: Starts, arm: str) -> Claim:
    gaps = starts.gaps((arm, "first_accuracy"), ("off", "first_accuracy"))
    return judge(
        f"{arm}-needs-attention",
        f"Attention off, the same model is worse than with scores of {KINDS[arm]}",
        mean_interval(gaps),
        above=0.0,
        quantity=f"accuracy, {LABELS[arm]} − attention off",
        trials=starts.ids(arm, "off"),
        runs=gaps,
    )


def _kept(starts: Starts, arm: str, way: str) -> Claim:
    """What the freed model loses when its scores are cut to what they were made of.

    Only of starts that solve the task: where there is no solution, none is kept.
    """
    solved = {seed for seed, a in starts.values(arm, "first_accuracy").items() if a > SOLVED}
    gaps = starts.gaps((arm, f"{way}_accuracy"), (arm, f"{way}_{OWN[arm]}"), solved)
    how = "by SGD at the published rate" if way == "gentle" else "as before (AdamW)"
    return judge(
        f"{way}-keeps-{arm}",
        f"Freed and trained on {how}, the solution stays {arm}: scores of {KINDS[arm]} alone "
        "lose less than 0.05 of its accuracy",
        mean_interval(gaps),
        below=LOST,
        quantity=f"accuracy, all scores − {KINDS[arm]} alone",
        trials=starts.ids(arm),
    )


def _untried(starts: Starts) -> Claim:
    """By seed the larger movement of the two starts."""
    both = [starts.values(arm, "gentle_moved") for arm in KINDS]
    seeds = sorted(both[0].keys() & both[1].keys())
    return judge(
        "gentle-is-no-trial",
        "Training on as published moves the weights by less than 1 % of their size: that a "
        "solution stays there shows little",
        mean_interval([max(found[seed] for found in both) for seed in seeds]),
        below=STILL,
        quantity="movement of all weights, relative",
        trials=starts.ids(*KINDS),
    )


def _mixed(starts: Starts) -> Claim:
    """The better of the two parts against the whole, from a start that is held nowhere."""
    parts = [starts.values("free", f"first_{metric}") for metric in OWN.values()]
    whole = starts.values("free", "first_accuracy")
    gaps = [max(part[seed] for part in parts) - whole[seed] for seed in sorted(whole)]
    return judge(
        "free-start-mixes",
        "From a start that is held nowhere the solution is of neither kind: places alone or "
        "tokens alone lose more than 0.05",
        mean_interval(gaps),
        below=-LOST,
        quantity="accuracy, better part alone − all scores",
        trials=starts.ids("free"),
    )
