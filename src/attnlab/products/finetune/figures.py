"""Learning curves of the classifiers."""

from functools import partial
from typing import TYPE_CHECKING

from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.lab.table import Table
from attnlab.report.prose import with_words
from attnlab.report.style import NEUTRAL, PALETTE, house_style, panels

if TYPE_CHECKING:
    from attnlab.products.finetune.study import Finetune


def figures(study: "Finetune", table: Table) -> list[Figure]:
    """Loss on train and dev, and dev accuracy beside the majority baseline."""
    return with_words(study, {"learning": (partial(_draw, table), table.ids)})


def _draw(table: Table) -> Drawing:
    with house_style():
        drawing, (left, right) = panels(1, 2, height=3.0)
        for row in table:
            curves = row.curves
            if "step" not in curves:
                continue
            steps = curves["dev_step"]
            left.plot(curves["step"], curves["train_loss"], color=NEUTRAL, linewidth=1.0)
            left.plot(steps, curves["dev_loss"], color=PALETTE[0], marker="o", ms=4)
            right.plot(steps, curves["dev_accuracy"], color=PALETTE[0], marker="o", ms=4)
            right.axhline(row["majority"], color=PALETTE[2], linestyle=":", linewidth=1.2)
        left.set_ylabel("loss (nats per row)")
        right.set_ylabel("dev accuracy")
        for ax in (left, right):
            ax.set_xlabel("training step")
    return drawing
