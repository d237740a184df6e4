"""Whatever form a forward has, it is asked in its own manner: leaks are found, the sound pass."""

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from attnlab.audit import check
from attnlab.audit.probing.wrap import subject_of
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed

VOCAB, WIDTH = 31, 13
Make = Callable[[bool], Any]


class Core(nn.Module):
    """A running mean over real tokens, its own token beside it; `leaks`: the next token too."""

    def __init__(self, leaks: bool) -> None:
        super().__init__()
        generator = Seed(5).torch_generator()
        self.table = nn.Embedding(VOCAB, WIDTH)
        self.table.weight.data = torch.randn(VOCAB, WIDTH, generator=generator)
        self.leaks = leaks

    def score(self, ids: Tensor, real: Tensor | None = None) -> Tensor:
        x = self.table(ids)
        keep = torch.ones_like(ids) if real is None else real
        mean = (x * keep[..., None]).cumsum(1) / keep.cumsum(1).clamp_min(1)[..., None]
        ahead = F.pad(x[:, 1:], (0, 0, 0, 1)) if self.leaks else 0.0
        return (x + mean + ahead) @ self.table.weight.T


class Plain(Core):
    def forward(self, ids: Tensor) -> Tensor:
        return self.score(ids)


class Dictionary(Core):
    def forward(self, ids: Tensor) -> dict[str, Tensor | None]:
        return {"loss": None, "logits": self.score(ids)}


class LossFirst(Core):
    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        return torch.zeros(()), self.score(ids)


class Named(Core):
    def forward(self, ids: Tensor) -> Any:
        return SimpleNamespace(loss=None, logits=self.score(ids))


class LastOnly(Core):
    """nanoGPT: without targets it answers at the last position only."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        said = self.score(idx)
        if targets is None:
            return said[:, [-1]], None
        return said, F.cross_entropy(said.flatten(0, 1), targets.flatten(), ignore_index=-1)


class Flattened(Core):
    """With targets the logits are laid out for the loss."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        said = self.score(idx)
        if targets is None:
            return said, None
        return said.flatten(0, 1), F.cross_entropy(said.flatten(0, 1), targets.flatten())


class ByName(Core):
    def forward(self, *, input_ids: Tensor) -> Tensor:
        return self.score(input_ids)


class Int32(Core):
    def forward(self, ids: Tensor) -> Tensor:
        assert ids.dtype == torch.int32
        return self.score(ids)


class OneLength(Core):
    def forward(self, ids: Tensor) -> Tensor:
        assert ids.shape[1] == 32, "block size"
        return self.score(ids)


class Eights(Core):
    def forward(self, ids: Tensor) -> Tensor:
        assert ids.shape[1] % 8 == 0
        return self.score(ids)


class MaskNeeded(Core):
    def forward(self, ids: Tensor, attention_mask: Tensor) -> Tensor:
        return self.score(ids, attention_mask)


class StartNeeded(Core):
    def forward(self, tokens: Tensor, start_pos: int) -> Tensor:
        assert start_pos == 0
        return self.score(tokens)


class BoolMask(Core):
    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        assert mask is None or mask.dtype == torch.bool
        return self.score(ids, None if mask is None else mask.long())


class PadsAreTrue(Core):
    """`mask` says by its name neither what is real nor what is padding."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        return self.score(ids, None if mask is None else 1 - mask.long())


class SquareMask(Core):
    """`mask` is of query by key: no padding can be told by it."""

    def forward(self, ids: Tensor, mask: Tensor | None = None) -> Tensor:
        assert mask is None or mask.shape == (ids.shape[1],) * 2
        return self.score(ids)


class Written(Core):
    """Writes over what it is given."""

    def forward(self, ids: Tensor) -> Tensor:
        return self.score(ids.add_(3).remainder_(VOCAB))


class PaddedHead(Core):
    """More columns than ids."""

    def forward(self, ids: Tensor) -> Tensor:
        return F.pad(self.score(ids), (0, 9))


def as_function(leaks: bool) -> Any:
    model = Plain(leaks).eval()
    return lambda ids: model(ids)


def as_bfloat16(leaks: bool) -> Any:
    model = Plain(leaks).bfloat16().eval()
    return lambda ids: model(ids)


def as_tensors(leaks: bool) -> Any:
    table = Core(leaks).table.weight.detach().bfloat16()

    def score(ids: Tensor) -> Tensor:
        x = table[ids]
        ahead = 0.2 * F.pad(x[:, 1:], (0, 0, 0, 1)) if leaks else 0.0
        return (x + x.cumsum(1) / 8 + ahead) @ table.T

    return score


def as_array(leaks: bool) -> Any:
    model = Plain(leaks).eval()
    return lambda ids: model(ids).detach().numpy()


def as_partial(leaks: bool) -> Any:
    return partial(lambda model, heat, ids: model(ids) / heat, Plain(leaks).eval(), 0.7)


def as_method(leaks: bool) -> Any:
    return Core(leaks).eval().score


MODULES = (
    Dictionary,
    LossFirst,
    Named,
    LastOnly,
    Flattened,
    ByName,
    Int32,
    OneLength,
    Eights,
    MaskNeeded,
    StartNeeded,
    BoolMask,
    PadsAreTrue,
    SquareMask,
    Written,
    PaddedHead,
)
FUNCTIONS = (as_function, as_bfloat16, as_tensors, as_array, as_partial, as_method)
FORMS: tuple[Make, ...] = (*MODULES, *FUNCTIONS)


@pytest.mark.parametrize("make", FORMS, ids=lambda make: make.__name__)
def test_a_leak_is_found_in_any_form_and_a_sound_model_passes(make: Make) -> None:
    asked = ["causality", "batch-independence", "padding", "coverage", "non-finite"]
    leaking = check(make(True), only=["causality"], length=23)["causality"]
    assert leaking.verdict == "fail"
    sound = check(make(False), only=asked, length=23)
    assert sound["causality"].verdict == "pass"
    assert sound.verdict == "pass", [f.why for f in sound.findings if f.verdict == "fail"]


@pytest.mark.parametrize("make", [MaskNeeded, BoolMask, PadsAreTrue], ids=lambda m: m.__name__)
def test_a_mask_is_given_as_it_is_wanted(make: Make) -> None:
    assert check(make(False), only=["padding"])["padding"].verdict == "pass"


def test_what_a_function_uses_is_widened_and_watched() -> None:
    model = Plain(True).bfloat16().eval()
    subject = subject_of(lambda ids: model(ids))
    assert subject.finest().logits(torch.zeros(1, 5, dtype=torch.long)).dtype == torch.float64
    assert model.table.weight.dtype == torch.bfloat16  # put back
    why = check(lambda ids: model(ids), only=["causality"])["causality"].why
    assert "own forward" in why and "one token ahead" in why


def test_answers_that_are_no_logits_are_refused() -> None:
    for answer in (lambda ids: None, lambda ids: {"loss": torch.zeros(())}, lambda ids: ids):
        with pytest.raises(UsageError, match="must give logits"):
            check(answer)
    with pytest.raises(UsageError, match="length comes last"):
        check(lambda ids: torch.zeros(ids.shape[0], VOCAB, ids.shape[1]))
