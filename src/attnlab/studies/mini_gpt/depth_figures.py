"""Figures of projection-depth: the maps as a drawing, and everything against their depth."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.measure.ratios import geometric_mean
from attnlab.report.plots import Series
from attnlab.report.prose import Drawn
from attnlab.report.style import NEUTRAL, PALETTE, errorbars, house_style, panels
from attnlab.studies.mini_gpt.figures import with_first
from attnlab.studies.mini_gpt.projection_depth import ProjectionDepth, arm_name
from attnlab.studies.mini_gpt.study import GPTArms

INITIAL = {
    "torch": Series("PyTorch's default", PALETTE[0], "s"),
    "preserving": Series("variance kept", PALETTE[1], "o"),
}
Depths = Mapping[str, Sequence[int]]  # initialisation -> depths


def figures(study: ProjectionDepth, arms: GPTArms) -> list[Figure]:
    """First what the maps are, and everything against depth."""
    first: dict[str, Drawn] = {
        "maps": (draw_maps, arms.ids()),
        "depth": (partial(_depth, arms, study.by_initial()), arms.ids()),
    }
    return with_first(study, arms, first, fewer=_missing_models(study, arms))


def draw_maps() -> Drawing:
    """Three networks from x to q, k and v, and what attention does with them."""
    with house_style():
        drawing, (ax,) = panels(1, 1, height=1.9)
        ax.set(xlim=(0, 10.6), ylim=(-0.9, 2.5))
        ax.set_axis_off()
        _box(ax, (0.4, 1), "x")
        for row, name in enumerate("vkq"):
            chain = [(1.9, "linear"), (3.2, "ReLU"), (4.8, "linear"), (6.1, "ReLU")]
            places = [(0.4, 1), *((x, row) for x, _ in chain), (7.4, row), (8.6, row)]
            for start, end in pairwise(places):
                _arrow(ax, start, end)
            for x, text in chain:
                _box(ax, (x, row), text, PALETTE[0] if text == "linear" else NEUTRAL)
            ax.text(4.0, row, "…", ha="center", va="center", backgroundcolor="white")
            _box(ax, (7.4, row), "linear", PALETTE[0])
            _box(ax, (8.6, row), name)
            _arrow(ax, (8.6, row), (9.9, 1))
        _box(ax, (9.9, 1), "softmax(qkᵀ/√w) v")
        ax.annotate("", (1.4, -0.55), (6.6, -0.55), arrowprops={"arrowstyle": "|-|", "lw": 1})
        ax.text(4.0, -0.62, "d hidden layers, as wide as x", ha="center", va="top", fontsize=8)
    return drawing


def _box(ax: Axes, at: tuple[float, float], text: str, colour: str = "black") -> None:
    frame = {"boxstyle": "round,pad=0.35", "facecolor": "white", "edgecolor": colour}
    ax.text(*at, text, ha="center", va="center", fontsize=8, bbox=frame, zorder=3)


def _arrow(ax: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    look = {"arrowstyle": "-|>", "color": NEUTRAL, "lw": 1, "shrinkA": 12, "shrinkB": 16}
    ax.annotate("", end, start, arrowprops=look)


def _missing_models(study: ProjectionDepth, arms: GPTArms) -> list[str]:
    """Arms that rest on fewer models than were started, for some diverged: `linear: 2 of 3`."""
    seeds, names = study.settings.seeds, study.chosen_arms()
    ended = {arm: len(arms.values(arm, "dev_perplexity")) for arm in names}
    return [f"{arm}: {count} of {seeds}" for arm, count in ended.items() if count < seeds]


def _depth(arms: GPTArms, depths: Depths) -> Drawing:
    with house_style():
        drawing, axes = panels(2, 2, height=2.6)
        perplexity, loss, spread, gradient = axes
        _against_depth(perplexity, arms, depths, "dev_perplexity")
        _against_depth(perplexity, arms, depths, "test_perplexity", hollow=True)
        _against_depth(loss, arms, depths, "last_loss")
        _against_depth(loss, arms, depths, "last_batch_loss", hollow=True)
        for ax, metric in ((perplexity, "dev_perplexity"), (loss, "last_loss")):
            for arm, style in (("linear", "--"), ("attention off", ":")):
                value = arms.geometric(arm, metric).value
                if np.isfinite(value):
                    ax.axhline(value, linestyle=style, color=NEUTRAL, linewidth=1.2)
        perplexity.legend(loc="upper left", fontsize=7.5)
        perplexity.margins(y=0.35)
        _against_depth(spread, arms, depths, "initial_score_spread")
        _against_depth(spread, arms, depths, "score_spread", hollow=True)
        _against_depth(gradient, arms, depths, "initial_gradient")
        for ax in (spread, gradient):
            ax.set_yscale("log")
        labels = (
            "perplexity",
            "last training loss (nats)",
            "spread of scores over keys",
            "gradient of the maps at the start",
        )
        ticks = sorted({*depths["torch"], *depths["preserving"]})
        for ax, label in zip(axes, labels, strict=True):
            ax.set_ylabel(label)
            ax.set_xticks(ticks if len(ticks) < 5 else [1, 10, 20, 30])
        drawing.supxlabel("hidden layers d of the query, key and value maps", fontsize=8.5)
    return drawing


def _against_depth(
    ax: Axes, arms: GPTArms, depths: Depths, metric: str, hollow: bool = False
) -> None:
    """Geometric means over seeds for both initialisations; the smallest that is shown is 1e-30."""
    for initial, kind in INITIAL.items():
        values = {depth: arms.values(arm_name(depth, initial), metric) for depth in depths[initial]}
        means = {
            depth: geometric_mean([max(value, 1e-30) for value in by_seed.values()])
            for depth, by_seed in values.items()
            if by_seed
        }
        if hollow:
            points = [mean.value for mean in means.values()]
            ax.plot(list(means), points, kind.marker, color=kind.color, mfc="white", markersize=5)
        elif means:
            errorbars(ax, list(means), list(means.values()), kind.color, kind.label, kind.marker)
