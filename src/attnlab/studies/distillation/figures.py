"""Figures: ROUGE by arm, what training did, what line ends do to Lsum."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from attnlab.lab.study import Figure
from attnlab.measure.intervals import Estimate
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    direct_label,
    house_style,
    panels,
)
from attnlab.studies.distillation.claims import REPORTED
from attnlab.studies.distillation.evidence import KINDS, LABELS, Arms, mean_of
from attnlab.studies.distillation.settings import TRAINED, DistilSettings

BARS = (
    "Bars: 95 %, over test articles and seeds where an arm was trained, over test articles where "
    "it was not or has one seed."
)
ROW = 0.34  # inches a line of a dot plot
COLOURS = {"text": POSITIONAL, "logits": SEMANTIC, "human": LINEAR}
LOSSES = {"text": "teacher's texts, NLL", "human": "people's, NLL", "logits": "logits, divergence"}
MARKS = (
    ("rougeL", "L", NEUTRAL, "o"),
    ("newline", "Lsum by newline", LINEAR, "^"),
    ("rougeLsum", "Lsum by sentence", POSITIONAL, "s"),
)
CASES = (
    ("one_line", "four, on one line"),
    ("lines", "four, a sentence a line"),
    ("longer", "four on one line, people's as written"),
    ("shorter", "three, a sentence a line, people's as written"),
    ("longer_sentence", "four, split by sentence"),
    ("shorter_sentence", "three, split by sentence"),
)


def figures(arms: Arms, s: DistilSettings) -> list[Figure]:
    """In the order of the report; a figure without trials is left out."""
    names, trained = arms.names(), [a for a in arms.names() if a in TRAINED]
    found = []
    if names:
        found.append(
            Figure(
                "rouge",
                "ROUGE by arm",
                "Filled: F on the test articles; orange: the baseline without a model. Hollow: the "
                f"reported table, from other data and models and therefore not comparable. {BARS}",
                "Four dot plots, ROUGE-1, -2, -L and -Lsum: one line an arm with its interval.",
                lambda: _by_arm(arms, names),
                tuple(arms.ids(*names)),
            )
        )
    if trained:
        found.append(
            Figure(
                "training",
                "While training",
                "Left: loss on people's summaries of the dev articles, which every arm shares; dashed: "
                "teacher and untuned student. Right: the loss each arm is trained on; a divergence "
                "and an NLL are not the same quantity. Lines: means over seeds; shade: their range.",
                "Two panels: dev loss against steps for each trained arm; training loss.",
                lambda: _training(arms, trained, s),
                tuple(arms.ids(*trained)),
            )
        )
    if names and arms.first("lines") is not None:
        found.append(
            Figure(
                "line-ends",
                "Lsum measures line ends",
                "Above: each arm's L, Lsum split at line ends as written, and Lsum split by sentence. "
                "Below: the first sentences of court cases against people's summaries (no model): the "
                "same words gain Lsum by line ends alone, and three sentences with line ends beat "
                "four without; split by sentence the order is the other one. Bars: 95 % over items.",
                "Above: three marks for each arm. Below: Lsum of leads, with and without line ends.",
                lambda: _line_ends(arms, names),
                tuple(arms.ids(*names, "lines")),
            )
        )
    return found


def _by_arm(arms: Arms, names: Sequence[str]) -> Drawing:
    with house_style():
        drawing, axes = panels(1, len(KINDS), height=0.9 + ROW * len(names), share_y=True)
        for ax, (kind, title) in zip(axes, KINDS.items(), strict=True):
            for line, arm in enumerate(names):
                colour = LINEAR if arm == "lead" else POSITIONAL
                _dot(ax, arms.estimate(arm, kind), line, colour, "^" if arm == "lead" else "o")
                if arm in REPORTED:
                    ax.plot(
                        REPORTED[arm][kind],
                        line + 0.28,
                        "o",
                        color=NEUTRAL,
                        markersize=4,
                        markerfacecolor="white",
                    )
            _rows(ax, names)
            ax.set_title(title)
            ax.set_xlim(left=-0.02 * ax.get_xlim()[1])  # room for a mark at 0
            ax.xaxis.set_major_locator(MaxNLocator(3))
        drawing.supxlabel("F of the test summaries (hollow: reported, other data)", fontsize=8.5)
    return drawing


def _rows(ax: Axes, names: Sequence[str]) -> None:
    ax.set_yticks(range(len(names)), [LABELS.get(name, name) for name in names])
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def _dot(ax: Axes, e: Estimate, row: float, colour: str, marker: str = "o") -> None:
    if e.has_interval:
        ax.plot([e.low, e.high], [row, row], color=colour, linewidth=1.2, zorder=2)
    ax.plot(e.value, row, marker, color=colour, markersize=5, zorder=3)


def _training(arms: Arms, trained: Sequence[str], s: DistilSettings) -> Drawing:
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.9)
        for arm in trained:
            ends = _curve(left, arms, arm, ("dev_step", "dev_nll"))
            direct_label(left, *ends, LABELS[arm], COLOURS[arm])
            _curve(right, arms, arm, ("step", "train_loss"), LOSSES[arm])
        right.legend(loc="upper right")  # at their ends the curves meet
        last = max(arms.rows(arm)[0].curves["dev_step"][-1] for arm in trained)
        for arm in ("teacher", "untuned"):
            value = arms.metric(arm, "dev_nll")
            if np.isfinite(value):
                left.plot([0, last], [value, value], "--", color=NEUTRAL, linewidth=1.0)
                direct_label(left, last, value, LABELS[arm], NEUTRAL)
        left.set_ylabel("dev loss, people's summaries\n(nats a token)")
        right.set_ylabel("loss trained on (nats a token)")
        for ax in (left, right):
            ax.set_xlabel(f"step (batches of {s.batch})")
        low, high = left.get_xlim()
        left.set_xlim(low, high + 0.45 * (high - low))  # room for the labels
    return drawing


def _curve(
    ax: Axes, arms: Arms, arm: str, keys: tuple[str, str], label: str = "_"
) -> tuple[np.ndarray, np.ndarray]:
    """Mean over seeds and their range; the mean is given back."""
    rows = arms.rows(arm)
    shortest = min(len(row.curves[keys[1]]) for row in rows)
    values = np.array([row.curves[keys[1]][:shortest] for row in rows])
    steps = np.asarray(rows[0].curves[keys[0]][:shortest])
    colour = COLOURS[arm]
    mean = values.mean(axis=0)
    ax.plot(steps, mean, color=colour, marker="." if shortest < 20 else "", label=label)
    if len(rows) > 1:
        ax.fill_between(
            steps, values.min(axis=0), values.max(axis=0), color=colour, alpha=0.15, linewidth=0
        )
    return steps, mean


def _line_ends(arms: Arms, names: Sequence[str]) -> Drawing:
    row = arms.first("lines")
    assert row is not None
    with house_style():
        drawing, (above, below) = panels(2, 1, height=0.9 + ROW * max(len(names), len(CASES)))
        for index, (column, words, colour, marker) in enumerate(MARKS):
            for line, arm in enumerate(names):
                _dot(above, arms.estimate(arm, column), line + 0.22 * (index - 1), colour, marker)
            above.annotate(
                words,
                ((0.0, 0.05, 0.34)[index], 1.01),
                xycoords="axes fraction",
                fontsize=8,
                color=colour,
                fontweight="bold",
                va="bottom",
            )
        _rows(above, names)
        above.set_xlabel("F of the test summaries")
        for line, (case, _) in enumerate(CASES):
            values = np.asarray(row.arrays[f"{case}_rougeLsum"])
            colour = POSITIONAL if case.endswith("sentence") else LINEAR
            marker = "s" if case.endswith("sentence") else "^"
            _dot(below, mean_of(values[None], False, f"figure {case}"), line, colour, marker)
        below.set_yticks(range(len(CASES)), [words for _, words in CASES])
        below.set_ylim(len(CASES) - 0.4, -0.6)
        below.tick_params(axis="y", length=0)
        below.set_xlabel(f"Lsum of leads, {row['cases']:,} cases")
        below.set_title("No model: line ends alone", fontsize=8)
    return drawing
