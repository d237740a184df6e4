"""The learning curves of the trained models."""

import math
from functools import partial
from typing import TYPE_CHECKING

from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.lab.table import Table
from attnlab.products.train_text.study import BASELINES
from attnlab.report.labels import note
from attnlab.report.prose import with_words
from attnlab.report.style import NEUTRAL, PALETTE, house_style, panels

if TYPE_CHECKING:
    from attnlab.products.train_text.study import TrainText


def figures(study: "TrainText", table: Table) -> list[Figure]:
    """Training and dev loss against steps, with the n-gram models as lines."""
    return with_words(study, {"learning": (partial(_learning, table), table.ids)})


def _learning(table: Table) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.0)
        for row in table:
            curves = row.curves
            ax.plot(curves["step"], curves["train_loss"], color=NEUTRAL, linewidth=1.0)
            ax.plot(curves["dev_step"], curves["dev_loss"], color=PALETTE[0], marker="o", ms=4)
        for name in BASELINES:
            level = math.log(table.rows[0][f"{name}_perplexity"])
            ax.axhline(level, color=PALETTE[2], linestyle=":", linewidth=1.2)
            look = {"xycoords": ("axes fraction", "data"), "annotation_clip": False}
            note(ax, name, (1.01, level), PALETTE[2], va="center", **look)
        ax.set_xlabel("step")
        ax.set_ylabel("loss (nats per token)")
    return drawing
