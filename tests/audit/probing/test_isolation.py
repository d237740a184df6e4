"""A question is asked with the same random numbers every time, and leaves none of its own."""

import random

import numpy as np
import torch

from attnlab.audit.probing.isolation import fixed_random_state


def draw() -> tuple[float, float, float]:
    return float(torch.rand(())), random.random(), float(np.random.random())


def test_the_same_numbers_inside_and_the_old_state_outside() -> None:
    before = torch.get_rng_state(), random.getstate()
    with fixed_random_state():
        first = draw()
    assert torch.equal(torch.get_rng_state(), before[0]) and random.getstate() == before[1]
    between = draw()
    with fixed_random_state():
        second = draw()
    assert all(a == b for a, b in zip(first, second, strict=True))
    assert all(a != b for a, b in zip(first, between, strict=True))
