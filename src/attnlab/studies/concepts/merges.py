"""How byte-pair encoding learns and applies merges: forty lines, and the library beside them.

    learn   words as pieces, one a byte;  repeat: join the commonest pair of neighbours everywhere
    apply   to a new word the same merges, the earliest learnt first, until none fits

    e.g.  l o w e r ×5, l o w ×2:  (l, o) occurs 7 times: lo w e r, lo w;  then (lo, w): low e r

Ties go to the pair whose pieces were known first. The library gets the same words: the test is that
every merge and every piece of a text that was not learnt from are the same.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

Pair = tuple[str, str]
Pieces = tuple[str, ...]


def learn(words: Mapping[str, int], merges: int) -> list[Pair]:
    """The first `merges` merges of words that occur so often."""
    split = {word: tuple(word) for word in words}
    # places in the vocabulary decide ties: characters by their code, then merges as they come
    known = {piece: i for i, piece in enumerate(sorted({c for word in words for c in word}))}
    found: list[Pair] = []
    while len(found) < merges:
        counts: Counter[Pair] = Counter()
        for word, pieces in split.items():
            for pair in pairwise(pieces):
                counts[pair] += words[word]
        if not counts:
            break
        best = min(counts, key=lambda p: (-counts[p], known[p[0]], known[p[1]]))
        found.append(best)
        known.setdefault(best[0] + best[1], len(known))
        split = {word: joined(pieces, best) for word, pieces in split.items()}
    return found


def joined(pieces: Pieces, pair: Pair) -> Pieces:
    """Every occurrence of the pair as one piece, from left to right."""
    found: list[str] = []
    for piece in pieces:
        if found and (found[-1], piece) == pair:
            found[-1] += piece
        else:
            found.append(piece)
    return tuple(found)


def steps(word: str, merges: Sequence[Pair]) -> list[tuple[Pair | None, Pieces]]:
    """The word before any merge, and after each that applies: the earliest learnt first."""
    rank = {pair: i for i, pair in enumerate(merges)}
    shown: list[tuple[Pair | None, Pieces]] = [(None, tuple(word))]
    while True:
        pieces = shown[-1][1]
        there = [pair for pair in pairwise(pieces) if pair in rank]
        if not there:
            return shown
        best = min(there, key=lambda pair: rank[pair])
        shown.append((best, joined(pieces, best)))


def counted(texts: Iterable[str]) -> Counter[str]:
    """Words as the byte-level tokenizer of GPT-2 cuts them: a space belongs to what follows it."""
    before = _before()
    return Counter(word for text in texts for word, _ in before.pre_tokenize_str(text))


def library_merges(texts: Sequence[str], merges: int) -> tuple[Any, list[Pair]]:
    """The library's tokenizer of the same texts, and the merges it learnt."""
    import json

    from tokenizers import Tokenizer, models, trainers

    library = Tokenizer(models.BPE())
    library.pre_tokenizer = before = _before()
    alphabet = before.alphabet()  # all bytes, so that nothing is unknown
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + merges, initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator(texts, trainer)
    found = json.loads(library.to_str())["model"]["merges"]
    return library, [(pair[0], pair[1]) for pair in found]


def _before() -> Any:
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(add_prefix_space=False)
