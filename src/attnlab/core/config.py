"""Settings are data: strict, frozen, no unknown key, one canonical JSON text and one hash.

Every way in (Python, `--set key=value`, a TOML file, a stored study.json) goes through
`build`, so the same value is accepted or refused everywhere, with the same message.
"""

import difflib
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from attnlab.core.errors import UsageError, from_os_error

CONFIG_FILE_LIMIT = 1_000_000  # bytes; nobody writes a larger settings file
DEEPEST = 32  # levels of nesting
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_DOTTED = re.compile(rf"(?<![\w-]){_PART}(?:\.[ \t]*+{_PART}){{{DEEPEST}}}")
_BRACKET = re.compile(r"[\[\]{}]")


class Settings(BaseModel):
    """A frozen record that refuses unknown keys, wrong types and non-finite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def setting(help: str, default: Any, smoke: Any = None, full: Any = None, **limits: Any) -> Any:
    """A field of settings with its help text, the one that `attnlab show` prints of a study's.

    A study's default is its value at the quick scale; `smoke` and `full` are those at the others.
    """
    scales = {"smoke": smoke, "full": full}
    changed = {scale: value for scale, value in scales.items() if value is not None}
    return Field(default=default, description=help, json_schema_extra=changed, **limits)


S = TypeVar("S", bound=Settings)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: object) -> str:
    """The one JSON text of a value: keys sorted, no spaces, no NaN."""
    return _CANONICAL.encode(value)


def content_hash(value: object, digits: int = 64) -> str:
    """First hex digits of SHA-256 over the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:digits]


def suggest(word: str, choices: Iterable[str]) -> str:
    """'did you mean X?' for the most similar choice, or the list of all when none is similar."""
    known = sorted(choices)
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    return "known: " + ", ".join(known)


def build(model: type[S], values: Mapping[str, Any]) -> S:
    """model(**values), or a UsageError in one line: the field, the reason, a similar name."""
    for key in values:
        if key not in model.model_fields:
            raise UsageError(f"unknown setting {key!r}: {suggest(key, model.model_fields)}")
    for key, value in values.items():
        try:
            canonical_json({key: value})
        except (TypeError, ValueError, RecursionError):
            raise UsageError(f"setting {key!r}: must be a plain finite value") from None
    try:
        # through JSON: arrays become tuples, and Python callers follow the same rules as files
        return model.model_validate_json(canonical_json(dict(values)))
    except ValidationError as error:
        raise UsageError(_describe_error(error)) from None


def _describe_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    why = first["msg"].removeprefix("Value error, ")
    where = ".".join(str(part) for part in first["loc"])
    if not where:  # about several settings at once
        return f"settings: {why}"
    given = repr(first["input"])
    shown = given if len(given) <= 60 else given[:57] + "..."
    return f"setting {where!r}: {why} (got {shown})"


def parse_assignment(text: str) -> tuple[str, Any]:
    """'key=value' with the value read as TOML (numbers, lists, true/false), else as a bare word."""
    key, equals, raw = text.partition("=")
    key, raw = key.strip(), raw.strip()
    if not equals or not key:
        raise UsageError(f"--set needs key=value, got {text!r}")
    if len(raw) > CONFIG_FILE_LIMIT:
        raise UsageError(f"--set {key}: value longer than {CONFIG_FILE_LIMIT} characters")
    _refuse_deep_nesting(f"--set {key[:60]}", text)
    try:
        return key, tomllib.loads(f"value = {raw}")["value"]
    except (tomllib.TOMLDecodeError, RecursionError, ValueError):
        return key, raw


def parse_assignments(texts: Iterable[str] | None) -> dict[str, Any]:
    """All `--set KEY=VALUE` of a command; the last value of a key is used."""
    return dict(map(parse_assignment, texts or ()))


def read_toml(path: Path) -> dict[str, Any]:
    """The settings in a TOML file; a UsageError in one line if it cannot be read."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: not a file")
        if path.stat().st_size > CONFIG_FILE_LIMIT:
            raise UsageError(f"{path}: larger than {CONFIG_FILE_LIMIT} bytes")
        text = path.read_text(encoding="utf-8")
        _refuse_deep_nesting(str(path), text)
        return tomllib.loads(text)
    except OSError as error:
        raise from_os_error(path, error, UsageError) from None
    except (ValueError, RecursionError) as error:  # includes bad TOML, bad UTF-8, huge integers
        raise UsageError(f"{path}: not a TOML file: {error}") from None


def _refuse_deep_nesting(where: str, text: str) -> None:
    """A dotted key of n parts costs tomllib n² memory: half a megabyte of `a.a.a…` is too much.

    So the nesting is checked on the text, before it is parsed.
    """
    depth = deepest = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket[0] in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > DEEPEST or _DOTTED.search(text):
        raise UsageError(f"{where}: nested more than {DEEPEST} levels deep; settings are not")
