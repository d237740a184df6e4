"""Labels beside the points of a scatter plot: the nearest free place around each, in the frame.

Labels at the ends of lines only move up and down (report/labels.py); points of a scatter plot have
room on every side.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox

from attnlab.measure.intervals import Estimate
from attnlab.report.labels import halo

MARK = 4.0  # half the size of a mark, in points
# offset in points and how the text is set there; the later ones get a line to their mark
PLACES = tuple(
    (dx * far, dy * far, ha, va)
    for far in (1, 3, 5, 7, 9)
    for dx, dy, ha, va in (
        (6, 0, "left", "center"),
        (0, 6, "center", "bottom"),
        (0, -6, "center", "top"),
        (-6, 0, "right", "center"),
        (5, 5, "left", "bottom"),
        (5, -5, "left", "top"),
        (-5, 5, "right", "bottom"),
        (-5, -5, "right", "top"),
    )
)
NEAR = 8  # places that need no line


@dataclass(frozen=True)
class PointLabel:
    """A text to write beside a point with its error bars."""

    x: Estimate
    y: Estimate
    text: str
    colour: str


def place_labels(figure: Figure, ax: Axes, labels: Sequence[PointLabel]) -> None:
    """Write every label where it covers no mark and no other label, as near as possible."""
    figure.draw_without_rendering()  # sizes are known only after the layout has run
    scale = figure.dpi / 72
    marks = [box for label in labels for box in _marks(ax, label, scale)]
    taken: list[Bbox] = []
    for label in labels:
        texts = [_annotate(ax, label, number) for number in range(len(PLACES))]
        boxes = [_text_box(text).padded(scale) for text in texts]
        covered = [_cost(box, [*marks, *taken], ax.get_window_extent()) for box in boxes]
        best = min(range(len(texts)), key=lambda number: (covered[number], number))
        for number, text in enumerate(texts):
            if number != best:
                text.remove()
        taken.append(boxes[best])


def _marks(ax: Axes, label: PointLabel, scale: float) -> list[Bbox]:
    """The point, its horizontal bar and its vertical one."""
    x, y = label.x, label.y
    corners = [(x.value, y.value, x.value, y.value, MARK * scale)]
    if x.has_interval:
        corners.append((x.low, y.value, x.high, y.value, scale))
    if y.has_interval:
        corners.append((x.value, y.low, x.value, y.high, scale))
    boxes = []
    for left, low, right, high, half in corners:
        ends = ax.transData.transform([(left, low), (right, high)])
        boxes.append(Bbox([ends[0] - half, ends[1] + half]))
    return boxes


def _annotate(ax: Axes, label: PointLabel, number: int) -> Annotation:
    dx, dy, ha, va = PLACES[number]
    # dotted and grey, unlike any error bar
    line = {"arrowstyle": "-", "linestyle": ":", "color": "#888888", "linewidth": 0.8, "shrinkA": 0}
    return ax.annotate(
        label.text,
        (label.x.value, label.y.value),
        xytext=(dx, dy),
        textcoords="offset points",
        ha=ha,
        va=va,
        color=label.colour,
        fontsize=8,
        path_effects=halo(2.4),
        zorder=5,
        arrowprops=line if number >= NEAR else None,
    )


def _text_box(text: Annotation) -> Bbox:
    """The text alone, without the line to its point."""
    text.get_window_extent()  # which brings its position up to date
    return Text.get_window_extent(text)


def _cost(box: Bbox, others: Sequence[Bbox], frame: Bbox) -> int:
    """The number of marks and labels that it covers; the frame's border counts as one."""
    inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 <= box.y1 <= frame.y1
    return sum(bool(box.overlaps(other)) for other in others) + (not inside)
