"""The GPT: equal to GPT-2, causal, whole = steps = cached, padding changes nothing."""

import math

import pytest
import torch
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.gpt2 import config_from_gpt2, from_gpt2
from attnlab.models.protocol import LanguageModel
from attnlab.parts.cached import why_not_cached
from tests.models.variants import NAMED, gpt, small, some_ids

EXACT = 1e-12
DECODED = {
    name: c for name, c in NAMED.items() if not why_not_cached(next(gpt(c).layers()).attention)
}
POSITIONS = {name: c for name, c in NAMED.items() if name.startswith("position")}


def gpt2(tie: bool = True) -> GPT2LMHeadModel:
    """Random weights, biases and norms too, none of them at its start."""
    config = GPT2Config(
        vocab_size=53,
        n_positions=31,
        n_embd=42,
        n_layer=3,
        n_head=7,
        n_inner=126,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        tie_word_embeddings=tie,
        bos_token_id=0,
        eos_token_id=1,
        layer_norm_epsilon=1e-4,
    )
    model = GPT2LMHeadModel(config).double()
    generator = Seed(11).torch_generator()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.3)
    return model.eval()


@pytest.mark.parametrize("tie", [True, False])
def test_equal_to_hugging_faces_gpt2_with_copied_weights(tie: bool) -> None:
    theirs = gpt2(tie)
    config = config_from_gpt2(theirs.config.to_dict())
    assert (config.heads, config.mlp_ratio, config.norm_eps, config.tie) == (7, 3, 1e-4, tie)
    ours = gpt(config)
    ours.load_state_dict(from_gpt2(theirs.state_dict(), config))
    ids = some_ids()
    expected = theirs(input_ids=ids).logits
    assert float(expected.detach().std()) > 0.5
    torch.testing.assert_close(ours(ids), expected, rtol=0, atol=1e-9)
    total, _ = ours.nll(ids[:, :-1], ids[:, 1:])
    loss = cross_entropy(expected[:, :-1].flatten(0, 1), ids[:, 1:].flatten(), reduction="sum")
    torch.testing.assert_close(total, loss, rtol=EXACT, atol=0)
    total.backward()
    loss.backward()
    gradient = theirs.transformer.wte.weight.grad
    assert gradient is not None
    torch.testing.assert_close(ours.embedding.grad, gradient, rtol=0, atol=1e-9)


@pytest.mark.parametrize("config", NAMED.values(), ids=NAMED)
def test_causal_unless_its_attention_says_why_not(config: GPTConfig) -> None:
    model, ids = gpt(config), some_ids()
    changed = ids.clone()
    changed[:, 11:] = (ids[:, 11:] + 1) % 53
    before = [buffer.clone() for buffer in model.buffers()]
    kept = model.logits(ids)[:, :11]
    for buffer, value in zip(model.buffers(), before, strict=True):
        buffer.copy_(value)  # the order of heads of the first call
    moved = not torch.equal(kept, model.logits(changed)[:, :11])
    assert moved == bool(next(model.layers()).attention.leaks)


@pytest.mark.parametrize("config", NAMED.values(), ids=NAMED)
def test_nll_is_the_cross_entropy_of_the_logits(config: GPTConfig) -> None:
    model, ids = gpt(config), some_ids()
    targets = some_ids(seed=8)
    targets[:, ::5] = IGNORE
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    total, count = model.nll(ids, targets)
    model.load_state_dict(state)
    expected = cross_entropy(model(ids).flatten(0, 1), targets.flatten(), reduction="sum")
    assert int(count) == int((targets != IGNORE).sum())
    torch.testing.assert_close(total, expected, rtol=EXACT, atol=0)


@pytest.mark.parametrize("config", NAMED.values(), ids=NAMED)
def test_every_parameter_is_learnt(config: GPTConfig) -> None:
    model = gpt(config).train()
    total, _ = model.nll(some_ids(), some_ids(seed=8))
    total.backward()
    still = {n for n, p in model.named_parameters() if p.grad is None or not p.grad.any()}
    if config.normalise.part.name == "argmax":  # no gradient passes to scores
        still = {name for name in still if "qkv" not in name}
    assert not still


@pytest.mark.parametrize("config", NAMED.values(), ids=NAMED)
def test_steps_are_what_forward_does(config: GPTConfig) -> None:
    model, ids = gpt(config), some_ids()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    steps = model.steps(ids)
    model.load_state_dict(state)
    attended = []
    for block in model.layers():
        block.attention.register_forward_hook(lambda *given: attended.append(given[-1]))
    model(ids)
    assert len(steps) == config.layers
    for step, out in zip(steps, attended, strict=True):
        torch.testing.assert_close(step.out, out, rtol=0, atol=EXACT)
    model.load_state_dict(state)
    assert all(torch.equal(a, s.weights) for a, s in zip(model.attentions(ids), steps, strict=True))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("config", DECODED.values(), ids=DECODED)
def test_padding_changes_no_visible_position(config: GPTConfig, side: str) -> None:
    model, ids = gpt(config), some_ids(rows=2)
    row, junk = ids[:, :13], some_ids(rows=2, length=4, seed=9)
    left = side == "left"
    padded = torch.cat((junk, row) if left else (row, junk), dim=1)
    mask = torch.zeros(2, 17, dtype=torch.bool)
    mask[:, : 4 if left else 0] = True
    mask[:, 17 if left else 13 :] = True
    expected, found = (
        model(row),
        model(padded, mask)[:, 4:] if left else model(padded, mask)[:, :13],
    )
    torch.testing.assert_close(found, expected, rtol=0, atol=EXACT)
    targets = torch.where(mask, IGNORE, padded)
    total, count = model.nll(padded, targets, mask)
    alone, number = model.nll(row, row)
    assert int(count) == int(number)
    torch.testing.assert_close(total, alone, rtol=EXACT, atol=0)
    weights = model.steps(padded, mask)[0].weights
    assert not weights.masked_select(mask[:, None, None, :].expand_as(weights)).any()


@pytest.mark.parametrize("config", DECODED.values(), ids=DECODED)
def test_cached_is_the_model_token_by_token(config: GPTConfig) -> None:
    model, ids = gpt(config), some_ids()
    cached = model.cached(batch=3, length=17)
    pieces = [cached.step(ids[:, :5]), *(cached.step(ids[:, i : i + 1]) for i in range(5, 17))]
    torch.testing.assert_close(torch.cat(pieces, dim=1), model(ids), rtol=0, atol=EXACT)
    assert not pieces[0].requires_grad


@pytest.mark.parametrize("config", POSITIONS.values(), ids=POSITIONS)
def test_cached_rows_of_unequal_length_and_survivors(config: GPTConfig) -> None:
    """Padding on the left, then one token each; then row 2 twice and row 0."""
    model, ids = gpt(config), some_ids()
    mask = torch.zeros(3, 7, dtype=torch.bool)
    mask[0, :2] = mask[2, :5] = True
    cached = model.cached(batch=3, length=9)
    cached.step(ids[:, :7], mask)
    second = cached.step(ids[:, 7:8])
    cached.take(torch.tensor([2, 2, 0]))
    third = cached.step(torch.tensor([[4], [5], [6]]))
    for row, start in enumerate((2, 0, 5)):
        alone = model(ids[row : row + 1, start:8])
        torch.testing.assert_close(second[row, 0], alone[0, -1], rtol=0, atol=EXACT)
    for row, (source, start, last) in enumerate(((2, 5, 4), (2, 5, 5), (0, 2, 6))):
        text = torch.cat((ids[source, start:8], torch.tensor([last])))[None]
        torch.testing.assert_close(third[row, 0], model(text)[0, -1], rtol=0, atol=EXACT)


def test_what_cannot_be_cached_says_why() -> None:
    refused = NAMED.keys() - DECODED.keys()
    assert {"merge-reweight", "merge-shuffle", "mask-full"} <= refused
    for name in refused:
        with pytest.raises(UsageError, match="token by token"):
            gpt(NAMED[name]).cached(batch=1, length=5)


def test_longer_than_the_block_is_refused() -> None:
    model = gpt(small())
    with pytest.raises(UsageError, match="31 at most"):
        model(some_ids(length=32))
    with pytest.raises(UsageError, match="31 at most"):
        model.cached(batch=1, length=32)


def test_it_is_a_language_model() -> None:
    model = gpt(small())
    assert isinstance(model, LanguageModel)
    assert (model.vocabulary, model.context) == (53, 31)
    assert not model.logits(some_ids()).requires_grad


def test_number_of_parameters() -> None:
    width, block, vocab, layers = 42, 31, 53, 2
    linear = width * 3 * width + width * width + 2 * width * 4 * width
    biases = 3 * width + width + 4 * width + width
    each = linear + biases + 4 * width
    expected = (vocab + block) * width + layers * each + 2 * width
    assert gpt(small()).parameter_count() == expected
    assert gpt(small(tie=False)).parameter_count() == expected + vocab * width
    assert (
        gpt(small(bias=False)).parameter_count() == expected - layers * (biases + 2 * width) - width
    )


def test_weights_start_as_in_gpt2() -> None:
    """std 0.02, maps that return to x 0.02/√(2·layers), biases 0; within 4 standard errors."""
    model = GPT(small(layers=5, d_model=96, heads=3, vocab=211), Seed(1).torch_generator())
    for name, p in model.named_parameters():
        if name.endswith("bias"):
            assert not p.any()
        elif "norm" in name:
            assert torch.equal(p, torch.ones_like(p))
        else:
            expected = 0.02 / (math.sqrt(10) if ".out." in name else 1)
            assert float(p.detach().std()) == pytest.approx(
                expected, rel=4 / math.sqrt(2 * p.numel())
            )


def test_weights_are_a_function_of_the_generator_alone() -> None:
    before = torch.get_rng_state()
    one, same, other = (GPT(small(), Seed(s).torch_generator()).state_dict() for s in (1, 1, 2))
    assert all(torch.equal(one[name], same[name]) for name in one)
    assert not torch.equal(one["embedding"], other["embedding"])
    assert torch.equal(torch.get_rng_state(), before)


def test_tied_means_one_matrix() -> None:
    tied, own = gpt(small()), gpt(small(tie=False))
    assert tied.output_matrix is tied.embedding
    assert own.output_matrix is not own.embedding
    assert "head" in own.state_dict() and "head" not in tied.state_dict()


@pytest.mark.gpu
@pytest.mark.parametrize("config", POSITIONS.values(), ids=POSITIONS)
def test_on_a_gpu_it_is_the_same(config: GPTConfig) -> None:
    here, ids, targets = gpt(config), some_ids(), some_ids(seed=8)
    targets[:, ::5] = IGNORE
    mask = torch.zeros(3, 17, dtype=torch.bool)
    mask[0, :4] = True
    there = gpt(config).cuda()
    expected, count = here.nll(ids, targets, mask)
    total, number = there.nll(ids.cuda(), targets.cuda(), mask.cuda())
    assert int(count) == int(number)
    torch.testing.assert_close(total.cpu(), expected, rtol=1e-10, atol=0)
    cached = there.cached(batch=3, length=17)
    pieces = [cached.step(ids[:, :5].cuda()), cached.step(ids[:, 5:].cuda())]
    torch.testing.assert_close(torch.cat(pieces, dim=1).cpu(), here(ids), rtol=0, atol=1e-10)


@pytest.mark.gpu
def test_bfloat16_on_a_gpu_learns_as_float32_does() -> None:
    model, ids = gpt(small(), torch.float32).cuda().train(), some_ids().cuda()
    losses = []
    for low in (False, True):
        with torch.autocast("cuda", torch.bfloat16, enabled=low):
            total, count = model.nll(ids[:, :-1], ids[:, 1:])
        losses.append(float((total / count).detach()))
        assert total.dtype == torch.float32
    assert losses[1] == pytest.approx(losses[0], rel=2**-7)
