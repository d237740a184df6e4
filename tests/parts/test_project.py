"""Projections: what depth does to the signal, and what tying and low rank mean."""

import pytest
import torch

from attnlab.core.seeds import Seed
from attnlab.parts.part import Dims
from attnlab.parts.project import Linear, LowRank, Mlp, Project, Tied

NANO = Dims.of(48, 3, 128)


def made(config: Project.Config, dims: Dims = NANO) -> Project:
    return config.build(dims, Seed(3).torch_generator())


def inputs(rows: int = 64) -> torch.Tensor:
    return torch.randn(1, rows, NANO.d_model, generator=Seed(5).torch_generator())


def spread(config: Mlp.Config) -> float:
    """How much of the inputs' difference is left in the queries, relative to the inputs."""
    x = inputs()
    with torch.no_grad():
        q, _, _ = made(config).double()(x.double(), x.double())
    return (q.std(dim=2).mean() / x.std(dim=1).mean()).item()


def test_torch_default_kills_the_signal_of_thirty_layers() -> None:
    assert spread(Mlp.Config(depth=1)) > 0.05
    assert spread(Mlp.Config(depth=30)) < 1e-9


@pytest.mark.parametrize("depth", [1, 10, 30])
def test_the_preserving_start_keeps_the_size_of_the_signal(depth: int) -> None:
    x = inputs()
    with torch.no_grad():
        queries = made(Mlp.Config(depth=depth, init="preserving"))(x, x)
    for made_of_x in queries:
        # the width is 48: each layer moves the squared size by a factor of about 1 ± √(5/48)
        size = made_of_x.square().mean().sqrt() / x.square().mean().sqrt()
        assert 0.1 < size < 6
    assert spread(Mlp.Config(depth=depth, init="preserving")) > 1e-4


def test_parameters_of_depth_d() -> None:
    for depth in (1, 4):
        count = sum(p.numel() for p in made(Mlp.Config(depth=depth)).parameters())
        assert count == 3 * (depth + 1) * (48 * 48 + 48)
    plain = sum(p.numel() for p in made(Linear.Config()).parameters())
    assert plain == 3 * (48 * 48 + 48)
    assert sum(p.numel() for p in made(Tied.Config()).parameters()) == 2 * (48 * 48 + 48)


@pytest.mark.parametrize(
    "config", [Linear.Config(), Tied.Config(), LowRank.Config(rank=5), Mlp.Config(depth=2)]
)
def test_no_bias_where_the_model_has_none(config: Project.Config) -> None:
    project = made(config, Dims.of(48, 3, 128, bias=False))
    assert not [name for name, _ in project.named_parameters() if "bias" in name]
    zero = torch.zeros(1, 5, 48)
    assert all(torch.equal(part, torch.zeros_like(part)) for part in project(zero, zero))


def test_tied_scores_are_symmetric() -> None:
    x = inputs(7)
    q, k, _ = made(Tied.Config())(x, x)
    scores = torch.einsum("bhid,bhjd->bhij", q, k)
    torch.testing.assert_close(scores, scores.transpose(2, 3))
    q, k, _ = made(Linear.Config())(x, x)
    scores = torch.einsum("bhid,bhjd->bhij", q, k)
    assert not torch.allclose(scores, scores.transpose(2, 3), rtol=0.1)


def test_low_rank_is_the_rank_of_what_comes_out() -> None:
    project, x = made(LowRank.Config(rank=5)).double(), inputs().double()
    with torch.no_grad():
        for part in project(x, x):
            matrix = part[0].transpose(0, 1).flatten(1)  # biases start at 0
            assert torch.linalg.matrix_rank(matrix) == 5


def test_same_rows_and_equal_rows_give_the_same() -> None:
    """The shorter way for x_query is x_key changes no value."""
    x = inputs(7)
    for config in (Linear.Config(), Tied.Config(), LowRank.Config(rank=5), Mlp.Config(depth=2)):
        project = made(config)
        for one, two in zip(project(x, x), project(x, x.clone()), strict=True):
            torch.testing.assert_close(one, two)
