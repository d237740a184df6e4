"""Names beside the marks of a plane: the nearest free place around each, within the frame.

Labels at the ends of lines only move up and down (report/labels.py); marks that lie all over a
plane have room on every side.
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
NEAR = 8  # places without a line


@dataclass(frozen=True)
class Name:
    """What stands beside a point with its bars."""

    x: Estimate
    y: Estimate
    text: str
    colour: str


def place(figure: Figure, ax: Axes, names: Sequence[Name]) -> None:
    """Write every name where it covers no mark and no other name, as near as can be."""
    figure.draw_without_rendering()  # sizes are known only after the layout has run
    scale = figure.dpi / 72
    marks = [box for name in names for box in _around(ax, name, scale)]
    taken: list[Bbox] = []
    for name in names:
        made = [_written(ax, name, number) for number in range(len(PLACES))]
        boxes = [_text_of(label).padded(scale) for label in made]
        hidden = [_cost(box, [*marks, *taken], ax.get_window_extent()) for box in boxes]
        best = min(range(len(made)), key=lambda number: (hidden[number], number))
        for number, label in enumerate(made):
            if number != best:
                label.remove()
        taken.append(boxes[best])


def _around(ax: Axes, name: Name, scale: float) -> list[Bbox]:
    """The mark, its level bar and its upright one."""
    x, y = name.x, name.y
    corners = [(x.value, y.value, x.value, y.value, MARK * scale)]
    if x.has_interval:
        corners.append((x.low, y.value, x.high, y.value, scale))
    if y.has_interval:
        corners.append((x.value, y.low, x.value, y.high, scale))
    found = []
    for left, low, right, high, half in corners:
        ends = ax.transData.transform([(left, low), (right, high)])
        found.append(Bbox([ends[0] - half, ends[1] + half]))
    return found


def _written(ax: Axes, name: Name, number: int) -> Annotation:
    dx, dy, ha, va = PLACES[number]
    # dotted and grey: no bar is so
    line = {"arrowstyle": "-", "linestyle": ":", "color": "#888888", "linewidth": 0.8, "shrinkA": 0}
    return ax.annotate(
        name.text,
        (name.x.value, name.y.value),
        xytext=(dx, dy),
        textcoords="offset points",
        ha=ha,
        va=va,
        color=name.colour,
        fontsize=8,
        path_effects=halo(2.4),
        zorder=5,
        arrowprops=line if number >= NEAR else None,
    )


def _text_of(label: Annotation) -> Bbox:
    """The text alone, without the line to its mark."""
    label.get_window_extent()  # which brings its place up to date
    return Text.get_window_extent(label)


def _cost(box: Bbox, others: Sequence[Bbox], frame: Bbox) -> int:
    """How many marks and names it covers; the frame's border counts as one."""
    inside = frame.x0 <= box.x0 and box.x1 <= frame.x1 and frame.y0 <= box.y0 <= box.y1 <= frame.y1
    return sum(bool(box.overlaps(other)) for other in others) + (not inside)
