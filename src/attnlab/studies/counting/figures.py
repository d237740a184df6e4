"""Pictures: attention maps of the same rows, accuracy by part of the scores, learning curves."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure as Drawing

from attnlab.lab.arms import Arms
from attnlab.lab.study import Figure
from attnlab.report.plots import Curve, Series, curve_plot, dot_plot
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import (
    NEUTRAL,
    PALETTE,
    ColourScale,
    colour_bar,
    heatmap,
    house_style,
    panels,
)
from attnlab.studies.counting.study import PHASES, Counting, majority, phases_of

COLOURS = dict(zip(Counting.arms, (*PALETTE[:3], NEUTRAL), strict=True))
PARTS = {
    "accuracy": Series("all scores", NEUTRAL, "D"),
    "by_places": Series("scores of positions alone", PALETTE[0], "s"),
    "by_tokens": Series("scores of tokens alone", PALETTE[1], "o"),
}
SHARE = (0.0, 1.0)


def figures(study: Counting, arms: Arms) -> list[Figure]:
    """Everything the report shows; a figure without trials is left out."""
    trained = [arm for arm in arms.names() if arm != "off"]
    looking = [arm for arm in trained if "first_maps" in arms.rows(arm)[0].arrays]
    drawn: dict[str, Drawn] = {
        "maps": (lambda: _maps(arms, looking), arms.ids(*looking) if looking else []),
        "parts": (lambda: _parts(arms), arms.ids()),
        "learning": (lambda: _learning(arms), arms.ids()),
    }
    return with_words(study, drawn)


def _learning(arms: Arms) -> Drawing:
    curves = [
        Curve(arms.label(arm), COLOURS[arm], *arms.curve(arm, "step", "accuracy"))
        for arm in arms.names()
    ]
    return curve_plot(
        curves,
        xlabel="training step",
        ylabel="test accuracy",
        limits=SHARE,
        baseline=majority(arms),
    )


def _maps(arms: Arms, names: Sequence[str]) -> Drawing:
    arrays = {arm: arms.rows(arm)[0].arrays for arm in names}  # of the first seed
    shown = len(next(iter(arrays.values()))["first_maps"])
    largest = max(a[name].max() for a in arrays.values() for name in ("first_maps", "first_mean"))
    scale = ColourScale("attention weight", (0.0, float(largest)))
    with house_style():
        drawing, axes = panels(len(names), shown + 1, height=2.15)
        mesh = None
        for line, arm in enumerate(names):
            row = axes[line * (shown + 1) : (line + 1) * (shown + 1)]
            kept = arrays[arm]
            for ax, weights, tokens in zip(row, kept["first_maps"], kept["tokens"], strict=False):
                mesh = _map(ax, weights, [_letter(token) for token in tokens.tolist()], scale)
            mesh = _map(row[-1], kept["first_mean"], [""] * len(kept["first_mean"]), scale)
            row[0].set_ylabel(arms.label(arm), color=COLOURS[arm])
        for number, ax in enumerate(axes[-shown - 1 : -1], start=1):
            ax.set_xlabel(f"test row {number}")
        axes[-1].set_xlabel("mean over test rows")
        if mesh is not None:
            colour_bar(axes, mesh, scale)
    return drawing


def _map(ax: Axes, weights: np.ndarray, labels: list[str], scale: ColourScale) -> QuadMesh:
    ticks = np.arange(len(weights))
    mesh = heatmap(ax, ticks, ticks, weights, scale, bar=False)
    ax.invert_yaxis()
    ax.set_aspect("equal")
    ax.set_xticks(ticks, labels)
    ax.set_yticks(ticks, labels)
    ax.tick_params(length=0)
    return mesh


def _letter(token: int) -> str:
    return chr(ord("a") + token) if token < 26 else str(token)


def _parts(arms: Arms) -> Drawing:
    pairs = [(arm, phase) for arm in arms.names() for phase in phases_of(arms, arm)]
    lines = {
        arms.label(arm) + (f", {PHASES[phase]}" if len(phases_of(arms, arm)) > 1 else ""): [
            arms.estimate(arm, f"{phase}_{part}") if arm != "off" or part == "accuracy" else None
            for part in PARTS
        ]
        for arm, phase in pairs
    }
    series = list(PARTS.values())
    return dot_plot(lines, series, xlabel="test accuracy", limits=SHARE, baseline=majority(arms))
