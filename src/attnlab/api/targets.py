"""A TARGET is whatever a person can mean by "that model"; here it becomes a model with its tokens.

In this order: an existing path (a run's folder, a Hugging Face folder, a .gguf file), a run's name
or RUN@TRIAL, an asset, `module:function` from the current folder, a name on a hub. It is looked for
first; torch, which is slow to load, and the model come after.
"""

import importlib.util
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from attnlab.api.readers import HubReader, OwnReader, Reader
from attnlab.core.config import suggest
from attnlab.core.devices import check_device, resolve_device
from attnlab.core.errors import IntegrityError, UsageError, from_os_error
from attnlab.core.files import read_json

if TYPE_CHECKING:
    from attnlab.lab.record import Record
    from attnlab.lab.table import Row
    from attnlab.models.protocol import LanguageModel

GGUF = b"GGUF"
MODEL, TOKENIZER, READING = "model.json", "tokenizer.json", "reading.json"


@dataclass(frozen=True)
class Target:
    """A model, its name, and its tokenizer where it has one."""

    name: str
    model: "LanguageModel"
    reader: Reader | None

    def ids(self, text: str) -> list[int]:
        """The text as the model reads it."""
        if self.reader is None:
            raise UsageError(f"{self.name} has no tokenizer: it can be asked about ids only")
        found = list(self.reader.encode(text))
        if len(found) < 2:
            raise UsageError(f"the text has {len(found)} tokens for {self.name}: need two or more")
        return found


@dataclass(frozen=True)
class Opening:
    """How a Hugging Face model is opened: its own head (an encoder's, say), a pin, its code."""

    own_head: bool = False
    revision: str | None = None
    trust: bool = False  # run code that comes with it; `revision` then pins that code


CAUSAL = Opening()
Load = Callable[[], Target]


@dataclass(frozen=True)
class Found:
    """Where a model is: `load()` opens it, which takes torch, memory and time."""

    kind: Literal["run", "library", "function"]  # ours, transformers', a person's own code
    load: Load


def load_target(
    text: str, out: Path = Path("runs"), device: str = "cpu", how: Opening = CAUSAL
) -> Target:
    """The model that `text` means, ready to be asked."""
    return find_target(text, out, device, how).load()


def find_target(
    text: str, out: Path = Path("runs"), device: str = "cpu", how: Opening = CAUSAL
) -> Found:
    """Where the model is that `text` means; UsageError, and no torch loaded, if it means none."""
    check_device(device)
    try:
        ways = (way(text, out, how) for way in (_path, _run, _asset, _function, _hub))
        found = next((found for found in ways if found is not None), None)
    except OSError as error:  # a name too long, a file that cannot be read
        raise from_os_error(Path(text[:60]), error, UsageError) from None
    if found is None:
        raise UsageError(f"{text!r} is no path, run, asset, module:function or owner/name")
    if (how.revision or how.trust) and found.kind != "library":
        raise UsageError(f"{text}: only a folder or a hub's model has a revision to pin")
    return replace(found, load=partial(_loaded, found.load, device))


def _loaded(load: Load, device: str) -> Target:
    """The model on its device; one that is not there is said before the model is read."""
    if device != "auto":
        device = resolve_device(device)
    found = load()
    where = resolve_device(device)
    return found if where == "cpu" else replace(found, model=_on(found.model, where))


def _on(model: Any, device: str) -> Any:
    """The model with its weights there."""
    if hasattr(model, "library"):
        model.library.to(device)
        return model
    return model.to(device)


def _path(text: str, out: Path, how: Opening) -> Found | None:
    path = Path(text)
    if path.is_file() and path.suffix == ".gguf":
        with path.open("rb") as file:
            if file.read(len(GGUF)) != GGUF:
                raise IntegrityError(f"{text}: not a GGUF file")
        return _of_library(path.name, str(path), how)
    if path.is_dir():
        if (path / "study.json").is_file():
            return _from_record(path, None)
        if (config := path / "config.json").is_file():
            settings = read_json(config)
            if not isinstance(settings, dict) or not isinstance(settings.get("model_type"), str):
                raise IntegrityError(f"{config}: names no model_type")
            return _of_library(path.name, str(path), how)
        raise UsageError(f"{text}: neither a run nor a Hugging Face folder (no config.json)")
    if path.exists() or text.startswith((".", "/", "~")) or text.endswith(".gguf"):
        raise UsageError(f"{text}: {'not a model' if path.exists() else 'no such path'}")
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

    record = Record.open(path)
    row = _chosen(record, trial)
    return Found("run", partial(own_model, f"{record.name}@{row.id[:8]}", row))


def _chosen(record: "Record", trial: str | None) -> "Row":
    rows = [row for row in record.table().done() if row.documents.get(MODEL)]
    if not rows:
        raise UsageError(f"run {record.name} holds no trained model")
    found = [row for row in rows if row.id.startswith(trial)] if trial else rows
    if len(found) == 1:
        return found[0]
    names = ", ".join(f"{row.id[:8]} ({row.get('arm') or row.seed})" for row in rows[:4])
    what = f"no trial {trial!r}" if trial and not found else f"{len(found)} models"
    raise UsageError(f"run {record.name}: {what}; name one as {record.name}@TRIAL: {names} …")


def own_model(name: str, row: "Row") -> Target:
    """The GPT or Perceiver a trial left: its configuration, weights and tokenizer."""
    import torch

    from attnlab.models.build import model_from_json
    from attnlab.tasks.tokenizer import Tokenizer

    model = model_from_json(json.loads(row.documents[MODEL]), torch.Generator())
    weights = {
        key.removeprefix("model."): torch.from_numpy(array.copy())
        for key, array in row.arrays.items()
        if key.startswith("model.")
    }
    model.load_state_dict(weights)
    tokenizer = Tokenizer.from_json(row.documents[TOKENIZER])
    how = json.loads(row.documents.get(READING) or "{}")  # of a model that reads texts otherwise
    return Target(name, model.eval(), OwnReader(tokenizer, **how))


def _asset(text: str, out: Path, how: Opening) -> Found | None:
    from attnlab.assets.catalogue import catalogue

    entry = catalogue().get(text)
    if entry is None:
        return None
    files = {file.name for file in entry.files}  # as listed: nothing is fetched only to be refused
    if any(name.endswith(".gguf") for name in files) or (how.own_head and "config.json" in files):
        return Found("library", partial(_fetched, text, how))
    raise UsageError(f"asset {text!r} is no {'model' if how.own_head else 'causal language model'}")


def _fetched(name: str, how: Opening) -> Target:
    from attnlab.assets import get

    asset = get(name)
    packed = [file for file in asset.files if file.suffix == ".gguf"]
    if not packed:
        return _hugging_face(name, str(asset.path), how)
    from attnlab.models.gguf import dequantize_cached

    return _hugging_face(name, str(dequantize_cached(packed[0])), how)


def _function(text: str, out: Path, how: Opening) -> Found | None:
    module, colon, name = text.partition(":")
    file = Path(*module.split(".")).with_suffix(".py") if colon and name.isidentifier() else None
    if file is None or not all(part.isidentifier() for part in module.split(".")):
        return None
    if not file.is_file():
        raise UsageError(f"{text}: no file {file} in the current folder")
    function = getattr(_imported(module, file), name, None)
    if not callable(function):
        raise UsageError(f"{text}: {file} has no function {name!r}")
    return Found("function", partial(_from_function, text, function))


def _from_function(text: str, function: Callable[..., Any]) -> Target:
    from attnlab.models.function import FunctionModel

    return Target(text, FunctionModel(_made(function), text), None)


def _made(function: Any) -> Any:
    """A function that needs nothing makes the model; any other is the model."""
    import inspect

    import torch

    if isinstance(function, torch.nn.Module):
        return function
    needed = [p for p in inspect.signature(function).parameters.values() if p.default is p.empty]
    if needed:
        return function
    try:
        return function()
    except (Exception, SystemExit) as error:  # the user's own code
        raise UsageError(f"{function.__name__}(): {type(error).__name__}: {error}") from error


def _imported(module: str, file: Path) -> Any:
    """The module at `file`; its own imports from its folder work, its errors are one line."""
    spec = importlib.util.spec_from_file_location(module, file)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec.loader.exec_module(made)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{file}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(Path.cwd()))
    return made


def _hub(text: str, out: Path, how: Opening) -> Found | None:
    from attnlab.assets.catalogue import is_hub_id

    return _of_library(text, text, how) if "/" in text and is_hub_id(text) else None


def _of_library(name: str, source: str, how: Opening) -> Found:
    return Found("library", partial(_hugging_face, name, source, how))


def _hugging_face(name: str, source: str, how: Opening) -> Target:
    from attnlab.models.hub import load

    model = load(source, own_head=how.own_head, revision=how.revision, trust=how.trust)
    return Target(name, model, None if model.tokenizer is None else HubReader(model.tokenizer))
