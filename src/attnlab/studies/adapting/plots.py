"""What the figures of the three studies share."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import NullLocator

from attnlab.measure.intervals import Estimate
from attnlab.report.style import NEUTRAL, PALETTE, errorbars, house_style, log_axis, panels
from attnlab.studies.adapting.evidence import AdaptArms

CURVES = {"loss": ("dev_loss", "own_loss"), "accuracy": ("dev_accuracy", "train_accuracy")}


def draw_line(
    ax: Axes, x: Sequence[float], estimates: Sequence[Estimate], color: str, label: str = ""
) -> None:
    """Estimates with error bars, joined by a line."""
    ax.plot(x, [e.value for e in estimates], color=color, linewidth=1.2, zorder=2)
    errorbars(ax, x, estimates, color, label=label or None)


def draw_majority(ax: Axes, share: float) -> None:
    """The accuracy of the majority class as a dotted line; call it after everything is drawn.

    It sets the limits: intervals over few seeds may go beyond 0 and 1, shares do not.
    """
    ax.axhline(share, color=NEUTRAL, linestyle=":", linewidth=1.0)
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, -0.02), min(high, 1.02))


def log_ticks(ax: Axes, values: Sequence[float], labels: Sequence[str]) -> None:
    """A logarithmic x axis with ticks at the values that were tried and nowhere else."""
    log_axis(ax, "x")
    ax.set_xticks(values, labels)
    ax.xaxis.set_minor_locator(NullLocator())


def draw_curves(arms: AdaptArms, names: Sequence[str], rate: float | None = None) -> Drawing:
    """Loss and accuracy by epoch on dev and on training rows (dashed), one colour an arm.

    Means over seeds of the chosen trainings, or of those at this learning rate.
    """
    with house_style():
        drawing, axes = panels(1, len(CURVES), height=3.0)
        for ax, (label, curves) in zip(axes, CURVES.items(), strict=True):
            for name, color in zip(names, PALETTE, strict=False):
                seeds = list(arms.curves(name, rate).values())
                if not seeds:
                    continue
                epochs = np.array(seeds[0]["dev_step"]) / arms.mean(name, "epoch_steps")
                for curve, style in zip(curves, ("-", "--"), strict=True):
                    mean = np.mean([values[curve] for values in seeds], axis=0)
                    on_dev = arms.label(name) if style == "-" else None
                    ax.plot(epochs, mean, style, marker="o", ms=3, color=color, label=on_dev)
            ax.set_xlabel("epoch")
            ax.set_ylabel(label)
        axes[-1].set_ylim(0.0, 1.0)
        handles, labels = axes[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside upper center", ncols=max(1, len(names)))
    return drawing
