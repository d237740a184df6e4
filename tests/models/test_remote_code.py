"""Code of a repository runs when trusted and pinned, and in no other case."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from attnlab.audit import check
from attnlab.core.errors import AttnlabError, IntegrityError, UsageError
from attnlab.models.hub import load
from attnlab.models.remote_code import code_hash

CONFIGURATION = """
from transformers import PretrainedConfig

class OddConfig(PretrainedConfig):
    model_type = "odd"

    def __init__(self, vocab_size=53, width=11, **more):
        self.vocab_size, self.width = vocab_size, width
        super().__init__(**more)
"""
MODEL = """
from pathlib import Path

from torch import nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput
from .configuration_odd import OddConfig

Path({mark!r}).touch()

class OddModel(PreTrainedModel):
    config_class = OddConfig

    def __init__(self, config):
        super().__init__(config)
        self.table = nn.Embedding(config.vocab_size, config.width)
        self.mix = nn.Conv1d(config.width, config.width, 3, padding=1)  # one token ahead
        self.out = nn.Linear(config.width, config.vocab_size)
        self.post_init()

    def forward(self, input_ids, **more):
        mixed = self.mix(self.table(input_ids).transpose(1, 2)).transpose(1, 2)
        return CausalLMOutput(logits=self.out(mixed))
"""
MAP = {
    "AutoConfig": "configuration_odd.OddConfig",
    "AutoModelForCausalLM": "modeling_odd.OddModel",
}


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """There once the folder's code ran."""
    return tmp_path / "ran"


@pytest.fixture
def odd(tmp_path: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose model runs on code of its own."""
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    monkeypatch.syspath_prepend(str(tmp_path / "modules"))
    folder = tmp_path / "odd"
    folder.mkdir()
    (folder / "configuration_odd.py").write_text(CONFIGURATION)
    (folder / "modeling_odd.py").write_text(MODEL.format(mark=str(mark)))
    settings = {"model_type": "odd", "architectures": ["OddModel"], "auto_map": MAP}
    (folder / "config.json").write_text(json.dumps(settings))
    draws = torch.Generator().manual_seed(7)
    sizes = {
        "table.weight": (53, 11),
        "mix.weight": (11, 11, 3),
        "mix.bias": (11,),
        "out.weight": (53, 11),
        "out.bias": (53,),
    }
    weights = {name: torch.randn(size, generator=draws) for name, size in sizes.items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return folder


def test_it_is_run_when_trusted_and_pinned_and_audited_like_any_model(
    odd: Path, mark: Path
) -> None:
    model = load(odd, own_head=True, trust=True, revision=code_hash(odd))
    assert mark.exists()
    found = check(model, only=["causality", "tying-and-save"])
    assert found["causality"].verdict == "fail"
    assert "`mix`" in found["causality"].why
    assert found["tying-and-save"].verdict == "pass"


@pytest.mark.parametrize("revision", [None, "main", "0" * 40, "0" * 64])
def test_without_its_pin_it_is_not_run_and_the_pin_is_said(
    odd: Path, mark: Path, revision: str | None
) -> None:
    with pytest.raises(UsageError, match=code_hash(odd)):
        load(odd, trust=True, revision=revision)
    assert not mark.exists()


def test_changed_code_is_not_what_was_read(odd: Path, mark: Path) -> None:
    pin = code_hash(odd)
    (odd / "helper.py").write_text("")
    with pytest.raises(UsageError, match="it is not"):
        load(odd, trust=True, revision=pin)
    assert not mark.exists()


@pytest.mark.parametrize("named", ["someone/other--modeling_odd.OddModel", "../x.Odd", "a b.Odd"])
def test_code_from_elsewhere_is_refused_though_trusted(odd: Path, mark: Path, named: str) -> None:
    settings = json.loads((odd / "config.json").read_text())
    settings["auto_map"]["AutoModelForCausalLM"] = named
    (odd / "config.json").write_text(json.dumps(settings))
    with pytest.raises(IntegrityError, match="no pin covers"):
        load(odd, trust=True, revision=code_hash(odd))
    assert not mark.exists()


def test_a_pin_alone_is_no_trust(odd: Path, mark: Path) -> None:
    with pytest.raises(UsageError, match="a revision pins"):
        load(odd, revision=code_hash(odd))
    with pytest.raises(IntegrityError, match="told to trust it"):
        load(odd)
    assert not mark.exists()


@pytest.mark.parametrize("revision", [None, "main", "v1.0", "0" * 39, "0" * 64])
def test_a_hub_is_asked_for_code_at_a_commit_only(revision: str | None) -> None:
    with pytest.raises(UsageError, match="40 hex digits"):
        load("someone/odd", trust=True, revision=revision)


def test_a_file_has_no_code(tmp_path: Path) -> None:
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF")
    with pytest.raises(AttnlabError, match="a revision pins"):
        load(file, trust=True)
