"""Figures: likelihood against diversity, curves over T, k and p, every strategy, people."""

import math
from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import LogLocator, MaxNLocator

from attnlab.lab.study import Figure
from attnlab.measure.intervals import Estimate
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    errorbars,
    house_style,
    log_axis,
    panels,
)
from attnlab.studies.decoding.claims import curve, nearness
from attnlab.studies.decoding.evidence import GREEDY, PEOPLE, Evidence
from attnlab.studies.decoding.labels import label
from attnlab.studies.decoding.placing import Name, place

BARS = "Bars: 95 %, prompts drawn again."
ROW = 0.2  # inches a line of a dot plot
COLOURS = {"temperature": POSITIONAL, "top-k": SEMANTIC, "top-p": LINEAR}
MARKERS = {"temperature": "s", "top-k": "o", "top-p": "^"}
AXES = {"temperature": "temperature T", "top-k": "top-k: k", "top-p": "top-p: p"}
HUMAN = "#1B7F3B"
NEARNESS = "cosine above\nother prompts'"
ON_CURVES = (
    ("nll", "perplexity"),
    ("distinct_2", "distinct-2,\none prompt's texts"),
    ("repetition", "repetition\n(share of n-grams)"),
    ("prefix", "greedy's tokens before\nthe first difference"),
)


def figures(e: Evidence) -> list[Figure]:
    """In the order of the report; a figure without trials is left out."""
    names = e.names()
    if not names:
        return []
    found = [
        Figure(
            "plane",
            "Likely against diverse",
            f"{_whose(e)} Above: distinct-2 over one text of every prompt. Below: self-BLEU of the "
            "texts of one prompt, 1 where all are the same; people wrote one text a prompt, so only "
            "their perplexity is known there (band). A good strategy lies where people lie, not as far "
            f"left as possible. {BARS} (Above, upright: jackknife over prompts.)",
            "Two planes: perplexity against distinct-2 and against self-BLEU, one mark a strategy.",
            lambda: _plane(e, names),
            tuple(e.ids(*names, PEOPLE)),
        ),
        Figure(
            "curves",
            "Temperature, top-k, top-p",
            "All prompts. Left end of a curve: greedy (T = 0, k = 1, p = 0), but not for distinct-2, "
            "where it has one text only; plain sampling is T = 1, p = 1 and the right end of k (the "
            f"whole vocabulary). {BARS}",
            "Twelve panels: perplexity, distinct-2, repetition and agreement with greedy over T, k, p.",
            lambda: _curves(e),
            tuple(e.ids(*names)),
        ),
        Figure(
            "strategies",
            "Every strategy",
            "All prompts. Repetition within a text; self-BLEU of one prompt's texts; share of tokens "
            "as in the greedy text before the first difference; nearness to the prompt: cosine with it "
            f"above the mean over other prompts (0: a shuffled prompt). {BARS}",
            "Four dot plots with one line a strategy: repetition, self-BLEU, agreement, nearness.",
            lambda: _strategies(e, names),
            tuple(e.ids(*names)),
        ),
    ]
    if e.real():
        found.append(
            Figure(
                "people",
                "Beside people",
                "Only prompts that people went on from. Green: people's own continuations, and their "
                f"interval as a band through every strategy. {BARS} (Distinct-2: jackknife.)",
                "Four dot plots with people's texts in the first line and the strategies below.",
                lambda: _people(e, names),
                tuple(e.ids(*names, PEOPLE)),
            )
        )
    return found


def _whose(e: Evidence) -> str:
    return (
        "Only prompts that people went on from." if e.real() else "All prompts; no people's texts."
    )


def _plane(e: Evidence, names: Sequence[str]) -> Drawing:
    real = bool(e.real())
    with house_style():
        drawing, (above, below) = panels(2, 1, height=3.1)
        over = "one text of every prompt" if real else "one prompt's texts"
        above.set_ylabel(f"distinct-2, {over}")
        below.set_ylabel("self-BLEU, one prompt's texts")
        written = {}
        for ax, measure in ((above, "across" if real else "distinct_2"), (below, "self_bleu")):
            written[ax] = _strategies_on(ax, e, names, measure, real)
            log_axis(ax, "x")
            ax.set_xlabel("perplexity under the model")
            ax.margins(0.08)
        log_axis(below, "y")  # most are far below a strategy that writes one text only
        if real:
            written[above].append(_people_on(e, above, below))
        for ax, found in written.items():
            place(drawing, ax, found)
    return drawing


def _people_on(e: Evidence, above: Axes, below: Axes) -> Name:
    x, y = e.perplexity(PEOPLE, real=True), e.estimate(PEOPLE, "across")
    _point(above, x, y, HUMAN, "*")
    below.axvspan(x.low, x.high, color=HUMAN, alpha=0.13, linewidth=0)
    below.axvline(x.value, color=HUMAN, linewidth=1.0)
    below.annotate(
        "people",
        (x.value, 1.0),
        xycoords=("data", "axes fraction"),
        color=HUMAN,
        fontsize=8,
        ha="center",
        va="bottom",
    )
    return Name(x, y, "people", HUMAN)


def _strategies_on(
    ax: Axes, e: Evidence, names: Sequence[str], measure: str, real: bool
) -> list[Name]:
    """Curves through the strategies that differ in one value, and a mark for each."""
    where = {
        arm: (e.perplexity(arm, real=real), e.estimate(arm, measure, real=real)) for arm in names
    }
    for name, colour in COLOURS.items():
        line = [where[arm] for arm in curve(e.s, name).values() if arm in where]
        ax.plot(
            [x.value for x, _ in line],
            [y.value for _, y in line],
            color=colour,
            linewidth=0.9,
            alpha=0.6,
            zorder=1,
        )
    for arm, (x, y) in where.items():
        _point(ax, x, y, _colour(e, arm), _marker(e, arm))
    return [Name(x, y, label(arm), _colour(e, arm)) for arm, (x, y) in where.items()]


def _point(ax: Axes, x: Estimate, y: Estimate, colour: str, marker: str) -> None:
    """A mark with both intervals."""
    ax.plot([x.low, x.high], [y.value, y.value], color=colour, linewidth=0.8, alpha=0.7)
    ax.plot([x.value, x.value], [y.low, y.high], color=colour, linewidth=0.8, alpha=0.7)
    ax.plot(
        x.value,
        y.value,
        marker,
        color=colour,
        markersize=9 if marker == "*" else 4.5,
        markeredgecolor="white",
        markeredgewidth=0.5,
        zorder=3,
    )


def _curves(e: Evidence) -> Drawing:
    with house_style():
        drawing, axes = panels(len(ON_CURVES), len(COLOURS), height=1.55)
        for row, (measure, words) in enumerate(ON_CURVES):
            line = axes[row * len(COLOURS) : (row + 1) * len(COLOURS)]
            for ax, name in zip(line, COLOURS, strict=True):
                _curve(ax, e, name, measure)
                if row == len(ON_CURVES) - 1:
                    ax.set_xlabel(AXES[name])
            line[0].set_ylabel(words)
            low, high = (f(ax.get_ylim()[i] for ax in line) for i, f in enumerate((min, max)))
            for ax in line:  # the same scale for what is compared
                ax.set_ylim(low, high)
                ax.tick_params(labelleft=ax is line[0])
        for column in range(len(COLOURS)):
            same = axes[column :: len(COLOURS)]
            ends = [f(ax.get_xlim()[i] for ax in same) for i, f in enumerate((min, max))]
            for ax in same:
                ax.set_xlim(*ends)
    return drawing


def _curve(ax: Axes, e: Evidence, name: str, measure: str) -> None:
    arms = {value: arm for value, arm in curve(e.s, name).items() if e.rows(arm)}
    if measure == "distinct_2":  # greedy writes one text: its copies would flatten the others
        arms = {value: arm for value, arm in arms.items() if arm != GREEDY}
    found = [
        e.perplexity(arm) if measure == "nll" else e.estimate(arm, measure) for arm in arms.values()
    ]
    inner = [value for value in arms if math.isfinite(value)]
    beyond = (max(inner, default=1.0)) * (4 if len(inner) > 1 else 8)  # all of the vocabulary
    places = [value if math.isfinite(value) else beyond for value in arms]
    ax.plot(places, [d.value for d in found], color=COLOURS[name], linewidth=1.0, alpha=0.6)
    errorbars(ax, places, found, COLOURS[name], marker=MARKERS[name])
    if measure == "nll":
        log_axis(ax, "y")
    if name == "top-k":
        log_axis(ax, "x")
        ax.set_xticks(places, ["all" if p == beyond else f"{p:g}" for p in places])
        ax.minorticks_off()


def _strategies(e: Evidence, names: Sequence[str]) -> Drawing:
    near = nearness(e.s)
    columns = (
        ("repetition", "repetition", f"share of {e.s.repeat}-grams"),
        ("self_bleu", "self-BLEU", "one prompt's texts"),
        ("prefix", "as greedy", "share before the\nfirst difference"),
        (f"margin_{near}", "nearness", NEARNESS),
    )
    with house_style():
        drawing, axes = panels(1, len(columns), height=1.0 + ROW * len(names), share_y=True)
        for ax, (measure, title, unit) in zip(axes, columns, strict=True):
            for line, arm in enumerate(names):
                _dot(ax, e.estimate(arm, measure), line, _colour(e, arm), _marker(e, arm))
            log = measure == "self_bleu"  # 1 where nothing is drawn, far below elsewhere
            _rows(ax, [label(arm) for arm in names], title, unit, log)
    return drawing


def _people(e: Evidence, names: Sequence[str]) -> Drawing:
    near = nearness(e.s)
    columns = (
        ("nll", "perplexity", "under the model"),
        ("repetition", "repetition", f"share of {e.s.repeat}-grams"),
        ("across", "distinct-2", "one text of\nevery prompt"),
        (f"margin_{near}", "nearness", NEARNESS),
    )
    with house_style():
        lines = [PEOPLE, *names]
        drawing, axes = panels(1, len(columns), height=1.0 + ROW * len(lines), share_y=True)
        for ax, (measure, title, unit) in zip(axes, columns, strict=True):
            found = [
                e.perplexity(arm, real=True)
                if measure == "nll"
                else e.estimate(arm, measure, real=True)
                for arm in lines
            ]
            ax.axvspan(found[0].low, found[0].high, color=HUMAN, alpha=0.13, linewidth=0)
            for line, (arm, d) in enumerate(zip(lines, found, strict=True)):
                people = arm == PEOPLE
                _dot(
                    ax,
                    d,
                    line,
                    HUMAN if people else _colour(e, arm),
                    "*" if people else _marker(e, arm),
                )
            _rows(ax, [label(arm) for arm in lines], title, unit, log=measure == "nll")
    return drawing


def _family(e: Evidence, arm: str) -> str:
    return next((name for name in COLOURS if arm in e.s.curve(name).values()), "")


def _colour(e: Evidence, arm: str) -> str:
    return COLOURS.get(_family(e, arm), NEUTRAL)


def _marker(e: Evidence, arm: str) -> str:
    return MARKERS.get(_family(e, arm), "D")


def _rows(ax: Axes, labels: Sequence[str], title: str, unit: str, log: bool = False) -> None:
    ax.set_yticks(range(len(labels)), labels)
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_title(title)
    ax.set_xlabel(unit)
    if log:
        log_axis(ax, "x")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0,)) if log else MaxNLocator(3))


def _dot(ax: Axes, e: Estimate, row: float, colour: str, marker: str) -> None:
    if e.has_interval:
        ax.plot([e.low, e.high], [row, row], color=colour, linewidth=1.2, zorder=2)
    size = 8 if marker == "*" else 4.5
    ax.plot(e.value, row, marker, color=colour, markersize=size, zorder=3)
