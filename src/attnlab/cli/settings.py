"""Settings from `--set` and `--config`."""

from pathlib import Path
from typing import Any

from attnlab.core.config import parse_assignment, read_toml
from attnlab.core.devices import resolve_device


def settings_from(
    config: Path | None,
    assignments: list[str] | None,
    seeds: int | None,
    device: str,
    here: bool,
) -> dict[str, Any]:
    """Merge the file, --set, --seeds and --device; a later one overrides an earlier one.

    With `here`, the device must exist on this machine.
    """
    chosen = {**(read_toml(config) if config else {}), **parse_settings(assignments)}
    if seeds is not None:
        chosen["seeds"] = seeds
    if device != "auto" or chosen.get("device", "auto") == "auto":
        chosen["device"] = resolve_device(device) if here and device != "auto" else device
    return chosen


def parse_settings(assignments: list[str] | None) -> dict[str, Any]:
    """Parse all `--set KEY=VALUE`; the last value of a key is used."""
    return dict(map(parse_assignment, assignments or []))
