"""Figures that many studies share: estimates as dots with intervals, curves with bands.

dot_plot({"softmax": [e1, e2], "argmax": [e3, None]}, [Series("all", PALETTE[0]), ...],
         xlabel="test accuracy", baseline=0.25)
curve_plot([Curve("softmax", PALETTE[0], steps, estimates)], xlabel="step", ylabel="accuracy")
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.measure.intervals import Estimate
from attnlab.report.style import NEUTRAL, direct_label, errorbars, house_style, log_axis, panels

LINE_HEIGHT = 0.42  # inches a line of a dot plot
SPREAD = 0.2  # of a line, between the series of a dot plot
Limits = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """One kind of dot: its legend entry, colour and marker; a hollow one is drawn white inside."""

    label: str
    color: str
    marker: str = "o"
    hollow: bool = False


@dataclass(frozen=True)
class Curve:
    """Estimates along x, labelled at the end of the line."""

    label: str
    color: str
    x: np.ndarray
    estimates: Sequence[Estimate]
    style: str = "-"


def dot(ax: Axes, y: float, e: Estimate, series: Series, limits: Limits | None = None) -> None:
    """One estimate at height y with its interval, cut off at `limits`; nothing where it is NaN."""
    if not math.isfinite(e.value):
        return
    if e.has_interval:
        ends = np.clip([e.low, e.high], *limits) if limits else [e.low, e.high]
        ax.plot(ends, [y, y], color=series.color, linewidth=1.2, zorder=2)
    face = "white" if series.hollow else series.color
    ax.plot(
        e.value,
        y,
        series.marker,
        color=series.color,
        markerfacecolor=face,
        markersize=8 if series.marker == "*" else 5,
        zorder=3,
    )


def draw_dots(
    ax: Axes,
    lines: Mapping[str, Sequence[Estimate | None]],
    series: Sequence[Series],
    *,
    limits: Limits | None = None,
    baseline: float | None = None,
) -> None:
    """One line per label, one dot per series where there is an estimate; the first line on top.

    The dotted line is what needs no model.
    """
    offsets = [SPREAD * (i - (len(series) - 1) / 2) for i in range(len(series))]
    for height, estimates in enumerate(lines.values()):
        for estimate, kind, offset in zip(estimates, series, offsets, strict=True):
            if estimate is not None:
                dot(ax, height + offset, estimate, kind, limits)
    if baseline is not None and math.isfinite(baseline):
        ax.axvline(baseline, color=NEUTRAL, linestyle=":", linewidth=1.0, zorder=0)
    name_lines(ax, list(lines))


def dot_plot(
    lines: Mapping[str, Sequence[Estimate | None]],
    series: Sequence[Series],
    *,
    xlabel: str,
    limits: Limits | None = None,
    baseline: float | None = None,
    log: bool = False,
) -> Figure:
    """A figure of `draw_dots` with a legend above where there is more than one series."""
    with house_style():
        figure, (ax,) = panels(1, 1, height=1.2 + LINE_HEIGHT * len(lines))
        if log:
            log_axis(ax, "x")
        draw_dots(ax, lines, series, limits=limits, baseline=baseline)
        if len(series) > 1:
            legend_above(ax, series)
        if limits:
            ax.set_xlim(limits[0], limits[1] + 0.04 * (limits[1] - limits[0]))
        ax.set_xlabel(xlabel)
    return figure


def name_lines(ax: Axes, labels: Sequence[str], room: float = 0.5) -> None:
    """The names of the lines of a dot plot, the first on top; `room` above and below them."""
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 1 + room, -room)
    ax.tick_params(axis="y", length=0)


def draw_estimates(
    ax: Axes,
    estimates: Mapping[float, Estimate] | Mapping[int, Estimate],
    color: str,
    label: str = "",
    marker: str = "",
    line: float = 0.0,
) -> None:
    """Points by x with their intervals, on a line of this width, with a label at the last one."""
    x, values = list(estimates), [e.value for e in estimates.values()]
    if line:
        ax.plot(x, values, color=color, linewidth=line)
    errorbars(ax, x, list(estimates.values()), color, marker=marker or None)
    if label and x:
        direct_label(ax, x, values, label, color)


def legend_above(ax: Axes, series: Sequence[Series]) -> None:
    """One legend entry per series, in a row above the axes."""
    for kind in series:
        face = "white" if kind.hollow else kind.color
        ax.plot([], [], kind.marker, color=kind.color, markerfacecolor=face, label=kind.label)
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=len(series))


def draw_curve(ax: Axes, curve: Curve, limits: Limits | None = None, label: bool = True) -> None:
    """The mean as a line, the intervals as a band, the label at the end."""
    value, low, high = (
        np.array([getattr(e, end) for e in curve.estimates]) for end in ("value", "low", "high")
    )
    if limits:
        low, high = np.clip(low, *limits), np.clip(high, *limits)
    ax.plot(curve.x, value, color=curve.color, linestyle=curve.style)
    ax.fill_between(curve.x, low, high, color=curve.color, alpha=0.15, linewidth=0)
    if label:
        direct_label(ax, curve.x, value, curve.label, curve.color)


def curve_plot(
    curves: Sequence[Curve],
    *,
    xlabel: str,
    ylabel: str,
    limits: Limits | None = None,
    baseline: float | None = None,
    height: float = 3.0,
) -> Figure:
    """Curves in one panel, with room on the right for their labels; the baseline is dotted."""
    with house_style():
        figure, (ax,) = panels(1, 1, height=height)
        shown = [curve for curve in curves if len(curve.x)]
        for curve in shown:
            draw_curve(ax, curve, limits)
        if baseline is not None and math.isfinite(baseline):
            ax.axhline(baseline, color=NEUTRAL, linestyle=":", linewidth=1.0)
        last = max((float(curve.x[-1]) for curve in shown), default=0.0)
        ax.set_xlim(0, 1.25 * last if last else 1)
        ax.set_xticks([tick for tick in ax.get_xticks() if tick <= last])
        if limits:
            ax.set_ylim(limits[0], limits[1] + 0.04 * (limits[1] - limits[0]))
        ax.set(xlabel=xlabel, ylabel=ylabel)
    return figure
