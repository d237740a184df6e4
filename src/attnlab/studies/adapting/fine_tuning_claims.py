"""Claims about fine-tuning: the chosen cell, the number of epochs and rows, the collapse."""

import math
from collections.abc import Sequence

from attnlab.audit.checks.collapse import MOST
from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.table import Row
from attnlab.measure.intervals import Estimate, difference_of_shares, mean_interval
from attnlab.studies.adapting.evidence import AdaptArms, add_uncertainty, no_collapse
from attnlab.studies.adapting.settings import FineTuningSettings, rate_text

COURSE = "course report: RoBERTa-base on SST-2, one run"
BOOLQ = "course report: RoBERTa on BoolQ, four runs"
Run = tuple[float, float]  # learning rate and epochs of a training that may collapse


def fine_tuning_claims(arms: AdaptArms, s: FineTuningSettings) -> list[Claim]:
    """Every claim whose trials are planned by the settings."""
    claims = [_beats(arms), no_collapse(arms.rows("search"), arms.row_label), _dev_flatters(arms)]
    if s.long_epochs:
        claims.append(_train_goes_on(arms))
    if len(s.sizes) > 1:
        claims.append(_more_rows(arms, *sorted(s.sizes)[-2:]))
    if s.collapse_data:
        *high, sane = s.collapse_runs
        claims += [_collapses(arms, run) for run in high]
        claims.append(_is_named(arms, high))
        if not s.collapse_rows:  # nothing can be learnt from a few rows, at any rate
            claims.append(_sane(arms, sane))
    return claims


def collapse_arm(run: Run) -> str:
    """The arm of a learning rate and a number of epochs."""
    return f"rate {run[0]:g}, {run[1]:g} epochs"


def collapse_claim(run: Run) -> str:
    """The name of the claim that such models collapse."""
    return f"collapses-at-{run[0]:g}-{run[1]:g}-epochs"


def collapse_label(run: Run) -> str:
    """A learning rate and a number of epochs in words."""
    return f"{rate_text(run[0])} ({run[1]:g} epochs)"


def collapse_trials(arms: AdaptArms, s: FineTuningSettings) -> list[Row]:
    """The trials at the learning rates that collapse and at the one beside them."""
    return [row for run in s.collapse_runs for row in arms.rows(collapse_arm(run))]


def named_early(row: Row) -> bool:
    """Whether the audit `collapse` failed on dev at the end of the first epoch."""
    return any(f.name == "collapse" and f.evidence.get("first_epoch") for f in row.findings)


def _beats(arms: AdaptArms) -> Claim:
    majority = max(arms.values("search", "majority").values(), default=math.nan)
    return judge(
        "beats-majority",
        "The cell chosen on dev beats the majority class on the test rows",
        arms.accuracy("search"),
        above=majority,
        quantity="test accuracy of the chosen cell, tested once per seed",
        reported=Reported(0.948, COURSE, comparable=False),
        trials=arms.ids("search"),
        comparison=True,
    )


def _dev_flatters(arms: AdaptArms) -> Claim:
    """Dev and test are different rows, the same for every seed: the interval covers both draws."""
    gaps = arms.differences(("search", "dev_accuracy"), ("search", "accuracy"))
    estimate = mean_interval(gaps)
    dev, test = (_once(arms, metric) for metric in ("dev_accuracy", "accuracy"))
    if dev and test:
        estimate = add_uncertainty(estimate, difference_of_shares(dev, test))
    return judge(
        "dev-flatters",
        "The chosen cell is more accurate on dev, where it was chosen, than on test",
        estimate,
        above=0.0,
        quantity="accuracy, dev − test, of the chosen cell",
        reported=Reported(0.932 - 0.948, COURSE, comparable=False, note="93.2 % − 94.8 %"),
        trials=arms.ids("search"),
        comparison=True,
    )


def _once(arms: AdaptArms, metric: str) -> tuple[int, int] | None:
    """Right answers and rows of a split, mean over seeds: all seeds have the same rows."""
    counts = list(arms.counts("search", metric).values())
    if not counts:
        return None
    return round(sum(right for right, _ in counts) / len(counts)), round(counts[0][1])


def _train_goes_on(arms: AdaptArms) -> Claim:
    """The first of equally good epochs is the best."""
    gaps = []
    for row in arms.rows("long"):
        train, dev = row.curves["train_accuracy"], row.curves["dev_accuracy"]
        gaps.append(float(train.index(max(train)) - dev.index(max(dev))))
    return judge(
        "train-goes-on",
        "Training accuracy is best in a later epoch than dev accuracy",
        mean_interval(gaps),
        above=0.0,
        quantity="best epoch, train − dev",
        reported=Reported(7.0, COURSE, comparable=False, note="epoch 8 − epoch 1"),
        trials=arms.ids("long"),
        comparison=True,
    )


def _collapses(arms: AdaptArms, run: Run) -> Claim:
    """What counts as a collapse is what the audit `collapse` calls one."""
    return judge(
        collapse_claim(run),
        f"At learning rate {collapse_label(run)} more than {MOST:.0%} of the predictions are one "
        "class",
        arms.estimate(collapse_arm(run), "whole_top_share"),
        above=MOST,
        quantity="share of the most frequent prediction",
        reported=Reported(
            1.0,
            BOOLQ,
            comparable=False,
            note="validation 0.6217125 = 2,033 / 3,270, the share of 'yes'",
        ),
        trials=arms.ids(collapse_arm(run)),
    )


def _sane(arms: AdaptArms, run: Run) -> Claim:
    return arms.difference(
        "sane-rate-learns",
        f"At learning rate {rate_text(run[0])} the same training beats the majority class",
        (collapse_arm(run), "whole_accuracy"),
        (collapse_arm(run), "whole_majority"),
        above=0.0,
        quantity="accuracy − share of the majority class",
    )


def _more_rows(arms: AdaptArms, less: int, more: int) -> Claim:
    """On dev, since the test rows are for the chosen cell alone."""
    return arms.difference(
        "more-rows-help",
        f"{more:,} training rows give a higher dev accuracy than {less:,} of them",
        (f"{more} rows", "dev_accuracy"),
        (f"{less} rows", "dev_accuracy"),
        above=0.0,
        quantity=f"dev accuracy, {more} − {less} rows",
    )


def _is_named(arms: AdaptArms, runs: Sequence[Run]) -> Claim:
    """Of the models that end collapsed, how many the audit does not find in the first epoch."""
    rows = [
        row
        for run in runs
        for row in arms.rows(collapse_arm(run))
        if row.failure("collapse") or row["whole_top_share"] > MOST
    ]
    late = float(sum(not named_early(row) for row in rows)) if rows else math.nan
    return judge(
        "collapse-is-named",
        "The audit finds every one of these collapses within the first epoch",
        Estimate(late, n=len(rows), method="models counted", exact=True),
        below=0.5,
        quantity="collapsed models not found in the first epoch",
        trials=[row.id for row in rows],
    )
