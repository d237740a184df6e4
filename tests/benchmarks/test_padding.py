"""The padding benchmark measures the same rows both ways."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import padding as benchmark

from attnlab.models.encoder import open_encoder
from attnlab.tasks.labelled import Example
from tests.models.tiny_encoder import bert_folder


def test_a_row_says_how_much_is_padding(tmp_path: Path) -> None:
    examples = tuple(Example("good " * (1 + i % 5), None, i % 2) for i in range(37))
    row = benchmark.row_of(open_encoder(bert_folder(tmp_path / "bert")), examples, 29, 1)
    assert row.theirs is not None and row.ratio == row.theirs / row.ours
    assert row.note.startswith("padding ") and "all 37 texts fit into 29 tokens" in row.note
