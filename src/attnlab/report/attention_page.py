"""Attention maps as one HTML file that loads nothing from outside and runs no code of a token.

Weights travel as thousandths, deflated, in a block that is no script; tokens are text that
Jinja2 has escaped, and the page's own script reads them from there. The policy of the page
names that one script by its hash, so no other can run. Without scripts the page still shows
the mean map, where each token looks, every head as a small map, and the numbers.
"""

import base64
import hashlib
import io
import zlib
from typing import Any

import matplotlib as mpl
import numpy as np
from markupsafe import Markup
from matplotlib import image

from attnlab.core.errors import UsageError
from attnlab.report.attention import AttentionMaps, most_looked_at, rank_columns, table, weight_text
from attnlab.report.attention_canvas import map_of, pooled
from attnlab.report.pages import package_file, page_template
from attnlab.report.text import counted
from attnlab.report.tokens import cut, visible

LIMIT_BYTES = 5_000_000
TOP = 3
_MOST_WEIGHTS = 40_000_000  # never below the limit once deflated, and a minute's work to find out
_THUMBNAIL = 32  # pixels a side
_LONGEST_TOKEN = 40


def render(maps: AttentionMaps) -> str:
    """Render the page; UsageError if it would be larger than LIMIT_BYTES."""
    if maps.weights.size > _MOST_WEIGHTS:
        raise _too_large(maps, maps.weights.size // 2)
    script = package_file("attention.js")
    mean = maps.weights.mean((0, 1), dtype=np.float64)
    columns, numbers = table(maps)
    tokens = counted(len(maps.tokens), "token")
    css = package_file("style.css") + package_file("attention.css")
    colours = mpl.colormaps["viridis"](np.arange(256), bytes=True)
    page = page_template(
        "attention.html.jinja"
    ).render(
        css=Markup(css),  # files of this package
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        target=cut(visible(maps.target, spaces=False), 200),
        tokens=[cut(token, _LONGEST_TOKEN) for token in maps.shown],
        layers=maps.layers,
        heads=maps.heads,
        causal=maps.causal,
        size=f"{tokens}, {counted(maps.layers, 'layer')}, {counted(maps.heads, 'head')}",
        rank_columns=rank_columns(min(TOP, len(maps.tokens))),
        looks=[
            [(weight_text(weight), key) for key, weight in most_looked_at(row, TOP)] for row in mean
        ],
        mean_map=_png(np.where(maps.empty.all((0, 1)), np.nan, mean)),
        thumbnails=[
            [_png(pooled(map_of(maps, layer, head), _THUMBNAIL)) for head in range(maps.heads)]
            for layer in range(maps.layers)
        ],
        number_columns=columns[2:],
        numbers=numbers,
        palette=np.ascontiguousarray(colours[:, :3]).tobytes().hex(),  # 256 × rrggbb
        weights=packed(maps.weights),
    )
    size = len(page.encode())
    if size > LIMIT_BYTES:
        raise _too_large(maps, size)
    return page


def packed(weights: np.ndarray) -> str:
    """Weights in thousandths as base64 of deflated bytes: all low bytes, then all high bytes."""
    thousandths = np.rint(np.clip(weights, 0, 1) * 1000).astype("<u2")
    planes = thousandths.reshape(-1, 1).view(np.uint8).T.tobytes()  # high bytes are mostly 0
    return base64.b64encode(zlib.compress(planes, 9)).decode()


def _too_large(maps: AttentionMaps, size: int) -> UsageError:
    fits = max(1, int(0.95 * len(maps.tokens) * (LIMIT_BYTES / size) ** 0.5))
    return UsageError(
        f"the page would be about {size / 1e6:.0f} MB, more than {LIMIT_BYTES / 1e6:.0f} MB: "
        f"shorten the text of {counted(len(maps.tokens), 'token')} to about {fits}, "
        "or write one picture a layer"
    )


def _png(weights: np.ndarray) -> str:
    """A PNG as a data: URI with one pixel per cell; NaN is transparent."""
    colours = mpl.colormaps["viridis"].with_extremes(bad=(0, 0, 0, 0))
    pixels = colours(np.ma.masked_invalid(weights), bytes=True)
    buffer = io.BytesIO()
    metadata: Any = {"Software": None}  # same maps, same bytes
    image.imsave(buffer, pixels, format="png", metadata=metadata)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
