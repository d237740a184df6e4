"""Perplexity, scores and gradients against the depth of the query, key and value maps."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    errorbars,
    house_style,
    panels,
)
from attnlab.studies.mini_gpt.evidence import Arms, geometric
from attnlab.studies.mini_gpt.figures import BARS
from attnlab.studies.mini_gpt.projection_depth import arm_name

INITIAL = (("torch", POSITIONAL, "torch's default"), ("preserving", SEMANTIC, "variance kept"))


def depth_figures(arms: Arms, depths: Sequence[int], seeds: int) -> list[Figure]:
    """One figure of three panels; left out when nothing ended."""
    ids = tuple(arms.ids(*arms.names()))
    if not ids:
        return []
    return [
        Figure(
            "depth",
            "Against depth: perplexity, scores, gradients",
            "Left: dev perplexity against hidden layers; dashed: the linear map; dotted: attention "
            "switched off. Middle: spread of the scores over the keys of a query at the start of "
            "training (filled) and at its end (hollow). Right: norm of the gradient that reaches "
            f"the query, key and value maps at the start. {BARS}{_lost(arms, depths, seeds)}",
            "Three panels against depth for two initialisations: perplexity, spread of scores, "
            "gradient norm.",
            lambda: _panels(arms, depths),
            ids,
        )
    ]


def _lost(arms: Arms, depths: Sequence[int], seeds: int) -> str:
    """Which points rest on fewer models than were started: those that diverged are not in them."""
    names = [arm_name(d, initial) for initial, *_ in INITIAL for d in sorted(depths)]
    ended = {name: len(arms.values(name, "dev_perplexity")) for name in names}
    lost = [f"{name}: {count} of {seeds}" for name, count in ended.items() if count < seeds]
    return f" Models that reached the end, where not all did: {'; '.join(lost)}." if lost else ""


def _points(ax: Axes, arms: Arms, depths: Sequence[int], metric: str, hollow: bool = False) -> None:
    for initial, colour, _ in INITIAL:
        pairs = [(d, arms.values(arm_name(d, initial), metric)) for d in sorted(depths)]
        pairs = [(d, [max(v, 1e-30) for v in found.values()]) for d, found in pairs if found]
        if not pairs:
            continue
        x = [d for d, _ in pairs]
        if hollow:
            middle = [geometric(v).value for _, v in pairs]
            ax.plot(x, middle, "o", color=colour, markerfacecolor="white", markersize=5)
        else:
            errorbars(ax, x, [geometric(v) for _, v in pairs], colour)


def _panels(arms: Arms, depths: Sequence[int]) -> Drawing:
    with house_style():
        drawing, (left, middle, right) = panels(1, 3, height=2.9)
        _points(left, arms, depths, "dev_perplexity")
        for arm, style, colour, above in (
            ("linear", "--", NEUTRAL, -9),
            ("attention off", ":", LINEAR, 6),
        ):
            value = arms.estimate(arm, "dev_perplexity").value
            if np.isfinite(value):
                left.axhline(value, linestyle=style, color=colour, linewidth=1.2)
                words = {"linear": "linear map"}.get(arm, arm)
                left.annotate(
                    words,
                    (1.0, value),
                    xycoords=("axes fraction", "data"),
                    ha="right",
                    xytext=(0, above),
                    textcoords="offset points",
                    fontsize=7.5,
                    color=colour,
                )
        left.set_ylabel("dev perplexity")
        for index, (_, colour, words) in enumerate(INITIAL):
            left.text(
                0.03,
                0.97 - 0.09 * index,
                words,
                color=colour,
                transform=left.transAxes,
                va="top",
                fontsize=8,
                fontweight="bold",
            )
        left.margins(y=0.35)
        _points(middle, arms, depths, "initial_score_spread")
        _points(middle, arms, depths, "score_spread", hollow=True)
        middle.set_ylabel("spread of scores over keys")
        middle.margins(y=0.12)
        middle.text(
            0.03,
            0.02,
            "● start   ○ end of training",
            transform=middle.transAxes,
            fontsize=7.5,
            color=NEUTRAL,
        )
        _points(right, arms, depths, "initial_gradient")
        right.set_ylabel("gradient of the maps at the start")
        for ax in (middle, right):
            ax.set_yscale("log")
        for ax in (left, middle, right):
            ax.set_xticks(sorted(depths) if len(depths) < 5 else [1, 10, 20, 30])
        drawing.supxlabel("hidden layers d of the query, key and value maps", fontsize=8.5)
    return drawing
