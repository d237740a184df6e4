"""One number for any batch size and padding; both perplexities by hand; windows score each once."""

import math
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import embedding

from attnlab.core.errors import UsageError
from attnlab.core.tokens import IGNORE
from attnlab.measure.perplexity import (
    Perplexity,
    Scores,
    ScoringBatch,
    corpus_perplexity,
    score,
    sentence_perplexity,
    token_nll,
    windows,
)

VOCAB = 13
EPS = torch.finfo(torch.float64).eps
rows = st.lists(
    st.lists(st.integers(0, VOCAB - 1), min_size=2, max_size=17), min_size=1, max_size=11
)


TABLE = 3 * torch.randn(
    VOCAB, VOCAB, generator=torch.Generator().manual_seed(3), dtype=torch.float64
)


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """Two threads that wait for each other on busy cores make a tiny softmax take 50 ms."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def bigram(ids: Tensor, hidden: Tensor | None) -> Tensor:
    """Logits from the token alone: a row's output depends on the row only."""
    return embedding(ids, TABLE)


def padded(
    rows_: list[list[int]], batch: int, extra: int = 0, left: bool = False
) -> list[ScoringBatch]:
    """The rows in batches, padded `extra` places beyond the longest, on either side."""
    made: list[ScoringBatch] = []
    for start in range(0, len(rows_), batch):
        part = rows_[start : start + batch]
        longest = max(map(len, part)) - 1 + extra
        ids = torch.zeros(len(part), longest, dtype=torch.int64)
        targets = torch.full_like(ids, IGNORE)
        for i, row in enumerate(part):
            place = slice(longest - len(row) + 1, None) if left else slice(len(row) - 1)
            ids[i, place] = torch.tensor(row[:-1])
            targets[i, place] = torch.tensor(row[1:])
        made.append((ids, targets, targets == IGNORE))
    return made


def by_hand(rows_: list[list[int]]) -> tuple[list[float], list[int]]:
    logs = TABLE.log_softmax(-1)
    sums = [-sum(float(logs[a, b]) for a, b in pairwise(r)) for r in rows_]
    return sums, [len(r) - 1 for r in rows_]


@given(rows, st.integers(1, 12), st.integers(0, 5), st.booleans())
@settings(max_examples=150, derandomize=True, deadline=None)
def test_batch_size_and_padding_change_nothing(
    rows_: list[list[int]], batch: int, extra: int, left: bool
) -> None:
    alone = score(token_nll(bigram), padded(rows_, 1))
    found = score(token_nll(bigram), padded(rows_, batch, extra, left))
    assert found.tokens.tolist() == alone.tokens.tolist()
    # a token's own NLL may differ by rounding with the batch's layout, the sums add nothing:
    # |NLL| < 40 here, one ulp of it for each of at most 16 terms
    assert np.abs(found.nll - alone.nll).max() <= 16 * 40 * EPS
    assert found.perplexity.corpus == pytest.approx(alone.perplexity.corpus, rel=16 * 40 * EPS)
    sums, counts = by_hand(rows_)
    assert found.nll.tolist() == pytest.approx(sums, rel=1e-13)
    assert found.perplexity.corpus == pytest.approx(math.exp(sum(sums) / sum(counts)), rel=1e-13)
    each = [math.exp(s / c) for s, c in zip(sums, counts, strict=True)]
    assert found.perplexity.sentence_mean == pytest.approx(np.mean(each), rel=1e-13)


def test_the_sums_themselves_are_bit_equal() -> None:
    rng = np.random.default_rng(5)
    values = torch.from_numpy(rng.exponential(size=VOCAB))

    def fixed(ids: Tensor, targets: Tensor, hidden: Tensor | None) -> Tensor:
        return values.take(targets.clamp(min=0))  # wrong where padded: those must not count

    rows_ = [rng.integers(0, VOCAB, n).tolist() for n in rng.integers(2, 211, 101)]
    ways = [(1, 0, False), (7, 0, False), (101, 3, False), (13, 29, True)]
    found = [score(fixed, padded(rows_, *way)) for way in ways]
    assert all(scores.nll.tolist() == found[0].nll.tolist() for scores in found)
    assert all(scores.perplexity == found[0].perplexity for scores in found)


def test_the_two_perplexities_are_not_one() -> None:
    scores = Scores(np.log([2.0, 8.0]) * [1, 3], np.array([1, 3]))
    assert scores.perplexity.sentence_mean == pytest.approx(5)
    assert scores.perplexity.corpus == pytest.approx((2 * 8**3) ** 0.25)
    assert scores.sentences.tolist() == pytest.approx([2, 8])


def test_logits_of_low_precision_are_normalised_in_single() -> None:
    def coarse(ids: Tensor, hidden: Tensor | None) -> Tensor:
        return embedding(ids, TABLE.bfloat16())

    rows_ = [[0, 5, 3, 1], [0, 2, 1]]
    logs = TABLE.bfloat16().double().log_softmax(-1)
    exact = [-sum(float(logs[a, b]) for a, b in pairwise(r)) for r in rows_]
    found = score(token_nll(coarse), padded(rows_, 2))
    single = torch.finfo(torch.float32).eps
    assert found.nll.tolist() == pytest.approx(exact, rel=16 * single)
    assert torch.finfo(torch.bfloat16).eps > 1000 * 16 * single  # so the test can tell


def test_no_gradient_is_kept() -> None:
    weight = torch.nn.Parameter(TABLE)
    score(token_nll(lambda ids, hidden: embedding(ids, weight)), padded([[0, 1, 2]], 1))
    assert torch.is_grad_enabled() and weight.grad is None


def test_a_model_that_looks_at_its_neighbours_is_scored_alone_by_sentence() -> None:
    def neighbours(ids: Tensor, hidden: Tensor | None) -> Tensor:
        return embedding(ids, TABLE) / len(ids)

    rows_ = [[0, 5, 3, 1], [0, 2, 1], [0, 7, 1]]
    batched = score(token_nll(neighbours), padded(rows_, 3)).sentences[0]
    alone = score(token_nll(bigram), padded(rows_, 3)).sentences[0]
    assert sentence_perplexity(token_nll(neighbours), rows_[0]) == pytest.approx(alone, rel=1e-13)
    assert abs(batched - alone) > 0.1
    with pytest.raises(UsageError, match="at least two tokens"):
        sentence_perplexity(token_nll(bigram), [0])


@given(rows, st.integers(1, 12))
@settings(max_examples=50, derandomize=True, deadline=None)
def test_summed_is_the_corpus_perplexity(rows_: list[list[int]], batch: int) -> None:
    def nll(ids: Tensor, targets: Tensor, hidden: Tensor | None) -> tuple[Tensor, Tensor]:
        return token_nll(bigram)(ids, targets, hidden).sum(), (targets != IGNORE).sum()

    found = corpus_perplexity(nll, padded(rows_, batch, 2))
    expected = score(token_nll(bigram), padded(rows_, 1)).perplexity
    assert found.tokens == expected.tokens
    assert found.corpus == pytest.approx(expected.corpus, rel=1e-13)
    assert math.isnan(found.sentence_mean)


@given(rows)
@settings(max_examples=100, derandomize=True, deadline=None)
def test_bins_of_length_hold_every_sentence_once(rows_: list[list[int]]) -> None:
    scores = score(token_nll(bigram), padded(rows_, 3))
    edges = (1, 2, 5, 11)
    bins = scores.by_length(edges)
    assert sum(b.sentences for b in bins) == len(rows_)
    assert sum(b.perplexity.tokens for b in bins) == scores.perplexity.tokens
    total = math.fsum(b.perplexity.nll for b in bins)
    assert total == pytest.approx(scores.perplexity.nll, rel=1e-14)
    for b in bins:
        inside = [len(r) - 1 for r in rows_ if b.low <= len(r) - 1 < b.high]
        assert b.sentences == len(inside) > 0 and b.perplexity.tokens == sum(inside)


@given(
    st.lists(st.integers(0, VOCAB - 1), max_size=41),
    st.integers(1, 13).flatmap(lambda c: st.tuples(st.just(c), st.integers(1, c))),
)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_windows_score_every_token_once_with_enough_history(
    row: list[int], sizes: tuple[int, int]
) -> None:
    context, stride = sizes
    scored: list[int] = []
    for number, (ids, targets, hidden) in enumerate(windows(row, context, stride)):
        assert hidden is None and 1 <= ids.shape[1] <= context and ids.shape == targets.shape
        kept = targets[0] != IGNORE
        scored += targets[0][kept].tolist()
        first = int(kept.nonzero()[0])
        assert first == (0 if number == 0 else context - stride)
        assert bool(kept[first:].all())
    assert scored == row[1:]


def test_windows_by_hand() -> None:
    found = [(i[0].tolist(), t[0].tolist()) for i, t, _ in windows(list(range(9)), 4, 2)]
    assert found == [
        ([0, 1, 2, 3], [1, 2, 3, 4]),
        ([2, 3, 4, 5], [IGNORE, IGNORE, 5, 6]),
        ([4, 5, 6, 7], [IGNORE, IGNORE, 7, 8]),
    ]
    whole = score(token_nll(bigram), windows([0, 5, 3, 1, 4, 2], 2)).perplexity
    parts = score(token_nll(bigram), padded([[0, 5, 3, 1, 4, 2]], 1)).perplexity
    assert whole.corpus == pytest.approx(parts.corpus, rel=1e-13)
    for context, stride in [(4, 5), (4, 0), (0, None)]:
        with pytest.raises(UsageError, match="stride <= context"):
            next(windows([0, 1], context, stride))


def test_extremes_are_infinite_or_absent_and_never_an_error() -> None:
    assert Perplexity(1e6, 1).corpus == math.inf
    assert math.isnan(Perplexity(0.0, 0).corpus)
    huge = Scores(np.array([709.0, 709.5, 1e5]), np.array([1, 1, 1])).perplexity
    assert huge.sentence_mean == math.inf
    two = Scores(np.array([709.7, 709.7]), np.array([1, 1])).perplexity
    assert two.sentence_mean == math.inf  # each is finite, their sum is not
    none = score(token_nll(bigram), []).perplexity
    assert none.tokens == 0 and math.isnan(none.corpus) and math.isnan(none.sentence_mean)
    unscored = Scores(np.array([0.0, math.log(2)]), np.array([0, 1]))
    assert unscored.perplexity.sentence_mean == pytest.approx(2)
    lost = Scores(np.array([math.nan, 1.0]), np.array([1, 1])).perplexity
    assert math.isnan(lost.corpus) and math.isnan(lost.sentence_mean)
