"""A device is the one asked for, or a UsageError; `auto` is always a real one."""

import pytest
import torch

from attnlab.core.devices import resolve_device, torch_dtype
from attnlab.core.errors import UsageError


def test_cpu_needs_no_question() -> None:
    assert resolve_device("cpu") == "cpu"


@pytest.mark.parametrize(("present", "picked"), [(True, "cuda"), (False, "cpu")])
def test_auto_picks_a_gpu_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, present: bool, picked: str
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: present)
    assert resolve_device("auto") == picked


def test_a_missing_device_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    for name in ("cuda", "mps"):
        with pytest.raises(UsageError, match=f"'{name}'"):
            resolve_device(name)


def test_dtypes() -> None:
    assert torch_dtype("float32") is torch.float32
    assert torch_dtype("float64") is torch.float64
