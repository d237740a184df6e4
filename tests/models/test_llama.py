"""A Llama in our parts: equal to transformers' class, with a cache too, and written back as one."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from attnlab.api.targets import load
from attnlab.audit import check
from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.seeds import Seed
from attnlab.models.convert import gpt_from_library, why_not_ours
from attnlab.models.hugging_face import export
from attnlab.models.llama import config_from_llama, llama_settings
from tests.models.variants import gpt, llama, some_ids

ANGLES = 2e-5  # the library turns queries and keys by angles in float32, whatever the weights are


def tiny(**changes: Any) -> LlamaForCausalLM:
    """Random weights and norms, in float64; six query heads on three key heads."""
    settings: dict[str, Any] = {
        "vocab_size": 53,
        "max_position_embeddings": 31,
        "hidden_size": 42,
        "num_hidden_layers": 3,
        "num_attention_heads": 6,
        "num_key_value_heads": 3,
        "head_dim": 8,
        "intermediate_size": 37,
        "rms_norm_eps": 1e-4,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0},
        "tie_word_embeddings": True,
        "bos_token_id": 0,
        "eos_token_id": 1,
    }
    model = LlamaForCausalLM(LlamaConfig(**{**settings, **changes})).double()
    generator = Seed(11).torch_generator()
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.randn(p.shape, generator=generator) * 0.3 + (p.ndim == 1))
    return model.eval()


KINDS: dict[str, dict[str, Any]] = {
    "grouped-query": {},
    "multi-head": {"num_key_value_heads": 6},
    "multi-query": {"num_key_value_heads": 1},
    "untied": {"tie_word_embeddings": False},
    "base": {"rope_parameters": {"rope_type": "default", "rope_theta": 77.0}},
    "llama3": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10_000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 3.0,
            "original_max_position_embeddings": 17,
        }
    },
    "biases": {"attention_bias": True, "mlp_bias": True},
    "width": {"hidden_size": 48, "head_dim": None},
}


@pytest.mark.parametrize("kind", KINDS)
def test_equal_to_transformers_whole_cached_padded_and_in_steps(kind: str) -> None:
    theirs, ids = tiny(**KINDS[kind]), some_ids()
    ours = gpt_from_library(theirs)
    assert ours.config.is_llama and why_not_ours(theirs) is None
    mask = torch.zeros(3, 17, dtype=torch.bool)
    mask[0, :4] = True
    real = (~mask).long()
    at = (real.cumsum(1) - 1).clamp_min(0)
    with torch.no_grad():
        expected = theirs(input_ids=ids).logits
        padded = theirs(input_ids=ids, attention_mask=real, position_ids=at).logits
    assert float(expected.std()) > 0.5
    close = {"rtol": 0, "atol": ANGLES * float(expected.abs().max())}
    torch.testing.assert_close(ours.logits(ids), expected, **close)
    torch.testing.assert_close(ours.logits(ids, mask)[~mask], padded[~mask], **close)
    cached = ours.cached(batch=3, length=17)
    pieces = [cached.step(ids[:, :5], mask[:, :5])]
    pieces += [cached.step(ids[:, i : i + 1]) for i in range(5, 17)]
    torch.testing.assert_close(torch.cat(pieces, dim=1)[~mask], padded[~mask], **close)
    theirs.set_attn_implementation("eager")
    with torch.no_grad():
        maps = theirs(input_ids=ids, output_attentions=True).attentions
    for steps, weights in zip(ours.steps(ids), maps, strict=True):
        assert steps.k.shape[1] == steps.q.shape[1] == 6
        torch.testing.assert_close(steps.weights, weights, rtol=0, atol=100 * ANGLES)


@pytest.mark.parametrize("kind", KINDS)
def test_in_float32_logits_are_transformers_up_to_the_order_of_sums(kind: str) -> None:
    theirs, ids = tiny(**KINDS[kind]).float(), some_ids()
    with torch.no_grad():
        expected = theirs(input_ids=ids).logits
    gap = (gpt_from_library(theirs).logits(ids) - expected).abs().max()
    assert gap <= 4e-6 * expected.abs().max()  # 0 but for the order of sums


@pytest.mark.parametrize("kind", KINDS)
def test_written_as_a_llama_and_read_back(kind: str, tmp_path: Path) -> None:
    theirs, ids = tiny(**KINDS[kind]), some_ids()
    ours = gpt_from_library(theirs)
    export(ours, None, tmp_path)
    again: Any = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(again) is LlamaForCausalLM and again.dtype == torch.float64
    stored = again.state_dict()
    assert all(torch.equal(stored[name], tensor) for name, tensor in theirs.state_dict().items())
    with torch.no_grad():
        gap = (again(input_ids=ids).logits - theirs(input_ids=ids).logits).abs().max()
    assert gap < ANGLES * ours.logits(ids).abs().max()
    loaded = load(tmp_path, dtype=torch.float64)
    assert loaded.config == ours.config
    assert config_from_llama(again.config.to_dict()) == ours.config
    assert torch.allclose(loaded.logits(ids), ours.logits(ids), rtol=0, atol=1e-4)


def test_our_own_llama_is_a_llama_for_everybody(tmp_path: Path) -> None:
    model, ids = gpt(llama()), some_ids()
    export(model, None, tmp_path)
    theirs: Any = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert type(theirs) is LlamaForCausalLM
    with torch.no_grad():
        gap = (theirs(input_ids=ids).logits - model.logits(ids)).abs().max()
    assert gap < ANGLES * model.logits(ids).abs().max()
    assert llama_settings(model.config)["num_key_value_heads"] == 3


OTHER: dict[str, dict[str, Any]] = {
    "activation": {"hidden_act": "gelu"},
    "some biases": {"attention_bias": True},
    "yarn": {"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e4, "factor": 2.0}},
}


@pytest.mark.parametrize("kind", OTHER)
def test_other_arithmetic_is_refused_in_one_line(kind: str) -> None:
    settings = {**tiny().config.to_dict(), **OTHER[kind]}
    with pytest.raises(UsageError, match="of our parts") as caught:
        config_from_llama(settings)
    assert "\n" not in str(caught.value)


def test_a_model_of_another_make_is_refused() -> None:
    with pytest.raises(UsageError, match="neither GPT2LMHeadModel nor LlamaForCausalLM"):
        gpt_from_library(torch.nn.Linear(2, 2))
    with pytest.raises(IntegrityError, match="not the settings of a Llama"):
        config_from_llama({"vocab_size": 5})


def test_the_audits_hold_on_it() -> None:
    verdicts = check(gpt_from_library(tiny()).float(), length=31)
    assert len(verdicts.findings) > 8
    assert [f.name for f in verdicts.findings if f.verdict == "fail"] == []
