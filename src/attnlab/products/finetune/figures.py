"""How a classifier learned."""

from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.lab.table import Table
from attnlab.report.style import LINEAR, NEUTRAL, POSITIONAL, house_style, panels


def learning_figure(table: Table) -> Figure:
    """Loss of train and dev, and dev accuracy beside the most frequent answer."""
    return Figure(
        "learning",
        "Learning",
        "Left: grey, training loss of each fiftieth of the steps; blue, dev loss. Right: dev "
        "accuracy; dotted, the share of the most frequent answer. One line a seed.",
        "Loss and dev accuracy against steps.",
        lambda: _draw(table),
        table.ids,
    )


def _draw(table: Table) -> Drawing:
    with house_style():
        drawing, (left, right) = panels(1, 2, height=3.0)
        for row in table:
            curves = row.curves
            if "step" not in curves:
                continue
            left.plot(curves["step"], curves["train_loss"], color=NEUTRAL, linewidth=1.0)
            left.plot(curves["dev_step"], curves["dev_loss"], color=POSITIONAL, marker="o", ms=4)
            right.plot(
                curves["dev_step"], curves["dev_accuracy"], color=POSITIONAL, marker="o", ms=4
            )
            right.axhline(row["majority"], color=LINEAR, linestyle=":", linewidth=1.2)
        left.set_ylabel("loss (nats a row)")
        right.set_ylabel("dev accuracy")
        for ax in (left, right):
            ax.set_xlabel("step")
    return drawing
