"""Attention that is there and does nothing is found; living attention passes, whatever its kind."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from attnlab.audit.checks.attention_matters import attention_matters
from attnlab.audit.finding import Finding
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.wrap import subject_of
from tests.models.variants import gpt, small


class Block(nn.Module):
    """One head of causal attention with a residual; `fused` by torch's own kernel."""

    def __init__(self, *, fused: bool = False, window: int = 1_000) -> None:
        super().__init__()
        draws = torch.Generator().manual_seed(5)
        self.fused, self.window = fused, window
        self.table = nn.Embedding(53, 13)
        self.maps = nn.Linear(13, 39, bias=False)
        self.join = nn.Linear(13, 13, bias=False)
        self.out = nn.Linear(13, 53, bias=False)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5, generator=draws)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.table(ids)
        q, k, v = self.maps(x).chunk(3, dim=-1)
        n = ids.shape[1]
        past = torch.ones(n, n, dtype=torch.bool).tril().triu(1 - self.window)
        if self.fused:
            heads = [t[:, None] for t in (q, k, v)]
            mixed = functional.scaled_dot_product_attention(*heads, attn_mask=past)[:, 0]
        else:
            scores = (q @ k.transpose(1, 2)).masked_fill(~past, -torch.inf) * 13**-0.5
            mixed = scores.softmax(dim=-1) @ v
        return self.out(x + self.join(mixed))


def judged(model: Any) -> Finding:
    return attention_matters(subject_of(model.eval()), Probe())


def scaled(model: Block, *, keys: float = 1.0, join: float = 1.0) -> Block:
    with torch.no_grad():
        model.maps.weight[:26] *= keys
        model.join.weight *= join
    return model


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_living_attention_passes(fused: bool, dtype: torch.dtype) -> None:
    found = judged(Block(fused=fused).to(dtype))
    assert found.verdict == "pass", found
    assert found.number is not None and found.threshold is not None
    assert found.number > 1e6 * found.threshold


@pytest.mark.parametrize("fused", [False, True])
def test_dead_attention_is_found(fused: bool) -> None:
    found = judged(scaled(Block(fused=fused), join=1e-20))
    assert (found.verdict, "set to zero" in found.why) == ("fail", True)


@pytest.mark.parametrize("fused", [False, True])
def test_dead_scores_are_found(fused: bool) -> None:
    """What thirty layers of a default start leave of queries and keys: about 1e-11 each."""
    found = judged(scaled(Block(fused=fused), keys=1e-11))
    assert (found.verdict, "queries and keys" in found.why) == ("fail", True)


def test_a_position_that_sees_itself_only_has_no_attention() -> None:
    assert judged(Block(window=1)).verdict == "fail"
    assert judged(Block(window=2)).verdict == "pass"


def test_an_output_map_that_starts_at_zero_is_said_to() -> None:
    found = judged(scaled(Block(), join=0.0))
    assert found.verdict == "not-applicable"
    assert "`join.weight` is exactly zero" in found.why


def test_no_attention_is_no_pass() -> None:
    found = judged(nn.Sequential(nn.Embedding(53, 13), nn.Linear(13, 53)))
    assert (found.verdict, "no attention" in found.why) == ("not-applicable", True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: gpt(small()),
        lambda: GPT2LMHeadModel(
            GPT2Config(
                vocab_size=53,
                n_positions=31,
                n_embd=42,
                n_layer=2,
                n_head=3,
                bos_token_id=0,
                eos_token_id=1,
            )
        ),
        lambda: LlamaForCausalLM(
            LlamaConfig(
                vocab_size=53,
                max_position_embeddings=37,
                hidden_size=48,
                num_hidden_layers=2,
                num_attention_heads=6,
                num_key_value_heads=2,
                intermediate_size=41,
            )
        ),
    ],
    ids=["ours", "gpt2", "llama"],
)
def test_fresh_models_pass_grouped_queries_too(make: Any) -> None:
    assert judged(make()).verdict == "pass"
