"""What may be concluded about fine-tuning, and the sentence that answers."""

import math
from collections.abc import Sequence

from attnlab.lab.claim import Claim, Reported, judge
from attnlab.measure.intervals import Estimate, difference_of_shares, mean_interval
from attnlab.studies.adapting.checks import alive, first_line
from attnlab.studies.adapting.evidence import Runs, percent, widened
from attnlab.studies.adapting.fine_tuning import CONSTANT
from attnlab.studies.adapting.settings import FineTuningSettings, rate_text

COURSE = "course report: RoBERTa-base on SST-2, one run"
BOOLQ = "course report: RoBERTa on BoolQ, four runs"
COLLAPSES, NAMED = "collapses-at-", "collapse-is-named"


def claims(runs: Runs, s: FineTuningSettings) -> list[Claim]:
    """Every claim whose trials are part of the run."""
    chosen = runs.rows(kind="search")
    found = [_beats(runs), alive(chosen), _flatters(runs)] if chosen else []
    if runs.rows(kind="long"):
        found.append(_goes_on(runs))
    if len(s.sizes) > 1 and runs.rows(kind="size"):
        found.append(_more_data(runs, s))
    if runs.rows(kind="collapse"):
        found += [_collapses(runs, rate) for rate in s.collapse_rates]
        found.append(_named(runs, s))
        if not s.collapse_rows:  # a few rows teach nothing at any rate: no result
            found.append(_sane(runs, s))
    return found


def answer(claims: Sequence[Claim]) -> str:
    """Accuracy of the chosen cell, and whether the collapse was seen."""
    found = {c.name: c for c in claims}
    beats = found.get("beats-majority")
    if beats is None:
        return "Not settled: no search was run to its end."
    share = f"{percent(beats.estimate)} of the test rows are right"
    first = {
        "holds": f"{share}, chosen by dev and tested once",
        "fails": f"{share}: no better than the most frequent answer",
        "undecided": f"Not settled: {share} ({beats.why})",
    }[beats.verdict]
    return first_line(claims, f"{first}{_told(claims)}.")


def _told(claims: Sequence[Claim]) -> str:
    """Which of the reported rates collapse, and whether the audit saw it at once."""
    verdicts = {
        c.name.removeprefix(COLLAPSES): c.verdict for c in claims if c.name.startswith(COLLAPSES)
    }
    if not verdicts:
        return ""
    rates = [rate_text(float(rate)) for rate, verdict in verdicts.items() if verdict == "holds"]
    if not rates:
        return "; no rate tried here is shown to collapse it"
    named = next(c for c in claims if c.name == NAMED)
    early = ", which the audit names within the first epoch" if named.verdict == "holds" else ""
    return f"; at a rate of {' or '.join(rates)} it collapses to one answer{early}"


def _beats(runs: Runs) -> Claim:
    best = max(runs.values("majority", kind="search").values())
    return judge(
        "beats-majority",
        "The cell chosen by dev beats the most frequent answer on the test rows",
        runs.accuracy(kind="search"),
        above=best,
        quantity="test accuracy of the chosen cell, tested once a seed",
        reported=Reported(0.948, COURSE, comparable=False),
        trials=runs.ids(kind="search"),
        runs=[v - best for v in runs.values("accuracy", kind="search").values()],
    )


def _flatters(runs: Runs) -> Claim:
    """dev and test are other rows, the same for every seed: both draws are in the interval."""
    rows = runs.rows(kind="search")
    gaps = [row["dev_accuracy"] - row["accuracy"] for row in rows]
    sizes = {"dev_accuracy": int(rows[0]["dev_rows"]), "accuracy": int(rows[0]["tested"])}
    dev, test = ((round(runs.mean(name, kind="search") * n), n) for name, n in sizes.items())
    return judge(
        "dev-flatters",
        "The rows that chose are classified better than rows that did not",
        widened(mean_interval(gaps), difference_of_shares(dev, test)),
        above=0.0,
        quantity="accuracy, dev − test, of the chosen cell",
        reported=Reported(0.932 - 0.948, COURSE, comparable=False, note="93.2 % − 94.8 %"),
        trials=runs.ids(kind="search"),
    )


def _goes_on(runs: Runs) -> Claim:
    """Epochs count from 1; the first of equals is the best."""
    gaps = []
    for row in runs.rows(kind="long"):
        train, dev = row.curves["train_accuracy"], row.curves["dev_accuracy"]
        gaps.append(float(train.index(max(train)) - dev.index(max(dev))))
    return judge(
        "train-goes-on",
        "Accuracy on the training rows is best in a later epoch than on dev",
        mean_interval(gaps),
        above=0.0,
        quantity="best epoch, train − dev",
        reported=Reported(7.0, COURSE, comparable=False, note="epoch 8 − epoch 1"),
        trials=runs.ids(kind="long"),
        runs=gaps,
    )


def _more_data(runs: Runs, s: FineTuningSettings) -> Claim:
    """The two largest sets; dev decides, since test is for the chosen cell alone."""
    less, more = sorted(s.sizes)[-2:]
    pair = ({"kind": "size", "rows": more}, {"kind": "size", "rows": less})
    gaps = runs.gaps("dev_accuracy", *pair)
    return judge(
        "more-rows-help",
        f"{more:,} rows teach more than {less:,} of them",
        mean_interval(gaps),
        above=0.0,
        quantity=f"dev accuracy, {more} − {less} rows",
        trials=[*runs.ids(**pair[0]), *runs.ids(**pair[1])],
        runs=gaps,
    )


def _collapses(runs: Runs, rate: float) -> Claim:
    where = {"kind": "collapse", "learning_rate": rate}
    return judge(
        f"{COLLAPSES}{rate:g}",
        f"At a rate of {rate_text(rate)} one answer makes up more than 95 % of the predictions",
        runs.share("whole_top_share", **where),
        above=CONSTANT,
        quantity="share of the most frequent prediction",
        reported=Reported(
            1.0,
            BOOLQ,
            comparable=False,
            note="validation 0.6217125 = 2,033 / 3,270, the share of 'yes'",
        ),
        trials=runs.ids(**where),
    )


def _named(runs: Runs, s: FineTuningSettings) -> Claim:
    """Of the models that ended collapsed, how many the audit missed in the first epoch."""
    rows = [
        row
        for rate in s.collapse_rates
        for row in runs.rows(kind="collapse", learning_rate=rate)
        if str(row["audit_collapse"]).startswith("fail")
    ]
    late = [row for row in rows if not str(row["collapse_first_epoch"]).startswith("fail")]
    n = len(rows)
    count = Estimate(float(len(late)) if n else math.nan, n=n, method="models counted", exact=True)
    return judge(
        NAMED,
        "The audit names every one of these collapses within the first epoch",
        count,
        below=0.5,
        quantity="collapsed models not named in the first epoch",
        trials=[row.id for row in rows],
    )


def _sane(runs: Runs, s: FineTuningSettings) -> Claim:
    where = {"kind": "collapse", "learning_rate": s.sane_rate}
    gaps = [row["whole_accuracy"] - row["whole_majority"] for row in runs.rows(**where)]
    return judge(
        "sane-rate-learns",
        f"At a rate of {rate_text(s.sane_rate)} the same training beats the majority",
        mean_interval(gaps),
        above=0.0,
        quantity="accuracy − share of the most frequent answer",
        trials=runs.ids(**where),
        runs=gaps,
    )
