"""Find and load the model that a TARGET names.

Tried in this order: an existing path (folder of a run, Hugging Face folder, .gguf file), the
name of a run or RUN@TRIAL, an asset, `module:name` in the current folder or an installed package, a
hub name. The model is found before torch, which is slow to load, is imported. A run that
`attnlab verify` calls damaged is refused.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attnlab.api.functions import build_model, find_function
from attnlab.api.readers import HubReader, Reader, describe_unknown
from attnlab.core.config import suggest
from attnlab.core.devices import check_device, resolve_device
from attnlab.core.errors import IntegrityError, UsageError, storage_errors
from attnlab.core.extras import require
from attnlab.core.files import read_json
from attnlab.core.plural import counted

if TYPE_CHECKING:
    import torch

    from attnlab.lab.record import Record
    from attnlab.lab.table import Row
    from attnlab.models.gpt import GPT
    from attnlab.models.protocol import LanguageModel

MODEL, TOKENIZER, READING = "model.json", "tokenizer.json", "reading.json"


@dataclass(frozen=True)
class Target:
    """A model, its name, and its tokenizer where it has one."""

    name: str
    model: "LanguageModel"
    reader: Reader | None

    @property
    def required_reader(self) -> Reader:
        """Its tokenizer; UsageError if it has none."""
        if self.reader is None:
            raise UsageError(f"{self.name} has no tokenizer: it cannot read a text")
        return self.reader

    def ids(self, text: str) -> list[int]:
        """The token ids of the text; UsageError if there are fewer than two."""
        ids = self.required_reader.encode(text)
        if len(ids) < 2:
            raise UsageError(
                f"{self.name} splits the text into {counted(len(ids), 'token')}: give a longer one"
            )
        return ids

    def count_unknown(self, text: str, remark: Callable[[str], None]) -> int:
        """How many characters or words of the text it does not know; if any, calls `remark`."""
        unknown = self.reader.unknown(text) if self.reader else ()
        if unknown:
            remark(describe_unknown(unknown, self.name))
        return len(unknown)


@dataclass(frozen=True)
class Opening:
    """Options for opening a Hugging Face model."""

    own_head: bool = False  # keep the head of an encoder, instead of requiring a causal model
    revision: str | None = None  # commit of a hub model, or hash of the trusted code
    trust: bool = False  # run the code that comes with the model; needs `revision`


CAUSAL = Opening()
Load = Callable[[], Target]


@dataclass(frozen=True)
class Found:
    """A model that was found; `load()` imports torch and loads it."""

    kind: Literal["run", "library", "function"]  # ours, transformers', a person's own code
    load: Load


def load_target(text: str, out: Path = Path("runs"), device: str = "cpu") -> Target:
    """Find and load the causal model that `text` names."""
    return find_target(text, out, device).load()


def find_target(
    text: str, out: Path = Path("runs"), device: str = "cpu", how: Opening = CAUSAL
) -> Found:
    """Find the model that `text` names, without importing torch; UsageError if there is none."""
    check_device(device)
    with storage_errors(Path(text[:60]), UsageError):  # a name too long, a file it cannot read
        ways = (way(text, out, how) for way in (_path, _run, _asset, _function, _hub))
        found = next((found for found in ways if found is not None), None)
    if found is None:
        raise UsageError(
            f"{text!r} is not a path, run, asset, module:function or hub name (owner/name)"
        )
    if (how.revision or how.trust) and found.kind != "library":
        raise UsageError(
            f"{text}: --revision and --trust-remote-code are for hub models and model folders"
        )
    return replace(found, load=partial(_loaded, found.load, device))


def _loaded(load: Load, device: str) -> Target:
    """Load the model and move it to its device; a missing device is reported before loading."""
    if device != "auto":  # looking for a GPU loads torch
        resolve_device(device)
    target = load()
    if (resolved := resolve_device(device)) == "cpu":
        return target
    model: Any = target.model
    if hasattr(model, "library"):
        model.library.to(resolved)
        return target
    return replace(target, model=model.to(resolved))


def _path(text: str, out: Path, how: Opening) -> Found | None:
    path = Path(text)
    if path.is_file() and path.suffix == ".gguf":
        with path.open("rb") as file:
            if file.read(4) != b"GGUF":
                raise IntegrityError(f"{text}: not a GGUF file")
        return _of_library(path.name, str(path), how)
    run, _, trial = text.partition("@")
    if (Path(run) / "study.json").is_file():
        return _from_record(Path(run), trial or None)
    if path.is_dir():
        if (config := path / "config.json").is_file():
            settings = read_json(config)
            if not isinstance(settings, dict) or not isinstance(settings.get("model_type"), str):
                raise IntegrityError(
                    f"{config}: has no model_type, so it does not describe a model"
                )
            return _of_library(path.name, str(path), how)
        raise UsageError(f"{text}: neither a run nor a Hugging Face folder (no config.json)")
    if path.exists() or text.startswith((".", "/", "~")) or text.endswith(".gguf"):
        what = "not a model; give a run, a Hugging Face folder or a .gguf file"
        raise UsageError(f"{text}: {what if path.exists() else 'no such path'}")
    return None


def _run(text: str, out: Path, how: Opening) -> Found | None:
    from attnlab.lab.runs import find_run, list_runs

    name, _, trial = text.partition("@")
    known = [info.name for info in list_runs(out)] if out.is_dir() else []
    if not any(run.startswith(name) for run in known):
        if trial:
            raise UsageError(f"no run {name!r} in {out}: {suggest(name, known)}")
        return None
    return _from_record(find_run(name, out), trial or None)


def _from_record(path: Path, trial: str | None) -> Found:
    from attnlab.lab.record import Record
    from attnlab.lab.verify import verify_run

    record = Record.open(path)
    if problems := verify_run(path).problems:
        raise IntegrityError(
            f"run {record.name} is damaged: {problems[0]}\n`attnlab verify {path}` lists the damage"
        )
    row = _chosen(record, trial)
    return Found("run", partial(own_model, f"{record.name}@{row.id[:8]}", row))


def _chosen(record: "Record", trial: str | None) -> "Row":
    rows = [row for row in record.table().done() if row.documents.get(MODEL)]
    if not rows:
        raise UsageError(f"run {record.name} has no trained model: its study stores none")
    matches = [row for row in rows if row.id.startswith(trial)] if trial else rows
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(f"{row.id[:8]} ({row.get('arm') or row.seed})" for row in rows[:4])
    what = f"no trial {trial!r}" if trial and not matches else f"{len(matches)} models"
    raise UsageError(
        f"run {record.name}: {what}; choose {record.name}@TRIAL, TRIAL one of {names} …"
    )


def own_model(name: str, row: "Row") -> Target:
    """Rebuild the GPT or Perceiver that a trial has stored, with its tokenizer."""
    import torch

    from attnlab.models.build import model_from_json
    from attnlab.tasks.tokenizer import Tokenizer

    model = model_from_json(json.loads(row.documents[MODEL]), torch.Generator())
    model.load_state_dict(row.tensors("model."))
    tokenizer = Tokenizer.from_json(row.documents[TOKENIZER])
    how = json.loads(row.documents.get(READING) or "{}")  # ids around a text, if not <START>
    return Target(name, model.eval(), Reader(tokenizer, **how))


def _asset(text: str, out: Path, how: Opening) -> Found | None:
    from attnlab.assets.cache import folder_of
    from attnlab.assets.catalogue import catalogue

    entry = catalogue().get(text)
    if entry is None:
        return None
    files = {file.name for file in entry.files}  # from the catalogue: nothing is downloaded yet
    packed = any(name.endswith(".gguf") for name in files)
    if packed and not folder_of(text).exists():
        require("models", f"{text}: a GGUF file", "accelerate", "gguf")
    if packed or (how.own_head and "config.json" in files):
        return Found("library", partial(_fetch_asset, text, how))
    kind = "model" if how.own_head else "causal language model"
    raise UsageError(f"asset {text!r} is not a {kind}; `attnlab assets list` shows what it holds")


def _fetch_asset(name: str, how: Opening) -> Target:
    from attnlab.assets import get

    asset = get(name)
    packed = [file for file in asset.files if file.suffix == ".gguf"]
    if not packed:
        return _hugging_face(name, str(asset.path), how)
    from attnlab.models.trainable import dequantize_cached

    return _hugging_face(name, str(dequantize_cached(packed[0])), how)


def _function(text: str, out: Path, how: Opening) -> Found | None:
    found = find_function(text)
    return None if found is None else Found("function", partial(_from_function, text, found))


def _from_function(text: str, function: Callable[..., Any]) -> Target:
    from attnlab.models.function import FunctionModel

    return Target(text, FunctionModel(build_model(function, text), text), None)


def _hub(text: str, out: Path, how: Opening) -> Found | None:
    from attnlab.assets.catalogue import is_hub_id

    return _of_library(text, text, how) if "/" in text and is_hub_id(text) else None


def _of_library(name: str, source: str, how: Opening) -> Found:
    return Found("library", partial(_hugging_face, name, source, how))


def _hugging_face(name: str, source: str, how: Opening) -> Target:
    from attnlab.models.hub import load

    model = load(source, own_head=how.own_head, revision=how.revision, trust=how.trust)
    return Target(name, model, None if model.tokenizer is None else HubReader(model.tokenizer))


def load(
    target: str | Path,
    *,
    out: Path = Path("runs"),
    device: str = "cpu",
    dtype: "torch.dtype | None" = None,
) -> "GPT":
    """Load a model as our own GPT, whose parts can be inspected and changed, with its tokenizer.

    `target` is a run, or anything that holds a GPT-2 or a Llama: `load("smollm2")`, a Hugging Face
    folder, a .gguf file, a hub name. Weights keep their type unless `dtype` is given.
    """
    model = to_gpt(load_target(str(target), out, device))
    return model if dtype is None else model.to(dtype)


def to_gpt(target: Target) -> "GPT":
    """Convert the target's model to our own GPT, in evaluation mode, with its tokenizer."""
    from attnlab.models.convert import gpt_from_library
    from attnlab.models.gpt import GPT

    library = getattr(target.model, "library", None)
    model = target.model if library is None else getattr(library, "gpt", None)
    if library is not None and not isinstance(model, GPT):
        model = gpt_from_library(library)
    if not isinstance(model, GPT):
        raise UsageError(
            f"{target.name}: not a GPT; only a GPT-2 or a Llama can be converted to our parts"
        )
    model.tokenizer = getattr(target.reader, "tokenizer", None)
    return model.eval()
