"""Figures of studies of mini GPTs: perplexity by arm and length, training loss, leaks, depth."""

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.measure.intervals import Estimate, geometric_mean
from attnlab.report.labels import note
from attnlab.report.plots import Series, dot_plot, draw_dots
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import NEUTRAL, PALETTE, errorbars, house_style, log_axis, panels
from attnlab.studies.mini_gpt.projection_depth import ProjectionDepth, arm_name
from attnlab.studies.mini_gpt.study import SWITCHED_OFF, GPTArms, MiniGPTStudy

ROW = 0.3  # inches a line of a dot plot
PERPLEXITIES = {
    "dev_perplexity": Series("perplexity of the text", PALETTE[0]),
    "dev_sentence_mean": Series("mean over sentences", NEUTRAL, hollow=True),
}
SENTENCES = {
    "normal_perplexity": Series("normal", PALETTE[1]),
    "ungrammatical_perplexity": Series("scrambled", PALETTE[2], "s"),
    "long_perplexity": Series("long", PALETTE[0], "^"),
}
BATCHING = {
    "batched_perplexity": Series("in batches", PALETTE[0]),
    "alone_perplexity": Series("one at a time", PALETTE[1], hollow=True),
}
INITIAL = {
    "torch": Series("PyTorch's default", PALETTE[0], "s"),
    "preserving": Series("variance kept", PALETTE[1], "o"),
}
AGAINST_DEPTH = {  # panel -> filled points, hollow points
    "perplexity": ("dev_perplexity", "test_perplexity"),
    "last training loss (nats)": ("last_loss", "last_batch_loss"),
    "spread of scores over keys": ("initial_score_spread", "score_spread"),
    "gradient of the maps at the start": ("initial_gradient", ""),
}
Depths = Mapping[str, Sequence[int]]  # initialisation -> depths


def figures(study: MiniGPTStudy, arms: GPTArms) -> list[Figure]:
    """What the report of every study of this kind shows; nothing where no model ended."""
    return with_first(study, arms, {})


def head_merging_figures(study: MiniGPTStudy, arms: GPTArms) -> list[Figure]:
    """First what exposes the reported gain."""
    return with_first(study, arms, {"artefact": (partial(_artefact, arms), arms.ids())})


def depth_figures(study: ProjectionDepth, arms: GPTArms) -> list[Figure]:
    """First what the maps are, and everything against depth."""
    first: dict[str, Drawn] = {
        "maps": (draw_maps, arms.ids()),
        "depth": (partial(_depth, arms, study.by_initial()), arms.ids()),
    }
    seeds, names = study.settings.seeds, study.chosen_arms()
    ended = {arm: len(arms.values(arm, "dev_perplexity")) for arm in names}  # some may diverge
    fewer = [f"{arm}: {count} of {seeds}" for arm, count in ended.items() if count < seeds]
    return with_first(study, arms, first, fewer=fewer)


def with_first(
    study: MiniGPTStudy, arms: GPTArms, first: Mapping[str, Drawn], fewer: Sequence[str] = ()
) -> list[Figure]:
    """A study's own figures, then those that all these studies show."""
    lengths = ("length", "length_perplexity"), ("sentence length (tokens)", "perplexity")
    step = f"step (batches of {study.settings.batch} sentences)"
    losses = ("step", "train_loss"), (step, "training loss (nats per token)")
    drawn: dict[str, Drawn] = {
        **first,
        "perplexity": (partial(_perplexity_by_arm, arms), arms.ids()),
        "sentences": (partial(_sentences, arms), arms.ids()),
        "length": (partial(_curves, arms, *lengths), arms.ids()),
        "training": (partial(_curves, arms, *losses), arms.ids()),
    }
    return with_words(study, drawn, fewer=fewer)


def _sentences(arms: GPTArms) -> Drawing:
    lines, words = _lines(arms, SENTENCES), "perplexity of one sentence, scored alone"
    return dot_plot(lines, list(SENTENCES.values()), xlabel=words, log=True)


def _lines(arms: GPTArms, metrics: Mapping[str, Series]) -> dict[str, list[Estimate]]:
    """Estimates of these metrics by arm, as a dot plot takes them."""
    return {arm: [arms.geometric(arm, metric) for metric in metrics] for arm in arms.names()}


def _perplexity_by_arm(arms: GPTArms) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=0.9 + ROW * len(arms.names()))
        log_axis(ax, "x")
        draw_dots(ax, _lines(arms, PERPLEXITIES), list(PERPLEXITIES.values()))
        for order, value in arms.baselines().items():
            ax.axvline(value, color=PALETTE[2], linestyle=":", linewidth=1.2)
            side, above = "left" if order == "bigram" else "right", ("data", "axes fraction")
            note(ax, order, (value, 1.0), PALETTE[2], xycoords=above, ha=side, va="bottom")
        ax.set_xlabel("perplexity of dev sentences")
    return drawing


def _curves(arms: GPTArms, names: tuple[str, str], labels: tuple[str, str]) -> Drawing:
    """The geometric mean of a curve over seeds, one line per arm."""
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.0)
        colours = colormaps["viridis"](np.linspace(0, 0.9, len(arms.names())))
        for colour, arm in zip(colours, arms.names(), strict=True):
            curves = [row.curves for row in arms.rows(arm)]
            values = np.array([curve[names[1]] for curve in curves])
            mean = np.exp(np.log(values).mean(axis=0))
            ax.plot(curves[0][names[0]], mean, color=colour, marker=".", label=arm)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
        ax.set(xlabel=labels[0], ylabel=labels[1])
    return drawing


def _artefact(arms: GPTArms) -> Drawing:
    with house_style():
        drawing, (left, middle, right) = panels(1, 3, height=1.0 + ROW * len(arms.names()))
        log_axis(left, "x")
        draw_dots(left, _lines(arms, BATCHING), list(BATCHING.values()))
        left.set_xlabel("perplexity")
        left.set_title("in batches, one at a time", fontsize=8)
        for ax, metric, title in (
            (middle, "past_moved", "later words changed"),
            (right, "neighbour_moved", "other sentences changed"),
        ):
            moved = {metric: Series(title, NEUTRAL)}
            draw_dots(ax, _lines(arms, moved), list(moved.values()))
            ax.set_yticklabels([])
            ax.set_xlabel("prediction moved (nats)")
            ax.set_title(title, fontsize=8)
            ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
    return drawing


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


def _depth(arms: GPTArms, depths: Depths) -> Drawing:
    with house_style():
        drawing, axes = panels(2, 2, height=2.6)
        ticks = sorted({*depths["torch"], *depths["preserving"]})
        for ax, (label, (filled, hollow)) in zip(axes, AGAINST_DEPTH.items(), strict=True):
            _against_depth(ax, arms, depths, filled)
            if hollow:
                _against_depth(ax, arms, depths, hollow, hollow=True)
            ax.set_ylabel(label)
            ax.set_xticks(ticks if len(ticks) < 5 else [1, 10, 20, 30])
        for ax, metric in zip(axes[:2], ("dev_perplexity", "last_loss"), strict=True):
            for arm, style in (("linear", "--"), (SWITCHED_OFF, ":")):
                value = arms.geometric(arm, metric).value
                if np.isfinite(value):
                    ax.axhline(value, linestyle=style, color=NEUTRAL, linewidth=1.2)
        axes[0].legend(loc="upper left", fontsize=7.5)
        axes[0].margins(y=0.35)
        for ax in axes[2:]:
            ax.set_yscale("log")
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
