"""Figures of fine-tuning: the search, the epochs, the training rows, the collapse."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from attnlab.audit.checks.collapse import MOST
from attnlab.lab.study import Figure
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import NEUTRAL, PALETTE, direct_label, house_style, panels
from attnlab.studies.adapting.evidence import AdaptArms
from attnlab.studies.adapting.fine_tuning import FineTuning
from attnlab.studies.adapting.fine_tuning_claims import Run, collapse_arm
from attnlab.studies.adapting.plots import draw_line, draw_majority, log_ticks
from attnlab.studies.adapting.settings import rate_text


def figures(study: FineTuning, arms: AdaptArms) -> list[Figure]:
    """A figure without trials is left out."""
    s = study.settings
    sizes = sorted(s.sizes)
    size_ids = [name for rows in sizes for name in arms.ids(f"{rows} rows")]
    rate_ids = [name for run in s.collapse_runs for name in arms.ids(collapse_arm(run))]
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
            log_ticks(ax, rates, [rate_text(rate) for rate in rates])
            ax.set_xlim(min(rates) / 1.6, max(rates) * 3)  # room for labels, equal in all panels
            for color, batch in zip(PALETTE, batches, strict=False):
                line = {key[2]: e for key, e in cells.items() if key[:2] == (count, batch)}
                if line:
                    draw_line(ax, list(line), list(line.values()), color)
                    values = [e.value for e in line.values()]
                    direct_label(ax, list(line), values, f"batch {batch:g}", color)
            ax.set_title(f"{count:g} epoch{'s' if count != 1 else ''}")
            ax.set_xlabel("learning rate")
        for ax in axes:  # after all panels: they share their limits
            draw_majority(ax, arms.mean("search", "dev_majority"))
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
            ax.set_xlabel("epoch")
            ax.set_ylabel(label)
            ax.margins(x=0.12)
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
        draw_majority(axes[1], arms.mean("long", "dev_majority"))
    return drawing


def _sizes(arms: AdaptArms, sizes: Sequence[int]) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=2.8)
        log_ticks(ax, sizes, [f"{rows:,}" for rows in sizes])
        ax.set_xlim(min(sizes) / 1.2, max(sizes) * 1.2)
        estimates = [arms.estimate(f"{rows} rows", "dev_accuracy") for rows in sizes]
        draw_line(ax, sizes, estimates, PALETTE[0])
        draw_majority(ax, arms.mean(f"{sizes[-1]} rows", "dev_majority"))
        ax.set_xlabel("training rows")
        ax.set_ylabel("dev accuracy")
    return drawing


def _collapse(arms: AdaptArms, runs: Sequence[Run]) -> Drawing:
    colors = dict(zip(reversed(runs), PALETTE, strict=False))
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.8)
        for run in runs:
            rows, color = arms.rows(collapse_arm(run)), colors.get(run, NEUTRAL)
            for row in rows:
                epoch = np.array(row.curves["dev_step"]) / row["epoch_steps"]
                left.plot(epoch, row.curves["train_accuracy"], "--", color=color, linewidth=0.8)
                for ax, name in ((left, "dev_accuracy"), (right, "top_share")):
                    ax.plot(epoch, row.curves[name], "o-", color=color, ms=3, linewidth=1.0)
                    if row is rows[0]:
                        direct_label(ax, epoch, row.curves[name], rate_text(run[0]), color)
        shares = [row["dev_majority"] for run in runs for row in arms.rows(collapse_arm(run))]
        draw_majority(left, float(np.mean(shares)))
        draw_majority(right, MOST)
        right.set_ylim(0.45, 1.03)
        left.set_ylabel("accuracy")
        right.set_ylabel("share of one class")
        for ax in (left, right):
            ax.set_xlabel("epoch")
            ax.margins(x=0.18)
    return drawing
