"""What a table of counts predicts: uniform, unigram, bigram, trigram ... by Kneser and Ney.

    p_0(w) = 1/V
    p_k(w | h) = [max(c_k(h w) - D_k, 0) + D_k · types_k(h) · p_{k-1}(w | h')] / Σ_w c_k(h w)

with h the last k-1 tokens and h' the same without the first. At the highest order c is the
count; below it, the number of different tokens seen before the k-gram (for k-grams that open a
row, where none stands before, the count). D_k = n_1/(n_1 + 2 n_2), n_i: how many c_k are i. An
unseen h passes p_{k-1} on. Every p_k sums to 1 over the vocabulary and no token has
probability 0. (Kneser and Ney 1995, interpolated as in Chen and Goodman 1999.)

Rows are those of the batches: the first token of a row is given, all others are scored.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnlab.core.errors import UsageError
from attnlab.core.tokens import Ids

DISCOUNTS = (0.1, 0.95)  # D_k is kept within: 0 would forbid what was not seen


@dataclass(frozen=True)
class _Order:
    """The k-grams of the training rows, and the terms of p_k."""

    keys: np.ndarray  # sorted: number of the context among the (k-1)-grams · (V+1) + token
    lowered: np.ndarray  # max(c - D, 0), one a key
    total: np.ndarray  # Σ_w c, one a context
    passed: np.ndarray  # D · types, one a context


@dataclass(frozen=True)
class NGram:
    """A fitted table; with no order it is the uniform distribution."""

    size: int
    orders: tuple[_Order, ...]

    @staticmethod
    def fit(rows: Sequence[Ids], order: int, size: int) -> "NGram":
        """Counts of all k-grams, k = 1 .. order, over a vocabulary of `size` tokens."""
        if order < 0 or size < 1:
            raise UsageError(f"n-gram: need order >= 0 and size >= 1, got {order} and {size}")
        tokens, scored, _ = _flatten(rows, order, size)
        if order and not scored.size:
            raise UsageError("n-gram: no row has two tokens: nothing to count")
        names, keys = [np.zeros_like(tokens)], [np.zeros(1, dtype=np.int64)]
        for _ in range(order):
            context = np.concatenate([[0], names[-1][:-1]])
            found, inverse = np.unique(context * (size + 1) + tokens, return_inverse=True)
            keys.append(found)
            names.append(inverse)
        orders = []
        for k in range(1, order + 1):
            counts = np.bincount(names[k][scored], minlength=len(keys[k]))
            if k < order:
                counts = _count_continuations(tokens, scored, names[k : k + 2], k, size)
            orders.append(_smooth(keys[k], counts, len(keys[k - 1]), size))
        return NGram(size, tuple(orders))

    def nll(self, rows: Sequence[Ids]) -> tuple[float, int]:
        """(Σ -ln p, tokens scored) over all rows."""
        sums, counts = self.row_nll(rows)
        return math.fsum(sums), int(counts.sum())

    def row_nll(self, rows: Sequence[Ids]) -> tuple[np.ndarray, np.ndarray]:
        """(Σ -ln p, tokens scored) of every row."""
        tokens, scored, row = _flatten(rows, len(self.orders), self.size)
        surprise = -np.log(self._probabilities(tokens)[scored])
        sums = np.bincount(row, weights=surprise, minlength=len(rows))
        return sums, np.bincount(row, minlength=len(rows))

    def probabilities(self, history: Ids) -> np.ndarray:
        """p(w | history) of every token w; the history's first token opens its row."""
        if not len(history):
            raise UsageError("n-gram: the first token of a row is given, not predicted")
        start = max(0, len(history) - max(1, len(self.orders) - 1))
        rows = [[*map(int, history[start:]), word] for word in range(self.size)]
        tokens, scored, row = _flatten(rows, len(self.orders), self.size)
        last = scored[np.cumsum(np.bincount(row)) - 1]
        return self._probabilities(tokens)[last]

    def _probabilities(self, tokens: np.ndarray) -> np.ndarray:
        """p of each token given those before it; of no meaning for those that are not scored."""
        p = np.full(len(tokens), 1.0 / self.size)
        names = np.zeros_like(tokens)  # number of the k-gram that ends here, -1: unseen
        for order in self.orders:
            context = np.concatenate([names[:1], names[:-1]])
            key = context * (self.size + 1) + tokens
            place = np.minimum(np.searchsorted(order.keys, key), len(order.keys) - 1)
            seen = order.keys[place] == key  # after an unseen context the key is below 0: never
            total = np.where(context >= 0, order.total[context], 0.0)
            lowered = np.where(seen, order.lowered[place], 0.0)
            mixed = (lowered + order.passed[context] * p) / np.maximum(total, 1.0)
            p = np.where(total > 0, mixed, p)
            names = np.where(seen, place, -1)
        return p


def _flatten(
    rows: Sequence[Ids], order: int, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All rows in one line, before each as many fillers (token `size`) as a history reaches back.

    With it: the places that are scored, and the row of each of these.
    """
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    flat = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows] or [lengths])
    if flat.size and not (flat.min() >= 0 and flat.max() < size):
        raise UsageError(f"n-gram: token ids must lie in 0..{size - 1}")
    fillers = max(order - 2, 0)
    row = np.repeat(np.arange(len(rows)), lengths)
    places = np.arange(len(flat)) + (row + 1) * fillers
    tokens = np.full(len(flat) + len(rows) * fillers, size, dtype=np.int64)
    tokens[places] = flat
    first = np.diff(row, prepend=-1) > 0
    return tokens, places[~first], row[~first]


def _count_continuations(
    tokens: np.ndarray, scored: np.ndarray, names: list[np.ndarray], k: int, size: int
) -> np.ndarray:
    """c_k below the highest order: different tokens before each k-gram; fillers each time."""
    shorter, longer = names
    _, first, counts = np.unique(longer[scored], return_index=True, return_counts=True)
    place = scored[first]
    opens = tokens[place - k] == size
    weights = np.where(opens, counts, 1)
    return np.bincount(shorter[place], weights=weights, minlength=int(shorter.max(initial=0)) + 1)


def _smooth(keys: np.ndarray, counts: np.ndarray, contexts: int, size: int) -> _Order:
    once, twice = np.count_nonzero(counts == 1), np.count_nonzero(counts == 2)
    discount = float(np.clip(once / max(once + 2 * twice, 1), *DISCOUNTS))
    context = keys // (size + 1)
    total = np.bincount(context, weights=counts, minlength=contexts)
    types = np.bincount(context, weights=counts > 0, minlength=contexts)
    return _Order(keys, np.maximum(counts - discount, 0.0), total, discount * types)
