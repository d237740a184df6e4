"""A batch is a function of seed and step; every row once per epoch; padding is not scored."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.tasks.batches import (
    Batch,
    PackedBatches,
    SentenceBatches,
    sequential_batches,
    truncate_rows,
)

STOP = 1


def some_rows(count: int, longest: int = 17, seed: int = 5) -> list[np.ndarray]:
    """Rows START number number ... STOP, all different."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, longest - 2, count)
    return [np.array([0, 10 + i, *rng.integers(2, 10, n), STOP]) for i, n in enumerate(lengths)]


def rows_of(batch: Batch) -> list[list[int]]:
    """Recover the rows of a batch: ids and the last scored target."""
    found = []
    for ids, targets in zip(batch.ids, batch.targets, strict=True):
        scored = targets[targets != IGNORE]
        found.append([*ids[: len(scored)].tolist(), int(scored[-1])])
    return found


def same(a: Batch, b: Batch) -> bool:
    hidden = (a.key_padding_mask is None and b.key_padding_mask is None) or (
        a.key_padding_mask is not None
        and b.key_padding_mask is not None
        and torch.equal(a.key_padding_mask, b.key_padding_mask)
    )
    return torch.equal(a.ids, b.ids) and torch.equal(a.targets, b.targets) and hidden


MAKERS: dict[str, Callable[[Seed], PackedBatches | SentenceBatches]] = {
    "blocks": lambda seed: PackedBatches(np.arange(211), 7, 5, seed),
    "sentences": lambda seed: SentenceBatches(some_rows(31), 13, 5, seed),
    "by length": lambda seed: SentenceBatches(some_rows(31), 13, 5, seed, by_length=True),
}
each_maker = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


@each_maker
def test_a_batch_depends_on_seed_and_step_only(
    make: Callable[[Seed], PackedBatches | SentenceBatches],
) -> None:
    forwards, backwards = make(Seed(3)), make(Seed(3))
    steps = list(range(41))
    first = [forwards.batch(s) for s in steps]
    second = [backwards.batch(s) for s in reversed(steps)][::-1]
    assert all(same(a, b) for a, b in zip(first, second, strict=True))
    assert same(make(Seed(3)).batch(10**9), make(Seed(3)).batch(10**9))
    other = [make(Seed(4)).batch(s) for s in steps]
    assert not any(same(a, b) for a, b in zip(first, other, strict=True))


@each_maker
def test_a_batch_may_be_changed_without_changing_the_next(
    make: Callable[[Seed], PackedBatches | SentenceBatches],
) -> None:
    data = make(Seed(3))
    kept = Batch(*(None if t is None else t.clone() for t in data.batch(2)))  # type: ignore[arg-type]
    data.batch(2).ids.fill_(0)
    data.batch(2).targets.fill_(0)
    assert same(data.batch(2), kept)


@pytest.mark.parametrize("by_length", [False, True])
@pytest.mark.parametrize(("count", "batch"), [(31, 5), (3, 7), (1, 3), (29, 29), (211, 2)])
def test_every_sentence_once_an_epoch_and_every_batch_full(
    count: int, batch: int, by_length: bool
) -> None:
    rows = some_rows(count)
    data = SentenceBatches(rows, 17, batch, Seed(7), by_length=by_length)
    met: list[list[int]] = []
    for step in range(3 * count):
        found = rows_of(data.batch(step))
        assert len(found) == batch
        met += found
    everything = sorted(row.tolist() for row in rows)
    epochs = [met[i : i + count] for i in range(0, len(met), count)]
    assert len(epochs) == 3 * batch and data.rows == count
    assert all(sorted(epoch) == everything for epoch in epochs)
    assert count < 20 or epochs[0] != epochs[1]


def test_a_batch_of_sentences_by_hand() -> None:
    data = SentenceBatches([[0, 5, 6, 7, 1], [0, 8, 1]], 4, 2, Seed(11))
    ids, targets, hidden = data.batch(0)
    assert hidden is not None
    order = torch.argsort(ids[:, 1])  # the long row first
    assert ids[order].tolist() == [[0, 5, 6, 7], [0, 8, STOP, STOP]]
    assert targets[order].tolist() == [[5, 6, 7, STOP], [8, STOP, IGNORE, IGNORE]]
    assert hidden[order].tolist() == [[False] * 4, [False, False, True, True]]


@given(
    st.lists(st.lists(st.integers(2, 99), max_size=23), min_size=1, max_size=13),
    st.integers(1, 13),
    st.integers(1, 7),
)
@settings(max_examples=150, derandomize=True, deadline=None)
def test_sentences_keep_every_token_they_do_not_count_as_cut(
    middles: list[list[int]], block: int, batch: int
) -> None:
    rows = [[0, *middle, STOP] for middle in middles]
    data = SentenceBatches(rows, block, batch, Seed(13))
    found = data.batch(1)
    assert found.key_padding_mask is not None
    assert torch.equal(found.key_padding_mask, found.targets == IGNORE)
    assert found.ids.shape == found.targets.shape == found.key_padding_mask.shape
    assert found.ids.shape[1] <= block
    assert bool((~found.key_padding_mask).any(dim=0).all())  # padded to the longest and no further
    assert all(row in [r[: block + 1] for r in rows] for row in rows_of(found))
    assert data.truncated_tokens == sum(max(0, len(r) - block - 1) for r in rows)
    assert data.truncated_rows == sum(len(r) > block + 1 for r in rows)
    assert [k.tolist() for k in data.kept] == [r[: block + 1] for r in rows]


def test_cut_leaves_out_rows_that_predict_nothing() -> None:
    kept, cut_rows, cut_tokens = truncate_rows([[0], [], [0, 1], [0, 2, 3, 4, 1]], 2)
    assert [k.tolist() for k in kept] == [[0, 1], [0, 2, 3]]
    assert (cut_rows, cut_tokens) == (1, 2)


def test_by_length_pads_less() -> None:
    rows = some_rows(1009, 61)

    def share(by_length: bool, epoch: int) -> float:
        data = SentenceBatches(rows, 61, 8, Seed(17), by_length=by_length)
        steps = range(127 * epoch, 127 * (epoch + 1))
        hidden = [h for step in steps if (h := data.batch(step).key_padding_mask) is not None]
        return sum(int(h.sum()) for h in hidden) / sum(h.numel() for h in hidden)

    for epoch in (0, 1, 3, 4):  # 1009 = 126 · 8 + 1: each epoch cuts its batches elsewhere
        assert share(True, epoch) < 0.2 * share(False, epoch)


def test_in_order_is_every_row_once_with_a_small_last_batch() -> None:
    rows = some_rows(23)
    batches = list(sequential_batches(rows, 5))
    assert [len(b.ids) for b in batches] == [5, 5, 5, 5, 3]
    assert [r for b in batches for r in rows_of(b)] == [r.tolist() for r in rows]
    assert list(sequential_batches([], 5)) == []


@given(st.integers(2, 103), st.integers(1, 29), st.integers(1, 5))
@settings(max_examples=150, derandomize=True, deadline=None)
def test_windows_of_an_epoch_do_not_overlap_and_cover_all_but_the_rest(
    length: int, block: int, batch: int
) -> None:
    data = PackedBatches(np.arange(length) * 3, block, batch, Seed(19))
    size = min(block, length - 1)
    assert data.rows == (length - 1) // size and data.block == size
    met = torch.cat([data.batch(step).ids for step in range(2 * data.rows)])
    for epoch in met[: 2 * data.rows * batch].split(data.rows):
        places = sorted(int(i) // 3 for i in epoch.reshape(-1))
        assert places == list(range(places[0], places[0] + size * data.rows))
        assert places[-1] <= length - 2
    found = data.batch(0)
    assert torch.equal(found.targets, found.ids + 3) and found.key_padding_mask is None


def test_what_fills_no_window_changes_with_the_epoch() -> None:
    data = PackedBatches(np.arange(18), 13, 1, Seed(23))
    assert {int(data.batch(step).ids[0, 0]) for step in range(61)} == set(range(5))


def test_types_and_device() -> None:
    for data in (MAKERS["blocks"](Seed(3)), MAKERS["sentences"](Seed(3))):
        found = data.batch(0).to("cpu")
        assert found.ids.dtype == found.targets.dtype == torch.int64
        assert found.ids.is_contiguous() and found.targets.is_contiguous()
        assert found.key_padding_mask is None or found.key_padding_mask.dtype == torch.bool


def test_what_makes_no_batch() -> None:
    for make, message in [
        (lambda: PackedBatches([1], 7, 5, Seed(1)), "a text of 1 tokens"),
        (lambda: PackedBatches([1, 2, 3], 0, 5, Seed(1)), "block must be at least 1"),
        (lambda: PackedBatches([1, 2, 3], 7, 0, Seed(1)), "batch must be at least 1"),
        (lambda: SentenceBatches([], 7, 5, Seed(1)), "nothing to predict"),
        (lambda: SentenceBatches([[1], []], 7, 5, Seed(1)), "nothing to predict"),
        (lambda: SentenceBatches([[1, 2]], 0, 5, Seed(1)), "block must be at least 1"),
        (lambda: SentenceBatches([[1, 2]], 7, -1, Seed(1)), "batch must be at least 1"),
        (lambda: SentenceBatches([[1, 2]], 7, 5, Seed(1)).batch(-1), "step must be at least 0"),
        (lambda: list(sequential_batches([[1, 2]], 0)), "batch must be at least 1"),
    ]:
        with pytest.raises(UsageError, match=message):
            make()
