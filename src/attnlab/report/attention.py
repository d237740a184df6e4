"""Attention maps of one text, and what `attnlab attend` shows of them: tables, a picture, a page.

    Σ over keys of weights[layer, head, query, key] = 1, or 0 where the query may look at nothing

Layers, heads and positions are counted from 0, as in the arrays they come from.

    columns, rows = table(maps)                    # one row a layer and head
    columns, rows = table(maps, layer=2, head=1)   # one row a token: where it looks
    save(picture(maps), Path("all-heads.png"))
    write_page(maps, Path("attention.html"))
"""

import functools
import html
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.files import write_text
from attnlab.report.text import MISSING
from attnlab.report.tokens import cut, shown_tokens

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# bfloat16 keeps 8 bits: every weight, and so their sum, may be off by 2⁻⁹ of itself; and
# softmax in that precision adds as much again for the exponential and for the division
TOLERANCE = 2.0**-7
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


@dataclass(frozen=True, eq=False, repr=False)  # eq: arrays have no single truth value
class AttentionMaps:
    """Where a model looks: one square map a layer and head over the tokens of one text."""

    target: str
    tokens: tuple[str, ...]
    weights: np.ndarray  # (layer, head, query, key), float32, read-only
    unknown: int = 0  # characters or words of the text that are not in the model's vocabulary

    def __post_init__(self) -> None:
        n, shape = len(self.tokens), np.shape(self.weights)
        if n == 0:
            raise UsageError("the text has no tokens: there is nothing to look at")
        if len(shape) != 4 or shape[2:] != (n, n) or 0 in shape:
            raise UsageError(
                f"weights of {n} tokens have the shape (layer, head, {n}, {n}), not {shape}"
            )
        weights = np.array(self.weights, dtype=np.float32, order="C")
        for layer, maps in enumerate(weights):
            _check(layer, maps)
        weights.setflags(write=False)
        object.__setattr__(self, "tokens", tuple(str(token) for token in self.tokens))
        object.__setattr__(self, "weights", weights)

    def __repr__(self) -> str:
        """The model and the sizes; the weights themselves are in `weights`."""
        return (
            f"<AttentionMaps of {self.target}: {self.layers} layers, {self.heads} heads, "
            f"{len(self.tokens)} tokens>"
        )

    def _repr_html_(self) -> str:
        """In a notebook: every head as a small picture."""
        import base64
        import io

        buffer = io.BytesIO()
        picture(self).savefig(buffer, format="png", dpi=110)
        data = base64.b64encode(buffer.getvalue()).decode()
        return f'<p>{html.escape(repr(self))}</p><img src="data:image/png;base64,{data}"/>'

    @property
    def layers(self) -> int:
        """The number of layers."""
        return self.weights.shape[0]

    @property
    def heads(self) -> int:
        """The number of heads per layer."""
        return self.weights.shape[1]

    @functools.cached_property
    def shown(self) -> tuple[str, ...]:
        """The tokens as people can see them: ␣the, ↵, \\u202e."""
        return shown_tokens(self.tokens)

    @functools.cached_property
    def causal(self) -> bool:
        """Whether no query attends to a later token: weights[…, q, k] = 0 exactly for k > q."""
        return not np.triu(self.weights, 1).any()

    @functools.cached_property
    def empty(self) -> np.ndarray:
        """(layer, head, query, key): cells with no weight to show, later tokens if causal."""
        n = len(self.tokens)
        later = np.triu(np.ones((n, n), dtype=bool), 1) & self.causal
        return later | (self.weights.sum(-1, keepdims=True) == 0)

    def chosen(self, layer: int | None, head: int | None) -> tuple[list[int], list[int]]:
        """The chosen layers and heads; None means all of them."""
        return _one_or_all("layer", layer, self.layers), _one_or_all("head", head, self.heads)


def _check(layer: int, maps: np.ndarray) -> None:
    """Raise IntegrityError unless weights are >= 0 and rows sum to 1 or 0; it names the token."""
    total = maps.sum(-1, dtype=np.float64)
    off = np.minimum(np.abs(total - 1), np.abs(total)) > TOLERANCE
    # NaN compares false with everything: ask for what is good, not for what is bad
    bad = ~np.isfinite(maps).all(-1) | (maps < -TOLERANCE).any(-1) | off
    if not bad.any():
        return
    head, query = (int(i) for i in np.argwhere(bad)[0])
    row = maps[head, query]
    if not np.isfinite(row).all():
        why = "are not finite numbers"
    elif (row < -TOLERANCE).any():
        why = f"go down to {row.min():.4g}"
    else:
        why = f"sum to {total[head, query]:.4g}, not to 1 or 0"
    raise IntegrityError(f"layer {layer}, head {head}, token {query}: its attention weights {why}")


def _one_or_all(what: str, index: int | None, count: int) -> list[int]:
    if index is None:
        return list(range(count))
    if not 0 <= index < count:
        raise UsageError(f"{what} {index} does not exist: there are {what}s 0 to {count - 1}")
    return [index]


@dataclass(frozen=True)
class Summary:
    """Five numbers a head, arrays (layer, head): means over the queries after the first token.

    The first token of a causal model can look at itself only, so it says nothing about a head;
    a query that looks at nothing is left out too. NaN where no query remains.
    """

    entropy: np.ndarray  # −Σ w log₂ w, bits: 0 = one token, log₂ m = m tokens alike
    distance: np.ndarray  # Σ w |query − key|, tokens
    first: np.ndarray  # weight on the first token of the text
    previous: np.ndarray  # weight on the token before
    itself: np.ndarray


def summary(maps: AttentionMaps) -> Summary:
    """Five numbers that describe each head."""
    numbers = np.stack([_five(w) for w in maps.weights])
    return Summary(*np.moveaxis(numbers, -1, 0))


def _five(weights: np.ndarray) -> np.ndarray:
    """The five numbers of every head of one layer, shape (head, 5)."""
    w = np.clip(weights[:, 1:].astype(np.float64), 0, None)
    query, key = np.ogrid[1 : w.shape[2], 0 : w.shape[2]]
    bits = -(w * np.log2(w, out=np.zeros_like(w), where=w > 0)).sum(-1)
    distance = (w * np.abs(query - key)).sum(-1)
    numbers: list[Any] = [bits, distance, w[..., 0]]
    numbers += [np.diagonal(w, offset, -2, -1) for offset in (0, 1)]
    looks = (w.sum(-1) > 0).astype(np.float64)
    count = looks.sum(-1, keepdims=True)
    total = np.stack([(number * looks).sum(-1) for number in numbers], axis=-1)
    return np.divide(total, count, out=np.full(total.shape, np.nan), where=count > 0)


def most_looked_at(row: np.ndarray, top: int) -> list[tuple[int, float]]:
    """(key, weight) of the `top` largest weights above 0, largest first, ties from the left."""
    order = np.argsort(-row, kind="stable")[:top]
    return [(int(key), float(row[key])) for key in order if row[key] > 0]


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
    numbers, places = astuple(summary(maps)), (2, 1, 3, 3, 3)
    rows = [
        [str(i), str(j), *(_fixed(x[i, j], p) for x, p in zip(numbers, places, strict=True))]
        for i in layers
        for j in heads
    ]
    return ["layer", "head", *SUMMARY_COLUMNS], rows


def _tokens_table(maps: AttentionMaps, weights: np.ndarray, top: int) -> Cells:
    top = min(top, len(maps.tokens))
    rows: list[list[str]] = []
    for position, row in enumerate(weights):
        cells = [
            f"{weight_text(weight)} {cut(maps.shown[key], _LONGEST_TOKEN)} ({key})"
            for key, weight in most_looked_at(row, top)
        ] or ["nothing"]
        cells += [MISSING] * (top - len(cells))
        rows.append([str(position), cut(maps.shown[position], _LONGEST_TOKEN), *cells])
    return ["position", "token", *rank_columns(top)], rows


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
