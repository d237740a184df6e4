"""N-gram models with interpolated Kneser–Ney smoothing: uniform, unigram, bigram, trigram …

    p_0(w) = 1/V
    p_k(w | h) = [max(c_k(h w) - D_k, 0) + D_k · types_k(h) · p_{k-1}(w | h')] / Σ_w c_k(h w)

where h is the last k-1 tokens and h' is h without its first token. At the highest order c is the
count; below it, c is the number of different tokens seen before the k-gram (for k-grams at the
start of a row, which no token precedes, the count). D_k = n_1/(n_1 + 2 n_2), where n_i is the
number of k-grams with c_k = i. For an unseen h, p_k is p_{k-1}. Every p_k sums to 1 over the
vocabulary, and no token has probability 0. (Kneser and Ney 1995, interpolated as in Chen and
Goodman 1999.)

Rows are those of the batches: the first token of a row is given, all others are scored.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from attnlab.core.errors import UsageError
from attnlab.core.tokens import Ids

DISCOUNTS = (0.1, 0.95)  # bounds of D_k: with D_k = 0 unseen tokens would have probability 0


@dataclass(frozen=True)
class _Order:
    """The k-grams of the training rows and the terms of p_k."""

    keys: np.ndarray  # sorted: number of the context among the (k-1)-grams · (V+1) + token
    discounted: np.ndarray  # max(c - D, 0), one per key
    total: np.ndarray  # Σ_w c, one per context
    backoff: np.ndarray  # D · types, one per context


@dataclass(frozen=True)
class NGram:
    """A fitted n-gram model; with order 0 it is the uniform distribution."""

    size: int
    orders: tuple[_Order, ...]

    @staticmethod
    def fit(rows: Sequence[Ids], order: int, size: int) -> "NGram":
        """Count all k-grams, k = 1 .. order, over a vocabulary of `size` tokens."""
        if order < 0 or size < 1:
            raise UsageError(f"n-gram: need order >= 0 and size >= 1, got {order} and {size}")
        tokens, scored, _ = _flatten(rows, order, size)
        if order and not scored.size:
            raise UsageError("n-gram: no row has two tokens: nothing to count")
        names, keys = [np.zeros_like(tokens)], [np.zeros(1, dtype=np.int64)]
        for _ in range(order):
            context = np.concatenate([[0], names[-1][:-1]])
            unique, inverse = np.unique(context * (size + 1) + tokens, return_inverse=True)
            keys.append(unique)
            names.append(inverse)
        orders = []
        for k in range(1, order + 1):
            counts = np.bincount(names[k][scored], minlength=len(keys[k]))
            if k < order:
                counts = _count_continuations(tokens, scored, names[k : k + 2], k, size)
            orders.append(_smooth(keys[k], counts, len(keys[k - 1]), size))
        return NGram(size, tuple(orders))

    def nll(self, rows: Sequence[Ids]) -> tuple[float, int]:
        """Return (Σ -ln p, number of scored tokens) over all rows."""
        sums, counts = self.row_nll(rows)
        return math.fsum(sums), int(counts.sum())

    def row_nll(self, rows: Sequence[Ids]) -> tuple[np.ndarray, np.ndarray]:
        """Return (Σ -ln p, number of scored tokens) of every row, as two arrays."""
        tokens, scored, row = _flatten(rows, len(self.orders), self.size)
        token_nll = -np.log(self._probabilities(tokens)[scored])
        sums = np.bincount(row, weights=token_nll, minlength=len(rows))
        return sums, np.bincount(row, minlength=len(rows))

    def probabilities(self, history: Ids) -> np.ndarray:
        """Return p(w | history) of every token w; the first token of `history` starts a row."""
        if not len(history):
            raise UsageError("n-gram: the first token of a row is given, not predicted")
        start = max(0, len(history) - max(1, len(self.orders) - 1))
        rows = [[*map(int, history[start:]), word] for word in range(self.size)]
        tokens, scored, row = _flatten(rows, len(self.orders), self.size)
        last = scored[np.cumsum(np.bincount(row)) - 1]
        return self._probabilities(tokens)[last]

    def _probabilities(self, tokens: np.ndarray) -> np.ndarray:
        """Return p of each token given those before it; meaningless where nothing is scored."""
        p = np.full(len(tokens), 1.0 / self.size)
        names = np.zeros_like(tokens)  # number of the k-gram that ends here; -1: unseen
        for order in self.orders:
            context = np.concatenate([names[:1], names[:-1]])
            key = context * (self.size + 1) + tokens
            index = np.minimum(np.searchsorted(order.keys, key), len(order.keys) - 1)
            seen = order.keys[index] == key  # after an unseen context the key is negative
            total = np.where(context >= 0, order.total[context], 0.0)
            discounted = np.where(seen, order.discounted[index], 0.0)
            interpolated = (discounted + order.backoff[context] * p) / np.maximum(total, 1.0)
            p = np.where(total > 0, interpolated, p)
            names = np.where(seen, index, -1)
        return p


def _flatten(
    rows: Sequence[Ids], order: int, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Concatenate all rows, each after order - 2 fillers (token `size`), which end its history.

    Return (tokens, positions of the scored tokens, row of each scored token).
    """
    lengths = np.array([len(row) for row in rows], dtype=np.int64)
    flat = np.concatenate([np.asarray(row, dtype=np.int64) for row in rows] or [lengths])
    if flat.size and not (flat.min() >= 0 and flat.max() < size):
        raise UsageError(f"n-gram: token ids must lie in 0..{size - 1}")
    fillers = max(order - 2, 0)
    row = np.repeat(np.arange(len(rows)), lengths)
    positions = np.arange(len(flat)) + (row + 1) * fillers
    tokens = np.full(len(flat) + len(rows) * fillers, size, dtype=np.int64)
    tokens[positions] = flat
    first = np.diff(row, prepend=-1) > 0
    return tokens, positions[~first], row[~first]


def _count_continuations(
    tokens: np.ndarray, scored: np.ndarray, names: list[np.ndarray], k: int, size: int
) -> np.ndarray:
    """Return c_k below the highest order: the number of different tokens before each k-gram.

    A k-gram at the start of a row, where a filler precedes it, counts every time.
    """
    shorter, longer = names
    _, first, counts = np.unique(longer[scored], return_index=True, return_counts=True)
    position = scored[first]
    starts_row = tokens[position - k] == size
    weights = np.where(starts_row, counts, 1)
    return np.bincount(
        shorter[position], weights=weights, minlength=int(shorter.max(initial=0)) + 1
    )


def _smooth(keys: np.ndarray, counts: np.ndarray, contexts: int, size: int) -> _Order:
    once, twice = np.count_nonzero(counts == 1), np.count_nonzero(counts == 2)
    discount = float(np.clip(once / max(once + 2 * twice, 1), *DISCOUNTS))
    context = keys // (size + 1)
    total = np.bincount(context, weights=counts, minlength=contexts)
    types = np.bincount(context, weights=counts > 0, minlength=contexts)
    return _Order(keys, np.maximum(counts - discount, 0.0), total, discount * types)
