"""Figures: likelihood against diversity, curves over T, k and p, every strategy, people."""

import math
from collections.abc import Sequence
from itertools import product

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import LogLocator, MaxNLocator

from attnlab.lab.study import Figure
from attnlab.measure.intervals import Estimate
from attnlab.report.labels import note
from attnlab.report.plots import Series, dot, name_lines
from attnlab.report.point_labels import PointLabel, place_labels
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import NEUTRAL, PALETTE, errorbars, house_style, log_axis, panels
from attnlab.studies.decoding.claims import curve_of
from attnlab.studies.decoding.evidence import TextArms
from attnlab.studies.decoding.strategies import GREEDY, KEYS, PEOPLE
from attnlab.studies.decoding.study import Decoding

ROW = 0.2  # inches per line of a dot plot
FAMILIES = {
    "temperature": Series("temperature T", PALETTE[0], "s"),
    "top-k": Series("top-k: k", PALETTE[1], "o"),
    "top-p": Series("top-p: p", PALETTE[2], "^"),
}
OTHER, HUMAN = Series("other", NEUTRAL, "D"), Series("people", "#1B7F3B", "*")
# title and unit of a measure in dot plots
DOTS = {
    "nll": ("perplexity", "of the model"),
    "repetition": ("repetition", "share of {n}-grams"),
    "self_bleu": ("self-BLEU", "one prompt's texts"),
    "across": ("distinct-2", "one text of\nevery prompt"),
    "prefix": ("as greedy", "share before the\nfirst difference"),
    "margin": ("similarity", "cosine above\nother prompts'"),
}
ON_CURVES = {
    "nll": "perplexity",
    "distinct_2": "distinct-2,\none prompt's texts",
    "repetition": "repetition\n(share of n-grams)",
    "prefix": "greedy's tokens before\nthe first difference",
}


def figures(study: Decoding, arms: TextArms) -> list[Figure]:
    """In the order of the report; a figure without trials is left out."""
    names = arms.names()
    if not names:
        return []
    alone = ("repetition", "self_bleu", "prefix", "margin")
    beside = ("nll", "repetition", "across", "margin")
    everyone, ids = [PEOPLE, *names], arms.ids(*names)
    with_people = arms.ids(*names, PEOPLE)
    people = with_people if arms.real() else []
    drawn: dict[str, Drawn] = {
        "plane": (lambda: _planes(arms, names), with_people),
        "curves": (lambda: _curves(arms), ids),
        "strategies": (lambda: _dots(arms, names, alone, real=False), ids),
        "people": (lambda: _dots(arms, everyone, beside, real=True), people),
    }
    return with_words(study, drawn, real=bool(arms.real()))


def _series(arms: TextArms, arm: str) -> Series:
    """Colour and marker: by the curve that a strategy lies on."""
    if arm == PEOPLE:
        return HUMAN
    family = next((name for name in KEYS if arm in arms.s.curve(name).values()), "")
    return FAMILIES.get(family, OTHER)


def _planes(arms: TextArms, names: Sequence[str]) -> Drawing:
    real = bool(arms.real())
    measure, over = ("across", "text of every prompt") if real else ("distinct_2", "prompt's texts")
    with house_style():
        drawing, (above, below) = panels(2, 1, height=3.1)
        labels_above = _draw_plane(above, arms, [*names, PEOPLE] if real else names, measure)
        labels_below = _draw_plane(below, arms, names, "self_bleu")
        above.set_ylabel(f"distinct-2, one {over}")
        below.set_ylabel("self-BLEU, one prompt's texts")
        log_axis(below, "y")  # most are far below a strategy that writes one text only
        if real:
            _draw_band(below, arms.shown(PEOPLE, "nll", real=True))
        place_labels(drawing, above, labels_above)
        place_labels(drawing, below, labels_below)
    return drawing


def _draw_band(ax: Axes, x: Estimate) -> None:
    """People's perplexity as a vertical band."""
    ax.axvspan(x.low, x.high, color=HUMAN.color, alpha=0.13, linewidth=0)
    ax.axvline(x.value, color=HUMAN.color, linewidth=1.0)
    at_top = ("data", "axes fraction")
    note(ax, HUMAN.label, (x.value, 1.0), HUMAN.color, xycoords=at_top, ha="center", va="bottom")


def _draw_plane(ax: Axes, arms: TextArms, names: Sequence[str], measure: str) -> list[PointLabel]:
    """A mark for every strategy, and lines through those that differ in one value."""
    real = bool(arms.real())
    points = {
        arm: (arms.shown(arm, "nll", real=real), arms.estimate(arm, measure, real=real))
        for arm in names
    }
    for name, family in FAMILIES.items():
        line = [points[arm] for arm in curve_of(arms.s, name).values() if arm in points]
        xs, ys = [x.value for x, _ in line], [y.value for _, y in line]
        ax.plot(xs, ys, color=family.color, linewidth=0.9, alpha=0.6, zorder=1)
    labels = []
    for arm, (x, y) in points.items():
        series = _series(arms, arm)
        dot(ax, y.value, x, series)
        if y.has_interval:
            ends = [x.value, x.value], [y.low, y.high]
            ax.plot(*ends, color=series.color, linewidth=0.8, alpha=0.7)
        labels.append(PointLabel(x, y, arms.label(arm), series.color))
    log_axis(ax, "x")
    ax.set_xlabel("perplexity of the model")
    ax.margins(0.08)
    return labels


def _curves(arms: TextArms) -> Drawing:
    rows, columns = len(ON_CURVES), len(FAMILIES)
    with house_style():  # the same scales for what is compared
        drawing, axes = panels(rows, columns, height=1.55, share_x="col", share_y="row")
        for ax, (measure, name) in zip(axes, product(ON_CURVES, FAMILIES), strict=True):
            _draw_curve(ax, arms, name, measure)
        for ax, words in zip(axes[::columns], ON_CURVES.values(), strict=True):
            ax.set_ylabel(words)
        for ax, family in zip(axes[-columns:], FAMILIES.values(), strict=True):
            ax.set_xlabel(family.label)
    return drawing


def _draw_curve(ax: Axes, arms: TextArms, name: str, measure: str) -> None:
    """One measure along T, k or p."""
    curve = curve_of(arms.s, name)
    last = 4 * max(filter(math.isfinite, curve))  # the place of the whole vocabulary
    places = {min(value, last): arm for value, arm in curve.items() if arms.rows(arm)}
    if measure == "distinct_2":  # greedy writes one text: its copies would flatten the others
        places = {x: arm for x, arm in places.items() if arm != GREEDY}
    xs, estimates = list(places), [arms.shown(arm, measure) for arm in places.values()]
    series = FAMILIES[name]
    ax.plot(xs, [e.value for e in estimates], color=series.color, linewidth=1.0, alpha=0.6)
    errorbars(ax, xs, estimates, series.color, marker=series.marker)
    if measure == "nll":
        log_axis(ax, "y")
    if name == "top-k":
        log_axis(ax, "x", {x: "all" if x == last else f"{x:g}" for x in xs})


def _dots(arms: TextArms, names: Sequence[str], measures: Sequence[str], real: bool) -> Drawing:
    """One line per strategy and one panel per measure; people's interval is a band."""
    with house_style():
        drawing, axes = panels(1, len(measures), height=1.0 + ROW * len(names), share_y=True)
        for ax, measure in zip(axes, measures, strict=True):
            title, unit = DOTS[measure]
            column = f"margin_{arms.judge}" if measure == "margin" else measure
            for line, arm in enumerate(names):
                e = arms.shown(arm, column, real=real)
                dot(ax, line, e, _series(arms, arm))
                if arm == PEOPLE:
                    ax.axvspan(e.low, e.high, color=HUMAN.color, alpha=0.13, linewidth=0)
            name_lines(ax, [arms.label(arm) for arm in names], room=0.6)
            ax.set(title=title, xlabel=unit.format(n=arms.s.repeat))
            log = measure in ("nll", "self_bleu")  # values of very different sizes
            if log:
                log_axis(ax, "x")
            ax.xaxis.set_major_locator(LogLocator(subs=(1.0,)) if log else MaxNLocator(3))
    return drawing
