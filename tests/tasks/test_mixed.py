"""Mixed batches: the rows of every source; added padding is masked and not scored."""

import pytest
import torch

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.tasks.batches import MixedBatches, PackedBatches
from attnlab.tasks.prompts import PromptBatches, PromptExample


def test_rows_stand_side_by_side_and_padding_is_neither_seen_nor_scored() -> None:
    asked = PromptBatches([PromptExample((3, 4), (5,)), PromptExample((6,), (7, 8, 9))], 2, Seed(1))
    read = PackedBatches(list(range(10, 41)), block=7, batch=3, seed=Seed(2))
    both = MixedBatches(read, asked)
    for step in range(3):
        found, one, two = both.batch(step), read.batch(step), asked.batch(step)
        assert (
            found.ids.shape == found.targets.shape == (5, 7) and found.key_padding_mask is not None
        )
        assert torch.equal(found.ids[:3], one.ids) and not found.key_padding_mask[:3].any()
        width = two.ids.shape[1]
        assert torch.equal(found.ids[3:, :width], two.ids)
        assert torch.equal(found.targets[3:, :width], two.targets)
        assert (
            found.key_padding_mask[3:, width:].all() and (found.targets[3:, width:] == IGNORE).all()
        )


def test_without_padding_nothing_is_hidden_and_nothing_cannot_be_mixed() -> None:
    read = PackedBatches(list(range(10, 41)), block=7, batch=3, seed=Seed(2))
    assert MixedBatches(read, read).batch(0).key_padding_mask is None
    with pytest.raises(UsageError, match="nothing to mix"):
        MixedBatches()
