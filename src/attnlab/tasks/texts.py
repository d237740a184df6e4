"""Lists of texts from a file; the name's ending says how they are written.

    anything.txt   one text a line; every line counts, an empty one is an empty text
    texts.json     ["a text", "another\\nof two lines"]
    texts.jsonl    one JSON text a line; .ndjson too

In JSON a text may also be an object with the key "text". A text with line ends in it fits JSON
only. The line end that closes a file begins no line.
"""

import json
from pathlib import Path
from typing import Any

from attnlab.core.errors import UsageError
from attnlab.tasks.corpus import read_text

JSON_LINES_SUFFIXES = (".jsonl", ".ndjson")


def read_texts(path: Path) -> list[str]:
    """The texts of a file; what is none is one UsageError line that says where."""
    held = read_text(path, empty=True)
    if path.suffix.lower() == ".json":
        return _texts_of_list(parse_json(held, f"{path}"), path)
    lines = held.removesuffix("\n").split("\n") if held else []
    if path.suffix.lower() not in JSON_LINES_SUFFIXES:
        return lines
    return [
        _text_of_item(parse_json(line, f"{path}: line {number}"), f"{path}: line {number}")
        for number, line in enumerate(lines, 1)
    ]


def _texts_of_list(found: Any, path: Path) -> list[str]:
    if not isinstance(found, list):
        raise UsageError(f"{path}: must hold a list of texts, holds {_kind(found)}")
    return [_text_of_item(item, f"{path}: item {number}") for number, item in enumerate(found, 1)]


def _text_of_item(found: Any, where: str) -> str:
    text = found.get("text") if isinstance(found, dict) else found
    if isinstance(text, str):
        return text
    what = 'an object without "text"' if isinstance(found, dict) else _json_type(found)
    raise UsageError(f"{where}: must be a text, is {what}")


def parse_json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError: huge integers too
        why = getattr(error, "msg", None) or type(error).__name__
        raise UsageError(f"{where}: not JSON ({why})") from None


def _json_type(value: Any) -> str:
    names = {dict: "an object", list: "a list", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number" if isinstance(value, int | float) else "a text")
