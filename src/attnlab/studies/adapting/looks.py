"""What the pictures of the three studies share."""

from collections.abc import Sequence
from typing import Literal

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from attnlab.measure.intervals import Estimate
from attnlab.report.style import NEUTRAL, log_axis


def majority(ax: Axes, share: float, which: Literal["x", "y"] = "y") -> None:
    """A dotted line at what a constant answer scores; call it after the data are drawn."""
    line = ax.axhline if which == "y" else ax.axvline
    line(share, color=NEUTRAL, linestyle=":", linewidth=1.0)


def as_share(ax: Axes, which: Literal["x", "y"] = "y") -> None:
    """An axis of shares ends at 0 and 1, whatever a t interval over few seeds says."""
    low, high = ax.get_ylim() if which == "y" else ax.get_xlim()
    limit = ax.set_ylim if which == "y" else ax.set_xlim
    limit(max(low, -0.02), min(high, 1.02))


def ticks(ax: Axes, values: Sequence[float], words: Sequence[str]) -> None:
    """A log axis with the values that were tried, and no others."""
    log_axis(ax, "x")
    ax.set_xticks(values, words)
    ax.xaxis.set_minor_locator(NullLocator())


def dot(ax: Axes, line: float, e: Estimate, colour: str, *, hollow: bool = False) -> None:
    """An estimate with its interval, lying."""
    if e.has_interval:
        ax.plot([e.low, e.high], [line, line], color=colour, linewidth=1.2, zorder=2)
    face = "white" if hollow else colour
    ax.plot(e.value, line, "o", color=colour, markerfacecolor=face, markersize=5, zorder=3)
