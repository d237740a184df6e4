"""Settings of a GPT: JSON and back, sizes by name, one line for every mistake."""

import json
from dataclasses import replace
from typing import Any

import pytest

from attnlab.core.errors import UsageError
from attnlab.models.config import SIZES, GPTConfig
from attnlab.parts.mask import Causal, Window
from attnlab.parts.mlp import Swiglu
from attnlab.parts.norm import Rms
from attnlab.parts.position import Rotary
from tests.models.variants import NAMED, small


@pytest.mark.parametrize("config", NAMED.values(), ids=NAMED)
def test_json_and_back(config: GPTConfig) -> None:
    text = json.dumps(config.to_json())
    assert GPTConfig.from_json(json.loads(text)) == config


def test_every_field_survives_json() -> None:
    config = GPTConfig(
        vocab=11,
        block=13,
        layers=2,
        heads=5,
        d_model=35,
        position=Rotary.Config(base=7.0),
        mask=Causal.Config() & Window.Config(size=3),
        tie=False,
        bias=False,
        mlp_ratio=3,
        norm_eps=1e-6,
        norm=Rms.Config(),
        mlp=Swiglu.Config(),
        kv_heads=1,
        d_head=12,
        d_mlp=17,
    )
    assert GPTConfig.from_json(config.to_json()) == config
    assert config != GPTConfig(vocab=11)


def test_json_of_a_model_without_the_newer_seams_is_what_it_was() -> None:
    """The ids of stored trials depend on it."""
    assert list(GPTConfig(vocab=5).to_json()) == [
        "vocab",
        "block",
        "layers",
        "heads",
        "d_model",
        "project",
        "position",
        "mask",
        "normalise",
        "merge",
        "tie",
        "bias",
        "mlp_ratio",
        "norm_eps",
    ]


def test_only_the_vocabulary_must_be_given() -> None:
    assert GPTConfig.from_json({"vocab": 5000}) == GPTConfig.named("nano", vocab=5000)


@pytest.mark.parametrize("size", SIZES)
def test_sizes_by_name(size: str) -> None:
    config = GPTConfig.named(size, vocab=97, block=7)
    assert (config.layers, config.heads, config.d_model) == SIZES[size]
    assert (config.vocab, config.block) == (97, 7)


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "unknown": ({"vocab": 5, "layer": 2}, "did you mean 'layers'"),
    "no vocabulary": ({}, "vocab"),
    "zero": ({"vocab": 0}, "vocab"),
    "text": ({"vocab": "5"}, "vocab"),
    "bool": ({"vocab": True}, "vocab"),
    "fraction": ({"vocab": 5, "layers": 2.5}, "layers"),
    "not a flag": ({"vocab": 5, "tie": 1}, "tie"),
    "eps": ({"vocab": 5, "norm_eps": 0.0}, "norm_eps"),
    "heads": ({"vocab": 5, "heads": 5}, "divided"),
    "part": ({"vocab": 5, "position": {"name": "rotari"}}, "did you mean 'rotary'"),
    "part's setting": ({"vocab": 5, "position": {"name": "rotary", "bse": 2.0}}, "base"),
    "no part": ({"vocab": 5, "mask": "causal"}, "mask"),
    "key heads": ({"vocab": 5, "kv_heads": 2}, "3 heads cannot share 2 kv_heads"),
    "no key heads": ({"vocab": 5, "kv_heads": 0}, "kv_heads"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_one_line(name: str) -> None:
    values, words = MISTAKES[name]
    with pytest.raises(UsageError, match=words) as caught:
        GPTConfig.from_json(values)
    assert "\n" not in str(caught.value)


def test_names_are_checked_too() -> None:
    with pytest.raises(UsageError, match="did you mean 'nano'"):
        GPTConfig.named("nanno", vocab=5)
    with pytest.raises(UsageError, match="did you mean 'layers'"):
        GPTConfig.named("nano", vocab=5, layer=2)


def test_is_gpt2_says_which_models_hugging_face_knows() -> None:
    assert small().is_gpt2
    assert replace(small(), tie=False, mlp_ratio=3).is_gpt2
    assert not replace(small(), bias=False).is_gpt2
    usual = {"project-linear", "position-learned", "mask-causal", "normalise-softmax"}
    usual |= {"merge-concat", "norm-layer", "mlp-gelu"}
    assert {name for name, config in NAMED.items() if config.is_gpt2} == usual
    assert not replace(small(), d_head=9).is_gpt2
    assert [name for name, config in NAMED.items() if config.is_llama] == ["llama"]
