"""The asset with the real plays and poems: complete, and nothing else in it."""

import re

import numpy as np
import pytest

from attnlab.core.errors import MissingError
from attnlab.core.seeds import Seed
from attnlab.tasks.batches import SentenceBatches
from attnlab.tasks.corpus import Corpus, split_sentences
from attnlab.tasks.drama import extract_speeches
from attnlab.tasks.ngram import NGram
from attnlab.tasks.tokenizer import train_tokenizer

pytestmark = pytest.mark.assets
# The plays themselves say licence ("With such full licence as both truth and malice").
BOILERPLATE = re.compile(
    r"gutenberg|\be-?text\b|\be-?book|copyright|trademark|public domain|https?:|www\.|@|\bdonations"
    r"|transcri|by william shakespeare|the end\s*\Z",
    re.I,
)


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    try:
        return Corpus.shakespeare()
    except MissingError as error:  # no network here, and nothing cached
        pytest.skip(str(error))


def test_every_work_is_there_and_no_boilerplate(corpus: Corpus) -> None:
    assert len(corpus.documents) == len(set(corpus.documents)) == 42
    assert sum(map(len, corpus.documents)) == pytest.approx(5.06e6, rel=0.01)
    for work in corpus.documents:
        found = BOILERPLATE.search(work)
        assert found is None, work[max(0, found.start() - 80) : found.end() + 80]
        assert len(work) > 2000 and work == work.strip("\n") + "\n"


def test_the_split_holds_both_sides_of_a_work_together(corpus: Corpus) -> None:
    splits = corpus.split()
    assert [len(part) for part in splits.parts] == [36, 5, 1]
    backwards = Corpus(corpus.documents[::-1]).split()
    assert [set(p) for p in backwards.parts] == [set(p) for p in splits.parts]


def test_only_speech_is_left_of_a_play(corpus: Corpus) -> None:
    plays = [d for d in corpus.documents if re.search(r"^\[?Enter|^\[E", d, re.M)]
    assert len(plays) == 37
    for work in plays:
        said = extract_speeches(work)
        assert 0.8 < len(said) / len(work) < 0.93
        assert not re.search(r"[\[\]{}@_*]", said)
        assert not re.search(r"^(?:ACT|SCENE|Act|Scene) [IVX\d]|DRAMATIS|Exeunt", said, re.M)
        lines = said.split("\n")
        speakers = [s for s in lines if re.fullmatch(r"[A-Z][A-Z .,'-]{2,30}\.", s)]
        assert len(speakers) <= 4, speakers  # letters in the plays are signed


def test_sentences_of_the_plays(corpus: Corpus) -> None:
    found = [s for d in corpus.documents for s in split_sentences(extract_speeches(d))]
    assert "To be, or not to be,--that is the question:--" in " ".join(found)
    assert {"Who's there?", "Nay, answer me: stand, and unfold yourself."} <= set(found)
    words = np.array([len(s.split()) for s in found])
    assert len(found) == pytest.approx(53_900, rel=0.02)
    assert 8 <= np.median(words) <= 11 and words.max() < 250
    stopped = np.mean([s.rstrip("'\")")[-1] in ".!?-" for s in found])
    assert stopped > 0.998


def test_words_batches_and_baselines_fit_together(corpus: Corpus) -> None:
    splits = corpus.split().map(extract_speeches)
    train, dev = ([s for d in part for s in split_sentences(d)] for part in splits.parts[:2])
    tokenizer = train_tokenizer("word", train, min_count=5)
    rows, held = tokenizer.rows(train), tokenizer.rows(dev)
    data = SentenceBatches(rows, 128, 32, Seed(3))
    assert data.truncated_rows < 0.005 * data.rows
    unknown = np.mean(np.concatenate(held) == tokenizer.unknown)
    assert 0.02 < unknown < 0.08
    perplexity = []
    for order in range(4):
        nll, tokens = NGram.fit(data.kept, order, tokenizer.size).nll(held)
        perplexity.append(np.exp(nll / tokens))
    assert perplexity[0] == pytest.approx(tokenizer.size)
    assert perplexity == sorted(perplexity, reverse=True)
    assert 90 < perplexity[3] < 150
