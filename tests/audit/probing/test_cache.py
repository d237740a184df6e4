"""A cache of anyone's, and a model made anew from its class: found without being told."""

import torch
from torch import Tensor, nn

from attnlab.audit import check

VOCAB, WIDTH = 31, 12


class Recurrent(nn.Module):
    """forward(ids, state=None) → logits, state."""

    carries = True

    def __init__(self) -> None:
        super().__init__()
        self.table, self.head = nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)
        self.cell = nn.GRU(WIDTH, WIDTH, batch_first=True)

    def forward(self, ids: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor]:
        y, kept = self.cell(self.table(ids), state if self.carries else None)
        return self.head(y), kept


class Forgetful(Recurrent):
    carries = False


def test_a_state_that_is_carried_by_hand_is_tried() -> None:
    assert check(Recurrent(), only=["cache-parity"])["cache-parity"].verdict == "pass"
    assert check(Forgetful(), only=["cache-parity"])["cache-parity"].verdict == "fail"


def test_without_a_cache_there_is_nothing_to_compare() -> None:
    found = check(nn.Sequential(nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB)))
    assert found["cache-parity"].verdict == "not-applicable"


class Unsaved(nn.Module):
    """A table that is drawn in the constructor and is no parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCAB, WIDTH)
        self.kept(torch.randn(WIDTH, VOCAB))

    def kept(self, out: Tensor) -> None:
        self.out = out

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids).cumsum(1) @ self.out.to(self.table.weight.dtype)


class Saved(Unsaved):
    def kept(self, out: Tensor) -> None:
        self.register_buffer("out", out)


def test_what_is_not_among_the_saved_weights_is_missed() -> None:
    found = check(Unsaved(), only=["tying-and-save"])["tying-and-save"]
    assert found.verdict == "fail" and "not among its saved weights" in found.why
    assert check(Saved(), only=["tying-and-save"])["tying-and-save"].verdict == "pass"


def test_a_constructor_that_needs_more_is_let_be() -> None:
    class Needy(Saved):
        def __init__(self, width: int) -> None:
            super().__init__()

    found = check(Needy(3), only=["tying-and-save"])["tying-and-save"]
    assert found.verdict == "not-applicable"
