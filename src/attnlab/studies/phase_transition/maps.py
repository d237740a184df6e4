"""Figure 3 of the paper: the (α, ω) diagrams, with the computed critical lines on them."""

from collections.abc import Callable

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.lab.table import Row
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
    chosen,
    crossing,
    excess,
    gap,
    pooled_crossing,
)

TALLEST = 3.6  # α_l leaves the picture: it diverges just above ω = 0.5
LINES = {"alpha_c": "-", "alpha_l": "--", "alpha_w": ":"}
ALPHA, OMEGA = "sample complexity α = N/D", "positional share ω of the teacher"


def map_figures(e: Evidence) -> list[Figure]:
    """Both diagrams for training and test error, the overlaps, and the lines alone."""
    cells_run = e.part("Figure 3").ids
    ids = cells_run + e.table.where(kind="critical").ids if cells_run else ()
    dim, seeds = e.settings.map_dim, e.settings.map_seeds
    lines = "Lines: α_c (solid), α_l (dashed), α_w (dotted), computed by theory."
    cells = f"Each cell: mean of {seeds} instances at D = {dim:,}."
    return [
        Figure(
            "figure-3",
            f"Phase diagrams (D = {dim:,})",
            "Left: training loss, positional − semantic; red: semantic wins. Right: test error of "
            "the lower-loss solution minus the linear baseline's; blue: attention is better. "
            f"{cells} {lines}",
            "Two maps over α and ω with three critical lines on them.",
            lambda: _differences(e, ("train", gap, excess)),
            ids,
        ),
        Figure(
            "figure-3-test",
            "The same in test error",
            "Left: test error, positional − semantic. Right: test error of the semantic solution "
            f"minus the linear baseline's. {cells} {lines}",
            "Two maps over α and ω of test-error differences.",
            lambda: _differences(
                e,
                (
                    "test",
                    lambda r: gap(r, "test_error"),
                    lambda r: r["semantic_test_error"] - r["linear_test_error"],
                ),
            ),
            ids,
        ),
        Figure(
            "figure-3-overlaps",
            "Which solution has the lower loss: its overlaps",
            "Overlap m with the positions and θ with the teacher, of the solution with the lower "
            f"training loss. {cells} {lines}",
            "Two maps over α and ω: overlap m and overlap θ of the lower-loss solution.",
            lambda: _overlaps(e),
            ids,
        ),
        Figure(
            "critical-lines",
            "Critical points: theory, simulation, published",
            "Lines: theory. Points: where the mean losses of simulation cross, by interpolation; "
            f"bars: 95 % jackknife t interval over instances (D = {dim:,}). Hollow: published "
            "at ω = 0.3.",
            "Critical α against ω: three lines of theory, points of simulation, published values.",
            lambda: _critical_lines(e),
            ids,
        ),
    ]


def grid(e: Evidence, value: Callable[[Row], float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """α, ω and the mean over instances of `value` in every cell (NaN where nothing ran)."""
    rows = e.part("Figure 3")
    alphas = np.array(sorted({r["alpha"] for r in rows}))
    omegas = np.array(sorted({r["omega"] for r in rows}))
    values = np.full((omegas.size, alphas.size), np.nan)
    for (omega, alpha), cell in rows.groups("omega", "alpha").items():
        found = float(np.mean([value(row) for row in cell]))
        values[np.searchsorted(omegas, omega), np.searchsorted(alphas, alpha)] = found
    return alphas, omegas, values


def _lines(ax: Axes, e: Evidence, names: tuple[str, ...]) -> None:
    for name in names:
        omegas, alphas = e.critical(name)
        if omegas.size:
            ax.plot(
                alphas,
                omegas,
                color="#111111",
                linestyle=LINES[name],
                linewidth=1.4,
                marker="." if omegas.size == 1 else None,
            )


def _differences(
    e: Evidence, what: tuple[str, Callable[..., float], Callable[..., float]]
) -> Drawing:
    error, first, second = what
    symbol = "$Δε_t$" if error == "train" else "$Δε_g$"
    with house_style():
        drawing, (left, right) = panels(1, 2, height=3.0)
        for ax, value, label in (
            (left, first, f"{symbol}: positional − semantic"),
            (right, second, "$ε_g$ − $ε_g$ of the linear map"),
        ):
            alphas, omegas, values = grid(e, value)
            heatmap(ax, alphas, omegas, values, ColourScale.around_zero(label, values))
            _lines(ax, e, ("alpha_c", "alpha_l", "alpha_w"))
            ax.set_xlabel(ALPHA)
        left.set_ylabel(OMEGA)
    return drawing


def _overlaps(e: Evidence) -> Drawing:
    with house_style():
        drawing, (left, right) = panels(1, 2, height=3.0)
        for ax, name, label in ((left, "m", "overlap m"), (right, "theta", "overlap θ")):
            alphas, omegas, values = grid(e, lambda r, n=name: chosen(r, n))
            heatmap(ax, alphas, omegas, values, ColourScale(label, (0.0, float(np.nanmax(values)))))
            _lines(ax, e, ("alpha_c", "alpha_w"))
            ax.set_xlabel(ALPHA)
        left.set_ylabel(OMEGA)
    return drawing


def _critical_lines(e: Evidence) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.2)
        colours = {"alpha_c": NEUTRAL, "alpha_l": POSITIONAL, "alpha_w": SEMANTIC}
        for name, colour in colours.items():
            omegas, alphas = e.critical(name)
            inside = alphas < TALLEST
            if inside.any():
                theory_line(
                    ax, omegas[inside], alphas[inside], colour, f"$α_{name[-1]}$", LINES[name]
                )
        for (omega,), rows in e.part("Figure 3").groups("omega").items():
            found = pooled_crossing(rows, gap, crossing)
            if np.isfinite(found.value) and found.has_interval:
                errorbars(ax, [omega], [found], NEUTRAL)
        if e.is_published_model:
            published(ax, [0.3], [PUBLISHED["alpha_c"]], NEUTRAL)
            published(ax, [0.3], [PUBLISHED["alpha_l"]], POSITIONAL)
        ax.set_ylim(0, TALLEST)
        ax.set_xlabel(OMEGA)
        ax.set_ylabel("critical sample complexity α")
    return drawing
