"""The learning curves of trainings on a user's own data, one line per seed."""

import math
from functools import partial

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure, Study
from attnlab.lab.table import Row, Table
from attnlab.products.train_text.study import BASELINES
from attnlab.report.labels import note
from attnlab.report.prose import with_words
from attnlab.report.style import NEUTRAL, PALETTE, house_style, panels


def of_texts(study: Study, table: Table) -> list[Figure]:
    """Training and dev loss against steps, with the n-gram models as lines."""
    return with_words(study, {"learning": (partial(_text_losses, table), table.ids)})


def of_classifiers(study: Study, table: Table) -> list[Figure]:
    """Loss on train and dev, and dev accuracy beside the majority baseline."""
    return with_words(study, {"learning": (partial(_loss_and_accuracy, table), table.ids)})


def _text_losses(table: Table) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.0)
        for row in table:
            _draw_losses(ax, row)
        for name in BASELINES:
            level = math.log(table.rows[0][f"{name}_perplexity"])
            ax.axhline(level, color=PALETTE[2], linestyle=":", linewidth=1.2)
            look = {"xycoords": ("axes fraction", "data"), "annotation_clip": False}
            note(ax, name, (1.01, level), PALETTE[2], va="center", **look)
        ax.set(xlabel="step", ylabel="loss (nats per token)")
    return drawing


def _loss_and_accuracy(table: Table) -> Drawing:
    with house_style():
        drawing, (left, right) = panels(1, 2, height=3.0)
        for row in (row for row in table if "step" in row.curves):
            _draw_losses(left, row)
            steps, accuracy = row.curves["dev_step"], row.curves["dev_accuracy"]
            right.plot(steps, accuracy, color=PALETTE[0], marker="o", ms=4)
            right.axhline(row["majority"], color=PALETTE[2], linestyle=":", linewidth=1.2)
        left.set_ylabel("loss (nats per row)")
        right.set_ylabel("dev accuracy")
        for ax in (left, right):
            ax.set_xlabel("training step")
    return drawing


def _draw_losses(ax: Axes, row: Row) -> None:
    """Training loss in grey, dev loss at every evaluation in blue."""
    curves = row.curves
    ax.plot(curves["step"], curves["train_loss"], color=NEUTRAL, linewidth=1.0)
    ax.plot(curves["dev_step"], curves["dev_loss"], color=PALETTE[0], marker="o", ms=4)
