"""data-order: fires on no shuffling, on an unseeded order, on workers that draw alike."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from attnlab.audit.data_order import NAME, data_order
from attnlab.core.seeds import Seed
from attnlab.tasks.batches import PackedBatches, SentenceBatches

ROWS = torch.arange(101)
BATCH = 7


def cut(order: Any) -> Iterator[Tensor]:
    for start in range(0, len(ROWS), BATCH):
        yield ROWS[torch.as_tensor(order[start : start + BATCH])]


def shuffled(epoch: int, workers: int) -> Iterator[Tensor]:
    return cut(Seed(3).child(epoch).numpy_generator().permutation(len(ROWS)))


def test_the_clean_twin_passes() -> None:
    found = data_order(shuffled, workers=(0, 2))
    assert (found.name, found.verdict, found.number) == (NAME, "pass", 0)
    assert found.evidence["same_for_all_workers"] and len(found.evidence["first_batch"]) == 6


@pytest.mark.parametrize("by_length", [False, True])
def test_our_own_sentences_pass(by_length: bool) -> None:
    rng = Seed(5).numpy_generator()
    rows = [rng.integers(0, 97, n) for n in rng.integers(3, 17, 84)]

    def epoch(number: int, workers: int) -> Iterator[Any]:
        fresh = SentenceBatches(rows, 31, BATCH, Seed(3), by_length=by_length)
        return (fresh.batch(step) for step in range(12 * number, 12 * (number + 1)))

    assert data_order(epoch).verdict == "pass"


def test_our_own_blocks_pass() -> None:
    stream = Seed(5).numpy_generator().integers(0, 97, 12 * 7 * 11 + 5)

    def epoch(number: int, workers: int) -> Iterator[Any]:
        fresh = PackedBatches(stream, 11, 7, Seed(3))
        assert fresh.rows == 84
        return (fresh.batch(step) for step in range(12 * number, 12 * (number + 1)))

    assert data_order(epoch).verdict == "pass"


def test_no_shuffling_is_caught() -> None:
    found = data_order(lambda epoch, workers: cut(np.arange(len(ROWS))))
    assert (found.verdict, found.number) == ("fail", 3)
    assert "epochs 0 and 1 have the same order" in found.why


def test_a_generator_that_starts_anew_every_epoch_is_caught() -> None:
    found = data_order(lambda epoch, workers: shuffled(0, workers))
    assert found.verdict == "fail" and "not shuffled anew" in found.why


def test_an_order_that_comes_back_is_caught() -> None:
    found = data_order(lambda epoch, workers: shuffled(epoch % 2, workers))
    assert (found.verdict, found.number) == ("fail", 1)
    assert "epochs 0 and 2" in found.why


def test_an_order_that_no_seed_fixes_is_caught() -> None:
    free = np.random.default_rng(11)  # goes on where it was, as a global generator does
    found = data_order(lambda epoch, workers: cut(free.permutation(len(ROWS))))
    assert found.verdict == "fail" and "another order when asked for again" in found.why


def test_workers_that_draw_alike_are_caught() -> None:
    """Random crops from a generator that every worker copied: each batch comes `workers` times."""

    def epoch(number: int, workers: int) -> Iterable[Tensor]:
        rng = [Seed(3).child(number).numpy_generator() for _ in range(max(workers, 1))]
        return (torch.from_numpy(rng[i % len(rng)].normal(size=BATCH)) for i in range(12))

    assert data_order(epoch, workers=(0,)).verdict == "pass"
    found = data_order(epoch, workers=(0, 2))
    assert found.verdict == "fail" and "50% of the first batches of epoch 0" in found.why


def test_an_order_that_depends_on_the_workers_is_said() -> None:
    found = data_order(lambda epoch, workers: shuffled(10 * epoch + workers, 0), workers=(0, 2))
    assert found.verdict == "pass" and "depends on the number of workers" in found.why


def test_a_torch_loader() -> None:
    from torch.utils.data import DataLoader, TensorDataset

    def epoch(number: int, workers: int, shuffle: bool = True) -> Iterator[Any]:
        generator = Seed(3).torch_generator()
        loader = DataLoader(TensorDataset(ROWS), BATCH, shuffle=shuffle, generator=generator)
        for _ in range(number):
            list(loader)
        return iter(loader)

    assert data_order(epoch).verdict == "pass"
    assert data_order(lambda e, w: epoch(e, w, shuffle=False)).verdict == "fail"


def test_not_applicable() -> None:
    assert data_order(shuffled, epochs=1).verdict == "not-applicable"
    assert data_order(lambda epoch, workers: []).verdict == "not-applicable"
