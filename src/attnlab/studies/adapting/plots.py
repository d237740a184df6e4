"""What the figures of the three studies share."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import NullLocator

from attnlab.measure.intervals import Estimate
from attnlab.report.style import NEUTRAL, PALETTE, errorbars, house_style, log_axis, panels
from attnlab.studies.adapting.evidence import AdaptArms

PANELS = {"train_loss": "training loss", "dev_loss": "dev loss", "dev_accuracy": "dev accuracy"}


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


def draw_curves(arms: AdaptArms, names: Sequence[str]) -> Drawing:
    """Losses and dev accuracy by epoch, one colour an arm: the mean over seeds of chosen cells."""
    with house_style():
        drawing, axes = panels(1, len(PANELS), height=3.0)
        for ax, (curve, label) in zip(axes, PANELS.items(), strict=True):
            for name, color in zip(names, PALETTE, strict=False):
                x = "step" if curve == "train_loss" else "dev_step"
                steps, values = arms.curve(name, x, curve)
                epochs = steps / arms.mean(name, "epoch_steps")
                ax.plot(epochs, [e.value for e in values], color=color, label=arms.label(name))
            ax.set_xlabel("epoch")
            ax.set_ylabel(label)
        axes[-1].set_ylim(0.0, 1.0)
        handles, labels = axes[0].get_legend_handles_labels()
        drawing.legend(handles, labels, loc="outside upper center", ncols=max(1, len(names)))
    return drawing
