"""Lists of texts from a file; the suffix of its name tells the format.

    anything.txt   one text per line; every line counts, an empty line is an empty text
    texts.json     ["a text", "another\\nof two lines"]
    texts.jsonl    one JSON text per line; .ndjson too

In JSON a text may also be an object with the key "text". Only JSON can hold a text with line ends.
The line end at the end of a file does not begin another line.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attnlab.core.errors import UsageError
from attnlab.tasks.corpus import read_text

JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")


def read_texts(path: Path) -> list[str]:
    """Read the texts of a file; anything else raises a one-line UsageError that tells where."""
    content = read_text(path, empty=True)
    if path.suffix.lower() == ".json":
        items = parse_json(content, str(path))
        if not isinstance(items, list):
            raise UsageError(f"{path}: must hold a list of texts, holds {_json_type(items)}")
        return [_text_of_item(item, f"{path}: item {i}") for i, item in enumerate(items, 1)]
    if not content:
        return []
    if path.suffix.lower() not in JSON_LINES_SUFFIXES:
        return content.removesuffix("\n").split("\n")
    return [_text_of_item(item, where) for where, item in parse_json_lines(path, content)]


def parse_json_lines(path: Path, content: str) -> Iterator[tuple[str, Any]]:
    """Yield the value of every line of a file, and where it is: the file and the line."""
    for number, line in enumerate(content.removesuffix("\n").split("\n"), 1):
        where = f"{path}: line {number}"
        yield where, parse_json(line, where)


def parse_json(text: str, where: str) -> Any:
    """Parse JSON; a fault raises a UsageError that begins with `where` (file and line)."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: also integers that are too large
        why = getattr(error, "msg", None) or type(error).__name__
        raise UsageError(f"{where}: not JSON ({why})") from None


def _text_of_item(item: Any, where: str) -> str:
    text = item.get("text") if isinstance(item, dict) else item
    if isinstance(text, str):
        return text
    what = 'an object without "text"' if isinstance(item, dict) else _json_type(item)
    raise UsageError(f"{where}: must be a text, is {what}")


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "a text")
