"""Pictures of fine-tuning: the search, too many epochs, more rows, a rate too high."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from attnlab.lab.study import Figure
from attnlab.measure.intervals import mean_interval
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    direct_label,
    errorbars,
    house_style,
    panels,
)
from attnlab.studies.adapting.evidence import Runs
from attnlab.studies.adapting.looks import as_share, majority, ticks
from attnlab.studies.adapting.settings import FineTuningSettings, rate_text

COLOURS: tuple[str, ...] = (POSITIONAL, SEMANTIC, LINEAR, NEUTRAL)
BARS = "Bars: 95 % t intervals over seeds."


def figures(runs: Runs, s: FineTuningSettings) -> list[Figure]:
    """A figure without trials is left out."""
    found = []
    if runs.rows(kind="search"):
        found.append(
            Figure(
                "search",
                "The search: dev accuracy of every cell",
                "Against the learning rate, a panel for each number of epochs, a colour for each "
                f"batch size. {BARS} Dotted: the most frequent answer. Test rows are not in it.",
                "Dev accuracy against learning rate by batch size and epochs.",
                lambda: _search(runs),
                tuple(runs.ids(kind="search")),
            )
        )
    if runs.rows(kind="long"):
        found.append(
            Figure(
                "epochs",
                "Train and validation, epoch by epoch",
                "Left: loss; right: accuracy, both without dropout. Grey: the rows learnt from; blue: "
                "dev. Thin: one line a seed; thick: their mean. Ringed: the best epoch of the mean.",
                "Loss and accuracy of training rows and dev rows against epochs.",
                lambda: _epochs(runs),
                tuple(runs.ids(kind="long")),
            )
        )
    if runs.rows(kind="size"):
        found.append(
            Figure(
                "sizes",
                "How many rows it takes",
                f"Dev accuracy against the rows learnt from. {BARS} Dotted: the most frequent answer.",
                "Dev accuracy against training rows.",
                lambda: _sizes(runs, s),
                tuple(runs.ids(kind="size")),
            )
        )
    if runs.rows(kind="collapse"):
        found.append(
            Figure(
                "collapse",
                "A rate too high: one answer for every question",
                "Left: dev accuracy after each evaluation; dotted, the share of the most frequent "
                "answer. Right: share of the predictions that are one class; above the dotted 95 % "
                "the audit calls it collapsed. A colour a rate, a line a seed.",
                "Dev accuracy and the share of one class against epochs, by learning rate.",
                lambda: _collapse(runs, s),
                tuple(runs.ids(kind="collapse")),
            )
        )
    return found


def _search(runs: Runs) -> Drawing:
    cells = runs.by_cell("epochs", "batch", "rate", kind="search")
    epochs = sorted({key[0] for key in cells})
    batches, rates = (sorted({key[i] for key in cells}) for i in (1, 2))
    with house_style():
        drawing, axes = panels(1, len(epochs), height=2.9, share_y=True)
        for ax, count in zip(axes, epochs, strict=True):
            ticks(ax, rates, [rate_text(rate) for rate in rates])
            ax.set_xlim(min(rates) / 1.6, max(rates) * 3)  # the same where one rate is left
            for colour, batch in zip(COLOURS, batches, strict=False):
                here = {k[2]: v for k, v in cells.items() if k[:2] == (count, batch)}
                _line(
                    ax,
                    list(here),
                    [mean_interval(v) for v in here.values()],
                    colour,
                    f"batch {batch:g}",
                )
            majority(ax, runs.mean("dev_majority", kind="search"))
            ax.set_title(f"{count:g} epoch{'s' if count != 1 else ''}")
            ax.set_xlabel("learning rate")
        as_share(axes[0])
        axes[0].set_ylabel("dev accuracy")
    return drawing


def _line(ax: Axes, x: list[float], values: list, colour: str, label: str) -> None:
    if not x:
        return
    ax.plot(x, [e.value for e in values], color=colour, linewidth=1.2, zorder=2)
    errorbars(ax, x, values, colour)
    direct_label(ax, x, [e.value for e in values], label, colour)


def _epochs(runs: Runs) -> Drawing:
    rows = runs.rows(kind="long")
    pairs = (
        ("own_loss", "dev_loss", "loss (nats a row)"),
        ("train_accuracy", "dev_accuracy", "accuracy"),
    )
    with house_style():
        drawing, axes = panels(1, 2, height=2.8)
        for ax, (train, dev, words) in zip(axes, pairs, strict=True):
            for name, colour, label in ((train, NEUTRAL, "train"), (dev, POSITIONAL, "dev")):
                lines = np.array([row.curves[name] for row in rows])
                epoch = np.arange(1, lines.shape[1] + 1)
                for line in lines:
                    ax.plot(epoch, line, color=colour, linewidth=0.6, alpha=0.5)
                mean = lines.mean(axis=0)
                ax.plot(epoch, mean, color=colour, linewidth=1.8)
                best = int(mean.argmin() if words.startswith("loss") else mean.argmax())
                ax.plot(
                    epoch[best], mean[best], "o", markersize=8, color=colour, markerfacecolor="none"
                )
                direct_label(ax, epoch, mean, label, colour)
            ax.set_xlabel("epoch")
            ax.set_ylabel(words)
            ax.margins(x=0.12)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        majority(axes[1], runs.mean("dev_majority", kind="long"))
        as_share(axes[1])
    return drawing


def _sizes(runs: Runs, s: FineTuningSettings) -> Drawing:
    sizes = sorted(s.sizes)
    values = [runs.over_seeds("dev_accuracy", kind="size", rows=n) for n in sizes]
    with house_style():
        drawing, (ax,) = panels(1, 1, height=2.8)
        ticks(ax, sizes, [f"{n:,}" for n in sizes])
        ax.set_xlim(min(sizes) / 1.2, max(sizes) * 1.2)
        ax.plot(sizes, [e.value for e in values], color=POSITIONAL, linewidth=1.2)
        errorbars(ax, sizes, values, POSITIONAL)
        majority(ax, runs.mean("dev_majority", kind="size"))
        as_share(ax)
        ax.set_xlabel("rows learnt from")
        ax.set_ylabel("dev accuracy")
    return drawing


def _collapse(runs: Runs, s: FineTuningSettings) -> Drawing:
    rates = (*s.collapse_rates, s.sane_rate)
    colours = {rate: colour for rate, colour in zip(rates, COLOURS[1:], strict=False)}
    colours[s.sane_rate] = POSITIONAL
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.8)
        for rate in rates:
            rows = runs.rows(kind="collapse", learning_rate=rate)
            colour = colours.get(rate, NEUTRAL)
            for row in rows:
                epoch = np.array(row.curves["dev_step"]) / row["epoch_steps"]
                for ax, name in ((left, "dev_accuracy"), (right, "top_share")):
                    ax.plot(
                        epoch,
                        row.curves[name],
                        color=colour,
                        marker="o",
                        markersize=3,
                        linewidth=1.0,
                    )
                    if row is rows[0]:
                        direct_label(ax, epoch, row.curves[name], rate_text(rate), colour)
        majority(left, runs.mean("dev_majority", kind="collapse"))
        majority(right, 0.95)
        right.set_ylim(0.45, 1.03)
        left.set_ylabel("dev accuracy")
        right.set_ylabel("share of one class")
        for ax in (left, right):
            ax.set_xlabel("epoch")
            ax.margins(x=0.18)
    return drawing
