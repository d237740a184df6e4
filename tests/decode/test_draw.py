"""Draws: the frequencies of softmax, a function of the row alone, steady under rounding."""

import pytest
import torch

from attnlab.core.seeds import Seed
from attnlab.decode.draw import AHEAD, BLOCK, UniformStream, draw, sample, uniforms_per_draw
from tests.decode.plain import INF, surprise

RARE = 1e-6  # false alarm of one test; seeds are fixed, so it is seen once or never


@pytest.mark.parametrize("size", [1, 7, BLOCK, BLOCK + 1, 1009])
def test_draw_frequencies_match_softmax(size: int) -> None:
    generator = Seed(size).torch_generator()
    logits = torch.randn(1, size, generator=generator, dtype=torch.float64) * 1.5
    if size > 2:
        logits[0, [0, size // 2]] = -INF
    counts = torch.zeros(size)
    for _ in range(5):
        ids = sample(logits.expand(4001, -1), generator=generator)
        counts += torch.bincount(ids, minlength=size)
    assert surprise(counts, logits[0].softmax(-1)) > RARE
    if size > 1:
        wrong = (logits[0] / 1.1).softmax(-1)
        assert surprise(counts, wrong) < RARE, "the test could not tell T = 1 from T = 1.1"


def test_a_row_does_not_know_its_neighbours() -> None:
    generator = Seed(2).torch_generator()
    logits = torch.randn(13, 601, generator=generator, dtype=torch.float64)
    uniforms = torch.rand(13, uniforms_per_draw(601), generator=generator, dtype=torch.float64)
    whole = draw(logits, uniforms)
    order = torch.randperm(13, generator=generator)
    assert torch.equal(draw(logits[order], uniforms[order]), whole[order])
    assert [int(draw(logits[i : i + 1], uniforms[i : i + 1])) for i in range(13)] == whole.tolist()


def test_rounding_of_the_logits_hardly_ever_changes_a_draw() -> None:
    """Of 20,000 draws from 2003 tokens with logits off by at most ε = 3e-5.

    Two sums change places only if they are within 2 ε, and the gap of the two largest has a density
    of at most 1; there are two such choices a draw: 4 ε · 20,000 = 2.4 expected at most, and more
    than 12 with probability below 1e-5. The inverse of a cumulative sum, beside it, does worse.
    """
    generator = Seed(3).torch_generator()
    logits = torch.randn(2000, 2003, generator=generator, dtype=torch.float64) * 2
    moved = logits + (torch.rand(logits.shape, generator=generator) - 0.5) * 6e-5
    ours = theirs = 0
    for _ in range(10):
        uniforms = torch.rand(
            2000, uniforms_per_draw(2003), generator=generator, dtype=torch.float64
        )
        ours += int((draw(logits, uniforms) != draw(moved, uniforms)).sum())
        u = uniforms[:, :1].contiguous()
        sums = [torch.searchsorted(x.softmax(-1).cumsum(-1), u) for x in (logits, moved)]
        theirs += int((sums[0] != sums[1]).sum())
    assert ours <= 12 and theirs > 10 * max(1, ours), (ours, theirs)


def test_what_cannot_come_does_not_even_at_the_edge_of_the_numbers() -> None:
    logits = torch.full((2, 521), -INF, dtype=torch.float64)
    logits[0, 517] = logits[1, 3] = -700.0
    for edge in (0.0, 1 - 2**-53):
        uniforms = torch.full((2, uniforms_per_draw(521)), edge, dtype=torch.float64)
        assert draw(logits, uniforms).tolist() == [517, 3]


def test_numbers_come_from_the_rows_own_seed_in_order() -> None:
    seeds = [Seed(i) for i in range(3)]
    numbers = UniformStream(seeds, 53, torch.device("cpu"))
    found = [numbers.next() for _ in range(AHEAD + 5)]
    alone = UniformStream(seeds[1:2], 53, torch.device("cpu"))
    assert all(torch.equal(alone.next()[0], now[1]) for now in found)
    assert torch.cat(found).unique().numel() == len(found) * 3 * uniforms_per_draw(53)
