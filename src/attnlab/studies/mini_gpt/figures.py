"""Figures of every study of mini GPTs: perplexity by arm, by length, of three sentences."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.measure.intervals import Estimate
from attnlab.report.style import LINEAR, NEUTRAL, POSITIONAL, SEMANTIC, house_style, panels
from attnlab.studies.mini_gpt.evidence import Arms, exponential, geometric
from attnlab.studies.mini_gpt.settings import MiniSettings
from attnlab.studies.mini_gpt.study import ORDERS

BARS = "Bars: 95 % t intervals over seeds, in the logarithm."
SENTENCES = (("normal", SEMANTIC, "o"), ("ungrammatical", LINEAR, "s"), ("long", POSITIONAL, "^"))
ROW = 0.27  # inches a line of a dot plot


def shared_figures(arms: Arms, settings: MiniSettings) -> list[Figure]:
    """Everything the report shows, in its order; a figure without trials is left out."""
    ids = tuple(arms.ids(*arms.names()))
    if not ids:
        return []
    words = f"{settings.size}, {settings.steps:,} steps"
    return [
        Figure(
            "perplexity",
            f"Dev perplexity by arm ({words})",
            "Filled: exp(Σ NLL / Σ tokens) over the dev sentences; hollow: the mean over sentences "
            "of exp(loss), the number that was reported, in which a short sentence counts as much "
            f"as a long one. Dotted: n-gram models of the same text. {BARS}",
            "A dot with an interval for each arm; n-gram baselines as vertical lines.",
            lambda: _by_arm(arms),
            ids,
        ),
        Figure(
            "sentences",
            "Three sentences, one at a time",
            "Perplexity of a normal sentence, of its words in another order, and of a very long "
            f"one, each scored alone. {BARS}",
            "Three marks for each arm: normal, ungrammatical, long.",
            lambda: _three(arms),
            ids,
        ),
        Figure(
            "length",
            "Perplexity against sentence length",
            "Dev sentences grouped by length; each group's exp(Σ NLL / Σ tokens), geometric mean "
            "over seeds. Short sentences are often set phrases (“Ay, my lord.”).",
            "One line an arm: perplexity against the length of the sentence in tokens.",
            lambda: _by_length(arms),
            ids,
        ),
        Figure(
            "training",
            "Loss while training",
            "Mean training loss of each tenth of the steps, mean over seeds.",
            "One line an arm: training loss in nats a token against steps.",
            lambda: _training(arms, settings),
            ids,
        ),
    ]


def dots(  # noqa: PLR0913  (a mark has this many looks)
    ax: Axes,
    names: Sequence[str],
    found: Sequence[Estimate],
    colour: str,
    *,
    hollow: bool = False,
    marker: str = "o",
    lower: float = 0.0,
) -> None:
    """One row a name: value and interval, `lower` rows below its line."""
    for line, e in enumerate(found):
        row = line + lower
        if not np.isfinite(e.value):
            continue
        if e.has_interval:
            ax.plot([e.low, e.high], [row, row], color=colour, linewidth=1.2, zorder=2)
        face = "white" if hollow else colour
        ax.plot(e.value, row, marker, color=colour, markerfacecolor=face, markersize=5, zorder=3)
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def log_ticks(ax: Axes, few: bool = False) -> None:
    """Plain numbers on a log axis, few enough to be read; fewer still on a narrow one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    ax.set_xscale("log")
    low, high = ax.get_xlim()
    subs = (1.0, 2.0, 5.0) if high / low < 1000 else (1.0,)
    if high / low < 5:
        subs = (1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)
    if few:
        subs = (1.0, 3.0) if high / low > 10 else (1.0, 2.0, 5.0)
    ax.xaxis.set_major_locator(LogLocator(subs=subs, numticks=12))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}" if v < 1e5 else f"{v:.0e}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def _by_arm(arms: Arms) -> Drawing:
    names = arms.names()
    with house_style():
        drawing, (ax,) = panels(1, 1, height=0.9 + ROW * len(names))
        means = [arms.estimate(n, "dev_sentence_mean") for n in names]
        found = [arms.estimate(n, "dev_perplexity") for n in names]
        dots(ax, names, found, POSITIONAL, lower=-0.13)
        dots(ax, names, means, NEUTRAL, hollow=True, lower=0.17)
        for order, side in zip(ORDERS, ("right", "left", "right"), strict=True):
            value = arms.baseline(order)
            if np.isfinite(value):
                ax.axvline(value, color=LINEAR, linestyle=":", linewidth=1.2)
                ax.annotate(
                    order,
                    (value, 1.0),
                    xycoords=("data", "axes fraction"),
                    ha=side,
                    va="bottom",
                    fontsize=8,
                    color=LINEAR,
                )
        log_ticks(ax)
        ax.set_xlabel("perplexity of dev sentences")
    return drawing


def _three(arms: Arms) -> Drawing:
    names = arms.names()
    with house_style():
        drawing, (ax,) = panels(1, 1, height=1.1 + ROW * len(names))
        for index, (sentence, colour, marker) in enumerate(SENTENCES):
            found = [arms.estimate(n, f"{sentence}_perplexity") for n in names]
            dots(ax, names, found, colour, marker=marker, lower=0.18 * (index - 1))
            ax.annotate(
                sentence,
                (0.02 + 0.22 * index, 1.01),
                xycoords="axes fraction",
                fontsize=8,
                color=colour,
                fontweight="bold",
                va="bottom",
            )
        log_ticks(ax)
        ax.set_xlabel("perplexity of one sentence, scored alone")
    return drawing


def _lines(ax: Axes, arms: Arms, curve: str, x: str) -> None:
    """The geometric mean of a curve over seeds, one line an arm, its name at the right end."""
    from matplotlib import colormaps

    names = arms.names()
    colours = colormaps["viridis"](np.linspace(0, 0.9, len(names)))
    for colour, name in zip(colours, names, strict=True):
        rows = arms.rows(name)
        values = np.array([r.curves[curve] for r in rows])
        places = np.asarray(rows.rows[0].curves[x])
        ax.plot(places, np.exp(np.log(values).mean(axis=0)), color=colour, marker=".", label=name)
    ax.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False)


def _by_length(arms: Arms) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.0)
        _lines(ax, arms, "length_perplexity", "length")
        ax.set_xlabel("sentence length (tokens)")
        ax.set_ylabel("perplexity")
    return drawing


def _training(arms: Arms, settings: MiniSettings) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.0)
        _lines(ax, arms, "train_loss", "step")
        ax.set_xlabel(f"step (batches of {settings.batch} sentences)")
        ax.set_ylabel("training loss (nats a token)")
    return drawing


def artefact_figure(arms: Arms) -> Figure:
    """Batches say one thing, single sentences another."""
    return Figure(
        "artefact",
        "In batches, alone, and with other words around",
        "Left: dev perplexity of the same sentences in batches (filled) and one by one (hollow). "
        "Middle: how far predictions move when later words are changed: 0 for a causal model. "
        f"Right: when the other sentences of the batch are changed. {BARS}",
        "Dot plots by arm: perplexity in batches and alone; movement under a changed future; "
        "movement under changed neighbours.",
        lambda: _artefact(arms),
        tuple(arms.ids(*arms.names())),
    )


def _artefact(arms: Arms) -> Drawing:
    names = arms.names()
    with house_style():
        drawing, (left, middle, right) = panels(1, 3, height=1.0 + ROW * len(names))
        batched = [geometric(list(arms.values(n, "batched_perplexity").values())) for n in names]
        alone = [geometric(list(arms.values(n, "alone_perplexity").values())) for n in names]
        dots(left, names, batched, POSITIONAL, lower=-0.15)
        dots(left, names, alone, SEMANTIC, hollow=True, lower=0.15)
        log_ticks(left, few=True)
        left.set_xlabel("perplexity")
        left.set_title("in batches, alone", fontsize=8)
        for ax, metric, words in (
            (middle, "past_moved", "later words changed"),
            (right, "neighbour_moved", "neighbours changed"),
        ):
            dots(ax, names, [_largest(arms, n, metric) for n in names], NEUTRAL)
            ax.set_yticklabels([])
            ax.set_xlabel("prediction moved (nats)")
            ax.set_title(words, fontsize=8)
            ax.set_xlim(left=min(0.0, ax.get_xlim()[0]))
    return drawing


def _largest(arms: Arms, name: str, metric: str) -> Estimate:
    values = list(arms.values(name, metric).values())
    if not values or min(values) <= 0:
        return Estimate(max(values, default=np.nan), n=len(values))
    return exponential(geometric_logs(values))


def geometric_logs(values: Sequence[float]) -> Estimate:
    """Mean and interval of the logarithms."""
    from attnlab.measure.intervals import mean_interval

    return mean_interval(np.log(values))
