"""Kneser-Ney against its formula in loops, against the sum rule, and against a known source."""

import math
import time
from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.core.errors import UsageError
from attnlab.tasks.ngram import DISCOUNTS, NGram

SIZE = 7
rows = st.lists(st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=11), min_size=1, max_size=7)
some = rows.filter(lambda found: any(len(row) > 1 for row in found))
Gram = tuple[int | None, ...]


class Loops:
    """Kneser–Ney by its definition, with dictionaries and loops; None precedes a row."""

    def __init__(self, rows: list[list[int]], order: int, size: int) -> None:
        self.size, self.order = size, order
        grams: dict[int, dict[Gram, int]] = {k: defaultdict(int) for k in range(1, order + 1)}
        for row in rows:
            padded: list[int | None] = [None] * order + list(row)
            for end in range(order + 1, len(padded)):
                for k in range(1, order + 1):
                    grams[k][tuple(padded[end - k + 1 : end + 1])] += 1
        self.counts: dict[int, dict[Gram, int]] = {}
        for k in range(1, order + 1):
            if k == order:
                self.counts[k] = grams[k]
                continue
            self.counts[k] = defaultdict(int)
            for longer, count in grams[k + 1].items():
                self.counts[k][longer[1:]] += count if longer[0] is None else 1

    def discount(self, k: int) -> float:
        values = list(self.counts[k].values())
        n1, n2 = values.count(1), values.count(2)
        return min(max(n1 / max(n1 + 2 * n2, 1), DISCOUNTS[0]), DISCOUNTS[1])

    def p(self, word: int, history: Gram) -> float:
        """p_k with k - 1 = len(history)."""
        k = len(history) + 1
        below = 1 / self.size if k == 1 else self.p(word, history[1:])
        following = {g[-1]: c for g, c in self.counts[k].items() if g[:-1] == history}
        if not following:
            return below
        d, total = self.discount(k), sum(following.values())
        kept = max(following.get(word, 0) - d, 0)
        return (kept + d * len(following) * below) / total

    def nll(self, rows: list[list[int]]) -> float:
        total = 0.0
        for row in rows:
            padded: list[int | None] = [None] * self.order + list(row)
            for end in range(self.order + 1, len(padded)):
                history = tuple(padded[end - self.order + 1 : end])
                total -= math.log(self.p(padded[end], history))  # type: ignore[arg-type]
        return total


@given(some, rows, st.integers(1, 4))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_equals_the_definition_in_loops(
    training: list[list[int]], others: list[list[int]], order: int
) -> None:
    found, loops = NGram.fit(training, order, SIZE), Loops(training, order, SIZE)
    for rows_ in (training, others):
        nll, tokens = found.nll(rows_)
        assert tokens == sum(len(row) - 1 for row in rows_)
        assert nll == pytest.approx(loops.nll(rows_), rel=1e-12, abs=1e-12)


@given(some, st.lists(st.integers(0, SIZE - 1), min_size=1, max_size=5), st.integers(0, 4))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_probabilities_sum_to_one_and_none_is_zero(
    training: list[list[int]], history: list[int], order: int
) -> None:
    p = NGram.fit(training, order, SIZE).probabilities(history)
    assert p.shape == (SIZE,) and p.min() > 0
    assert abs(math.fsum(p) - 1) < 4 * SIZE * np.finfo(float).eps


@given(some, st.lists(st.integers(0, SIZE - 1), min_size=2, max_size=7), st.integers(0, 4))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_the_nll_of_a_row_is_the_product_of_its_probabilities(
    training: list[list[int]], row: list[int], order: int
) -> None:
    found = NGram.fit(training, order, SIZE)
    steps = [found.probabilities(row[:i])[row[i]] for i in range(1, len(row))]
    assert found.nll([row])[0] == pytest.approx(-math.fsum(np.log(steps)), rel=1e-12)


@given(some, rows, st.integers(0, 3))
@settings(max_examples=100, derandomize=True, deadline=None)
def test_rows_do_not_touch_each_other(
    training: list[list[int]], others: list[list[int]], order: int
) -> None:
    found = NGram.fit(training, order, SIZE)
    sums, counts = found.row_nll(others)
    alone = [found.nll([row]) for row in others]
    assert sums.tolist() == pytest.approx([nll for nll, _ in alone], rel=1e-13)
    assert counts.tolist() == [tokens for _, tokens in alone]
    backwards = NGram.fit(training[::-1], order, SIZE)
    assert backwards.nll(others)[0] == pytest.approx(found.nll(others)[0], rel=1e-12)


def test_uniform() -> None:
    nll, tokens = NGram.fit([], 0, 11).nll([[0, 5, 10], [3, 3]])
    assert tokens == 3 and nll == pytest.approx(3 * math.log(11), rel=1e-15)
    assert NGram.fit([], 0, 11).nll([]) == (0.0, 0)


def test_unigram_by_hand() -> None:
    # scored: 1 1 1 2, so c = (3, 1), n_1 = 1, n_2 = 0, D = 1 -> 0.95; two types; V = 5
    p = NGram.fit([[0, 1, 1, 1, 2]], 1, 5).probabilities([0])
    below = 0.95 * 2 / 5
    assert p == pytest.approx(np.array([below, 2.05 + below, 0.05 + below, below, below]) / 4)


def test_continuations_not_counts_decide_below_the_highest_order() -> None:
    # 2 is frequent but only ever follows 1; 3 is seen once after each of 4, 5, 6
    training = [[0, 1, 2]] * 13 + [[0, 4, 3], [0, 5, 3], [0, 6, 3]]
    p = NGram.fit(training, 2, 11).probabilities([0, 9])  # 9 was never seen: backs off
    assert p[3] > 2 * p[2]
    q = NGram.fit(training, 1, 11).probabilities([0, 9])
    assert q[2] > 2 * q[3]


def test_higher_orders_come_closer_to_a_source_of_second_order() -> None:
    rng = np.random.default_rng(41)
    size = 11
    source = rng.dirichlet(np.full(size, 0.1), size=(size, size))
    made = []
    for _ in range(1009):
        row = [0, 0]
        for _ in range(23):
            row.append(int(rng.choice(size, p=source[row[-2], row[-1]])))
        made.append(row[1:])
    train, test = made[:900], made[900:]
    losses = []
    for order in range(4):
        nll, tokens = NGram.fit(train, order, size).nll(test)
        losses.append(nll / tokens)
    true = -np.mean(
        [np.log(source[a, b, c]) for r in test for a, b, c in zip([0, *r], r, r[1:], strict=False)]
    )
    assert losses == sorted(losses, reverse=True)
    assert losses[3] - true < 0.1 * (losses[1] - true)
    assert losses[3] > true


def test_what_makes_no_sense() -> None:
    for make, message in [
        (lambda: NGram.fit([[0, 1]], -1, 5), "order >= 0"),
        (lambda: NGram.fit([[0, 1]], 2, 0), "size >= 1"),
        (lambda: NGram.fit([[0, 5]], 2, 5), r"0\.\.4"),
        (lambda: NGram.fit([[0, -1]], 2, 5), r"0\.\.4"),
        (lambda: NGram.fit([[0], []], 2, 5), "nothing to count"),
        (lambda: NGram.fit([[0, 1]], 2, 5).nll([[9, 1]]), r"0\.\.4"),
        (lambda: NGram.fit([[0, 1]], 2, 5).probabilities([]), "given, not predicted"),
    ]:
        with pytest.raises(UsageError, match=message):
            make()


def test_a_million_tokens_take_seconds() -> None:
    rng = np.random.default_rng(43)
    words = np.minimum(rng.zipf(1.3, 1_000_003), 5000) - 1
    rows_ = np.split(words, np.arange(17, len(words), 17))
    started = time.perf_counter()
    found = NGram.fit(rows_, 3, 5000)
    found.nll(rows_)
    assert time.perf_counter() - started < 20  # some 1.5 s on one free core; loops take minutes
