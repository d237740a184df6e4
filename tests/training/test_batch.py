from dataclasses import dataclass
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.training.batch import fingerprint, map_tensors, split_batch, tensors_of

from .tiny import Batch, Endless


class Named(NamedTuple):
    ids: Tensor
    name: str


@dataclass(frozen=True)
class Nested:
    pair: tuple[Tensor, Tensor]
    more: dict[str, Tensor]
    mask: Tensor | None = None


IDS = torch.arange(14).reshape(7, 2)


@pytest.mark.parametrize(
    "batch",
    [
        IDS,
        Batch(IDS, IDS + 1),
        Named(IDS, "words"),
        {"input_ids": IDS, "labels": IDS + 3, "note": "kept"},
        Nested((IDS, IDS * 2), {"weights": IDS / 2}),
    ],
    ids=lambda batch: type(batch).__name__,
)
def test_any_shape_is_changed_and_cut_by_rows(batch: object) -> None:
    doubled = map_tensors(batch, lambda tensor: tensor * 2)
    assert type(doubled) is type(batch)
    for before, after in zip(tensors_of(batch), tensors_of(doubled), strict=True):
        assert torch.equal(before * 2, after)
    cut = list(split_batch(batch, 3))
    assert [len(tensors_of(piece)[0]) for piece in cut] == [3, 3, 1]
    for index, whole in enumerate(tensors_of(batch)):
        assert torch.equal(torch.cat([tensors_of(piece)[index] for piece in cut]), whole)
    assert type(cut[0]) is type(batch) and list(split_batch(batch, 1)) == [batch]


def test_more_pieces_than_rows_and_rows_that_differ() -> None:
    assert len(list(split_batch(Batch(IDS, IDS), 100))) == 7
    for odd in (Batch(IDS, IDS[:5]), {"ids": IDS, "scale": torch.tensor(3.0)}, {"note": "no rows"}):
        with pytest.raises(UsageError, match="same number of rows"):
            list(split_batch(odd, 2))


def test_a_fingerprint_sees_whole_numbers_and_shapes() -> None:
    one = Endless().batch(0)
    same = [fingerprint(Endless().batch(0)), fingerprint({"ids": one.ids, "targets": one.targets})]
    assert same == [fingerprint(one)] * 2
    others = [
        Endless().batch(1),
        Endless(seed=1).batch(0),
        Batch(one.ids, one.targets, one.ids > 3),
        Batch(one.ids.T, one.targets),
    ]
    assert len({fingerprint(one), *map(fingerprint, others)}) == 5
    teacher = {"ids": one.ids, "logits": torch.ones(3)}
    assert fingerprint(teacher) == fingerprint({**teacher, "logits": torch.zeros(3)})
