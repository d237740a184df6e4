"""Anyone's model behind the protocol; nothing that could run code is ever opened."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from attnlab import assets
from attnlab.core.errors import AttnlabError, IntegrityError, MissingError, UsageError
from attnlab.core.tokens import IGNORE
from attnlab.models import hub
from attnlab.models.hub import HubModel, load
from attnlab.models.hugging_face import export
from attnlab.models.protocol import LanguageModel, Tokenizer
from tests.models.test_hugging_face import tokenizer_json
from tests.models.variants import gpt, small, some_ids

LOOSE = 1e-5  # float32, sums of another order


def tiny_gpt2() -> GPT2LMHeadModel:
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=53,
            n_positions=31,
            n_embd=42,
            n_layer=2,
            n_head=3,
            bos_token_id=0,
            eos_token_id=1,
        )
    )


def tiny_llama() -> LlamaForCausalLM:
    """Rotary positions, six query heads on two key heads."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=53,
            max_position_embeddings=37,
            hidden_size=48,
            num_hidden_layers=2,
            num_attention_heads=6,
            num_key_value_heads=2,
            intermediate_size=41,
        )
    )


MAKERS: dict[str, Any] = {"gpt2": tiny_gpt2, "llama": tiny_llama}


@pytest.fixture(scope="module", params=MAKERS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hub") / request.param
    model = MAKERS[request.param]()
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim > 1:
                p.mul_(10)
    model.save_pretrained(path)
    (path / "tokenizer.json").write_text(tokenizer_json())
    (path / "tokenizer_config.json").write_text(
        json.dumps({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<START>"})
    )
    return path


@pytest.fixture(scope="module")
def model(folder: Path) -> HubModel:
    return load(folder)


def close(a: Tensor, b: Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=LOOSE, atol=LOOSE * float(b.detach().abs().max()))


def test_it_keeps_the_protocol(model: HubModel, folder: Path) -> None:
    assert isinstance(model, LanguageModel)
    assert isinstance(model.tokenizer, Tokenizer)
    assert (model.name, model.vocabulary) == (folder.name, 53)
    assert model.context == {"gpt2": 31, "llama": 37}[folder.name]
    assert model.parameter_count() == sum(p.numel() for p in MAKERS[folder.name]().parameters())
    assert not model.logits(some_ids()).requires_grad


def test_logits_are_the_librarys(model: HubModel, folder: Path) -> None:
    theirs = type(MAKERS[folder.name]()).from_pretrained(folder).eval()
    ids = some_ids()
    assert torch.equal(model.logits(ids), theirs(input_ids=ids).logits)


def test_tokenizer(model: HubModel) -> None:
    assert model.tokenizer is not None
    ids = model.tokenizer.encode("w4 w9 oh")
    assert ids == [7, 12, 2]
    assert model.tokenizer.tokens(ids) == ["w4", "w9", "<UNK>"]
    assert model.tokenizer.decode(ids[:2]) == "w4 w9"
    assert (model.tokenizer.start, model.tokenizer.stop, model.tokenizer.size) == (0, None, 53)


def test_maps_are_where_it_looks(model: HubModel) -> None:
    ids = some_ids()
    before = model.logits(ids)
    maps = model.attentions(ids)
    assert len(maps) == 2
    heads = {"gpt2": 3, "llama": 6}[model.name]
    for weights in maps:
        assert weights.shape == (3, heads, 17, 17)
        assert not weights.triu(1).any()
        close(weights.sum(dim=-1), torch.ones(3, heads, 17))
        assert float(weights[..., -1, :].std(dim=-1).max()) > 0.05
    assert torch.equal(model.logits(ids), before)  # the fast implementation is back


@pytest.mark.parametrize("left", [True, False])
def test_padding_changes_no_visible_position(model: HubModel, left: bool) -> None:
    row, junk = some_ids(rows=2, length=13), some_ids(rows=2, length=4, seed=9)
    mask = torch.zeros(2, 17, dtype=torch.bool)
    mask[:, slice(4) if left else slice(13, None)] = True
    padded = torch.cat((junk, row) if left else (row, junk), dim=1)
    found = model.logits(padded, mask)
    close(found[:, 4:] if left else found[:, :13], model.logits(row))


def test_nll_is_the_cross_entropy(model: HubModel) -> None:
    ids, targets = some_ids(), some_ids(seed=8)
    targets[:, ::3] = IGNORE
    total, count = model.nll(ids, targets)
    expected = cross_entropy(model.logits(ids).flatten(0, 1), targets.flatten(), reduction="sum")
    assert int(count) == int((targets != IGNORE).sum())
    close(total, expected)


@pytest.mark.parametrize("bias", [True, False])
def test_our_own_folders_come_in_by_this_door_too(bias: bool, tmp_path: Path) -> None:
    ours, ids = gpt(small(bias=bias), torch.float32), some_ids()
    export(ours, None, tmp_path / "mine")
    found = load(tmp_path / "mine")
    assert (found.name, found.context, found.tokenizer) == ("mine", 31, None)
    close(found.logits(ids), ours.logits(ids))
    for a, b in zip(found.attentions(ids), ours.attentions(ids), strict=True):
        close(a, b)


def test_a_hub_name_is_fetched_as_an_asset(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def get(name: str, **options: Any) -> assets.Asset:
        asked.append((name, options))
        return assets.Asset(name, folder, ())

    monkeypatch.setattr(hub.assets, "get", get)
    found = load("someone/small-model", revision="abc")
    assert asked == [("someone/small-model", {"source": "hub", "revision": "abc", "code": False})]
    assert found.name == "someone/small-model"

    def absent(name: str, **options: Any) -> assets.Asset:
        raise MissingError(f"{name}: no network")

    monkeypatch.setattr(hub.assets, "get", absent)
    with pytest.raises(MissingError):
        load("someone/small-model")


@pytest.mark.parametrize("name", ["./nowhere", "/no/such/folder", "gone.gguf", "a/b/c", "word"])
def test_a_path_that_does_not_exist(name: str) -> None:
    with pytest.raises(UsageError, match="no such folder or file"):
        load(name)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    tiny_gpt2().save_pretrained(tmp_path / "m")
    return tmp_path / "m"


def set_config(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


class Canary:
    """Unpickling it leaves a file behind."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self.mark,))


def pickled(mark: Path) -> bytes:
    import pickle  # noqa: TID251  # to prove that nobody opens it

    return pickle.dumps(Canary(mark))


def refused(folder: Path, error: type[AttnlabError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_pickled_weights_are_refused_unopened(copy: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    (copy / "model.safetensors").unlink()
    for name in ("pytorch_model.bin", "adapter_model.bin"):
        (copy / name).write_bytes(pickled(mark))
    refused(copy, IntegrityError, "can run code")
    set_config(copy, transformers_weights="adapter_model.bin")
    refused(copy, IntegrityError, "transformers_weights")
    set_config(copy, transformers_weights=None)
    index = {"metadata": {}, "weight_map": {"transformer.wte.weight": "pytorch_model.bin"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(copy, IntegrityError, "no safetensors file")
    assert not mark.exists()


def test_code_of_a_repository_is_refused_unrun(copy: Path, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    code = f"from pathlib import Path\nPath({str(mark)!r}).touch()\n"
    for name in ("modeling_odd.py", "configuration_odd.py", "tokenization_odd.py"):
        (copy / name).write_text(code + "class OddModel: pass\nclass OddConfig: pass\n")
    (copy / "custom_generate").mkdir()
    (copy / "custom_generate" / "generate.py").write_text(code + "def generate(): pass\n")
    own = {
        "AutoConfig": "configuration_odd.OddConfig",
        "AutoModelForCausalLM": "modeling_odd.OddModel",
    }
    set_config(copy, auto_map=own)
    assert load(copy).vocabulary == 53  # a kind that transformers has itself: its own code
    set_config(copy, model_type="odd")
    refused(copy, IntegrityError, "code of its own")
    set_config(copy, auto_map=None, model_type="gpt2")
    tokenizer = {"auto_map": {"AutoTokenizer": ["tokenization_odd.Odd", None]}}
    (copy / "tokenizer_config.json").write_text(json.dumps(tokenizer | {"tokenizer_class": "Odd"}))
    with pytest.raises(AttnlabError):
        load(copy)
    assert not mark.exists()


def test_other_unsafe_or_unknown_folders(copy: Path) -> None:
    set_config(copy, _attn_implementation="someone/kernel")
    refused(copy, IntegrityError, "refused")
    set_config(copy, _attn_implementation=None, text={"attn_implementation": "someone/kernel"})
    refused(copy, IntegrityError, "refused")
    set_config(copy, text=None, model_type="nothing-known")
    refused(copy, IntegrityError, "not known to transformers")
    set_config(copy, model_type=None)
    refused(copy, IntegrityError, "model_type")
    (copy / "config.json").write_text("[")
    refused(copy, IntegrityError, "not valid JSON")
    (copy / "config.json").unlink()
    refused(copy, UsageError, r"neither a config\.json nor")
    (copy / "adapter_config.json").write_text("{}")
    refused(copy, UsageError, "an adapter")


def test_missing_and_damaged_weights(copy: Path) -> None:
    set_config(copy, n_layer=3)
    refused(copy, IntegrityError, "missing")
    set_config(copy, n_layer=2)
    weights = copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-5])
    refused(copy, IntegrityError, "cannot be opened")


def test_files_that_are_no_gguf(tmp_path: Path) -> None:
    path = tmp_path / "small.gguf"
    path.write_bytes(b"GGML" + bytes(64))
    refused(path, IntegrityError, "not a GGUF file")
    path.write_bytes(b"GGUF" + bytes(64))
    refused(path, IntegrityError, "cannot be opened")
    shutil.copy(path, tmp_path / "other.gguf")
    refused(tmp_path, UsageError, "exactly one")


@pytest.mark.assets
@pytest.mark.slow
def test_smollm2_from_a_gguf_file() -> None:
    path = assets.get("smollm2").path
    model = load(path)
    assert model.tokenizer is not None
    assert (model.vocabulary, model.parameter_count()) == (49_152, 134_515_008)
    ids = torch.tensor([model.tokenizer.encode("The capital of France is")])
    best = int(model.logits(ids)[0, -1].argmax())
    assert model.tokenizer.decode([best]) == " Paris"
    maps = model.attentions(ids)
    assert (len(maps), maps[0].shape) == (30, (1, 9, 5, 5))
    assert not maps[7].triu(1).any()
