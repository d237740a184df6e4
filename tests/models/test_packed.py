"""Laid-out copies give the same products, and follow their weights."""

import gc
import weakref

import pytest
import torch
from torch import nn

from attnlab.core.seeds import Seed
from attnlab.models import packed as room
from attnlab.models.packed import packed, plain, why_not_packed

SHAPES = ((37, 29), (11, 29), (23, 41))
MOST = 41 / 2  # units of rounding: half a one for each term of a sum


class Owner(nn.Module):
    """Three maps; the first two read the same input."""

    def __init__(self, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        g = Seed(5).torch_generator()
        made = [torch.randn(shape, generator=g, dtype=dtype) for shape in SHAPES]
        self.weights = nn.ParameterList(nn.Parameter(weight) for weight in made)

    def groups(self) -> list[list[torch.Tensor]]:
        first, second, third = self.weights
        return [[first, second], [third]]


def inputs(rows: int, dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    g = Seed(6).torch_generator()
    return [torch.randn((rows, width), generator=g, dtype=dtype) for width in (29, 41)]


def gap(owner: Owner, rows: int) -> float:
    """Against float64, in units of the rounding of the sums of float32."""
    maps, largest = packed(owner, owner.groups(), rows), 0.0
    for x, found, group in zip(inputs(rows), maps, owner.groups(), strict=True):
        weight = torch.cat(group).double()
        exact = x.double() @ weight.T
        unit = torch.finfo(torch.float32).eps * (x.double().abs() @ weight.T.abs())
        largest = max(largest, float(((found(x).double() - exact).abs() / unit).max()))
    return largest


@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 3, 8])
def test_the_product_is_the_product(rows: int) -> None:
    owner = Owner()
    assert gap(owner, rows) < MOST
    assert gap(owner, rows) < MOST  # and again from what is kept


@torch.no_grad()
def test_copies_follow_a_step_of_training() -> None:
    owner = Owner()
    assert gap(owner, 3) < MOST
    owner.weights[1].add_(0.5)  # as an optimizer does
    assert gap(owner, 3) < MOST
    owner.weights[2].data = owner.weights[2].data * 2
    assert gap(owner, 3) < MOST


@torch.no_grad()
def test_where_there_is_no_such_layout_the_product_is_plain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    double = Owner(torch.float64)
    assert "float32" in str(why_not_packed(list(double.weights)))
    for x, one, other in zip(
        inputs(3, torch.float64),
        packed(double, double.groups(), 3),
        plain(double.groups()),
        strict=True,
    ):
        assert torch.equal(one(x), other(x))
    monkeypatch.setattr(room, "MOST", 100)
    assert "too large" in str(why_not_packed(list(Owner().weights)))
    monkeypatch.setattr(room, "_operations", lambda: False)
    assert "oneDNN" in str(why_not_packed(list(Owner().weights)))


def test_copies_go_with_their_model() -> None:
    owner = Owner()
    packed(owner, owner.groups(), 3)
    gone = weakref.ref(owner)
    del owner
    gc.collect()
    assert gone() is None
