"""Figures: a pair token by token, a word merge by merge, bits against data, order and ids."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import Rectangle

from attnlab.lab.study import Figure
from attnlab.measure.intervals import Estimate
from attnlab.report.plots import Curve, Series, curve_plot, dot_plot, draw_dots, legend_above
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import NEUTRAL, PALETTE, errorbars, house_style, log_axis, panels
from attnlab.studies.concepts.study import TARGETS, Concepts, ConceptsSettings, Evidence

STARTS = {
    "continued": Series("pretrained on news", PALETTE[1]),
    "borrowed": Series("new weights, news tokenizer", PALETTE[2], "^"),
    "own": Series("new weights, own tokenizer", PALETTE[0], "s"),
}
IDS = [
    Series("own ids", PALETTE[0]),
    Series("ids of another tokenizer", PALETTE[0], hollow=True),
    Series("uniform guess", NEUTRAL, "D"),
]
SEGMENT_COLOURS = ("#CFE0F8", "#F6CBDD")
PADDING_COLOUR, TOKEN_COLOUR = "#E4E4E4", "#EFEFEF"
PER_LINE = 8  # tokens of a pair in one line of cells


def figures(study: Concepts, e: Evidence) -> list[Figure]:
    """Everything the report shows; a figure without trials is left out."""
    s = study.settings
    targets = [target for target in s.targets if e.rows(target)]
    pair, merges = e.document("pair", "pair.json"), e.document("merges", "merges.json")
    drawn: dict[str, Drawn] = {
        "pair": (lambda: _pair(pair), e.ids("pair") if pair else []),
        "merges": (lambda: _merges(merges["steps"]), e.ids("merges") if merges else []),
        "bits": (lambda: _bits(e, s, targets), e.ids(*TARGETS)),
        "units": (lambda: _units(e, s, targets), e.ids(*TARGETS)),
        "ids": (lambda: _ids(e, targets), e.ids(*targets, "ids")),
        "order": (lambda: _order(e), e.ids("order")),
    }
    return with_words(study, drawn, pair=pair, merges=merges)


def _cell(ax: Axes, x: float, y: float, width: float, text: str, colour: str) -> None:
    ax.add_patch(Rectangle((x, y), width - 0.06, 0.86, facecolor=colour, edgecolor="white"))
    ax.text(x + width / 2 - 0.03, y + 0.43, text, ha="center", va="center", fontsize=8)


def _hide_axes(ax: Axes, width: float, height: float) -> None:
    ax.set(xlim=(-0.1, width), ylim=(-height, 0.2))
    ax.grid(False)
    ax.set_axis_off()


def _pair(pair: dict[str, Any]) -> Drawing:
    lines = -(-len(pair["tokens"]) // PER_LINE)
    centred: Any = {"ha": "center", "va": "center", "fontsize": 8, "color": NEUTRAL}
    with house_style():
        drawing, (ax,) = panels(1, 1, height=0.75 * lines + 0.2)
        cells = zip(pair["tokens"], pair["ids"], pair["segments"], pair["mask"], strict=True)
        for place, (token, number, segment, mask) in enumerate(cells):
            line, column = divmod(place, PER_LINE)
            colour = SEGMENT_COLOURS[segment] if mask else PADDING_COLOUR
            _cell(ax, column, -2 * line - 1, 1, token, colour)
            ax.text(column + 0.47, -2 * line - 1.3, str(number), **centred)
        _hide_axes(ax, PER_LINE, 2 * lines)
    return drawing


def _merges(steps: list[Any]) -> Drawing:
    width = len(steps[0][1])
    with house_style():
        drawing, (ax,) = panels(1, 1, height=0.3 * len(steps) + 0.2)
        for line, (pair, tokens) in enumerate(steps):
            x = 0
            for token in tokens:
                merged = bool(pair) and token == pair[0] + pair[1]
                colour = SEGMENT_COLOURS[1] if merged else TOKEN_COLOUR
                _cell(ax, x, -line - 1, len(token), token, colour)
                x += len(token)
            text = f"{pair[0]} + {pair[1]}" if pair else "bytes"
            ax.text(width + 0.3, -line - 0.57, text, va="center", fontsize=8, color=NEUTRAL)
        _hide_axes(ax, width + 2.5, len(steps))
    return drawing


def _bits(e: Evidence, s: ConceptsSettings, targets: list[str]) -> Drawing:
    with house_style():
        drawing, axes = panels(1, len(targets), height=2.8)
        for ax, target in zip(axes, targets, strict=True):
            for shift, (start, series) in enumerate(STARTS.items()):
                estimates = [e.estimate(target, f"{start}_{size}_bits") for size in s.sizes]
                x = np.array(s.sizes) * 1.06 ** (shift - 1)  # side by side
                errorbars(ax, x, estimates, series.color, series.label, series.marker)
                ax.plot(x, [bits.value for bits in estimates], color=series.color, linewidth=0.8)
            log_axis(ax, "x", {size: f"{size / 1000:g} kB" for size in s.sizes})
            ax.set(title=e.label(target), xlabel="training text")
        axes[0].set_ylabel("test bits per byte")
        axes[-1].legend()
    return drawing


def _units(e: Evidence, s: ConceptsSettings, targets: list[str]) -> Drawing:
    series = {start: STARTS[start] for start in ("borrowed", "own")}
    units = {"perplexity": "perplexity per token", "bits": "bits per byte"}
    with house_style():
        drawing, axes = panels(1, 2, height=1.1 + 0.5 * len(targets))
        for ax, (unit, label) in zip(axes, units.items(), strict=True):
            lines = {
                e.label(target): [
                    e.estimate(target, f"{start}_{s.sizes[-1]}_{unit}") for start in series
                ]
                for target in targets
            }
            draw_dots(ax, lines, list(series.values()))
            ax.set_xlabel(label)
        axes[1].set_yticklabels([])
        legend_above(axes[0], list(series.values()))
    return drawing


def _ids(e: Evidence, targets: list[str]) -> Drawing:
    metrics = {f"our GPT, {e.label(t)}": (t, "own_right", "own_wrong") for t in targets}
    if rows := e.rows("ids"):
        metrics[str(rows[0]["reader"])] = ("ids", "own_perplexity", "foreign_perplexity")
    lines = {
        label: [e.geometric(arm, own), e.geometric(arm, other), Estimate(e.mean(arm, "vocabulary"))]
        for label, (arm, own, other) in metrics.items()
    }
    return dot_plot(lines, IDS, xlabel="perplexity per token", log=True)


def _order(e: Evidence) -> Drawing:
    curves = []
    for name, colour in (("shuffled", PALETTE[0]), ("sorted", PALETTE[2])):
        _, accuracy = e.curve("order", name, name)
        curves.append(Curve(name, colour, np.arange(1, len(accuracy) + 1), accuracy))
    return curve_plot(
        curves,
        xlabel="epochs",
        ylabel="test accuracy",
        limits=(0.0, 1.0),
        baseline=e.mean("order", "majority"),
        height=2.4,
    )
