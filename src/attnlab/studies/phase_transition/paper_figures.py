"""Figures 2 and 3 of the paper: both solutions against α; the (α, ω) diagrams and their lines."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.table import Row
from attnlab.measure.crossings import last_crossing
from attnlab.report.labels import note, write
from attnlab.report.plots import draw_estimates
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    ColourScale,
    errorbars,
    heatmap,
    house_style,
    panels,
    published,
    theory_line,
)
from attnlab.studies.phase_transition.claims import PUBLISHED
from attnlab.studies.phase_transition.evidence import (
    OVERLAPS,
    Evidence,
    Value,
    gap,
    over_instances,
    pooled_crossing,
)

COLOURS = {"semantic": SEMANTIC, "positional": POSITIONAL}
LINES = {"alpha_c": "-", "alpha_l": "--", "alpha_w": ":"}
ALPHA, OMEGA = "sample complexity α = N/D", "positional share ω of the teacher"
TALLEST = 3.6  # α_l leaves the picture: it diverges just above ω = 0.5


def draw_figure_two(e: Evidence, error: str) -> Drawing:
    """The difference of the two solutions, what distinguishes them, and their errors."""
    train = error == "train_error"
    symbol = "$ε_t$" if train else "$ε_g$"
    with house_style():
        drawing, (left, middle, right) = panels(1, 3, height=2.9)
        _difference_panel(left, e, error)
        left.set_ylabel(f"Δ{symbol}: positional − semantic")
        if train:
            mark_critical(left, e, "alpha_c")
            _overlap_panel(middle, e)
        else:
            _excess_panel(middle, e)
        _error_panel(right, e, error)
        right.set_ylabel(f"{'training loss' if train else 'test error'} {symbol}")
        drawing.supxlabel(ALPHA, fontsize=8.5)
    return drawing


def mark_critical(ax: Axes, e: Evidence, name: str) -> None:
    """The theory's critical point as a dotted line, the published one hollow."""
    value = e.critical_at(name).value
    if np.isfinite(value):
        ax.axvline(value, color=NEUTRAL, linestyle=":", linewidth=1.2)
        words, beside = f"$α_{name[-1]}$ = {value:.3f}", ("data", "axes fraction")
        note(ax, words, (value, 0.93), shift=(-4, 0), xycoords=beside, ha="right")
    if e.is_published_model:
        published(ax, [PUBLISHED[name]], [0.0])


def _points(ax: Axes, e: Evidence, value: Value, colour: str) -> None:
    draw_estimates(ax, over_instances(e.part("Figure 2"), value, "alpha"), colour)


def _solution(
    ax: Axes, e: Evidence, name: str, quantity: str, colour: str, *, excess: bool = False
) -> None:
    """Theory as a line where it has this branch, instances as points; or their excess error."""
    branch, linear = e.theory(name), e.linear_test_error if excess else 0.0
    if branch.alpha.size:
        theory_line(ax, branch.alpha, branch.columns[quantity] - linear, colour)

    def value(row: Row) -> float:
        return row[f"{name}_{quantity}"] - (row["linear_test_error"] if excess else 0.0)

    _points(ax, e, value, colour)


def _difference_panel(ax: Axes, e: Evidence, error: str) -> None:
    semantic, positional = e.theory("semantic"), e.theory("positional")
    both = np.intersect1d(semantic.alpha, positional.alpha)
    ax.axhline(0, color=NEUTRAL, linewidth=0.8)
    gaps = [positional.at(a, error) - semantic.at(a, error) for a in both]
    theory_line(ax, both, gaps, NEUTRAL)
    _points(ax, e, lambda r: gap(r, error), NEUTRAL)


def _overlap_panel(ax: Axes, e: Evidence) -> None:
    for name, overlap in OVERLAPS.items():
        _solution(ax, e, name, overlap, COLOURS[name])
    ax.set_ylabel("overlap with its start's direction")
    ax.set_ylim(bottom=0)
    write(ax, 0.97, 0.69, "m (positional)", POSITIONAL)
    write(ax, 0.97, 0.11, "θ (semantic)", SEMANTIC)


def _excess_panel(ax: Axes, e: Evidence) -> None:
    ax.axhline(0, color=LINEAR, linewidth=1.2)
    for name, colour in COLOURS.items():
        _solution(ax, e, name, "test_error", colour, excess=True)
    ax.set_ylabel("$ε_g$ − $ε_g$ of the linear baseline")
    mark_critical(ax, e, "alpha_l")


def _error_panel(ax: Axes, e: Evidence, error: str) -> None:
    """Both solutions and the linear baseline; in training a random start too."""
    train = error == "train_error"
    shown = {**COLOURS, "linear": LINEAR, **({"random": NEUTRAL} if train else {})}
    for line, (name, colour) in enumerate(shown.items()):
        _solution(ax, e, name, error, colour)
        words = "random start" if name == "random" else name
        write(ax, 0.03 if train else 0.97, 0.98 - 0.08 * line, words, colour)
    for row in e.table.where(kind="curve").rows[:1]:  # for D → ∞ its training loss is α times ε_g
        alphas = np.array([0.0, max(row.curves["alpha"])])
        level = e.linear_test_error * (alphas if train else np.ones(2))
        theory_line(ax, alphas, level, LINEAR)


def draw_maps(
    e: Evidence, maps: Mapping[str, Value], lines: Sequence[str] = tuple(LINES), top: bool = False
) -> Drawing:
    """Two maps by their labels, coloured around zero, or with `top` from zero to the largest."""
    with house_style():
        drawing, axes = panels(1, 2, height=3.0)
        for ax, (label, value) in zip(axes, maps.items(), strict=True):
            alphas, omegas, values = grid(e, value)
            scale = ColourScale.around_zero(label, values)
            if top:
                scale = ColourScale(label, (0.0, float(np.nanmax(values))))
            heatmap(ax, alphas, omegas, values, scale)
            for name in lines:
                at, critical = e.critical_line(name)
                look = {"linewidth": 1.4, "marker": "." if at.size == 1 else None}
                ax.plot(critical, at, LINES[name], color="#111111", **look)
            ax.set_xlabel(ALPHA)
        axes[0].set_ylabel(OMEGA)
    return drawing


def grid(e: Evidence, value: Value) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """α, ω and the mean over instances of `value` in every cell (NaN where nothing ran)."""
    rows = e.part("Figure 3")
    alphas = np.array(sorted({r["alpha"] for r in rows}))
    omegas = np.array(sorted({r["omega"] for r in rows}))
    values = np.full((omegas.size, alphas.size), np.nan)
    for (omega, alpha), cell in rows.groups("omega", "alpha").items():
        mean = float(np.mean([value(row) for row in cell]))
        values[np.searchsorted(omegas, omega), np.searchsorted(alphas, alpha)] = mean
    return alphas, omegas, values


def draw_critical_lines(e: Evidence) -> Drawing:
    """Critical α against ω: theory, the crossings of simulation, the published points."""
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.2)
        colours = {"alpha_c": NEUTRAL, "alpha_l": POSITIONAL, "alpha_w": SEMANTIC}
        for name, colour in colours.items():
            omegas, alphas = e.critical_line(name)
            inside = alphas < TALLEST
            if inside.any():
                label = f"$α_{name[-1]}$"
                theory_line(ax, omegas[inside], alphas[inside], colour, label, LINES[name])
            if e.is_published_model and name in PUBLISHED:
                published(ax, [e.settings.omega], [PUBLISHED[name]], colour)
        for (omega,), rows in e.part("Figure 3").groups("omega").items():
            estimate = pooled_crossing(rows, gap, last_crossing)
            if np.isfinite(estimate.value) and estimate.has_interval:
                errorbars(ax, [omega], [estimate], NEUTRAL)
        ax.set(ylim=(0, TALLEST), xlabel=OMEGA, ylabel="critical sample complexity α")
    return drawing
