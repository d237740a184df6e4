"""What `attnlab attend` shows of a text: tables, a picture, a page, JSON.

columns, rows = table(maps)                    # one row a layer and head
columns, rows = table(maps, layer=2, head=1)   # one row a token: where it looks
save(picture(maps), Path("all-heads.png"))
write_page(maps, Path("attention.html"))
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlab.core.errors import UsageError
from attnlab.core.files import write_text
from attnlab.report.attention_maps import AttentionMaps as AttentionMaps  # part of this door
from attnlab.report.attention_maps import most_looked_at, summary
from attnlab.report.text import MISSING
from attnlab.report.tokens import cut

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUMMARY_COLUMNS = (
    "entropy (bits)",
    "distance (tokens)",
    "on first token",
    "on previous",
    "on itself",
)
_LONGEST_TOKEN = 24
_JSON_DIGITS = 6

Cells = tuple[list[str], list[list[str]]]


def table(
    maps: AttentionMaps, layer: int | None = None, head: int | None = None, top: int = 3
) -> Cells:
    """With a layer, what each token attends to most (one head, or their mean); else all heads."""
    if top < 1:
        raise UsageError(f"top is {top}: show at least one token")
    layers, heads = maps.chosen(layer, head)
    if layer is None:
        return _heads_table(maps, layers, heads)
    return _tokens_table(maps, maps.weights[layer, heads].mean(0, dtype=np.float64), top)


def _heads_table(maps: AttentionMaps, layers: list[int], heads: list[int]) -> Cells:
    s = summary(maps)
    numbers = [s.entropy, s.distance, s.first, s.previous, s.itself]
    places = (2, 1, 3, 3, 3)
    rows = [
        [str(i), str(j), *(_fixed(x[i, j], p) for x, p in zip(numbers, places, strict=True))]
        for i in layers
        for j in heads
    ]
    return ["layer", "head", *SUMMARY_COLUMNS], rows


def _tokens_table(maps: AttentionMaps, weights: np.ndarray, top: int) -> Cells:
    top = min(top, len(maps.tokens))
    rows: list[list[str]] = []
    for place, row in enumerate(weights):
        cells = [
            f"{weight_text(weight)} {cut(maps.shown[key], _LONGEST_TOKEN)} ({key})"
            for key, weight in most_looked_at(row, top)
        ] or ["nothing"]
        cells += [MISSING] * (top - len(cells))
        rows.append([str(place), cut(maps.shown[place], _LONGEST_TOKEN), *cells])
    return ["place", "token", *rank_columns(top)], rows


def rank_columns(top: int) -> list[str]:
    """The column titles: looks most at, 2nd, 3rd, 4th …"""
    ends = {1: "st", 2: "nd", 3: "rd"}
    later = (
        f"{i}{ends.get(i % 10, 'th') if i // 10 % 10 != 1 else 'th'}" for i in range(2, top + 1)
    )
    return ["looks most at", *later]


def weight_text(weight: float) -> str:
    """A weight to three digits, as 0.042; a smaller one is not shown as 0."""
    return f"{weight:.3f}" if weight >= 0.0005 else "<0.001"


def _fixed(x: float, places: int) -> str:
    return f"{x:.{places}f}" if np.isfinite(x) else MISSING


def as_json(maps: AttentionMaps) -> dict[str, Any]:
    """target, tokens, unknown, and weights[layer][head][query][key] to six digits."""
    return {
        "target": maps.target,
        "tokens": list(maps.tokens),
        "unknown": maps.unknown,
        "weights": np.round(maps.weights.astype(np.float64), _JSON_DIGITS).tolist(),
    }


def picture(maps: AttentionMaps, layer: int | None = None, head: int | None = None) -> "Figure":
    """Small maps of the chosen layers and heads, or one large map with its tokens."""
    from attnlab.report.attention_picture import draw

    return draw(maps, layer, head)


def save(figure: "Figure", path: Path) -> None:
    """Save the picture as .png, .svg or .pdf, by the ending of the name."""
    from attnlab.report import style

    savers = {".png": style.save_png, ".svg": style.save_svg, ".pdf": style.save_pdf}
    saver = savers.get(path.suffix.lower())
    if saver is None:
        raise UsageError(f"{path.name}: a picture's name ends with .png, .svg or .pdf")
    saver(figure, path)


def page(maps: AttentionMaps) -> str:
    """An HTML page under 5 MB to explore layers, heads and tokens; it loads nothing."""
    from attnlab.report.attention_page import render

    return render(maps)


def write_page(maps: AttentionMaps, path: Path) -> None:
    """Write `page` to a file in one step."""
    write_text(path, page(maps))
