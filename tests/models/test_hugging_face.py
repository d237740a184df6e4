"""Folders that everybody reads: GPT-2 for the plain GPT, a registered class for the others."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GPT2Config, GPT2LMHeadModel

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.models.hugging_face import AttnlabGPT, export, load
from tests.models.variants import NAMED, gpt, small, some_ids

PLAIN = {"plain": small(), "untied": small(tie=False, mlp_ratio=3, norm_eps=1e-6)}
OTHERS = {name: config for name, config in NAMED.items() if not (config.is_gpt2 or config.is_llama)}
OTHERS["no-bias"] = small(bias=False, tie=False)
ALL = {**PLAIN, **OTHERS}


def tokenizer_json(size: int = 53) -> str:
    words = ["<START>", "<STOP>", "<UNK>", *(f"w{i}" for i in range(size - 3))]
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<UNK>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.add_special_tokens(["<START>", "<STOP>", "<UNK>"])
    return made.to_str()


def opened(folder: Path) -> Any:
    model: Any = AutoModelForCausalLM.from_pretrained(folder)
    return model.eval()


def assert_same(a: GPT, b: GPT) -> None:
    assert a.config == b.config
    ours, theirs = a.state_dict(), b.state_dict()
    assert ours.keys() == theirs.keys()
    for name, tensor in ours.items():
        assert tensor.dtype == theirs[name].dtype
        assert torch.equal(tensor, theirs[name]), name


@pytest.mark.parametrize("config", PLAIN.values(), ids=PLAIN)
def test_the_plain_gpt_is_a_gpt2_for_everybody(config: GPTConfig, tmp_path: Path) -> None:
    model, ids = gpt(config), some_ids()
    export(model, None, tmp_path)
    theirs = opened(tmp_path)
    assert type(theirs) is GPT2LMHeadModel
    assert theirs.dtype == torch.float64
    torch.testing.assert_close(theirs(input_ids=ids).logits, model(ids), rtol=0, atol=1e-9)
    tied = theirs.lm_head.weight is theirs.transformer.wte.weight
    assert tied == config.tie


@pytest.mark.parametrize("config", OTHERS.values(), ids=OTHERS)
def test_any_other_is_read_by_the_registered_class(config: GPTConfig, tmp_path: Path) -> None:
    model, ids = gpt(config), some_ids()
    export(model, None, tmp_path)
    theirs = opened(tmp_path)
    assert type(theirs) is AttnlabGPT
    assert_same(theirs.gpt, model)
    torch.testing.assert_close(theirs(input_ids=ids).logits, model(ids), rtol=0, atol=1e-12)
    assert "import attnlab.models.hugging_face" in (tmp_path / "README.md").read_text()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("config", ALL.values(), ids=ALL)
def test_round_trip_bit_for_bit(config: GPTConfig, dtype: torch.dtype, tmp_path: Path) -> None:
    model = gpt(config, dtype)
    export(model, None, tmp_path)
    back = load(tmp_path)
    assert_same(back, model)
    assert all(p.requires_grad for p in back.parameters())


def test_through_the_hands_of_transformers_and_back(tmp_path: Path) -> None:
    for name, config in (("plain", small()), ("other", small(bias=False))):
        model = gpt(config, torch.float32)
        export(model, None, tmp_path / name)
        opened(tmp_path / name).save_pretrained(tmp_path / f"{name}-again")
        assert_same(load(tmp_path / f"{name}-again"), model)


def test_a_gpt2_of_someone_else(tmp_path: Path) -> None:
    settings = GPT2Config(
        vocab_size=53,
        n_positions=31,
        n_embd=42,
        n_layer=2,
        n_head=7,
        bos_token_id=0,
        eos_token_id=1,
    )
    theirs = GPT2LMHeadModel(settings).eval()
    theirs.save_pretrained(tmp_path, max_shard_size="50KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    ours, ids = load(tmp_path), some_ids()
    torch.testing.assert_close(ours(ids), theirs(input_ids=ids).logits, rtol=1e-5, atol=1e-5)


def test_tokenizer_and_its_markers_travel(tmp_path: Path) -> None:
    export(gpt(small()), tokenizer_json(), tmp_path)
    tokenizer: Any = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer("w4 w9 oh", add_special_tokens=False)["input_ids"] == [7, 12, 2]
    assert (tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.unk_token) == (0, 1, "<UNK>")
    assert (tokenizer.pad_token_id, tokenizer.model_max_length) == (1, 31)
    made = json.loads((tmp_path / "generation_config.json").read_text())
    assert (made["bos_token_id"], made["eos_token_id"], made["pad_token_id"]) == (0, 1, 1)


def test_a_tokenizer_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="59 tokens, the model 53"):
        export(gpt(small()), tokenizer_json(59), tmp_path)
    with pytest.raises(IntegrityError, match="not a tokenizer"):
        export(gpt(small()), "{}", tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["plain", "position-rotary"])
def test_transformers_generates_from_it(name: str, tmp_path: Path) -> None:
    model = gpt(ALL[name])
    export(model, tokenizer_json(), tmp_path)
    theirs = opened(tmp_path)
    ids = some_ids(rows=2, length=5)
    found = theirs.generate(ids, max_new_tokens=7, do_sample=False, eos_token_id=None)
    for _ in range(7):
        ids = torch.cat((ids, model(ids)[:, -1:].argmax(dim=-1)), dim=1)
    assert torch.equal(found, ids)
    start = {"input_ids": ids[:, :5], "attention_mask": torch.ones_like(ids[:, :5])}
    masked = theirs.generate(**start, max_new_tokens=7, do_sample=False, eos_token_id=None)
    assert torch.equal(masked, ids)  # what a tokenizer gives, mask and all


def test_labels_masks_and_maps_of_the_registered_class(tmp_path: Path) -> None:
    model, ids = gpt(small(bias=False)), some_ids(rows=2)
    export(model, None, tmp_path)
    theirs = opened(tmp_path)
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    out = theirs(input_ids=ids, attention_mask=mask, labels=ids, output_attentions=True)
    torch.testing.assert_close(out.logits, model(ids, mask == 0), rtol=0, atol=1e-12)
    total, count = model.nll(ids[:, :-1], ids[:, 1:], (mask == 0)[:, :-1])
    torch.testing.assert_close(out.loss, total / count, rtol=1e-12, atol=0)
    for a, b in zip(out.attentions, model.steps(ids, mask == 0), strict=True):
        assert torch.equal(a, b.weights)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    export(gpt(small()), None, tmp_path)
    return tmp_path


def change_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


OTHER_ARITHMETIC: list[dict[str, Any]] = [
    {"activation_function": "relu"},
    {"scale_attn_by_inverse_layer_idx": True},
    {"scale_attn_weights": False},
    {"n_head": 5},
    {"model_type": "llama"},
    {"model_type": None},
]


@pytest.mark.parametrize("changes", OTHER_ARITHMETIC, ids=str)
def test_other_arithmetic_is_refused(folder: Path, changes: dict[str, Any]) -> None:
    change_config(folder, **changes)
    with pytest.raises((UsageError, IntegrityError), match=str(folder)):
        load(folder)


def test_settings_that_are_not_those_of_the_weights(folder: Path) -> None:
    change_config(folder, n_positions=30)
    with pytest.raises(IntegrityError, match="do not fit"):
        load(folder)
    change_config(folder, n_positions="31")
    with pytest.raises((IntegrityError, UsageError)):
        load(folder)


def drop_a_tensor(path: Path, part_of_name: str) -> None:
    kept = load_file(path)
    dropped = next(name for name in kept if part_of_name in name)
    save_file({n: t for n, t in kept.items() if n != dropped}, path, metadata={"format": "pt"})


def test_a_missing_tensor_is_named(folder: Path) -> None:
    drop_a_tensor(folder / "model.safetensors", "c_fc.weight")
    with pytest.raises(IntegrityError, match=r"mlp\.c_fc\.weight"):
        load(folder)


@pytest.mark.parametrize("name", ["embedding", "wide.weight", "norm.weight"])
def test_a_variant_without_all_its_tensors_is_not_filled_up(name: str, tmp_path: Path) -> None:
    export(gpt(small(bias=False)), None, tmp_path)
    drop_a_tensor(tmp_path / "model.safetensors", name)
    with pytest.raises(IntegrityError):
        load(tmp_path)
    with pytest.raises(IntegrityError, match="missing"):
        opened(tmp_path)


def test_damaged_absent_and_pickled_weights(folder: Path) -> None:
    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-7])
    with pytest.raises(IntegrityError, match="not safetensors"):
        load(folder)
    weights.unlink()
    with pytest.raises(IntegrityError, match=r"no model\.safetensors"):
        load(folder)
    (folder / "pytorch_model.bin").write_bytes(b"\x80\x04.")
    with pytest.raises(IntegrityError, match=r"pytorch_model\.bin.*refused"):
        load(folder)
    shutil.rmtree(folder)
    with pytest.raises(IntegrityError, match="missing"):
        load(folder)


@pytest.mark.parametrize("shard", ["../model.safetensors", "model.bin", "gone.safetensors", 7])
def test_an_index_may_name_only_safetensors_of_its_folder(folder: Path, shard: object) -> None:
    (folder / "model.safetensors").rename(folder / "model.bin")
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"wte.weight": shard}}))
    with pytest.raises(IntegrityError, match="no safetensors file of this folder"):
        load(folder)
