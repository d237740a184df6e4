"""Pictures of attention: one map, large, with its tokens; or many side by side on one scale.

Rows are the tokens that look (queries), columns those looked at (keys). Many maps are one image,
layers down and heads across: a figure with 270 axes would take a minute to lay out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from attnlab.report.attention import AttentionMaps
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
    pooled,
    text_width,
    write,
    write_title,
)
from attnlab.report.style import PRINT_WIDTH, house_style
from attnlab.report.text import counted

_TICK = 0.09  # inches: a tick and the gap to its label
_BAR_ROOM = 0.15 + BAR + 0.42  # the gap before the bar, the bar, its numbers
_LONGEST = 1.1  # inches of a label
_LONGEST_OF_TWO = 0.6  # with labels on both sides: room for 63 tokens, all of them named
_NARROWEST = 3.6  # inches: room for a title
_NUMBERED_CELL = 0.36  # inches: a cell this large has room for its weight in figures
_DARK_BELOW = 0.42  # white figures on the dark end of viridis, black ones on the other
_LARGEST_MAP = 2.2  # inches
_HEADING = 2.6 * LINE
_FEWEST_CELLS = 16
_CELLS_AN_INCH = 100  # what the smallest dpi anyone saves with can still show


def draw(maps: AttentionMaps, layer: int | None = None, head: int | None = None) -> Figure:
    """Draw the chosen maps: a single one large, several as a grid."""
    layers, heads = maps.chosen(layer, head)
    with house_style():
        if len(layers) == len(heads) == 1:
            return _one_map(maps, layers[0], heads[0])
        return _grid(maps, layers, heads)


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
    middle, lowest = left + side / 2, top + side + below + 0.03
    write(figure, middle, lowest, "token looked at (key)", align="center")
    at = EDGE / width, 1 - (top + side / 2) / figure.get_size_inches()[1]
    figure.text(*at, "token that looks (query)", rotation=90, va="center", size=8.5)
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
            look = {"ha": "center", "va": "center", "size": LABEL_POINTS, "color": colour}
            ax.text(key, query, f"{weight:.2f}", **look)


@dataclass(frozen=True)
class _Grid:
    """The position of each map, in units of cells: maps are `n` wide and `gap` apart."""

    chosen: list[list[tuple[int, int]]]  # (layer, head), row by row
    numbered: bool  # rows are layers and columns heads; otherwise each map is named
    n: int
    gap: int

    @property
    def pitch(self) -> int:
        return self.n + self.gap

    @property
    def size(self) -> tuple[int, int]:
        """Width and height of the grid; the name of a map is written in the gap above it."""
        height = len(self.chosen) * self.pitch - (self.gap if self.numbered else 0)
        return len(self.chosen[0]) * self.pitch - self.gap, height

    def corners(self) -> list[tuple[int, int, tuple[int, int]]]:
        """Yield x and y of each map's first cell, and the map's layer and head."""
        lift = 0 if self.numbered else self.gap
        return [
            (column * self.pitch, row * self.pitch + lift, which)
            for row, line in enumerate(self.chosen)
            for column, which in enumerate(line)
        ]


def _grid(maps: AttentionMaps, layers: Sequence[int], heads: Sequence[int]) -> Figure:
    """Draw the maps of these layers and heads; maps of one layer or head wrap into rows."""
    numbered = len(layers) > 1 and len(heads) > 1
    rows = [[(i, j) for j in heads] for i in layers] if numbered else _wrapped(layers, heads)
    left = EDGE + (2 * LINE + 0.12 if numbered else 0.0)
    top = EDGE + _HEADING + (2 * LINE + 0.02 if numbered else 0.0)
    room = PRINT_WIDTH - left - EDGE
    side = min(_LARGEST_MAP, 0.92 * room / len(rows[0]))
    n = _cells(len(maps.tokens), side)
    # the name of a map needs a line of text above it, numbers only a seam
    gap = math.ceil(n * (0.07 if numbered else max(0.08, 1.25 * LINE / side)))
    grid = _Grid(rows, numbered, n, gap)
    cell = min(room / grid.size[0], _LARGEST_MAP / n)
    width, height = (cell * cells for cells in grid.size)
    figure = blank(PRINT_WIDTH, top + height + EDGE)
    ax = place_axes(figure, left, top, width, height)
    image = draw_weights(ax, _mosaic(maps, grid))
    ax.spines[:].set_visible(False)
    _draw_frames(ax, grid)
    _number_axes(ax, grid, cell) if numbered else _name(ax, grid)
    tokens = counted(len(maps.tokens), "token")
    write_title(figure, maps.target, f" · {tokens}", PRINT_WIDTH - 2.5)
    write(figure, EDGE, EDGE + 1.1 * LINE, "rows look at columns")
    bar = place_axes(figure, PRINT_WIDTH - EDGE - 1.7, EDGE + 0.03, 1.6, BAR)
    draw_bar(figure, image, bar, horizontal=True)
    write(figure, PRINT_WIDTH - EDGE - 1.78, EDGE + 0.01, "weight", align="right")
    return figure


def _cells(tokens: int, side: float) -> int:
    """The number of image cells per map: enough for its details, no more than are visible."""
    most = round(side * _CELLS_AN_INCH)
    return (
        tokens * math.ceil(_FEWEST_CELLS / tokens) if tokens < _FEWEST_CELLS else min(tokens, most)
    )


def _wrapped(layers: Sequence[int], heads: Sequence[int]) -> list[list[tuple[int, int]]]:
    flat = [(i, j) for i in layers for j in heads]
    wide = min(len(flat), max(3, math.ceil(math.sqrt(len(flat)))))
    return [flat[at : at + wide] for at in range(0, len(flat), wide)]


def _mosaic(maps: AttentionMaps, grid: _Grid) -> np.ndarray:
    """All maps in one array, with empty cells between them."""
    width, height = grid.size
    times = max(1, grid.n // len(maps.tokens))
    made = np.full((height, width), np.nan, dtype=np.float32)
    for x, y, (layer, head) in grid.corners():
        small = pooled(map_of(maps, layer, head), grid.n)
        made[y : y + grid.n, x : x + grid.n] = np.kron(small, np.ones((times, times)))
    return made


def _draw_frames(ax: Axes, grid: _Grid) -> None:
    """Draw a thin frame around each map, to separate its white cells from the background."""
    n = grid.n
    around = np.array([(0, 0), (n, 0), (n, n), (0, n), (0, 0)]) - 0.5
    lines = [around + np.array([x, y]) for x, y, _ in grid.corners()]
    made = LineCollection(lines, colors=FRAME, linewidths=0.5, clip_on=False)
    ax.add_collection(made, autolim=False)


def _number_axes(ax: Axes, grid: _Grid, cell: float) -> None:
    """Number the layers on the left and the heads on top; overlapping numbers are left out."""
    ax.tick_params(length=0, pad=3)
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    heads = [head for _, head in grid.chosen[0]]
    layers = [line[0][0] for line in grid.chosen]
    for axis, numbers, room in (
        (ax.xaxis, heads, text_width("000") + 0.04),
        (ax.yaxis, layers, LABEL_PITCH),
    ):
        step = math.ceil(room / (cell * grid.pitch))
        kept = range(0, len(numbers), step)
        middles = [i * grid.pitch + (grid.n - 1) / 2 for i in kept]
        axis.set_ticks(middles, [str(numbers[i]) for i in kept])
    ax.set_xlabel("head", labelpad=3)
    ax.set_ylabel("layer", labelpad=3, loc="top")


def _name(ax: Axes, grid: _Grid) -> None:
    ax.set_axis_off()
    for x, y, (layer, head) in grid.corners():
        look = {"size": LABEL_POINTS, "annotation_clip": False, "textcoords": "offset points"}
        ax.annotate(f"layer {layer} · head {head}", (x - 0.5, y - 0.5), (0, 2.5), **look)
