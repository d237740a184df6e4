"""docs/generate.md is true: its Python runs, its session is what the command prints."""

import re
import shlex
from pathlib import Path

import pytest

from attnlab.decode.strategy import NAMES, parse_strategy
from tests.cli.conftest import call

PAGE = (Path(__file__).parents[2] / "docs" / "generate.md").read_text(encoding="utf-8")


def test_its_python_runs() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        exec(compile(block, "docs/generate.md", "exec"), {})


def test_every_strategy_is_in_its_table_and_reads_as_written() -> None:
    rows = re.findall(r"^\| `([a-z][^`]*)` \|", PAGE, re.MULTILINE)
    assert [parse_strategy(row).name for row in rows] == list(NAMES)
    for written in re.findall(r"--strategy (\S+)", PAGE):
        parse_strategy(written)


@pytest.mark.assets
@pytest.mark.slow
def test_its_session_is_what_is_printed() -> None:
    (line, shown) = re.findall(r"```\n\$ attnlab (.*?)\n(.*?)```", PAGE, re.DOTALL)[0]
    said = call(*shlex.split(line), "--device", "cpu")
    assert (said.code, said.out) == (0, shown)
