"""Words in a figure: labels at the end of lines instead of a legend, plain numbers on log axes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from matplotlib import patheffects
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import ArrayLike

from attnlab.report.text import number

_LABEL_ID = "direct-label"


def direct_label(
    ax: Axes, x: ArrayLike, y: ArrayLike, text: str, color: str = "#555555"
) -> Annotation:
    """`text` right of the last finite point of (x, y); saving moves labels that would overlap."""
    xs, ys = np.atleast_1d(np.asarray(x, dtype=float)), np.atleast_1d(np.asarray(y, dtype=float))
    finite = np.flatnonzero(np.isfinite(xs) & np.isfinite(ys))
    last = finite[-1] if finite.size else 0
    return ax.annotate(
        text,
        (float(xs[last]), float(ys[last])),
        xytext=(5, 0),
        textcoords="offset points",
        color=color,
        fontsize=8,
        va="center",
        ha="left",
        gid=_LABEL_ID,
        path_effects=halo(2.4),
        annotation_clip=False,
        zorder=5,
    )


def note(
    ax: Axes,
    text: str,
    at: tuple[float, float],
    color: str | None = None,
    shift: tuple[float, float] = (0, 0),
    **look: Any,
) -> None:
    """Small words at a point, moved by `shift` points; `look` as for matplotlib's `annotate`."""
    if color:
        look["color"] = color
    ax.annotate(text, at, xytext=shift, textcoords="offset points", fontsize=8, **look)


def write(ax: Axes, x: float, y: float, text: str, color: str) -> None:
    """Small text at a position in the panel (0 to 1); left half: it starts at x, right: it ends."""
    side = "left" if x < 0.5 else "right"
    note(ax, text, (x, y), color, xycoords="axes fraction", va="top", ha=side)


def log_axis(ax: Axes, which: Literal["x", "y"], ticks: Mapping[float, str] | None = None) -> None:
    """A log axis with plain numbers: 250, 1,000, 0.02; as many ticks as the range has room for.

    With `ticks`, a value and its words for each, it has these and no others, like the values that
    were tried. Smaller ticks then go from both axes.
    """
    ax.set_xscale("log") if which == "x" else ax.set_yscale("log")
    axis = ax.xaxis if which == "x" else ax.yaxis
    axis.set_major_locator(_RoomyLog())
    axis.set_major_formatter(FuncFormatter(lambda value, _: number(float(f"{value:.6g}"))))
    axis.set_minor_formatter(NullFormatter())
    if ticks is not None:
        axis.set_ticks(list(ticks), list(ticks.values()))
        ax.minorticks_off()


def halo(width: float) -> list[patheffects.AbstractPathEffect]:
    """A white outline that keeps lines and words readable on a map."""
    return [patheffects.withStroke(linewidth=width, foreground="white", alpha=0.9)]


def separate_labels(figure: Figure) -> None:
    """Move direct labels up or down, as little as possible, until none overlaps another."""
    figure.draw_without_rendering()  # panel sizes are known only after the layout has run
    figure.set_layout_engine("none")  # and stay: the layout drifts a little at every draw
    for ax in figure.axes:
        labels = [a for a in ax.texts if isinstance(a, Annotation) and a.get_gid() == _LABEL_ID]
        frame = ax.get_window_extent()
        # from the point itself, not from where a label is now: saving twice changes nothing
        points = [float(ax.transData.transform(label.xy)[1]) for label in labels]
        wanted = [min(max(y, frame.y0), frame.y1) for y in points]
        heights = [label.get_window_extent().height * 1.05 for label in labels]
        for label, point, y in zip(labels, points, spread(wanted, heights), strict=True):
            label.set_position((label.get_position()[0], (y - point) * 72.0 / figure.dpi))


def spread(wanted: Sequence[float], heights: Sequence[float]) -> list[float]:
    """Positions nearest to `wanted` whose intervals of these heights do not overlap."""
    clusters: list[tuple[list[int], float]] = []  # members bottom to top, and their common middle
    for index in sorted(range(len(wanted)), key=lambda i: (wanted[i], i)):
        members, middle = [index], wanted[index]
        while clusters and _overlap(clusters[-1], (members, middle), heights):
            members = clusters.pop()[0] + members
            middle = sum(wanted[i] for i in members) / len(members)
        clusters.append((members, middle))
    placed = [math.nan] * len(wanted)
    for members, middle in clusters:
        bottom = middle - sum(heights[i] for i in members) / 2
        for i in members:
            placed[i] = bottom + heights[i] / 2
            bottom += heights[i]
    return placed


def _overlap(
    below: tuple[list[int], float], above: tuple[list[int], float], heights: Sequence[float]
) -> bool:
    reach = sum(heights[i] for i in below[0] + above[0]) / 2
    return above[1] - below[1] < reach


class _RoomyLog(LogLocator):
    """Ticks at 1 2 5 within about a decade, at 1 3 over two, at powers of ten beyond."""

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        decades = abs(math.log10(vmax / vmin)) if vmin > 0 and vmax > 0 else 9.0
        self.set_params(
            subs=(1.0, 2.0, 5.0) if decades < 1.8 else (1.0, 3.0) if decades < 3 else (1.0,)
        )
        return super().tick_values(vmin, vmax)
