"""Figures of the studies of mini GPTs: perplexity by arm, length and depth; loss; leaks."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.measure.ratios import geometric_mean
from attnlab.report.labels import note
from attnlab.report.plots import Series, dot_plot, draw_dots
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import NEUTRAL, PALETTE, errorbars, house_style, log_axis, panels
from attnlab.studies.mini_gpt.projection_depth import ProjectionDepth, arm_name
from attnlab.studies.mini_gpt.study import GPTArms, MiniGPTStudy

ROW = 0.3  # inches a line of a dot plot
PERPLEXITIES = {
    "dev_perplexity": Series("perplexity of the text", PALETTE[0]),
    "dev_sentence_mean": Series("mean over sentences", NEUTRAL, hollow=True),
}
SENTENCES = {
    "normal_perplexity": Series("normal", PALETTE[1]),
    "ungrammatical_perplexity": Series("ungrammatical", PALETTE[2], "s"),
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


def figures(study: MiniGPTStudy, arms: GPTArms) -> list[Figure]:
    """What the report of every study of this kind shows; nothing where no model ended."""
    return _with_first(study, arms, {})


def head_merging_figures(study: MiniGPTStudy, arms: GPTArms) -> list[Figure]:
    """First what exposes the reported gain."""
    return _with_first(study, arms, {"artefact": (partial(_artefact, arms), arms.ids())})


def projection_depth_figures(study: ProjectionDepth, arms: GPTArms) -> list[Figure]:
    """First everything against depth."""
    draw = partial(_depth, arms, sorted(study.settings.depths))
    first: dict[str, Drawn] = {"depth": (draw, arms.ids())}
    return _with_first(study, arms, first, fewer=_missing_models(study, arms))


def _with_first(
    study: MiniGPTStudy, arms: GPTArms, first: Mapping[str, Drawn], **names: Any
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
    return with_words(study, drawn, **{"fewer": [], **names})


def _sentences(arms: GPTArms) -> Drawing:
    return dot_plot(
        _lines(arms, SENTENCES),
        list(SENTENCES.values()),
        xlabel="perplexity of one sentence, scored alone",
        log=True,
    )


def _lines(arms: GPTArms, metrics: Mapping[str, Series]) -> dict[str, list]:
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
    from matplotlib import colormaps

    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.0)
        colours = colormaps["viridis"](np.linspace(0, 0.9, len(arms.names())))
        for colour, arm in zip(colours, arms.names(), strict=True):
            curves = [row.curves for row in arms.rows(arm)]
            values = np.array([curve[names[1]] for curve in curves])
            mean = np.exp(np.log(values).mean(axis=0))
            ax.plot(curves[0][names[0]], mean, color=colour, marker=".", label=arm)
        ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)
        ax.set_xlabel(labels[0])
        ax.set_ylabel(labels[1])
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


def _missing_models(study: ProjectionDepth, arms: GPTArms) -> list[str]:
    """Arms that rest on fewer models than were started, for some diverged: `linear: 2 of 3`."""
    seeds, names = study.settings.seeds, study.chosen_arms()
    ended = {arm: len(arms.values(arm, "dev_perplexity")) for arm in names}
    return [f"{arm}: {count} of {seeds}" for arm, count in ended.items() if count < seeds]


def _depth(arms: GPTArms, depths: list[int]) -> Drawing:
    with house_style():
        drawing, (left, middle, right) = panels(1, 3, height=2.9)
        _against_depth(left, arms, depths, "dev_perplexity")
        for arm, style in (("linear", "--"), ("attention off", ":")):
            value = arms.geometric(arm, "dev_perplexity").value
            if np.isfinite(value):
                left.axhline(value, linestyle=style, color=NEUTRAL, linewidth=1.2)
        left.set_ylabel("dev perplexity")
        left.legend(loc="upper left", fontsize=7.5)
        left.margins(y=0.35)
        _against_depth(middle, arms, depths, "initial_score_spread")
        _against_depth(middle, arms, depths, "score_spread", hollow=True)
        middle.set_ylabel("spread of scores over keys")
        _against_depth(right, arms, depths, "initial_gradient")
        right.set_ylabel("gradient of the maps at the start")
        for ax in (middle, right):
            ax.set_yscale("log")
        for ax in (left, middle, right):
            ax.set_xticks(depths if len(depths) < 5 else [1, 10, 20, 30])
        drawing.supxlabel("hidden layers d of the query, key and value maps", fontsize=8.5)
    return drawing


def _against_depth(
    ax: Axes, arms: GPTArms, depths: list[int], metric: str, hollow: bool = False
) -> None:
    """Geometric means over seeds for both initialisations; the smallest that is shown is 1e-30."""
    for initial, kind in INITIAL.items():
        values = {depth: arms.values(arm_name(depth, initial), metric) for depth in depths}
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
