"""attnlab audit: one table, one document, one exit code, whatever the target is."""

import json
from pathlib import Path

import pytest

from .conftest import call

SOURCE = """
import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, pad):
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.pad = pad
        self.table = nn.Parameter(torch.randn(61, 11, generator=generator))
        self.kernel = nn.Parameter(torch.randn(11, 11, 3, generator=generator))

    def forward(self, ids):
        x = nn.functional.pad(self.table[ids].transpose(1, 2), self.pad)
        x = nn.functional.conv1d(x, self.kernel)
        return x.transpose(1, 2) @ self.table.T


leaky = Model((1, 1))
sound = Model((2, 0))


def made():
    return Model((2, 0))


def function(ids):
    return sound(ids)


def broken(ids):
    raise ValueError("never mind")


def shy(ids):
    if len(ids) > 1:
        raise ValueError("one row only")
    return sound(ids)


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.EmbeddingBag(61, 7)

    def forward(self, ids):
        return self.table(ids)
"""
KEYS = ["name", "verdict", "number", "threshold", "why", "evidence"]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "mine.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["sound", "made", "function"])
def test_a_sound_model_ends_with_0(name: str) -> None:
    said = call("audit", f"mine:{name}", "--only", "causality", "--only", "coverage")
    assert said.code == 0, said.err
    assert "2 pass, 0 fail" in said.out and "✓" in said.out


@pytest.mark.usefixtures("folder")
def test_a_leaking_one_ends_with_1_and_one_document() -> None:
    said = call("audit", "mine:leaky", "--json", "--quiet", "--seed", "5", "--length", "31")
    assert said.code == 1 and not said.err
    found = json.loads(said.out)
    assert [*found] == ["target", "verdict", "why", "audits"] and found["verdict"] == "fail"
    assert found["why"].startswith("causality: ")
    assert all([*audit] == KEYS for audit in found["audits"])
    failed = {a["name"]: a for a in found["audits"] if a["verdict"] == "fail"}
    assert [*failed] == ["causality"]
    assert failed["causality"]["evidence"]["looks_ahead"] == [1]
    assert (
        max(
            int(s.split()[-1])
            for s in failed["causality"]["evidence"]["situations"]
            if "length" in s
        )
        == 31
    )


@pytest.mark.usefixtures("folder")
def test_a_model_that_breaks_off_ends_with_7_and_its_reason_first() -> None:
    chosen = ("--only", "batch-independence", "--only", "random-token-floor", "--length", "23")
    said = call("audit", "mine:shy", *chosen)
    assert said.code == 7, said.err
    first = "could not be judged: batch-independence: the model raised ValueError: one row only"
    assert said.out.startswith(first)
    document = json.loads(call("audit", "mine:shy", *chosen, "--json").out)
    assert document["verdict"] == "could-not-be-judged"
    assert document["why"] == first.removeprefix("could not be judged: ")
    assert call("audit", "mine:sound", *chosen).code == 0


@pytest.mark.usefixtures("folder")
def test_if_nothing_that_was_asked_applies_it_ends_with_7() -> None:
    said = call("audit", "mine:sound", "--only", "cache-parity")
    assert said.code == 7
    reason = "could not be judged: no audit that was asked for applies: cache-parity: "
    assert said.out.startswith(reason)
    both = call("audit", "mine:sound", "--only", "cache-parity", "--only", "random-token-floor")
    assert both.code == 0


@pytest.mark.usefixtures("folder")
def test_audits_can_be_left_out() -> None:
    chosen = ("--only", "causality", "--only", "random-token-floor", "--skip", "causality")
    said = call("audit", "mine:leaky", *chosen, "--json")
    assert said.code == 0
    assert [audit["name"] for audit in json.loads(said.out)["audits"]] == ["random-token-floor"]


@pytest.mark.usefixtures("folder")
def test_a_classifier_of_ones_own_is_audited() -> None:
    chosen = ("--only", "batch-independence", "--only", "coverage", "--length", "23")
    said = call("audit", "mine:Classifier", *chosen)
    assert said.code == 0, said.err
    assert "2 pass, 0 fail" in said.out


@pytest.mark.usefixtures("folder")
def test_an_installed_package_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "site" / "somebodys"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "models.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    said = call("audit", "somebodys.models:sound", "--only", "random-token-floor")
    assert said.code == 0, said.err
    assert "1 pass" in said.out


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["mine:leaky", "--only", "casuality"], "did you mean 'causality'"),
        (["mine:nobody"], "has no function 'nobody'"),
        (["mine:broken"], "never mind"),
        (["yours:model"], "no file yours.py; yours is not installed"),
        (["torch.nn:Linear"], "is a class that needs in_features, out_features"),
        (["torch.nn:Linar"], "torch.nn has no function 'Linar'"),
        (["mine:leaky", "--skip", "casuality"], "did you mean 'causality'"),
        (["mine:leaky", "--device", "gpu"], "did you mean 'cuda'"),
        (["./nowhere"], "no such path"),
        (["mine:leaky", "--length", "1"], "--length"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_2(words: list[str], line: str) -> None:
    said = call("audit", *words)
    assert said.code == 2 and line in said.err and not said.out
    assert "Traceback" not in said.err
