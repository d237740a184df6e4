"""Whatever is wrapped answers as it did, and is left as it was."""

from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn

from attnlab.audit import (
    assert_batch_independent,
    assert_cache_parity,
    assert_causal,
    assert_covers,
    assert_deterministic,
    assert_finite,
    assert_pad_invariant,
    check,
)
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.wrap import subject_of
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.perceiver import Perceiver, PerceiverConfig
from attnlab.parts.merge import Reweight

VOCAB, WIDTH = 31, 13


def gpt(**parts: object) -> GPT:
    config = GPTConfig.named("nano", vocab=VOCAB, block=37, **parts)
    return GPT(config, Seed(3).torch_generator()).eval()


class Running(nn.Module):
    """A running mean of what was read: causal, with dropout and a buffer that counts calls."""

    calls: Tensor

    def __init__(self, answer: str) -> None:
        super().__init__()
        self.answer = answer
        generator = Seed(5).torch_generator()
        self.table = nn.Parameter(torch.randn(VOCAB, WIDTH, generator=generator))
        self.drop = nn.Dropout(0.5)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, ids: Tensor, *, mask: Tensor | None = None) -> object:
        if self.training:
            self.calls += 1
        x = self.drop(self.table[ids])
        keep = torch.ones_like(ids) if mask is None else mask
        x = (x * keep[..., None]).cumsum(1) / keep.cumsum(1).clamp_min(1)[..., None]
        logits = x @ self.table.T
        wrapped = {"tensor": logits, "tuple": (logits, x), "object": SimpleNamespace(logits=logits)}
        return wrapped[self.answer]


@pytest.mark.parametrize("answer", ["tensor", "tuple", "object"])
def test_any_form_of_answer_is_understood_and_the_model_left_alone(answer: str) -> None:
    model = Running(answer).train()
    before = torch.get_rng_state()
    found = check(model, length=31)
    assert found.verdict == "pass", [f.why for f in found.findings if f.verdict == "fail"]
    assert found["padding"].verdict == "pass"
    assert model.training and int(model.calls) == 0
    assert torch.equal(before, torch.get_rng_state())
    assert all(p.grad is None for p in model.parameters())


def test_a_subject_knows_its_model() -> None:
    subject = subject_of(gpt())
    assert (subject.vocabulary, subject.context, subject.takes_mask) == (VOCAB, 37, True)
    assert subject.finest() is not subject and subject.finest().dtype == torch.float64
    ids = Probe().rows(subject, 11)
    assert ids.shape == (3, 11) and len(ids.unique()) == VOCAB  # dealt out like cards
    assert bool((Probe().different_ids(ids, subject) != ids).all())


def test_the_context_of_a_table_of_positions_is_found() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(VOCAB, WIDTH), nn.Embedding(61, WIDTH)

        def forward(self, ids: Tensor) -> Tensor:
            x = self.token(ids) + self.place(torch.arange(ids.shape[1]))
            return x.cumsum(1) @ self.token.weight.T

    assert subject_of(Positions()).context == 61


def test_asserts_pass_on_a_sound_model_and_say_why_on_a_leaking_one() -> None:
    model = gpt()
    for passes in (
        assert_causal,
        assert_batch_independent,
        assert_pad_invariant,
        assert_covers,
        assert_deterministic,
        assert_cache_parity,
        assert_finite,
    ):
        passes(model, length=13)
    leaking = gpt(merge=Reweight.Config(over="heads"))
    with pytest.raises(AssertionError, match=r"blocks\.0\.attention\.merge"):
        assert_causal(leaking, length=13)
    with pytest.raises(AssertionError, match="padding: could not be judged: it takes no"):
        assert_pad_invariant(lambda ids: torch.zeros(*ids.shape, VOCAB))


def test_what_is_no_model_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="is not a model"):
        check(3)
    with pytest.raises(UsageError, match="must give logits"):
        check(lambda ids: ids)
    with pytest.raises(UsageError, match="unknown audit"):
        check(gpt(), only=["casuality"])


def test_an_audit_that_breaks_is_not_a_pass() -> None:
    def shy(ids: Tensor) -> Tensor:
        if ids.shape[0] > 1:
            raise ValueError("one row only")
        return torch.zeros(*ids.shape, VOCAB)

    found = check(shy, only=["batch-independence"])
    assert found.verdict == "could-not-be-judged" and "one row only" in found.why
    with pytest.raises(AssertionError, match="could not be judged: the model raised ValueError"):
        assert_batch_independent(shy)


@pytest.mark.gpu
@pytest.mark.parametrize("way", ["module", "function", "perceiver"])
def test_on_a_gpu_anyones_model_is_judged_as_on_a_cpu(way: str) -> None:
    """Limits are tried on the CPU: there an id too many is an error, on a GPU the end."""

    def made(device: str) -> tuple[nn.Module, object]:
        if way == "perceiver":
            base = GPTConfig(VOCAB, block=37, layers=4, heads=2, d_model=16)
            model = Perceiver(PerceiverConfig(base, 5, "course"), Seed(7).torch_generator())
            return model, model.eval().to(device)
        model = Running("tensor").eval().to(device)
        return model, model if way == "module" else lambda ids: model(ids)

    found = {}
    for device in ("cpu", "cuda"):
        model, asked = made(device)
        judged = check(asked, only=["causality", "coverage", "batch-independence", "padding"])
        found[device] = {f.name: f.verdict for f in judged.findings}
        assert {w.device.type for w in model.parameters()} == {device}
    assert found["cuda"] == found["cpu"]
    assert found["cpu"]["coverage"] == ("fail" if way == "perceiver" else "pass")
