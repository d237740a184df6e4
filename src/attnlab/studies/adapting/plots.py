"""What the figures of the three studies share."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from attnlab.measure.intervals import Estimate
from attnlab.report.style import NEUTRAL, errorbars, log_axis


def draw_line(
    ax: Axes, x: Sequence[float], estimates: Sequence[Estimate], color: str, label: str = ""
) -> None:
    """Estimates with error bars, joined by a line."""
    ax.plot(x, [e.value for e in estimates], color=color, linewidth=1.2, zorder=2)
    errorbars(ax, x, estimates, color, label=label or None)


def draw_majority(ax: Axes, share: float) -> None:
    """The accuracy of the majority class as a dotted line; shares end at 0 and 1."""
    ax.axhline(share, color=NEUTRAL, linestyle=":", linewidth=1.0)
    low, high = ax.get_ylim()
    ax.set_ylim(max(low, -0.02), min(high, 1.02))


def log_ticks(ax: Axes, values: Sequence[float], labels: Sequence[str]) -> None:
    """A logarithmic x axis with ticks at the values that were tried and nowhere else."""
    log_axis(ax, "x")
    ax.set_xticks(values, labels)
    ax.xaxis.set_minor_locator(NullLocator())
