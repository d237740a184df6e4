"""One attention map, large, with its tokens; several of them go to the grid.

Rows are the tokens that look (queries), columns those looked at (keys).
"""

import math
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attnlab.report.attention_canvas import (
    BAR,
    EDGE,
    FRAME,
    LABEL_PITCH,
    LABEL_POINTS,
    LINE,
    blank,
    draw_bar,
    draw_weights,
    drawable,
    fitted,
    map_of,
    place_axes,
    text_width,
    write,
    write_title,
)
from attnlab.report.attention_grid import draw_grid
from attnlab.report.attention_maps import AttentionMaps
from attnlab.report.style import PRINT_WIDTH, house_style

_TICK = 0.09  # inches: a tick and the gap to its label
_BAR_ROOM = 0.15 + BAR + 0.42  # the gap before the bar, the bar, its numbers
_LONGEST = 1.1  # inches of a label
_LONGEST_OF_TWO = 0.6  # with labels on both sides: room for 63 tokens, all of them named
_NARROWEST = 3.6  # inches: room for a title
_NUMBERED_CELL = 0.36  # inches: a cell this large has room for its weight in figures
_DARK_BELOW = 0.42  # white figures on the dark end of viridis, black ones on the other


def draw(maps: AttentionMaps, layer: int | None = None, head: int | None = None) -> Figure:
    """Draw the chosen maps: a single one large, several as a grid."""
    layers, heads = maps.chosen(layer, head)
    with house_style():
        if len(layers) == len(heads) == 1:
            return _one_map(maps, layers[0], heads[0])
        return draw_grid(maps, layers, heads)


@dataclass(frozen=True)
class _Labels:
    """Labels on one side of the map, or alternating between both sides if they would overlap."""

    near: dict[int, str]
    far: dict[int, str]

    @property
    def reach(self) -> tuple[float, float]:
        """The inches that the longest label of each side needs, with its tick."""
        near, far = (
            max(map(text_width, s.values()), default=-_TICK) for s in (self.near, self.far)
        )
        return near + _TICK, far + _TICK


def _fit(shown: tuple[str, ...]) -> tuple[_Labels, float]:
    """Labels that do not overlap, and the side of the map that the page width leaves, in inches."""
    n, free = len(shown), PRINT_WIDTH - 2 * EDGE - LINE - _BAR_ROOM
    one = _Labels(dict(enumerate(fitted(text, _LONGEST) for text in shown)), {})
    side = min(free - one.reach[0], max(2.0, 0.5 * n))
    if side / n >= LABEL_PITCH:
        return one, side
    texts = [fitted(text, _LONGEST_OF_TWO) for text in shown]
    reach = 2 * (max(map(text_width, texts)) + _TICK)
    step = math.ceil(LABEL_PITCH * n / (2 * (free - reach)))  # above 1: not every token is named
    near, far = ({i: texts[i] for i in range(at, n, 2 * step)} for at in (0, step))
    two = _Labels(near, far)
    return two, free - sum(two.reach)


def _one_map(maps: AttentionMaps, layer: int, head: int) -> Figure:
    n = len(maps.tokens)
    labels, side = _fit(tuple(drawable(text) for text in maps.shown))
    near, far = labels.reach
    upright = not labels.far and near - _TICK + 0.06 < side / n
    left, top = EDGE + LINE + near, EDGE + 1.7 * LINE + far
    below = LINE + _TICK if upright else near
    width = min(PRINT_WIDTH, max(left + side + far + _BAR_ROOM + EDGE, _NARROWEST))
    figure = blank(width, top + side + below + LINE + 2 * EDGE)
    ax = place_axes(figure, left, top, side, side)
    image = draw_weights(ax, map_of(maps, layer, head))
    _label_axes(ax, labels, upright)
    write_title(figure, maps.target, f" · layer {layer} · head {head}", width - 2 * EDGE)
    write(
        figure, left + side / 2, top + side + below + 0.03, "token looked at (key)", align="center"
    )
    height = figure.get_size_inches()[1]
    figure.text(
        EDGE / width,
        1 - (top + side / 2) / height,
        "token that looks (query)",
        rotation=90,
        ha="left",
        va="center",
        size=8.5,
    )
    bar = place_axes(figure, left + side + far + 0.15, top + LINE, BAR, min(side - LINE, 2.4))
    draw_bar(figure, image, bar, horizontal=False)
    write(figure, left + side + far + 0.15, top - 0.05, "weight")
    if side / n >= _NUMBERED_CELL:
        _write_weights(ax, map_of(maps, layer, head))
    return figure


def _label_axes(ax: Axes, labels: _Labels, upright: bool) -> None:
    for spine in ax.spines.values():
        spine.set(visible=True, color=FRAME)
    far_x, far_y = ax.secondary_xaxis("top"), ax.secondary_yaxis("right")
    for axis, named in (
        (ax.xaxis, labels.near),
        (far_x.xaxis, labels.far),
        (ax.yaxis, labels.near),
        (far_y.yaxis, labels.far),
    ):
        axis.set_ticks(list(named), list(named.values()), parse_math=False)
        axis.set_tick_params(length=2.5, pad=2)
        if axis.axis_name == "x" and not upright:
            axis.set_tick_params(rotation=90)
    for far in (far_x, far_y):
        far.spines[:].set_visible(False)


def _write_weights(ax: Axes, weights: np.ndarray) -> None:
    """Write the weights into the cells of a short text, except those that round to 0.00."""
    for (query, key), weight in np.ndenumerate(weights):
        if weight >= 0.005:
            colour = "white" if weight < _DARK_BELOW else "black"
            ax.text(
                key,
                query,
                f"{weight:.2f}",
                ha="center",
                va="center",
                size=LABEL_POINTS,
                color=colour,
            )
