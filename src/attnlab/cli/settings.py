"""Settings from `--set` and `--config`.

A dotted key of n parts costs tomllib n² memory: half a megabyte of `a.a.a…` needs more than a
machine has. So the nesting is checked on the text, before it is parsed.
"""

import re
from pathlib import Path
from typing import Any

from attnlab.core.config import CONFIG_FILE_LIMIT, parse_assignment, read_toml
from attnlab.core.devices import resolve_device
from attnlab.core.errors import UsageError, from_os_error

DEEPEST = 32
_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+"""
_DOTTED = re.compile(rf"(?<![\w-]){_PART}(?:\.[ \t]*+{_PART}){{{DEEPEST}}}")
_BRACKET = re.compile(r"[\[\]{}]")


def settings_from(
    config: Path | None,
    assignments: list[str] | None,
    seeds: int | None,
    device: str,
    here: bool = True,
) -> dict[str, Any]:
    """Merge the file, --set, --seeds and --device; a later one overrides an earlier one.

    With `here`, the device must exist on this machine.
    """
    chosen = read_config(config) if config else {}
    chosen.update(parse_settings(assignments))
    if seeds is not None:
        chosen["seeds"] = seeds
    if device != "auto" or chosen.get("device", "auto") == "auto":
        chosen["device"] = resolve_device(device) if here and device != "auto" else device
    return chosen


def parse_settings(assignments: list[str] | None) -> dict[str, Any]:
    """Parse all `--set KEY=VALUE`; the last value of a key is used."""
    for text in assignments or []:
        _refuse_bomb(f"--set {text.partition('=')[0][:60]}", text)
    return dict(parse_assignment(text) for text in assignments or [])


def read_config(path: Path) -> dict[str, Any]:
    """Read the settings in a TOML file; anything but a plain, small file is refused."""
    try:
        if path.exists() and not path.is_file():
            raise UsageError(f"{path}: not a file")
        with path.open("rb") as file:
            start = file.read(CONFIG_FILE_LIMIT)
    except OSError as error:
        raise from_os_error(path, error, UsageError) from None
    _refuse_bomb(str(path), start.decode(errors="replace"))
    try:
        return read_toml(path)
    except ValueError as error:  # a number of five thousand digits
        raise UsageError(f"{path}: not a TOML file: {error}") from None


def _refuse_bomb(where: str, text: str) -> None:
    depth = deepest = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket[0] in "[{" else -1
        deepest = max(deepest, depth)
    if deepest > DEEPEST or _DOTTED.search(text):
        raise UsageError(f"{where}: nested more than {DEEPEST} levels deep; settings are not")
