"""How a model learned."""

import numpy as np
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.lab.table import Table
from attnlab.products.train_text.study import BASELINES
from attnlab.report.style import LINEAR, NEUTRAL, POSITIONAL, house_style, panels


def learning_figure(table: Table) -> Figure:
    """Training loss and dev loss against steps, the n-gram models as lines."""
    return Figure(
        "learning",
        "Learning",
        "Grey: training loss of each fiftieth of the steps; blue: dev loss where it was scored; "
        "dotted: n-gram models on the same dev tokens. One line a seed.",
        "Loss in nats a token against steps, with n-gram baselines.",
        lambda: _draw(table),
        table.ids,
    )


def _draw(table: Table) -> Drawing:
    with house_style():
        drawing, (ax,) = panels(1, 1, height=3.0)
        for row in table:
            curves = row.curves
            ax.plot(curves["step"], curves["train_loss"], color=NEUTRAL, linewidth=1.0)
            ax.plot(curves["dev_step"], curves["dev_loss"], color=POSITIONAL, marker="o", ms=4)
        for name in BASELINES:
            level = float(np.log(table.rows[0][f"{name}_perplexity"]))
            ax.axhline(level, color=LINEAR, linestyle=":", linewidth=1.2)
            ax.annotate(
                name,
                (1.01, level),
                xycoords=("axes fraction", "data"),
                va="center",
                fontsize=8,
                color=LINEAR,
                annotation_clip=False,
            )
        ax.set_xlabel("step")
        ax.set_ylabel("loss (nats a token)")
    return drawing
