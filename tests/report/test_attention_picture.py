"""The picture: one scale, nothing cut, nothing on top of something else, nothing too small."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from attnlab.core.errors import UsageError
from attnlab.report.attention import AttentionMaps, picture, save
from attnlab.report.attention_canvas import pooled
from attnlab.report.style import PRINT_WIDTH, house_style

WORDS = ("O", "that", "this", "too", "solid", "flesh", ",", "unprofitable", "self-slaughter", "!")
ODD = (
    "<script>",
    "$x^2$",
    "$",
    "a b",
    "\n",
    "\0",
    "\u202ex",
    "e\u0301",
    "\u0301",
    "😀",
    "你好世界",
    "שלום",
    "",
    "\ud800",
    "z" + "\u0301" * 30,
    "W" * 90,
    "\\frac",
    "_^{}",
)


def maps_of(
    layers: int, heads: int, tokens: tuple[str, ...], *, causal: bool = True, name: str = "a model"
) -> AttentionMaps:
    n = len(tokens)
    scores = np.random.default_rng(5).normal(size=(layers, heads, n, n)) * 2
    if causal:
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return AttentionMaps(name, tokens, raised / raised.sum(-1, keepdims=True))


def text_of(n: int) -> tuple[str, ...]:
    return tuple(f"Ġ{WORDS[place % len(WORDS)]}" for place in range(n))


def words(figure: Figure) -> Iterator[tuple[str, float, Bbox]]:
    """Text, size in points and place of everything written, as it is drawn."""
    with house_style():
        figure.draw_without_rendering()
        for text in figure.findobj(Text):
            assert isinstance(text, Text)
            shown = text.get_visible() and text.get_text().strip()
            if shown and all(_is_shown(ax, text) for ax in figure.axes):
                yield text.get_text(), float(text.get_fontsize()), text.get_window_extent()


def _is_shown(ax: Axes, text: Text) -> bool:
    """Ticks outside the limits and axes that are off exist, but are not drawn."""
    inside = ax.findobj(Text)
    if text not in inside:
        return True
    return ax.get_visible() and (ax.axison or text in ax.texts)


CASES = [
    (1, 1, 1, None, None),
    (1, 1, 2, None, None),
    (3, 3, 13, 0, 1),
    (1, 1, 31, None, None),
    (1, 1, 37, None, None),
    (1, 1, 53, None, None),
    (1, 1, 61, None, None),
    (1, 1, 83, None, None),
    (1, 1, 211, None, None),
    (2, 3, 2, None, None),
    (3, 3, 13, None, None),
    (5, 7, 17, 2, None),
    (5, 7, 17, None, 3),
    (31, 29, 3, None, None),
]


@pytest.mark.parametrize(("layers", "heads", "n", "layer", "head"), CASES)
def test_words_are_readable_apart_and_inside(
    layers: int, heads: int, n: int, layer: int | None, head: int | None
) -> None:
    figure = picture(maps_of(layers, heads, text_of(n)), layer, head)
    found = list(words(figure))
    assert len(found) >= 6
    paper = Bbox.from_bounds(0, 0, *(figure.get_size_inches() * figure.dpi))
    assert figure.get_size_inches()[0] <= PRINT_WIDTH
    for text, size, box in found:
        assert size >= 8, text
        assert paper.x0 <= box.x0 and box.x1 <= paper.x1, text
        assert paper.y0 <= box.y0 and box.y1 <= paper.y1, text
    for (one, _, a), (two, _, b) in itertools.combinations(found, 2):
        width = min(a.x1, b.x1) - max(a.x0, b.x0)
        height = min(a.y1, b.y1) - max(a.y0, b.y0)
        assert width <= 0.5 or height <= 0.5, f"{one!r} lies on {two!r}"


@pytest.mark.parametrize("n", [13, 37, 61, 63])
def test_every_token_is_named_on_both_axes_up_to_sixty(n: int) -> None:
    tokens = tuple(f"t{place}WWWWWWWWWWWW" for place in range(n))
    names = [text for text, _, _ in words(picture(maps_of(1, 1, tokens)))]
    starts = [text.partition("W")[0] for text in names]
    assert all(starts.count(f"t{place}") == 2 for place in range(n))


def test_a_label_stands_at_its_token() -> None:
    figure = picture(maps_of(1, 1, tuple(f"t{place}" for place in range(37))))
    ax = figure.axes[0]
    for text, _, box in words(figure):
        if text.startswith("t") and text[1:].isdigit():
            x, y = ax.transData.transform((int(text[1:]), int(text[1:])))
            assert min(abs(x - (box.x0 + box.x1) / 2), abs(y - (box.y0 + box.y1) / 2)) < 2


@pytest.mark.parametrize("which", [(None, None), (1, 2)])
def test_one_scale_and_one_bar_and_an_empty_future(which: tuple[int | None, int | None]) -> None:
    maps = maps_of(2, 3, text_of(5))
    figure = picture(maps, *which)
    images = [image for ax in figure.axes for image in ax.images]
    assert len(images) == 1  # all maps are one image
    assert images[0].get_clim() == (0, 1)
    assert images[0].get_cmap().name == "viridis"
    _, bar = figure.axes
    ticks = bar.get_xticks() if which == (None, None) else bar.get_yticks()
    assert ticks.tolist() == [0, 0.5, 1]
    data = np.ma.asarray(images[0].get_array())
    white = images[0].get_cmap()(np.ma.masked_all((1,)))[0]
    assert white[:3].tolist() == [1, 1, 1]
    if which == (1, 2):
        mask = np.ma.getmaskarray(data)
        assert np.array_equal(mask, np.triu(np.ones((5, 5), dtype=bool), 1))
        assert np.allclose(data.filled(0), maps.weights[1, 2])
    else:
        assert 0.3 < np.ma.getmaskarray(data).mean() < 0.6


def test_the_grid_has_each_map_in_its_place() -> None:
    maps = maps_of(2, 3, text_of(17))
    ax = picture(maps).axes[0]
    data = np.ma.asarray(ax.images[0].get_array()).filled(-1)
    (frames,) = (c for c in ax.collections if isinstance(c, LineCollection))
    corners = [np.asarray(line)[0] + 0.5 for line in frames.get_segments()]
    assert len(corners) == 6
    for (x, y), (layer, head) in zip(corners, itertools.product(range(2), range(3)), strict=True):
        found = data[int(y) : int(y) + 17, int(x) : int(x) + 17]
        assert np.allclose(np.where(found < 0, 0, found), maps.weights[layer, head])


def test_a_large_grid_is_drawn_in_time_and_in_every_form(tmp_path: Path) -> None:
    figure = picture(maps_of(30, 9, text_of(41)))
    for ending in ("png", "svg", "pdf"):
        save(figure, tmp_path / f"grid.{ending}")
        assert (tmp_path / f"grid.{ending}").stat().st_size > 20_000


@pytest.mark.parametrize("tokens", [ODD, ODD * 3])
def test_odd_tokens_are_drawn_as_letters(tokens: tuple[str, ...], tmp_path: Path) -> None:
    figure = picture(maps_of(1, 1, tokens, causal=False, name="$\\bad{ 你 " + "W" * 300))
    save(figure, tmp_path / "odd.PNG")  # a glyph that is missing would warn, and fail
    written = {text for text, _, _ in words(figure)}
    assert {"$x^2$", "a␣b", "↵", "\\x00", "∅", "\\ud800"} <= written
    paper = figure.get_size_inches() * figure.dpi
    assert all(box.x1 <= paper[0] and box.x0 >= 0 for _, _, box in words(figure))


def test_same_maps_same_bytes_and_nothing_left_behind(tmp_path: Path) -> None:
    before = dict(mpl.rcParams)
    for name in ("a.svg", "b.svg"):
        save(picture(maps_of(2, 3, text_of(7))), tmp_path / name)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert dict(mpl.rcParams) == before


def test_a_layer_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="layer 5"):
        picture(maps_of(2, 3, text_of(5)), 5)


def test_pooling_keeps_the_largest_weight_and_what_is_empty() -> None:
    weights = np.full((7, 7), np.nan)
    weights[5, 1], weights[5, 2] = 0.25, 0.75
    small = pooled(weights, 3)
    assert small.shape == (3, 3)
    assert np.nanmax(small) == 0.75
    assert np.isnan(small).sum() == 7
    assert pooled(weights, 7) is weights
