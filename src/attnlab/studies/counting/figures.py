"""Pictures: attention maps of the same rows, accuracy by part of the scores, learning curves."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.measure.intervals import Estimate, mean_interval
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    ColourScale,
    colour_bar,
    direct_label,
    heatmap,
    house_style,
    panels,
)
from attnlab.studies.counting.evidence import LABELS, PHASES, Starts

COLOURS = {"positional": POSITIONAL, "semantic": SEMANTIC, "free": LINEAR, "off": NEUTRAL}
PARTS = {  # metric -> words, colour, marker, place on the line
    "accuracy": ("all scores", NEUTRAL, "D", -0.2),
    "by_places": ("scores of places alone", POSITIONAL, "s", 0.0),
    "by_tokens": ("scores of tokens alone", SEMANTIC, "o", 0.2),
}
LETTERS = "abcdefghijklmnopqrstuvwxyz"
ROW = 0.42  # inches a line of a dot plot


def figures(starts: Starts) -> list[Figure]:
    """Everything the report shows; a figure without trials is left out."""
    names = starts.names()
    found = []
    looking = [arm for arm in names if arm != "off" and "first_maps" in _first(starts, arm)]
    if looking:
        found.append(
            Figure(
                "maps",
                "The same rows, counted in two ways",
                "Weights from the token of a line to the token of a column, as trained, first seed. "
                "Start by places: the map is the same whatever stands there, and a place's own weight "
                "differs from the rest. Start by tokens: equal tokens look at each other (or away "
                "from each other), wherever they stand. A free start may do both at once. Right: the "
                "mean over all test rows.",
                "A grid of attention maps: one line a start, two rows of letters and the mean map.",
                lambda: _maps(starts, looking),
                tuple(starts.ids(*looking)),
            )
        )
    if names:
        ids = tuple(starts.ids(*names))
        found.append(
            Figure(
                "parts",
                "What the scores are made of",
                "Test accuracy with all scores (diamonds), and where the scores are cut to their part "
                "of places (squares) or of tokens (circles); means over seeds with 95 % t intervals. "
                "Dotted: always the most frequent answer. A solution of one kind loses nothing when "
                "its scores are cut to that kind.",
                "A dot plot: for every start and way of training on, three accuracies.",
                lambda: _parts(starts),
                ids,
            )
        )
        found.append(
            Figure(
                "learning",
                "Accuracy while a start is trained",
                "On test rows, mean over seeds with its 95 % t interval; nothing is chosen by it. "
                "Dotted: always the most frequent answer.",
                "A curve of accuracy against training steps for each start.",
                lambda: _learning(starts),
                ids,
            )
        )
    return found


def _first(starts: Starts, arm: str) -> dict[str, np.ndarray]:
    return dict(starts.rows(arm)[0].arrays)


def _maps(starts: Starts, names: Sequence[str]) -> Drawing:
    held = {arm: _first(starts, arm) for arm in names}
    shown = len(next(iter(held.values()))["first_maps"])
    every = [a[name] for a in held.values() for name in ("first_maps", "first_mean")]
    scale = ColourScale("attention weight", (0.0, max(float(a.max()) for a in every)))
    with house_style():
        drawing, axes = panels(len(names), shown + 1, height=2.15)
        mesh = None
        for line, arm in enumerate(names):
            arrays = held[arm]
            here = axes[line * (shown + 1) : (line + 1) * (shown + 1)]
            for ax, weights, tokens in zip(
                here, arrays["first_maps"], arrays["tokens"], strict=False
            ):
                mesh = _map(ax, weights, [_letter(t) for t in tokens.tolist()], scale)
            mesh = _map(here[-1], arrays["first_mean"], [""] * len(arrays["first_mean"]), scale)
            here[0].set_ylabel(LABELS[arm], color=COLOURS[arm])
            if line == len(names) - 1:
                for number, ax in enumerate(here[:-1], start=1):
                    ax.set_xlabel(f"test row {number}")
                here[-1].set_xlabel("mean over test rows")
        if mesh is not None:
            colour_bar(axes, mesh, scale)
    return drawing


def _map(ax: Axes, weights: np.ndarray, labels: list[str], scale: ColourScale) -> QuadMesh:
    at = np.arange(len(weights))
    mesh = heatmap(ax, at, at, weights, scale, bar=False)
    ax.invert_yaxis()
    ax.set_aspect("equal")
    ax.set_xticks(at, labels)
    ax.set_yticks(at, labels)
    ax.tick_params(length=0)
    return mesh


def _letter(token: int) -> str:
    return LETTERS[token] if token < len(LETTERS) else str(token)


def _parts(starts: Starts) -> Drawing:
    lines = [(arm, phase) for arm in starts.names() if arm != "off" for phase in starts.phases(arm)]
    lines += [("off", "first")] if starts.phases("off") else []
    with house_style():
        drawing, (ax,) = panels(1, 1, height=1.2 + ROW * len(lines))
        for line, (arm, phase) in enumerate(lines):
            for metric, (_, colour, marker, shift) in PARTS.items():
                if arm != "off" or metric == "accuracy":
                    found = starts.estimate(arm, f"{phase}_{metric}")
                    _dot(ax, line + shift, found, colour, marker)
        ax.axvline(starts.majority(), color=NEUTRAL, linestyle=":", linewidth=1.0, zorder=0)
        for words, colour, marker, _ in PARTS.values():
            ax.plot([], [], marker, color=colour, label=words)
        ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=len(PARTS))
        ax.set_yticks(
            range(len(lines)),
            [
                LABELS[arm] + (f", {PHASES[phase]}" if len(starts.phases(arm)) > 1 else "")
                for arm, phase in lines
            ],
        )
        ax.set_ylim(len(lines) - 0.5, -0.5)
        ax.set_xlim(0, 1.04)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel("test accuracy")
    return drawing


def _dot(ax: Axes, at: float, found: Estimate, colour: str, marker: str) -> None:
    if not np.isfinite(found.value):
        return
    if found.has_interval:
        ends = np.clip([found.low, found.high], 0, 1)
        ax.plot(ends, [at, at], color=colour, linewidth=1.2, zorder=2)
    ax.plot(found.value, at, marker, color=colour, markersize=5, zorder=3)


def _learning(starts: Starts) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.0)
        last = 0.0
        for arm in starts.names():
            rows = [row for row in starts.rows(arm) if row.curves.get("step")]
            if not rows:
                continue
            steps = np.array(rows[0].curves["step"])
            found = [mean_interval(c) for c in np.array([r.curves["accuracy"] for r in rows]).T]
            values, low, high = (
                np.array([getattr(e, end) for e in found]) for end in ("value", "low", "high")
            )
            ax.plot(steps, values, color=COLOURS[arm])
            ax.fill_between(
                steps,
                np.clip(low, 0, 1),
                np.clip(high, 0, 1),
                color=COLOURS[arm],
                alpha=0.15,
                linewidth=0,
            )
            direct_label(ax, steps, values, LABELS[arm], COLOURS[arm])
            last = max(last, float(steps[-1]))
        ax.axhline(starts.majority(), color=NEUTRAL, linestyle=":", linewidth=1.0)
        ax.set_xlim(0, 1.25 * last if last else 1)
        ax.set_xticks([t for t in ax.get_xticks() if t <= last])
        ax.set_ylim(0, 1.04)
        ax.set_xlabel("training step")
        ax.set_ylabel("test accuracy")
    return drawing
