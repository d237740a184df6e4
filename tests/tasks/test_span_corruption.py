"""Span corruption: rows can be inverted, every legal span is drawn, the mean length is T/4."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE, Ids
from attnlab.tasks.span_corruption import (
    CorruptedBatches,
    Corruption,
    Span,
    train_character_tokenizer,
)

TEXTS = ("Kafka was born in Prague.", "Ada ⁇ Lovelace: London □.", "abcabcabcabc", "Rome")
VOCABULARY = train_character_tokenizer(TEXTS)
DRAWS = 10_000


def draws(length: int, how: Corruption, seed: int = 3) -> list[Span]:
    rng = Seed(seed).numpy_generator()
    return [Span(*map(int, row)) for row in how.draw([length] * DRAWS, rng)]


def show(row: Ids) -> str:
    """A row as text, with ⁇ for the mark and □ for padding."""
    marks = {VOCABULARY.start: "⁇", VOCABULARY.pad: "□"}
    return "".join(marks.get(int(i)) or VOCABULARY.decode([int(i)]) for i in row)


def invert_row(row: Ids) -> tuple[np.ndarray, Span]:
    """Recover the truncated document and the span from a row of `Corruption.row`."""
    ids = np.asarray(row, dtype=np.int32)
    marks = np.flatnonzero(ids == VOCABULARY.start).tolist()
    pads = np.flatnonzero(ids == VOCABULARY.pad)
    end = int(pads[0]) if len(pads) else len(ids)
    if len(marks) == 3 and marks[2] == end - 1:
        end = marks.pop()
    padded = not len(pads) or (ids[pads[0] :] == VOCABULARY.pad).all()
    assert len(marks) == 2 and padded, "not a row"
    one, two = marks
    prefix, suffix, masked = ids[:one], ids[one + 1 : two], ids[two + 1 : end]
    document = np.concatenate([prefix, masked, suffix])
    return document, Span(len(document), one, len(masked))


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=61),
    st.integers(0, 99),
    st.booleans(),
    st.floats(0, 1),
)
def test_a_row_gives_back_exactly_what_was_cut(
    text: str, seed: int, closed: bool, whole: float
) -> None:
    how, ids = Corruption(47, closed=closed, whole=whole), np.array(VOCABULARY.encode(text))
    span = Span(*map(int, how.draw([len(ids)], Seed(seed).numpy_generator())[0]))
    row = how.row(ids, span, VOCABULARY)
    assert len(row) == 48
    document, found = invert_row(row)
    assert found == span and np.array_equal(document, ids[: span.total])
    written = span.total + 2 + closed
    assert (row[:written] != VOCABULARY.pad).all() and (row[written:] == VOCABULARY.pad).all()


def test_every_legal_length_and_start_occurs_and_nothing_else() -> None:
    how, n = Corruption(29), 13
    found = Counter(draws(n, how))
    legal = {
        Span(total, start, length)
        for total in range(4, n + 1)
        for length in range(1, 2 * -(-total // 4))
        for start in range(total - length + 1)
    }
    # the rarest of them: total one in 10, the larger middle one in 4, its longest span one in 7
    assert found.keys() <= legal and len(legal) > 200
    assert len(legal - found.keys()) == 0
    long = {span.total for span in draws(97, how)}
    assert long == set(range(4, how.limit + 1)) and how.limit == 25


@pytest.mark.parametrize("total", [4, 5, 6, 7, 11, 23, 24, 25])
def test_the_mean_length_of_a_span_is_a_quarter(total: int) -> None:
    how = Corruption(29, whole=1.0)
    lengths = np.array([span.length for span in draws(total, how)])
    error = lengths.std() / np.sqrt(DRAWS)
    assert abs(lengths.mean() - total / 4) <= 4.5 * error  # exact, where it cannot vary
    assert set(lengths) == set(range(1, 2 * -(-total // 4)))


def test_lengths_and_starts_are_even() -> None:
    found, n = draws(19, Corruption(29)), 16
    totals = Counter(span.total for span in found)
    expected = DRAWS / n  # of 4 … 19
    chi = sum((totals[t] - expected) ** 2 / expected for t in range(4, 20))
    assert chi < 44.3  # 99.99 % of χ² with 15 degrees of freedom
    starts = Counter(s.start for s in draws(16, Corruption(29, whole=1.0)) if s.length == 3)
    each = sum(starts.values()) / 14
    assert set(starts) == set(range(14))
    assert sum((starts[i] - each) ** 2 / each for i in range(14)) < 41.2  # 13 degrees of freedom


def test_texts_shorter_than_four_are_kept_whole() -> None:
    how = Corruption(29)
    assert set(draws(1, how)) == {Span(1, 0, 1)}
    assert set(draws(3, how)) == {Span(3, start, 1) for start in range(3)}


def test_the_drawn_span_is_masked_not_the_first_that_reads_the_same() -> None:
    ids = VOCABULARY.encode("abcabcabcabc")
    row = Corruption(29).row(ids, Span(12, 6, 3), VOCABULARY)
    assert show(row) == "abcabc⁇abc⁇abc" + 16 * "□"
    document, span = invert_row(row)
    assert span == Span(12, 6, 3) and VOCABULARY.decode(document) == "abcabcabcabc"


def test_marks_in_a_text_are_characters_and_strangers_are_unknown_everywhere() -> None:
    ids = VOCABULARY.encode("A ⁇□ é")
    assert VOCABULARY.start not in ids and VOCABULARY.pad not in ids
    assert ids[-1] == VOCABULARY.unknown and VOCABULARY.unknown not in ids[:-1]
    batches = CorruptedBatches(["éééééééé"], VOCABULARY, Corruption(29), 5, Seed(1))
    assert set(batches.batch(0).ids.flatten().tolist()) == {
        VOCABULARY.start,
        VOCABULARY.pad,
        VOCABULARY.unknown,
    }


def test_batches_are_a_function_of_the_step_and_differ_by_epoch() -> None:
    how = Corruption(29)
    one, two = (CorruptedBatches(TEXTS, VOCABULARY, how, 4, Seed(7)) for _ in range(2))
    assert all((a == b).all() for a, b in zip(one.batch(5), two.batch(5), strict=True))
    assert not (one.batch(0).ids == one.batch(1).ids).all()
    for step in range(11):
        batch = one.batch(step)
        assert batch.ids.shape == batch.targets.shape == (4, 29)
        assert batch.key_padding_mask is not None
        for x, y, hidden in zip(batch.ids, batch.targets, batch.key_padding_mask, strict=True):
            kept = y != IGNORE
            assert (x[1:][kept[:-1]] == y[:-1][kept[:-1]]).all()
            assert (y[kept] != VOCABULARY.pad).all() and (x[hidden] == VOCABULARY.pad).all()
            assert int(kept.sum()) == int((~hidden).sum()) - 1  # every id that follows another
    firsts = {tuple(sorted(show(r)[0] for r in one.batch(s).ids.numpy())) for s in range(9)}
    assert len(firsts) > 1  # spans move


def test_trimming_leaves_out_padding_alone_and_the_span_can_be_scored_alone() -> None:
    whole = CorruptedBatches(TEXTS, VOCABULARY, Corruption(61), 4, Seed(7)).batch(3)
    less = CorruptedBatches(TEXTS, VOCABULARY, Corruption(61), 4, Seed(7), trim=True).batch(3)
    width = less.ids.shape[1]
    assert width < 61 and (whole.ids[:, :width] == less.ids).all()
    assert (whole.targets[:, width:] == IGNORE).all()
    how = Corruption(61, scored="span", closed=True)
    batch = CorruptedBatches(TEXTS, VOCABULARY, how, 4, Seed(7)).batch(3)
    for x, y in zip(batch.ids, batch.targets, strict=True):
        _, span = invert_row(x.numpy())
        assert int((y != IGNORE).sum()) == span.length + 1


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="does not fit"):
        Corruption(29).row([5, 6, 7], Span(4, 0, 1), VOCABULARY)
    with pytest.raises(UsageError, match="too short"):
        Corruption(4)
    with pytest.raises(UsageError, match="whole"):
        Corruption(29, whole=1.5)
    with pytest.raises(UsageError, match="nothing to pretrain on"):
        CorruptedBatches(["", ""], VOCABULARY, Corruption(29), 2, Seed(1))
