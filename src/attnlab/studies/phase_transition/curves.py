"""Figure 2 of the paper: both solutions against α, in training loss and in test error."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.report.labels import note
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    errorbars,
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
)

COLOURS = {"semantic": SEMANTIC, "positional": POSITIONAL}


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
        drawing.supxlabel("sample complexity α = N/D", fontsize=8.5)
    return drawing


def _points(ax: Axes, e: Evidence, value: Value, colour: str) -> None:
    estimates = over_instances(e.part("Figure 2"), value, "alpha")
    errorbars(ax, list(estimates), list(estimates.values()), colour)


def _difference_panel(ax: Axes, e: Evidence, error: str) -> None:
    semantic, positional = e.theory("semantic"), e.theory("positional")
    both = [a for a in semantic.alpha if a in set(positional.alpha)]
    ax.axhline(0, color=NEUTRAL, linewidth=0.8)
    gaps = [positional.at(a, error) - semantic.at(a, error) for a in both]
    theory_line(ax, both, gaps, NEUTRAL)
    _points(ax, e, lambda r: gap(r, error), NEUTRAL)


def mark_critical(ax: Axes, e: Evidence, name: str) -> None:
    """The theory's critical point as a dotted line, the published one hollow."""
    value = e.critical_at(name).value
    if np.isfinite(value):
        ax.axvline(value, color=NEUTRAL, linestyle=":", linewidth=1.2)
        words, beside = f"$α_{name[-1]}$ = {value:.3f}", ("data", "axes fraction")
        note(ax, words, (value, 0.93), shift=(-4, 0), xycoords=beside, ha="right")
    if e.is_published_model:
        published(ax, [PUBLISHED[name]], [0.0])


def write(ax: Axes, x: float, y: float, text: str, colour: str) -> None:
    """Words at a place of the panel (0 to 1), in the colour of what they name."""
    side = "left" if x < 0.5 else "right"
    note(ax, text, (x, y), colour, xycoords="axes fraction", va="top", ha=side)


def _overlap_panel(ax: Axes, e: Evidence) -> None:
    for name, overlap in OVERLAPS.items():
        branch = e.theory(name)
        if branch.alpha.size:
            theory_line(ax, branch.alpha, branch.columns[overlap], COLOURS[name])
        _points(ax, e, lambda r, n=name, o=overlap: r[f"{n}_{o}"], COLOURS[name])
    ax.set_ylabel("overlap with its start's direction")
    ax.set_ylim(bottom=0)
    write(ax, 0.97, 0.69, "m (positional)", POSITIONAL)
    write(ax, 0.97, 0.11, "θ (semantic)", SEMANTIC)


def _excess_panel(ax: Axes, e: Evidence) -> None:
    ax.axhline(0, color=LINEAR, linewidth=1.2)
    for name, colour in COLOURS.items():
        branch = e.theory(name)
        if branch.alpha.size:
            excess = branch.columns["test_error"] - e.linear_test_error
            theory_line(ax, branch.alpha, excess, colour)
        _points(ax, e, lambda r, n=name: r[f"{n}_test_error"] - r["linear_test_error"], colour)
    ax.set_ylabel("$ε_g$ − $ε_g$ of the linear baseline")
    mark_critical(ax, e, "alpha_l")


def _error_panel(ax: Axes, e: Evidence, error: str) -> None:
    """Both solutions and the linear baseline; in training a random start too."""
    train, x = error == "train_error", 0.03 if error == "train_error" else 0.97
    shown = {**COLOURS, "linear": LINEAR, **({"random": NEUTRAL} if train else {})}
    for line, (name, colour) in enumerate(shown.items()):
        branch = e.theory(name) if name in COLOURS else None
        if branch is not None and branch.alpha.size:
            theory_line(ax, branch.alpha, branch.columns[error], colour)
        _points(ax, e, lambda r, n=name: r[f"{n}_{error}"], colour)
        write(ax, x, 0.98 - 0.08 * line, "random start" if name == "random" else name, colour)
    for row in e.table.where(kind="curve").rows[:1]:  # for D → ∞ its training loss is α times ε_g
        alphas = np.array([0.0, max(row.curves["alpha"])])
        level = e.linear_test_error * (alphas if train else np.ones(2))
        theory_line(ax, alphas, level, LINEAR)
