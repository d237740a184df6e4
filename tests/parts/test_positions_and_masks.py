"""Positions and masks by what is known of them, beside the loops that define them."""

import math
from typing import Any

import pytest
import torch

from attnlab.core.seeds import Seed
from attnlab.parts.mask import Causal, Full, Mask, OnlySelf, Prefix, Window
from attnlab.parts.part import Dims, PositionIds
from attnlab.parts.position import Alibi, Learned, Position, Rotary, Sinusoidal
from tests.parts.cases import DIMS, Case, rows

WIDE = Dims.of(48, 3, 128)


def made(config: Position.Config, dims: Dims = WIDE) -> Position:
    return config.build(dims, Seed(3).torch_generator())


def waves(config: Position.Config) -> torch.Tensor:
    nothing = torch.zeros(1, WIDE.block, WIDE.d_model, dtype=torch.float64)
    return made(config).on_embeddings(nothing, torch.arange(WIDE.block)[None])[0]


def test_standard_pairs_share_an_angle_and_reported_ones_do_not() -> None:
    standard = waves(Sinusoidal.Config())
    squares = standard[:, 0::2].square() + standard[:, 1::2].square()
    torch.testing.assert_close(squares, torch.ones_like(squares))
    reported = waves(Sinusoidal.Config(exponent="reported"))
    assert torch.equal(reported[:, 0::2], standard[:, 0::2])
    assert (reported[:, 1::2].square() + standard[:, 0::2].square() - 1).abs().max() > 0.5


def test_sinusoids_have_size_0_7_and_scale_with_scale() -> None:
    whole, small = waves(Sinusoidal.Config()), waves(Sinusoidal.Config(scale=0.028))
    assert whole.square().mean().sqrt().item() == pytest.approx(math.sqrt(0.5), abs=1e-12)
    torch.testing.assert_close(small, 0.028 * whole)
    assert small.square().mean().sqrt().item() == pytest.approx(0.02, rel=0.02)


def test_rotary_scores_depend_on_the_distance_only() -> None:
    rotary, x = (
        made(Rotary.Config(), DIMS),
        torch.randn(
            1, DIMS.heads, 6, DIMS.d_head, generator=Seed(5).torch_generator(), dtype=torch.float64
        ),
    )
    same = x[:, :, :1].expand_as(x)
    q, k = rotary.on_heads(same, same, PositionIds.of(same, same))
    scores = torch.einsum("bhid,bhjd->bhij", q, k)
    for distance in range(1, 6):
        line = scores.diagonal(-distance, dim1=2, dim2=3)
        torch.testing.assert_close(line, line[..., :1].expand_as(line))
    assert (scores[..., 0, 0] - scores[..., 5, 0]).abs().min() > 1e-3
    torch.testing.assert_close(q.norm(dim=-1), same.norm(dim=-1))


def test_alibi_slopes_of_eight_heads_are_the_published_ones() -> None:
    alibi = made(Alibi.Config(), Dims.of(64, 8, 16))
    position_ids = PositionIds(torch.tensor([[9]]), torch.tensor([[8]]))
    scores = alibi.on_scores(torch.zeros(1, 8, 1, 1), position_ids).flatten()
    torch.testing.assert_close(scores, -(0.5 ** torch.arange(1.0, 9.0)))


def test_learned_positions_end_with_the_block() -> None:
    learned = made(Learned.Config())
    assert learned.get_parameter("table").shape == (128, 48)
    with pytest.raises(IndexError):
        learned.on_embeddings(torch.zeros(1, 1, 48), torch.tensor([[128]]))


DRAWN: list[tuple[Mask.Config, list[str]]] = [
    (Causal.Config(), ["x...", "xx..", "xxx.", "xxxx"]),
    (Full.Config(), ["xxxx"] * 4),
    (OnlySelf.Config(), ["x...", ".x..", "..x.", "...x"]),
    (Prefix.Config(length=2), ["xx..", "xx..", "xxx.", "xxxx"]),
    (Window.Config(size=2), ["x...", "xx..", ".xx.", "..xx"]),
    (OnlySelf.Config() | Window.Config(size=2), ["x...", "xx..", ".xx.", "..xx"]),
    (Window.Config(size=2) | Prefix.Config(length=2), ["xx..", "xx..", "xxx.", "xxxx"]),
    (Window.Config(size=3) & Prefix.Config(length=1), ["x...", "xx..", "xxx.", ".xxx"]),
    (Full.Config() & Causal.Config() & Window.Config(size=1), ["x...", ".x..", "..x.", "...x"]),
]


@pytest.mark.parametrize(("config", "drawn"), DRAWN)
def test_masks_as_drawn(config: Mask.Config, drawn: list[str]) -> None:
    mask = config.build(DIMS, Seed(1).torch_generator())
    position_ids = torch.arange(4)[None]
    allowed = mask.allowed(PositionIds(position_ids, position_ids), None)[0, 0]
    drawing = ["".join("x" if seen else "." for seen in row) for row in allowed.tolist()]
    assert drawing == drawn
    ahead = any("x" in row[i + 1 :] for i, row in enumerate(drawn))
    assert mask.causal is not ahead


def test_attention_switched_off_is_a_map_of_each_position_alone() -> None:
    attention, x = Case(OnlySelf.Config()).attention(), rows()
    for t in range(x.shape[1]):
        torch.testing.assert_close(attention(x[:, t : t + 1]), attention(x)[:, t : t + 1])
    _, _, v = attention.project(x, x)
    torch.testing.assert_close(attention(x), attention.merge(v))


@pytest.mark.parametrize("name", ["sinusoidal", "rotary", "alibi"])
def test_places_beyond_the_block_are_no_problem_for_fixed_positions(name: str) -> None:
    config: Any = Position.variants[name].Config()
    attention = Case(config).attention()
    x = rows(length=3 * DIMS.block)
    assert torch.isfinite(attention(x)).all()
