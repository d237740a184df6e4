"""Figures of the three studies: searches and learning curves, methods, optimizers, a collapse."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from attnlab.audit.checks.collapse import MOST
from attnlab.lab.study import Figure
from attnlab.report.plots import Series, dot_plot, draw_dots, draw_estimates
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import (
    NEUTRAL,
    PALETTE,
    direct_label,
    errorbars,
    house_style,
    log_axis,
    panels,
)
from attnlab.studies.adapting.adapters import COSTS, TASKS, Adapters
from attnlab.studies.adapting.evidence import AdaptArms
from attnlab.studies.adapting.fine_tuning import FineTuning, Run
from attnlab.studies.adapting.optimizers import Optimizers
from attnlab.studies.adapting.study import rate_text

SHARE = (0.0, 1.0)
METHOD = Series("method", PALETTE[0])
OTHER_ENCODER = Series("other encoder", PALETTE[0], hollow=True)
CURVES = {"loss": ("dev_loss", "own_loss"), "accuracy": ("dev_accuracy", "train_accuracy")}


def adapter_figures(study: Adapters, arms: AdaptArms) -> list[Figure]:
    """Costs are shown where they were measured."""
    tasks = [task for task in TASKS if arms.task(task).names()]
    kinds = [kind for kind in COSTS if any(kind in row.cost for row in arms.table)]
    methods: list[str] = list(study.settings.methods)
    drawn: dict[str, Drawn] = {
        "methods": (lambda: _methods(arms, tasks), arms.table.ids),
        "curves": _curves_of_methods(arms.task("texts")),
        "curves-pairs": _curves_of_methods(arms.task("pairs")),
        "cost": (lambda: _cost(arms, methods, tasks, kinds), arms.table.ids if kinds else []),
    }
    return with_words(study, drawn)


def _methods(arms: AdaptArms, tasks: list[str]) -> Drawing:
    trained = {arm: arms.mean(arm, "trained") for arm in arms.names()}
    order = sorted(trained, key=lambda arm: -trained[arm])
    with house_style():
        drawing, axes = panels(1, len(tasks), height=1.0 + 0.4 * len(order), share_y=True)
        for ax, task in zip(axes, tasks, strict=True):
            here, lines = arms.task(task), {}
            for arm in order:
                accuracy = here.accuracy(arm)
                label = f"{arms.label(arm)}\n{trained[arm]:,.0f}"
                other = arm.startswith("full, ")
                lines[label] = [None, accuracy] if other else [accuracy, None]
            baseline = here.mean(here.names()[0], "majority")
            draw_dots(ax, lines, [METHOD, OTHER_ENCODER], limits=SHARE, baseline=baseline)
            ax.set(title=TASKS[task], xlabel="test accuracy")
    return drawing


def _curves_of_methods(here: AdaptArms) -> Drawn:
    methods = [arm for arm in here.names() if not arm.startswith("full, ")]
    return lambda: _curves(here, methods), here.table.ids


def _cost(arms: AdaptArms, methods: list[str], tasks: list[str], kinds: list[str]) -> Drawing:
    with house_style():
        drawing, axes = panels(1, len(kinds), height=0.9 + 0.42 * len(methods))
        for ax, kind in zip(axes, kinds, strict=True):
            for i, (task, color) in enumerate(zip(tasks, PALETTE, strict=False)):
                values = [arms.task(task).mean_cost(arm, kind) for arm in methods]
                lines = np.arange(len(methods)) + 0.36 * (i - (len(tasks) - 1) / 2)
                ax.barh(lines, values, height=0.32, color=color, label=TASKS[task])
            ax.set_yticks(range(len(methods)), [arms.label(arm) for arm in methods])
            ax.invert_yaxis()
            ax.set_xlabel(COSTS[kind])
        if len(tasks) > 1:
            axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    return drawing


def optimizer_figures(study: Optimizers, arms: AdaptArms) -> list[Figure]:
    """No figures where no training ended."""
    common = study.settings.common_rate
    drawn: dict[str, Drawn] = {
        "rates": (lambda: _rates(arms, common), arms.table.ids),
        "fair": (lambda: _fair(arms, common), arms.table.ids),
        "at-one-rate": (lambda: _curves(arms.at_rate(common), arms.names()), arms.table.ids),
        "curves": (lambda: _curves(arms, arms.names()), arms.table.ids),
    }
    return with_words(study, drawn, common=rate_text(common))


def _rates(arms: AdaptArms, common: float) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.2)
        log_axis(ax, "x")
        for name, color in zip(arms.names(), PALETTE, strict=False):
            cells = arms.dev_by_cell(name, "rate")
            rates, estimates = [rate for (rate,) in cells], list(cells.values())
            ax.plot(rates, [e.value for e in estimates], color=color, linewidth=1.2)
            errorbars(ax, rates, estimates, color, arms.label(name))
        ax.axvline(common, color=NEUTRAL, linestyle="--", linewidth=0.9)
        _majority(ax, arms.mean(arms.names()[0], "dev_majority"))
        ax.set(xlabel="learning rate", ylabel="dev accuracy")
        # the curves cross and meet at their ends: no room for a label at each
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(arms.names()))
    return drawing


def _fair(arms: AdaptArms, common: float) -> Drawing:
    series = [
        Series(f"dev, learning rate {rate_text(common)}", PALETTE[1], hollow=True),
        Series("test, learning rate chosen on dev", PALETTE[0]),
    ]
    names, at_common = arms.names(), arms.at_rate(common)
    lines = {
        arms.label(name): [at_common.estimate(name, "dev_accuracy"), arms.accuracy(name)]
        for name in names
    }
    majority = arms.mean(names[0], "majority")
    return dot_plot(lines, series, xlabel="accuracy", limits=(0.0, 1.0), baseline=majority)


def fine_tuning_figures(study: FineTuning, arms: AdaptArms) -> list[Figure]:
    """A figure without trials is left out."""
    s = study.settings
    sizes = sorted(s.sizes)
    size_ids = [name for rows in sizes for name in arms.ids(f"{rows} rows")]
    rate_ids = [name for run in s.collapse_runs for name in arms.ids(run.arm)]
    drawn: dict[str, Drawn] = {
        "search": (lambda: _search(arms), arms.ids("search")),
        "epochs": (lambda: _epochs(arms), arms.ids("long")),
        "sizes": (lambda: _sizes(arms, sizes), size_ids),
        "collapse": (lambda: _collapse(arms, s.collapse_runs), rate_ids),
    }
    return with_words(study, drawn)


def _search(arms: AdaptArms) -> Drawing:
    cells = arms.dev_by_cell("search", "epochs", "batch", "rate")
    epochs, batches, rates = (sorted({key[i] for key in cells}) for i in range(3))
    with house_style():
        drawing, axes = panels(1, len(epochs), height=2.9, share_y=True)
        for ax, count in zip(axes, epochs, strict=True):
            log_axis(ax, "x", {rate: rate_text(rate) for rate in rates})
            ax.set_xlim(min(rates) / 1.6, max(rates) * 3)  # room for labels, equal in all panels
            for color, batch in zip(PALETTE, batches, strict=False):
                line = {key[2]: e for key, e in cells.items() if key[:2] == (count, batch)}
                draw_estimates(ax, line, color, f"batch {batch:g}", line=1.2)
            ax.set(title=f"{count:g} epoch{'s' if count != 1 else ''}", xlabel="learning rate")
        for ax in axes:  # after all panels: they share their limits
            _majority(ax, arms.mean("search", "dev_majority"))
        axes[0].set_ylabel("dev accuracy")
    return drawing


def _epochs(arms: AdaptArms) -> Drawing:
    rows = arms.rows("long")
    pairs = (
        ("own_loss", "dev_loss", "loss (nats per row)"),
        ("train_accuracy", "dev_accuracy", "accuracy"),
    )
    with house_style():
        drawing, axes = panels(1, 2, height=2.8)
        for ax, (train, dev, label) in zip(axes, pairs, strict=True):
            for curve, color, name in ((train, NEUTRAL, "train"), (dev, PALETTE[0], "dev")):
                lines = np.array([row.curves[curve] for row in rows])
                epoch, mean = np.arange(1, lines.shape[1] + 1), lines.mean(axis=0)
                ax.plot(epoch, lines.T, color=color, linewidth=0.6, alpha=0.5)
                ax.plot(epoch, mean, color=color, linewidth=1.8)
                best = int(mean.argmin() if label.startswith("loss") else mean.argmax())
                ax.plot(epoch[best], mean[best], "o", ms=8, color=color, markerfacecolor="none")
                direct_label(ax, epoch, mean, name, color)
            ax.set(xlabel="epoch", ylabel=label)
            ax.margins(x=0.12)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        _majority(axes[1], arms.mean("long", "dev_majority"))
    return drawing


def _sizes(arms: AdaptArms, sizes: Sequence[int]) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=2.8)
        log_axis(ax, "x", {rows: f"{rows:,}" for rows in sizes})
        ax.set_xlim(min(sizes) / 1.2, max(sizes) * 1.2)
        estimates = {rows: arms.estimate(f"{rows} rows", "dev_accuracy") for rows in sizes}
        draw_estimates(ax, estimates, PALETTE[0], line=1.2)
        _majority(ax, arms.mean(f"{sizes[-1]} rows", "dev_majority"))
        ax.set(xlabel="training rows", ylabel="dev accuracy")
    return drawing


def _collapse(arms: AdaptArms, runs: list[Run]) -> Drawing:
    colors = dict(zip(reversed(runs), PALETTE, strict=False))
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.8)
        for run in runs:
            rows, color = arms.rows(run.arm), colors.get(run, NEUTRAL)
            for row in rows:
                epoch = np.array(row.curves["dev_step"]) / row["epoch_steps"]
                left.plot(epoch, row.curves["train_accuracy"], "--", color=color, linewidth=0.8)
                for ax, name in ((left, "dev_accuracy"), (right, "top_share")):
                    ax.plot(epoch, row.curves[name], "o-", color=color, ms=3, linewidth=1.0)
                    if row is rows[0]:
                        direct_label(ax, epoch, row.curves[name], rate_text(run.rate), color)
        shares = [row["dev_majority"] for run in runs for row in arms.rows(run.arm)]
        _majority(left, float(np.mean(shares)))
        _majority(right, MOST)
        right.set_ylim(0.45, 1.03)
        left.set_ylabel("accuracy")
        right.set_ylabel("share of one class")
        for ax in (left, right):
            ax.set_xlabel("epoch")
            ax.margins(x=0.18)
    return drawing


def _majority(ax: Axes, share: float) -> None:
    """The accuracy of the majority class as a dotted line; call it after everything is drawn.

    It sets the limits: intervals over few seeds may go beyond 0 and 1, shares do not.
    """
    ax.axhline(share, color=NEUTRAL, linestyle=":", linewidth=1.0)
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, -0.02), min(high, 1.02))


def _curves(arms: AdaptArms, names: Sequence[str]) -> Drawing:
    """Loss and accuracy by epoch on dev and on training rows (dashed): means over seeds."""
    with house_style():
        drawing, axes = panels(1, len(CURVES), height=3.0)
        for ax, (label, curves) in zip(axes, CURVES.items(), strict=True):
            for name, color in zip(names, PALETTE, strict=False):
                seeds = list(arms.curves(name).values())
                if not seeds:
                    continue
                epochs = np.array(seeds[0]["dev_step"]) / arms.mean(name, "epoch_steps")
                for curve, style in zip(curves, ("-", "--"), strict=True):
                    mean = np.mean([values[curve] for values in seeds], axis=0)
                    on_dev = arms.label(name) if style == "-" else None
                    ax.plot(epochs, mean, style, marker="o", ms=3, color=color, label=on_dev)
            ax.set(xlabel="epoch", ylabel=label)
        axes[-1].set_ylim(0.0, 1.0)
        handles, labels = axes[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside upper center", ncols=max(1, len(names)))
    return drawing
