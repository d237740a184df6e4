"""Attention maps of one text: weights[layer, head, query, key], checked once, and what they say.

    Σ over keys of weights[layer, head, query, key] = 1, or 0 where the query may look at nothing

Layers, heads and places are counted from 0, as in the arrays they come from.
"""

import functools
import html
from dataclasses import dataclass
from typing import Any

import numpy as np

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.report.tokens import shown_tokens

# bfloat16 keeps 8 bits: every weight, and so their sum, may be off by 2⁻⁹ of itself; and
# softmax in that precision adds as much again for the exponential and for the division
TOLERANCE = 2.0**-7


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

        from attnlab.report.attention import picture

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
    """Raise IntegrityError, with the place, unless weights are >= 0 and rows sum to 1 or 0."""
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
