"""Code that a model's folder brings is never run, unless it was read and is named by its hash.

From a hub the pin is the commit (40 hex digits). A folder has no commit: its pin is the SHA-256 of
its Python files, which the refusal prints. A branch or a tag can move, so neither is a pin.
"""

import hashlib
import re
from pathlib import Path

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.files import read_json, sha256_file

COMMIT = re.compile(r"[0-9a-f]{40}")
CLASS = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)+")  # file.Class


def code_hash(folder: Path) -> str:
    """SHA-256 over `hash  name` of every Python file beneath the folder, sorted by name."""
    files = sorted(path for path in folder.rglob("*.py") if path.is_file())
    lines = [f"{sha256_file(path)}  {path.relative_to(folder).as_posix()}\n" for path in files]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def check_commit(revision: str | None) -> None:
    """A hub's code is run at one commit only."""
    if revision is None or not COMMIT.fullmatch(revision):
        raise UsageError(
            "code of a hub is run at a pinned commit only: give its 40 hex digits as --revision"
        )


def check_hash(folder: Path, revision: str | None) -> None:
    """A folder's code is run only if it is the code that was read."""
    actual = code_hash(folder)
    if revision != actual:
        which = "none was given" if revision is None else f"it is not {revision[:64]}"
        raise UsageError(
            f"{folder}: its code is run only if named by its hash, and {which}: "
            f"read its .py files, then give --revision {actual}"
        )


def check_map(folder: Path) -> None:
    """auto_map may name classes of this folder's files; `owner/name--file` brings unpinned code."""
    for name in ("config.json", "tokenizer_config.json"):
        settings = read_json(folder / name) if (folder / name).exists() else {}
        named = settings.get("auto_map") or {}
        for value in named.values() if isinstance(named, dict) else [named]:
            for text in value if isinstance(value, list) else [value]:
                if text is not None and not CLASS.fullmatch(str(text)):
                    raise IntegrityError(
                        f"{folder / name}: auto_map = {text!r} is no class of this folder's files, "
                        "and no pin covers other code"
                    )
