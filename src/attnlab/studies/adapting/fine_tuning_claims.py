"""Claims about fine-tuning: the chosen cell, the number of epochs and rows, the collapse."""

import math

from attnlab.audit.checks.collapse import MOST
from attnlab.lab.claim import Claim, Reported, judge, judge_difference
from attnlab.measure.intervals import Estimate, difference_of_shares, mean_interval
from attnlab.studies.adapting.evidence import AdaptArms, add_uncertainty, has_collapsed, no_collapse
from attnlab.studies.adapting.fine_tuning import FineTuning, Run, named_early
from attnlab.studies.adapting.study import rate_text

COURSE = "course report: RoBERTa-base on SST-2, one run"
BOOLQ = "course report: RoBERTa on BoolQ, four runs"
SHARE_OF_YES = "validation 0.6217125 = 2,033 / 3,270, the share of 'yes'"


def claims(study: FineTuning, arms: AdaptArms) -> list[Claim]:
    """Every claim whose trials are planned by the settings."""
    s = study.settings
    beats = arms.beats_majority(
        "beats-majority",
        "The cell chosen on dev beats the majority class on the test rows",
        "search",
        quantity="test accuracy of the chosen cell, tested once per seed",
        reported=Reported(0.948, COURSE, comparable=False),
    )
    chosen = no_collapse({arms.label("search"): arms.rows("search")})
    judged = [beats, chosen, _dev_flatters(arms)]
    if s.long_epochs:
        judged.append(_train_goes_on(arms))
    if len(s.sizes) > 1:  # on dev, since the test rows are for the chosen cell alone
        less, more = sorted(s.sizes)[-2:]
        helps = arms.difference(
            "more-rows-help",
            f"{more:,} training rows give a higher dev accuracy than {less:,} of them",
            (f"{more} rows", "dev_accuracy"),
            (f"{less} rows", "dev_accuracy"),
            above=0.0,
            quantity=f"dev accuracy, {more} − {less} rows",
        )
        judged.append(helps)
    if s.collapse_data:
        *high, sane = s.collapse_runs
        judged += [*(_collapses(arms, run) for run in high), _is_named(arms, high)]
        if not s.collapse_rows:  # nothing can be learnt from a few rows, at any rate
            judged.append(_sane(arms, sane))
    return judged


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
    return judge_difference(
        "train-goes-on",
        "Training accuracy is best in a later epoch than dev accuracy",
        gaps,
        above=0.0,
        quantity="best epoch, train − dev",
        reported=Reported(7.0, COURSE, comparable=False, note="epoch 8 − epoch 1"),
        trials=arms.ids("long"),
    )


def _collapses(arms: AdaptArms, run: Run) -> Claim:
    """What counts as a collapse is what the audit `collapse` calls one."""
    return arms.level(
        run.claim,
        f"At learning rate {run.label} more than {MOST:.0%} of the predictions are one class",
        (run.arm, "whole_top_share"),
        above=MOST,
        quantity="share of the most frequent prediction",
        reported=Reported(1.0, BOOLQ, comparable=False, note=SHARE_OF_YES),
    )


def _is_named(arms: AdaptArms, runs: list[Run]) -> Claim:
    """Of the models that end collapsed, how many the audit does not find in the first epoch."""
    rows = [
        row
        for run in runs
        for row in arms.rows(run.arm)
        if has_collapsed(row) or row["whole_top_share"] > MOST
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


def _sane(arms: AdaptArms, run: Run) -> Claim:
    return arms.difference(
        "sane-rate-learns",
        f"At learning rate {rate_text(run.rate)} the same training beats the majority class",
        (run.arm, "whole_accuracy"),
        (run.arm, "whole_majority"),
        above=0.0,
        quantity="accuracy − share of the majority class",
    )
