"""One seed feeds everything: streams are named, independent and order-free."""

import itertools

import numpy as np
import pytest
import torch

from attnlab.core.seeds import Seed


def test_golden_numbers() -> None:
    # origin: printf '[3, "teacher", 7]' | sha256sum | cut -c1-16, as a hex number, halved;
    # then numpy 2.4.6, numpy.random.PCG64(number).random_raw(3) on x86-64 Linux
    stream = Seed(3).child("teacher", 7)
    assert stream.number == 0xBD8B5FCBA5EE2D8F >> 1 == 6829057811599005383
    assert stream.numpy_generator().bit_generator.random_raw(3).tolist() == [
        393291751544183046,
        11466162517294522655,
        6601782168549215929,
    ]


def test_a_new_consumer_shifts_no_old_one() -> None:
    root = Seed(11)
    before = root.child("data").numpy_generator().normal(size=5)
    root.child("init").numpy_generator().normal(size=13)
    root.child("data").torch_generator()
    assert np.array_equal(root.child("data").numpy_generator().normal(size=5), before)


def test_names_of_another_type_order_or_depth_are_other_streams() -> None:
    root = Seed(2)
    streams = [
        root,
        root.child(),
        root.child("7"),
        root.child(7),
        root.child("a", "b"),
        root.child("b", "a"),
        root.child("a").child("b"),
        root.child("ab"),
        Seed(3).child("7"),
    ]
    numbers = [stream.number for stream in streams]
    assert len(set(numbers)) == len(numbers)


def test_children_fit_a_generator_and_do_not_collide() -> None:
    numbers = {Seed(5).child("trial", i).number for i in range(10_007)}
    assert len(numbers) == 10_007
    assert all(0 <= number < 1 << 63 for number in numbers)


def test_children_are_uncorrelated() -> None:
    n = 997
    draws = [
        Seed(s).child("x", c).numpy_generator().normal(size=n) for s in range(5) for c in range(7)
    ]
    pairs = list(itertools.combinations(draws, 2))
    worst = max(abs(float(np.corrcoef(a, b)[0, 1])) for a, b in pairs)
    # 595 pairs of independent streams: P(any |r| > 4.5/√n) is below 0.005
    assert worst < 4.5 / n**0.5


def test_torch_generators_start_at_the_beginning_and_touch_nothing_global() -> None:
    before = torch.get_rng_state()
    stream = Seed(13).child("init")
    first = torch.randn(7, generator=stream.torch_generator())
    assert torch.equal(torch.randn(7, generator=stream.torch_generator()), first)
    assert not torch.equal(torch.randn(7, generator=Seed(13).torch_generator()), first)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_seed_is_frozen() -> None:
    with pytest.raises(AttributeError):
        Seed(1).number = 2  # type: ignore[misc]


def test_no_name_can_imitate_two() -> None:
    assert Seed(1).child("a/str:b") != Seed(1).child("a", "b")
    assert Seed(1).child("1") != Seed(1).child(1)
