"""Encoder inputs: the tokenizer's format for pairs, truncation that is reported, padding."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.models.encoder import open_encoder
from attnlab.tasks.encoder_inputs import EncodedExamples, ShuffledBatches, encode_examples
from attnlab.tasks.labelled import Example
from tests.models.tiny_encoder import bert_folder, roberta_folder


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_encoder(bert_folder(tmp_path_factory.mktemp("e") / "bert")).tokenizer


def words(count: int, start: int = 0) -> str:
    return " ".join(f"w{(start + i) % 30}" for i in range(count))


def test_pairs_as_each_tokenizer_wants_them(bert: Any, tmp_path: Path) -> None:
    pair = [Example("good film", "bad film", 1)]
    found = encode_examples(bert, pair, 31)
    assert bert.convert_ids_to_tokens(found.ids[0]) == [
        "<s>",
        "good",
        "film",
        "</s>",
        "bad",
        "film",
        "</s>",
    ]
    assert found.token_types is not None and found.token_types[0].tolist() == [0, 0, 0, 0, 1, 1, 1]
    roberta = open_encoder(roberta_folder(tmp_path / "roberta")).tokenizer
    other = encode_examples(roberta, pair, 31)
    assert other.token_types is None
    assert roberta.convert_ids_to_tokens(other.ids[0]).count("</s>") == 3


def test_what_was_cut_is_told(bert: Any) -> None:
    rows = [Example(words(4), None, 0), Example(words(20), None, 1), Example(words(9), None, 0)]
    found = encode_examples(bert, rows, 11)
    assert [len(r) for r in found.ids] == [6, 11, 11]
    assert (found.truncated_rows, found.truncated_tokens, found.tokens) == (1, 11, 6 + 22 + 11)
    assert found.examples[0].row == 1 and found.examples[0].text == words(11, 9)
    assert found.report() == "1 of 3 texts were cut to 11 tokens and lost 11 tokens, 28.2% of all"
    assert encode_examples(bert, rows, 31).report() == "all 3 texts fit into 31 tokens"


def test_of_a_pair_the_longer_text_is_cut(bert: Any) -> None:
    found = encode_examples(bert, [Example(words(3), words(20, 5), 0)], 13)
    assert len(found.ids[0]) == 13 and found.truncated_tokens == 26 - 13
    kept = bert.convert_ids_to_tokens(found.ids[0])
    assert kept[1:4] == words(3).split() and kept[5:12] == words(7, 5).split()
    assert found.examples[0].text == words(13, 12)


def test_bad_examples(bert: Any) -> None:
    with pytest.raises(UsageError, match="nothing to encode"):
        encode_examples(bert, [], 31)
    with pytest.raises(UsageError, match="some examples are pairs"):
        encode_examples(bert, [Example("a", None, 0), Example("a", "b", 0)], 31)
    with pytest.raises(UsageError, match="hold no text"):
        encode_examples(bert, [Example("a", None, 0)], 3)


def ragged(bert: Any, rows: int = 613) -> EncodedExamples:
    lengths = Seed(3).numpy_generator().integers(1, 30, rows)
    return encode_examples(
        bert, [Example(words(int(n)), None, i % 2) for i, n in enumerate(lengths)], 31
    )


def test_every_row_once_an_epoch_and_little_padding(bert: Any) -> None:
    rows, batch = ragged(bert), 7
    made = ShuffledBatches(rows, batch, Seed(5))
    steps = -(-len(rows) // batch)
    batches = [made.batch(step) for step in range(steps)]
    labels = np.concatenate([b.labels.numpy() for b in batches])[: len(rows)]
    assert labels.sum() == rows.labels.sum()
    pads = sum(int(b.key_padding_mask.sum()) for b in batches) / sum(
        b.key_padding_mask.numel() for b in batches
    )
    fixed = ShuffledBatches(rows, batch, Seed(5), fixed=True)
    wide = [fixed.batch(step) for step in range(steps)]
    assert {b.ids.shape[1] for b in wide} == {31}
    assert (
        pads
        < 0.1
        < sum(int(b.key_padding_mask.sum()) for b in wide) / sum(b.ids.numel() for b in wide)
    )
    again = ShuffledBatches(rows, batch, Seed(5)).batch(11)
    assert all(
        (x is None and y is None) or bool((x == y).all())
        for x, y in zip(again, made.batch(11), strict=True)
    )
    assert not np.array_equal(made.batch(0).labels, made.batch(steps).labels)


def test_padding_is_hidden_and_rows_keep_their_numbers(bert: Any) -> None:
    rows = ragged(bert, 29)
    seen = []
    for chosen, batch in rows.batches_by_length(5):
        for number, ids, hidden in zip(chosen, batch.ids, batch.key_padding_mask, strict=True):
            assert ids[~hidden].tolist() == rows.ids[number].tolist()
            assert set(ids[hidden].tolist()) <= {rows.pad}
        assert batch.labels.tolist() == rows.labels[chosen].tolist()
        seen += chosen.tolist()
    assert sorted(seen) == list(range(29))
