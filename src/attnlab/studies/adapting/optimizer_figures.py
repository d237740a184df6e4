"""Optimizers against their rates, in pictures and words."""

from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure, Section
from attnlab.measure.intervals import mean_interval
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    errorbars,
    house_style,
    log_axis,
    panels,
)
from attnlab.studies.adapting.evidence import Runs, at_the_edge, percent
from attnlab.studies.adapting.looks import as_share, dot, majority
from attnlab.studies.adapting.settings import NAMES, OptimizerSettings, rate_text

COLOURS = {"adamw": POSITIONAL, "sgd": SEMANTIC, "momentum": LINEAR, "adagrad": NEUTRAL}


def figures(runs: Runs, s: OptimizerSettings) -> list[Figure]:
    """Nothing where nothing ended."""
    names = [name for name in s.optimizers if runs.rows(arm=name)]
    if not names:
        return []
    ids = tuple(runs.table.ids)
    return [
        Figure(
            "rates",
            "Every optimizer against its learning rate",
            "Dev accuracy of every training. Bars: 95 % t intervals over seeds. Dashed: the one "
            f"rate for all, {rate_text(s.common_rate)}; dotted: the most frequent answer. What one "
            "optimizer needs leaves another where it began, or breaks it.",
            "Dev accuracy against learning rate, a curve for each optimizer.",
            lambda: _rates(runs, s, names),
            ids,
        ),
        Figure(
            "fair",
            "At one rate, and each at its own",
            "Hollow: dev accuracy at the common rate. Filled: test accuracy at the rate that dev "
            "chose. Bars: 95 % intervals, of the hollow over seeds, of the filled over seeds and "
            "test rows. Dotted: the most frequent answer.",
            "Two dots with intervals for each optimizer.",
            lambda: _fair(runs, s, names),
            ids,
        ),
    ]


def sections(runs: Runs, s: OptimizerSettings) -> list[Section]:
    """Both comparisons, and why they differ."""
    names = [name for name in s.optimizers if runs.rows(arm=name)]
    if not names:
        return []
    head = (
        "optimizer",
        f"at {rate_text(s.common_rate)}, dev",
        "at its own rate, test",
        "rates that dev chose, one a seed",
    )
    table = (head, *(_both(runs, s, name) for name in names))
    edges = [
        f"{NAMES[name]}: {words[0].lower()}{words[1:]}"
        for name in names
        if (words := at_the_edge(_chosen(runs, name), s.rates(name)))
    ]
    base = f"The most frequent answer gets {100 * runs.mean('majority'):.1f} % of the test rows."
    size = int(runs.mean("trained"))
    tried = "; ".join(f"{NAMES[name]} {_listed(s.rates(name))}" for name in s.optimizers)
    return [
        Section("At one rate, and at its own", (*edges, base), table),
        Section(
            "Why their rates differ",
            (
                "A step of SGD is rate × gradient; one of AdamW or Adagrad is rate × gradient / its "
                f"size. Here gradients are clipped to a norm of 1 over {size:,} numbers, so a typical "
                f"entry is at most about {size**-0.5:.0e}: for steps of the same length SGD needs a "
                f"rate some {size**0.5:,.0f} times as large. Adagrad divides by the root of the sum of "
                "all squares so far, so its steps shrink as 1/√steps, and momentum of "
                f"{s.momentum:g} adds up to {1 / (1 - s.momentum):.0f} steps into one. A comparison at "
                "one rate compares these units, not the optimizers.",
            ),
        ),
        Section(
            "How it was measured",
            (
                f"{s.model} on {s.data}, everything learns, {s.epochs:g} epochs, batch {s.batch}, "
                "linear decay after a tenth of the steps of warm-up, gradients clipped to norm 1. "
                f"Rates tried: {tried}. Dev chooses one of them and the best evaluation; the test rows "
                "are scored once.",
            ),
        ),
    ]


def _both(runs: Runs, s: OptimizerSettings, name: str) -> tuple[str, ...]:
    """A row of the table."""
    one = mean_interval(list(runs.at_rate(s.common_rate, arm=name).values()))
    own = runs.accuracy(arm=name)
    return NAMES[name], percent(one), percent(own), _listed(_chosen(runs, name))


def _chosen(runs: Runs, name: str) -> list[float]:
    return [row["rate"] for row in runs.rows(arm=name)]


def _listed(rates: list[float]) -> str:
    return ", ".join(rate_text(rate) for rate in rates)


def _rates(runs: Runs, s: OptimizerSettings, names: list[str]) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.2)
        log_axis(ax, "x")
        for name in names:
            colour = COLOURS[name]
            cells = runs.by_cell("rate", arm=name)
            rates = [key[0] for key in cells]
            values = [mean_interval(v) for v in cells.values()]
            ax.plot(rates, [e.value for e in values], color=colour, linewidth=1.2)
            errorbars(ax, rates, values, colour, label=NAMES[name])
        ax.axvline(s.common_rate, color=NEUTRAL, linestyle="--", linewidth=0.9)
        majority(ax, runs.mean("dev_majority"))
        as_share(ax)
        ax.set_xlabel("learning rate")
        ax.set_ylabel("dev accuracy")
        # the curves cross, and at their ends they meet: no place for a label beside each
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(names))
    return drawing


def _fair(runs: Runs, s: OptimizerSettings, names: list[str]) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=1.0 + 0.42 * len(names))
        for line, name in enumerate(names):
            colour = COLOURS[name]
            one = mean_interval(list(runs.at_rate(s.common_rate, arm=name).values()))
            own = runs.accuracy(arm=name)
            dot(ax, line - 0.15, one, colour, hollow=True)
            dot(ax, line + 0.15, own, colour)
        majority(ax, runs.mean("majority"), "x")
        as_share(ax, "x")
        ax.set_yticks(range(len(names)), [NAMES[name] for name in names])
        ax.set_ylim(len(names) - 0.4, -0.6)
        ax.set_xlabel("accuracy")
    return drawing
