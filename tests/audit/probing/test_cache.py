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


def why_not_saved(model: nn.Module) -> str:
    found = check(model, only=["tying-and-save"])["tying-and-save"]
    assert found.verdict == "not-applicable"
    return found.why.removeprefix("it cannot be saved and loaded again: ")


def test_a_model_that_cannot_be_built_again_says_why() -> None:
    """Which argument, which tensor, which error."""

    class Needy(Saved):
        def __init__(self, width: int) -> None:
            super().__init__()

    class Grown(Saved):
        """Its constructor knows nothing of the tensor that is added afterwards."""

    class Cut(Saved):
        """A tensor has another shape than after its construction."""

    class Once(Saved):
        built = 0

        def __init__(self) -> None:
            super().__init__()
            Once.built += 1
            if Once.built > 1:
                raise RuntimeError("only one of these")

    grown, cut = Grown(), Cut()
    grown.register_buffer("later", torch.zeros(3))
    cut.table = nn.Embedding(VOCAB - 1, WIDTH)
    plain = nn.Sequential(nn.Embedding(VOCAB, WIDTH), nn.Linear(WIDTH, VOCAB))
    assert why_not_saved(Needy(3)) == "its constructor takes width, which it does not keep"
    assert why_not_saved(plain) == "Sequential does not keep the arguments of its constructor"
    second = "a second model of its class has"
    assert why_not_saved(grown) == f"{second} no tensor 'later', which this one saves"
    shapes = f"of shape {(VOCAB, WIDTH)}, this one of shape {(VOCAB - 1, WIDTH)}"
    assert why_not_saved(cut) == f"{second} 'table.weight' {shapes}"
    raised = "building a second one raised RuntimeError: only one of these"
    assert why_not_saved(Once()) == raised
