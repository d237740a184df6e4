"""A TARGET is whatever a person can mean by "that model"; here it becomes a model with its tokens.

In this order: an existing path (a run's folder, a Hugging Face folder, a .gguf file), a run's name
or RUN@TRIAL, an asset, `module:function` from the current folder, a name on a hub.
"""

import importlib.util
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attnlab.core.config import nearest
from attnlab.core.devices import resolve_device
from attnlab.core.errors import UsageError

if TYPE_CHECKING:
    from attnlab.lab.record import Record
    from attnlab.lab.table import Row
    from attnlab.models.protocol import LanguageModel

MODEL, TOKENIZER, READING = "model.json", "tokenizer.json", "reading.json"


class Reader(Protocol):
    """Text to ids and back, as the model expects them."""

    def encode(self, text: str) -> Sequence[int]:
        """The ids the model reads, its start marker included."""
        ...

    def decode(self, ids: Sequence[int]) -> str:
        """The text of ids."""
        ...

    def tokens(self, ids: Sequence[int]) -> Sequence[str]:
        """A label for each id."""
        ...

    @property
    def stop(self) -> int | None:
        """The id that ends a text, if there is one."""
        ...


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


def load_target(
    text: str, out: Path = Path("runs"), device: str = "cpu", how: Opening = CAUSAL
) -> Target:
    """The model that `text` means, ready to be asked; torch is loaded once there is one."""
    if device != "auto":
        device = resolve_device(device)
    for way in (_path, _run, _asset, _function, _hub):
        found = way(text, out, how)
        if found is not None:
            if (how.revision or how.trust) and not hasattr(found.model, "library"):
                raise UsageError(f"{text}: only a folder or a hub's model has a revision to pin")
            where = resolve_device(device)
            return found if where == "cpu" else replace(found, model=_on(found.model, where))
    raise UsageError(f"{text!r} is no path, run, asset, module:function or owner/name")


def _on(model: Any, device: str) -> Any:
    """The model with its weights there."""
    if hasattr(model, "library"):
        model.library.to(device)
        return model
    return model.to(device)


def _path(text: str, out: Path, how: Opening) -> Target | None:
    path = Path(text)
    if path.is_file() and path.suffix == ".gguf":
        return _hugging_face(path.name, str(path), how)
    if path.is_dir():
        if (path / "study.json").is_file():
            return _from_record(path, None)
        if (path / "config.json").is_file():
            return _hugging_face(path.name, str(path), how)
        raise UsageError(f"{text}: neither a run nor a Hugging Face folder (no config.json)")
    if path.exists() or text.startswith((".", "/", "~")) or text.endswith(".gguf"):
        raise UsageError(f"{text}: {'not a model' if path.exists() else 'no such path'}")
    return None


def _run(text: str, out: Path, how: Opening) -> Target | None:
    from attnlab.lab.runs import find_run, list_runs

    name, _, trial = text.partition("@")
    known = [info.name for info in list_runs(out)] if out.is_dir() else []
    if not any(run.startswith(name) for run in known):
        if trial:
            raise UsageError(f"no run {name!r} in {out}: {nearest(name, known)}")
        return None
    return _from_record(find_run(name, out), trial or None)


def _from_record(path: Path, trial: str | None) -> Target:
    from attnlab.lab.record import Record

    record = Record.open(path)
    row = _chosen(record, trial)
    return own_model(f"{record.name}@{row.id[:8]}", row)


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

    from attnlab.models.own import own_model as built
    from attnlab.tasks.tokens import Tokenizer

    model = built(json.loads(row.documents[MODEL]), torch.Generator())
    weights = {
        key.removeprefix("model."): torch.from_numpy(array.copy())
        for key, array in row.arrays.items() if key.startswith("model.")
    }  # fmt: skip
    model.load_state_dict(weights)
    tokenizer = Tokenizer.from_json(row.documents[TOKENIZER])
    how = json.loads(row.documents.get(READING) or "{}")  # of a model that reads texts otherwise
    return Target(name, model.eval(), OwnReader(tokenizer, **how))


@dataclass(frozen=True)
class OwnReader:
    """Our tokenizers: a text starts with <START>, unless the model was taught otherwise.

    `before` and `after` are ids around a text, `end` is the id that ends what is generated.
    """

    tokenizer: Any
    before: Sequence[int] | None = None
    after: Sequence[int] = ()
    end: int | None = None

    def encode(self, text: str) -> list[int]:
        """<START> and the text; or the text between what the model was taught to expect."""
        before = [self.tokenizer.start] if self.before is None else self.before
        return [*before, *self.tokenizer.encode(text), *self.after]

    def decode(self, ids: Sequence[int]) -> str:
        """The text."""
        return self.tokenizer.decode(ids)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Names of the ids."""
        return self.tokenizer.tokens(ids)

    @property
    def stop(self) -> int | None:
        """The id that ends a text."""
        return self.tokenizer.stop if self.end is None else self.end


def _asset(text: str, out: Path, how: Opening) -> Target | None:
    from attnlab.assets import get, names

    if text not in names():
        return None
    fetched = get(text)
    files = [file for file in fetched.files if file.suffix == ".gguf"]
    if files:
        from attnlab.models.student import unpacked

        return _hugging_face(text, str(unpacked(files[0])), how)
    if how.own_head and (fetched.path / "config.json").is_file():
        return _hugging_face(text, str(fetched.path), how)
    raise UsageError(f"asset {text!r} is no {'model' if how.own_head else 'causal language model'}")


def _function(text: str, out: Path, how: Opening) -> Target | None:
    module, colon, name = text.partition(":")
    file = Path(*module.split(".")).with_suffix(".py") if colon and name.isidentifier() else None
    if file is None or not all(part.isidentifier() for part in module.split(".")):
        return None
    if not file.is_file():
        raise UsageError(f"{text}: no file {file} in the current folder")
    function = getattr(_imported(module, file), name, None)
    if not callable(function):
        raise UsageError(f"{text}: {file} has no function {name!r}")
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
    except Exception as error:  # the user's own code
        raise UsageError(f"{function.__name__}(): {type(error).__name__}: {error}") from error


def _imported(module: str, file: Path) -> Any:
    """The module at `file`; its own imports from its folder work, its errors are one line."""
    spec = importlib.util.spec_from_file_location(module, file)
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec.loader.exec_module(made)
    except Exception as error:
        raise UsageError(f"{file}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(Path.cwd()))
    return made


def _hub(text: str, out: Path, how: Opening) -> Target | None:
    from attnlab.assets.catalogue import is_hub_id

    return _hugging_face(text, text, how) if "/" in text and is_hub_id(text) else None


def _hugging_face(name: str, source: str, how: Opening) -> Target:
    from attnlab.models.hub import load

    model = load(source, own_head=how.own_head, revision=how.revision, trust=how.trust)
    return Target(name, model, None if model.tokenizer is None else HubReader(model.tokenizer))


@dataclass(frozen=True)
class HubReader:
    """A model's own tokenizer: its start marker first, where it has one and wants it."""

    tokenizer: Any

    def encode(self, text: str) -> list[int]:
        """The ids as the library gives them to the model; without a marker where it adds none."""
        return list(self.tokenizer.library(text)["input_ids"])

    def decode(self, ids: Sequence[int]) -> str:
        """The text."""
        return self.tokenizer.decode(ids)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Names of the ids."""
        return self.tokenizer.tokens(ids)

    @property
    def stop(self) -> int | None:
        """The id that ends a text."""
        return self.tokenizer.stop
