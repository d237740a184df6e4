"""What the numbers of fine-tuning mean, written from them."""

from collections import Counter
from collections.abc import Mapping

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.measure.intervals import mean_interval
from attnlab.studies.adapting.evidence import Runs, at_the_edge, percent
from attnlab.studies.adapting.settings import FineTuningSettings, rate_text
from attnlab.studies.adapting.study import said

POOLED = {"mean": "the mean of the token vectors", "first": "the first token's vector"}


def sections(runs: Runs, found: Mapping[str, Claim], s: FineTuningSettings) -> list[Section]:
    """The search, the epochs and rows, the collapse, how it was done."""
    made = [
        Section("What was chosen, and what it scores", _chosen(runs, found, s)),
        Section("How long, and on how many rows", _long(runs, found, s)),
        Section("The collapse that was reported as a result", *_collapse(runs, s)),
        Section("How it was measured", _measured(runs, s)),
    ]
    return [section for section in made if section.paragraphs]


def _chosen(runs: Runs, found: Mapping[str, Claim], s: FineTuningSettings) -> tuple[str, ...]:
    rows = runs.rows(kind="search")
    if not rows:
        return ()
    cells = Counter(
        f"rate {rate_text(r['rate'])}, batch {r['chosen_batch']}, {r['chosen_epochs']:g} epochs"
        for r in rows
    )
    times = ", ".join(f"{cell} ({n} of {len(rows)} seeds)" for cell, n in cells.most_common())
    numbers = {
        name: mean_interval([row[key] for row in rows])
        for name, key in (
            ("train", "train_accuracy"),
            ("dev", "dev_accuracy"),
        )
    } | {"test": runs.accuracy(kind="search")}
    share = ", ".join(f"{name} {percent(e)}" for name, e in numbers.items())
    edge = at_the_edge([row["rate"] for row in rows], s.rates)
    return (
        f"Each seed chose its own cell by dev accuracy: {times}. Accuracy of the chosen: {share}; "
        f"the most frequent answer gets {100 * rows[0]['majority']:.1f} % of the "
        f"{rows[0]['tested']:,} test rows. Those were scored once a seed, for that cell only.",
        f"Among {rows[0]['cells']} cells the best one is also the luckiest on the rows that chose: "
        f"dev above test {said(found['dev-flatters'])}. A report had 93.2 % on validation and "
        "94.8 % on test, from another model and other rows: not comparable.",
        *([edge] if edge else []),
    )


def _long(runs: Runs, found: Mapping[str, Claim], s: FineTuningSettings) -> tuple[str, ...]:
    lines = []
    rows = runs.rows(kind="long")
    if rows:
        dev = [row.curves["dev_accuracy"] for row in rows]
        best = ", ".join(str(line.index(max(line)) + 1) for line in dev)
        loss = ", ".join(
            str(line.index(min(line)) + 1) for line in (row.curves["dev_loss"] for row in rows)
        )
        ends = percent(mean_interval([row.curves["train_accuracy"][-1] for row in rows]))
        lines.append(
            f"Trained for {s.long_epochs} epochs, dev accuracy is best in epoch {best} and dev "
            f"loss lowest in epoch {loss} (one a seed); accuracy on the rows learnt from ends at "
            f"{ends}. Best later on train than on dev: {said(found['train-goes-on'])}. Reported: "
            "best training epoch 8, best validation epoch 1. The weights of the best dev accuracy "
            "are the ones that are kept."
        )
    if "more-rows-help" in found:
        sizes = ", ".join(
            f"{n:,}: {percent(runs.over_seeds('dev_accuracy', kind='size', rows=n))}"
            for n in sorted(s.sizes)
        )
        lines.append(
            f"Dev accuracy by rows learnt from: {sizes}. More of them help: "
            f"{said(found['more-rows-help'])}."
        )
    return tuple(lines)


def _collapse(
    runs: Runs, s: FineTuningSettings
) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...]]:
    """What a collapsed model scores, and what every model here did."""
    rows = runs.rows(kind="collapse")
    if not rows:
        return (), ()
    lines = [("rate", "accuracy, one a seed", "collapsed by the end of the first epoch")]
    for rate in (*s.collapse_rates, s.sane_rate):
        here = runs.rows(kind="collapse", learning_rate=rate)
        if here:
            shares = ", ".join(f"{row['whole_accuracy']:.7f}" for row in here)
            named = sum(str(r["collapse_first_epoch"]).startswith("fail") for r in here)
            lines.append((rate_text(rate), shares, f"{named} of {len(here)}"))
    first = rows[0]
    about = (
        f"Dev and test together are {first['whole_rows']:,} rows here, of which the most frequent "
        f"answer is {first['whole_majority']:.7f}. A model that says it always scores exactly "
        "that, at any rate, after any number of epochs. A report gave 0.6217125 = 2,033 / 3,270 "
        "for four trainings (rates 1e-3, 5e-4, 1.25e-2, 1.25e-2; 9, 7, 12, 20 epochs) as its "
        "result, with test figures .627, .619, .619, .600: the same constant on test splits that "
        "were drawn anew each time."
    )
    if s.collapse_rows:
        about += (
            f" Here it learns from {s.collapse_rows} rows only: the collapse shows, but "
            "accuracies on so few rows are not a result."
        )
    return (about,), tuple(lines)


def _measured(runs: Runs, s: FineTuningSettings) -> tuple[str, ...]:
    how = (
        "every cell of the grid"
        if s.search == "grid"
        else "successive halving: all cells with the fewest epochs, then the best third with the next "
        "more, each trained anew"
    )
    rows = list(runs.table)
    cut = str(rows[0]["cut"]) if rows else ""
    cut = cut[:1].upper() + cut[1:]
    return (
        f"{s.model}, {POOLED[s.pooling]} and a linear head; {s.optimizer}, linear decay "
        f"after a tenth of the steps of warm-up; {how}. {cut}. Dev chooses the weights within a "
        "training and the cell among trainings; curves and sizes are on dev; test rows are read "
        "for the chosen cell alone. Rows to learn from are drawn by seed where fewer than all "
        "are wanted.",
    )
