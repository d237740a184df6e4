"""The Perceiver: its definition in loops, causal always, blind only in the course's way."""

from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch.nn.functional import cross_entropy

from attnlab.audit.catalogue import check
from attnlab.audit.checks.coverage import influence
from attnlab.audit.probing.wrap import subject_of
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.decode.generate import generate
from attnlab.decode.strategy import Strategy
from attnlab.models.build import model_from_json
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.perceiver import Perceiver, PerceiverConfig, Reads
from attnlab.models.protocol import LanguageModel
from attnlab.parts.mask import Window
from attnlab.parts.position import Position
from attnlab.tasks.batches import SentenceBatches
from attnlab.training.loop import train
from attnlab.training.settings import TrainSettings
from tests.models.variants import some_ids
from tests.reference import perceiver as reference

READS = get_args(Reads)
BASE = GPTConfig(53, block=31, layers=4, heads=3, d_model=42)


def made(reads: Any, latents: int = 7, base: GPTConfig = BASE, seed: int = 3) -> Perceiver:
    """In fp64, its weights five times as large as at the start: far from uniform."""
    model = Perceiver(PerceiverConfig(base, latents, reads), Seed(seed).torch_generator())
    with torch.no_grad():
        for p in model.double().parameters():
            if p.ndim > 1:
                p.mul_(5)
            else:
                p.add_(torch.randn(p.shape, generator=Seed(p.numel()).torch_generator()) / 10)
    return model.eval()


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("length", [2, 19, 31])
def test_equal_to_its_definition(reads: str, length: int) -> None:
    model, ids = made(reads), some_ids(2, length)
    for row, found in zip(ids, model(ids), strict=True):
        expected = reference.logits(model, row.tolist())
        assert float(expected.std()) > 0.5
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("reads", READS)
@pytest.mark.parametrize("position", sorted(Position.variants))
def test_the_fast_way_is_the_way_of_the_steps(reads: str, position: str) -> None:
    base = replace(BASE, position=Position.variants[position].Config())
    model, ids = made(reads, base=base), some_ids(2, 23)
    model.steps(ids)

    def slow(attention: Any, query: Any, key: Any, position_ids: Any, mask: Any) -> Any:
        return attention.steps(query, key, position_ids, mask).out

    torch.testing.assert_close(
        model.states(ids), model.through(ids, None, slow), rtol=0, atol=1e-12
    )
    for weights in model.attentions(ids):
        sums = weights.sum(dim=-1)
        assert ((sums - 1).abs().lt(1e-9) | sums.eq(0)).all()


@pytest.mark.parametrize("reads", READS)
def test_nll_is_the_cross_entropy_of_the_logits(reads: str) -> None:
    model, ids, targets = made(reads), some_ids(), some_ids(seed=8)
    targets[:, ::5] = IGNORE
    total, count = model.nll(ids, targets)
    wanted = cross_entropy(model(ids).flatten(0, 1), targets.flatten(), reduction="sum")
    assert int(count) == int((targets != IGNORE).sum())
    torch.testing.assert_close(total, wanted, rtol=1e-12, atol=0)
    total.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("reads", READS)
def test_padding_on_either_side_changes_nothing(reads: str) -> None:
    model, ids = made(reads), some_ids(2, 13)
    expected = model(ids)
    for left in (0, 4, 11):
        wide = torch.full((2, 13 + 11), 5)
        wide[:, left : left + 13] = ids
        mask = torch.ones_like(wide, dtype=torch.bool)
        mask[:, left : left + 13] = False
        found = model(wide, mask)[:, left : left + 13]
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("reads", READS)
def test_the_audits_call_all_causal_and_the_course_one_blind(reads: str) -> None:
    model = Perceiver(PerceiverConfig(BASE, 7, reads), Seed(3).torch_generator())  # pyright: ignore[reportArgumentType]
    found = check(model, only=["non-finite", "causality", "coverage", "padding"], length=23)
    verdicts = {f.name: f.verdict for f in found.findings}
    blind = reads == "course"
    assert verdicts.pop("coverage") == ("fail" if blind else "pass")
    assert set(verdicts.values()) == {"pass"}
    assert ("blind" in found["coverage"].why) == blind
    if blind:
        maps = found["coverage"].evidence.values()
        assert min(place for read in maps for place in read["unread"]) == 7  # = latents


def read_by(model: Perceiver, length: int = 23) -> dict[int, set[int]]:
    """Input j -> the positions whose prediction it moves."""
    moves = influence(subject_of(model), some_ids(1, length), list(range(length)))
    return {j: {t for t, size in enumerate(sizes) if size > 0} for j, sizes in moves.items()}


def test_what_each_way_of_reading_reaches() -> None:
    everything = {j: set(range(j, 23)) for j in range(23)}
    assert read_by(made("block+local")) == everything
    span = -(-31 // 7)
    finished = {
        j: {j} | {t for t in range(j, 23) if (j // span + 1) * span <= t + 1} for j in range(23)
    }
    assert read_by(made("block")) == finished  # its own unfinished block: itself alone
    first = {j: set(range(j, 23)) if j < 7 else {j} for j in range(23)}
    assert read_by(made("course")) == first


def test_a_mask_that_lets_a_latent_see_its_unfinished_block_would_be_caught() -> None:
    class Early(Perceiver):
        def latent_positions(self, length: int) -> Any:
            return (super().latent_positions(length) - 1).clamp_min(0)

        def through(self, ids: Any, key_padding_mask: Any, attend: Any) -> Any:
            def later(a: Any, query: Any, key: Any, position_ids: Any, mask: Any) -> Any:
                if a is self.down.attention:  # reads one place more than where it stands
                    position_ids = type(position_ids)(position_ids.query + 1, position_ids.key)
                return attend(a, query, key, position_ids, mask)

            return super().through(ids, key_padding_mask, later)

    model = Early(PerceiverConfig(BASE, 7, "block"), Seed(3).torch_generator())
    assert check(model, only=["causality"])["causality"].verdict == "fail"


def test_only_the_layer_that_reads_back_is_made_wider() -> None:
    config = PerceiverConfig(BASE, 7, "course", up_ratio=6)
    wide, usual = (
        Perceiver(c, Seed(3).torch_generator()) for c in (config, replace(config, up_ratio=None))
    )
    assert PerceiverConfig.from_json(config.to_json()) == config
    assert "up_ratio" not in usual.config.to_json(), "stored models keep their JSON"
    shapes = {name: p.shape for name, p in usual.named_parameters()}
    changed = {name for name, p in wide.named_parameters() if p.shape != shapes[name]}
    assert changed and all(name.startswith("up.feed_forward.") for name in changed)
    more = 2 * BASE.d_model * 2 * BASE.d_model + 2 * BASE.d_model  # two matrices and a bias
    assert wide.parameter_count() - usual.parameter_count() == more
    ids = some_ids(2, 19)
    expected = reference.logits(wide.double().eval(), ids[0].tolist())
    torch.testing.assert_close(wide(ids)[0], expected, rtol=0, atol=1e-10)
    with pytest.raises(UsageError, match="up_ratio"):
        replace(config, up_ratio=0)


def test_all_ways_have_as_many_parameters_and_the_gpt_nearly() -> None:
    counts = {made(reads).parameter_count() for reads in READS}
    assert len(counts) == 1
    gpt = GPT(BASE, Seed(1).torch_generator()).parameter_count()
    assert counts.pop() == gpt + 7 * 42 + 2 * 2 * 42  # the latents and two norms


@pytest.mark.parametrize("reads", READS)
def test_it_is_trained_stored_resumed_and_decoded_as_any_model(reads: str, tmp_path: Path) -> None:
    model = Perceiver(PerceiverConfig(BASE, 7, reads), Seed(3).torch_generator())  # pyright: ignore[reportArgumentType]
    assert isinstance(model, LanguageModel)
    rows = [[1, *row, 1] for row in some_ids(11, 17).tolist()]
    batches = SentenceBatches(rows, 31, 5, Seed(2))
    settings = TrainSettings(steps=6, batch=5, checkpoint_every=2)
    done = train(model, batches, settings, checkpoints=tmp_path)
    assert done.losses[-1] < done.losses[0]
    again = model_from_json(model.config.to_json(), Seed(4).torch_generator())
    train(again, batches, settings, checkpoints=tmp_path)
    ids = some_ids(2, 9)
    assert isinstance(again, Perceiver) and torch.equal(again.logits(ids), model.logits(ids))
    texts = generate(model, ids.tolist(), Strategy("greedy"), max_new_tokens=4)
    whole = torch.tensor([[*p, *text.ids] for p, text in zip(ids.tolist(), texts, strict=True)])
    assert (model.logits(whole)[:, 8:-1].argmax(dim=-1) == whole[:, 9:]).all()


def test_configurations_round_trip_and_wrong_ones_are_refused() -> None:
    config = PerceiverConfig(replace(BASE, tie=False, bias=False), 5, "block")
    assert PerceiverConfig.from_json(config.to_json()) == config
    model = Perceiver(config, Seed(1).torch_generator())
    assert model(some_ids()).shape == (3, 17, 53) and "block" in model.name
    assert isinstance(model_from_json(BASE.to_json(), Seed(1).torch_generator()), GPT)
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("whole number", {"latents": 0}),
        ("at most one each", {"latents": 32}),
        ("needs 3 layers", {"base": replace(BASE, layers=2)}),
        ("causal by", {"base": replace(BASE, mask=Window.Config(size=3))}),
    ]
    for words, changes in wrong:
        with pytest.raises(UsageError, match=words):
            PerceiverConfig(**{"base": BASE, "latents": 7, **changes})
    with pytest.raises(UsageError, match="did you mean 'block'"):
        PerceiverConfig.from_json(config.to_json() | {"reads": "blok"})
    with pytest.raises(UsageError, match="reads 31 at most"):
        model(some_ids(1, 32))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("reads", READS)
def test_a_gpu_computes_the_same_and_rows_that_see_no_latent_stay_finite(reads: str) -> None:
    """Float32 rounds to 6e-8; sums of some 1e4 terms, weights five times their usual size: 2e-4."""
    model, ids, targets = made(reads).float(), some_ids(3, 29), some_ids(3, 29, seed=8)
    slopes = []
    for device in ("cpu", "cuda"):
        model = model.to(device)
        model.zero_grad()
        total, _ = model.nll(ids.to(device), targets.to(device))
        total.backward()
        slopes.append([p.grad.cpu().clone() for p in model.parameters() if p.grad is not None])
    for here, there in zip(*slopes, strict=True):
        assert there.isfinite().all()
        scale = float(here.abs().max())
        torch.testing.assert_close(there, here, rtol=0, atol=2e-4 * scale)
    with torch.autocast("cuda", torch.bfloat16):
        total, _ = model.nll(ids.cuda(), targets.cuda())
    assert total.isfinite()
