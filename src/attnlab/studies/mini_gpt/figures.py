"""Figures of the studies of mini GPTs: perplexity by arm and length, training loss, leaks."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.report.labels import note
from attnlab.report.plots import Series, dot_plot, draw_dots
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import NEUTRAL, PALETTE, house_style, log_axis, panels
from attnlab.studies.mini_gpt.study import GPTArms, MiniGPTStudy

ROW = 0.3  # inches a line of a dot plot
PERPLEXITIES = {
    "dev_perplexity": Series("perplexity of the text", PALETTE[0]),
    "dev_sentence_mean": Series("mean over sentences", NEUTRAL, hollow=True),
}
SENTENCES = {
    "normal_perplexity": Series("normal", PALETTE[1]),
    "ungrammatical_perplexity": Series("weird", PALETTE[2], "s"),
    "long_perplexity": Series("long", PALETTE[0], "^"),
}
BATCHING = {
    "batched_perplexity": Series("in batches", PALETTE[0]),
    "alone_perplexity": Series("one at a time", PALETTE[1], hollow=True),
}


def figures(study: MiniGPTStudy, arms: GPTArms) -> list[Figure]:
    """What the report of every study of this kind shows; nothing where no model ended."""
    return with_first(study, arms, {})


def head_merging_figures(study: MiniGPTStudy, arms: GPTArms) -> list[Figure]:
    """First what exposes the reported gain."""
    return with_first(study, arms, {"artefact": (partial(_artefact, arms), arms.ids())})


def with_first(
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
