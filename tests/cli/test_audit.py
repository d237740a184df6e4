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
    assert [*found] == ["target", "verdict", "audits"] and found["verdict"] == "fail"
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
@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["mine:leaky", "--only", "casuality"], "did you mean 'causality'"),
        (["mine:nobody"], "has no function 'nobody'"),
        (["mine:broken"], "never mind"),
        (["yours:model"], "no file yours.py"),
        (["./nowhere"], "no such path"),
        (["mine:leaky", "--length", "1"], "--length"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_2(words: list[str], line: str) -> None:
    said = call("audit", *words)
    assert said.code == 2 and line in said.err and not said.out
    assert "Traceback" not in said.err
