"""The zoo names every class, builds each twice alike, and each answers at every position."""

import sys
from pathlib import Path

import pytest
import torch
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from zoo import Entry, tiny_config, tiny_models, wake
from zoo_settings import NOT_CAUSAL, OVERRIDES, PARTS, VOCABULARY, WHY_NOT

BATCH, LENGTH = 2, 24
FEW = ("bert", "falcon_h1", "gemma3_text", "gpt2", "jamba", "llama", "mixtral", "rwkv")


def entry(model_type: str) -> Entry:
    return next(tiny_models((model_type,)))


def ids(seed: int = 5) -> torch.Tensor:
    # 6 and up: below lie the ids that mean padding, start and end
    shape, generator = (BATCH, LENGTH), torch.Generator().manual_seed(seed)
    return torch.randint(6, VOCABULARY, shape, generator=generator)


@torch.no_grad()
def logits(model: torch.nn.Module, tokens: torch.Tensor) -> torch.Tensor:
    return model(tokens).logits


def check(one: Entry) -> torch.nn.Module:
    """float32, eval, small, of the named class, the same twice, finite logits that differ."""
    model, twin = one.build(), one.build()
    assert type(model).__name__ == one.class_name
    assert not any(part.training for part in model.modules())
    assert sum(p.numel() for p in model.parameters()) < 5_000_000
    for (name, p), q in zip(model.named_parameters(), twin.parameters(), strict=True):
        assert p.dtype == torch.float32, name
        assert torch.equal(p, q), f"{name} is not decided by the seed"
    out = logits(model, ids())
    assert out.shape == (BATCH, LENGTH, VOCABULARY)
    assert out.isfinite().all()
    assert torch.equal(out, logits(twin, ids()))
    assert out.std(dim=1).max() > 1e-3, "all positions answer alike"
    return model


def test_every_causal_lm_of_transformers_is_listed_once() -> None:
    listed = {e.model_type: e.class_name for e in tiny_models()}
    assert listed == dict(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
    assert set(OVERRIDES) | set(PARTS) | set(WHY_NOT) | set(NOT_CAUSAL) <= set(listed)


def test_a_misspelt_type_is_refused() -> None:
    with pytest.raises(ValueError, match="no causal LM of type gpt-2"):
        list(tiny_models(("gpt2", "gpt-2")))


@pytest.mark.parametrize("model_type", FEW)
def test_a_handful_is_built_and_run(model_type: str) -> None:
    check(entry(model_type))


def test_building_leaves_the_global_generator_alone() -> None:
    before = torch.default_generator.get_state()
    entry("gpt2").build()
    assert torch.equal(before, torch.default_generator.get_state())


def test_encoders_become_decoders_and_each_kind_of_layer_stays() -> None:
    assert tiny_config("bert").is_decoder
    assert tiny_config("gemma3_text").layer_types == ["sliding_attention", "full_attention"]
    assert set(tiny_config("nemotron_h").layer_types) == {
        *("linear_attention", "moe", "full_attention", "mlp")
    }
    assert tiny_config("mixtral").sliding_window is None  # unset by default, and stays so
    assert tiny_config("mistral").sliding_window == 8


def test_wake_opens_shut_gates_only() -> None:
    gates, drawn = torch.nn.Linear(5, 3), torch.nn.Linear(5, 3)
    torch.nn.init.zeros_(gates.weight)
    torch.nn.init.ones_(gates.bias)
    before = [p.clone() for p in drawn.parameters()]
    wake(torch.nn.ModuleList([gates, drawn]))
    assert all(p.unique().numel() == p.numel() for p in gates.parameters())
    assert all(torch.equal(p, q) for p, q in zip(drawn.parameters(), before, strict=True))


@pytest.mark.parametrize("model_type", ["bert", "gpt2", *sorted(NOT_CAUSAL)])
def test_not_causal_says_who_reads_the_second_half_in_the_first(model_type: str) -> None:
    one, half = entry(model_type), LENGTH // 2
    model, changed = one.build(), ids()
    changed[:, half:] = ids(seed=7)[:, half:]
    moved = (logits(model, ids()) - logits(model, changed))[:, :half].abs().max()
    assert moved > 0.1 if one.not_causal else moved == 0


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_whole_zoo_is_built_and_run() -> None:
    wrong = {}
    for one in tiny_models():
        try:
            check(one)
        except Exception as error:  # all are wanted in one report
            wrong[one.model_type] = f"{type(error).__name__}: {error}"
    assert set(wrong) == set(WHY_NOT), {k: v for k, v in wrong.items() if k not in WHY_NOT}
