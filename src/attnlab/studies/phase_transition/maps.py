"""Figure 3 of the paper: the (α, ω) diagrams, with the computed critical lines on them."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.measure.crossings import last_crossing
from attnlab.report.style import (
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
    Evidence,
    Value,
    chosen,
    gap,
    pooled_crossing,
)

TALLEST = 3.6  # α_l leaves the picture: it diverges just above ω = 0.5
LINES = {"alpha_c": "-", "alpha_l": "--", "alpha_w": ":"}
ALPHA, OMEGA = "sample complexity α = N/D", "positional share ω of the teacher"


def draw_maps(e: Evidence, symbol: str, left: Value, right: Value) -> Drawing:
    """Two maps of differences, coloured around zero, each with its own scale."""
    labels = (f"{symbol}: positional − semantic", "$ε_g$ − $ε_g$ of the linear map")
    with house_style():
        drawing, axes = panels(1, 2, height=3.0)
        for ax, value, label in zip(axes, (left, right), labels, strict=True):
            alphas, omegas, values = grid(e, value)
            heatmap(ax, alphas, omegas, values, ColourScale.around_zero(label, values))
            _critical_on_map(ax, e, "alpha_c", "alpha_l", "alpha_w")
        axes[0].set_ylabel(OMEGA)
    return drawing


def draw_overlaps(e: Evidence) -> Drawing:
    """m and θ of the solution with the lower training loss."""
    with house_style():
        drawing, axes = panels(1, 2, height=3.0)
        for ax, (name, symbol) in zip(axes, (("m", "m"), ("theta", "θ")), strict=True):
            alphas, omegas, values = grid(e, lambda r, n=name: chosen(r, n))
            scale = ColourScale(f"overlap {symbol}", (0.0, float(np.nanmax(values))))
            heatmap(ax, alphas, omegas, values, scale)
            _critical_on_map(ax, e, "alpha_c", "alpha_w")
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


def _critical_on_map(ax: Axes, e: Evidence, *names: str) -> None:
    for name in names:
        omegas, alphas = e.critical_line(name)
        marker = "." if omegas.size == 1 else None
        ax.plot(alphas, omegas, LINES[name], color="#111111", linewidth=1.4, marker=marker)
    ax.set_xlabel(ALPHA)


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
        ax.set_ylim(0, TALLEST)
        ax.set_xlabel(OMEGA)
        ax.set_ylabel("critical sample complexity α")
    return drawing
