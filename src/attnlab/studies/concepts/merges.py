"""How byte-pair encoding learns and applies merges: a program of forty lines beside the library.

    learn   split words into bytes;  repeat: merge the most frequent pair of neighbours everywhere
    apply   to a new word the same merges, the earliest learned first, until none fits

    e.g.  l o w e r ×5, l o w ×2:  (l, o) occurs 7 times: lo w e r, lo w;  then (lo, w): low e r

Ties go to the pair whose tokens entered the vocabulary first. The library gets the same words:
every merge, and every token of an unseen text, must be the same.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome
from attnlab.studies.concepts.study import ConceptsSettings
from attnlab.studies.concepts.texts import sample_bytes, text_splits

Pair = tuple[str, str]
Tokens = tuple[str, ...]
MOST_STEPS = 9  # of the word that is shown


def compare_merges(s: ConceptsSettings, seed: Seed) -> Outcome:
    """Merges learned by both programs, and applied by both to the words of unseen texts."""
    plays = text_splits("plays")
    texts = sample_bytes(plays.train, s.merge_bytes, seed.child("learn"))
    unseen = sample_bytes(plays.dev, s.merge_bytes, seed.child("apply"))
    words, new = count_words(texts), list(count_words(unseen))
    ours = learn_merges(words, s.merges)
    library, theirs = library_merges(texts, s.merges)
    steps = {word: merge_steps(word, ours) for word in new}
    same = [
        steps[word][-1][1] == tuple(token.value for token in library.model.tokenize(word))
        for word in new
    ]
    letters = [word for word in new if word.strip("Ġ").isalpha() and not word.isascii()]
    shown = max(
        letters or new, key=lambda word: (len(steps[word]) <= MOST_STEPS, len(steps[word]), word)
    )
    example = {
        "word": shown,
        "steps": [(pair or (), tokens) for pair, tokens in steps[shown]],
        "first": ours[:12],
    }
    return Outcome(
        {
            "merges_same": sum(a == b for a, b in zip(ours, theirs, strict=False)),
            "merges_learnt": max(len(ours), len(theirs)),
            "words_same": sum(same),
            "words_applied": len(new),
            "words_learnt_from": len(words),
            "unseen_words": sum(word not in words for word in new),
        },
        documents={"merges.json": json.dumps(example)},
    )


def learn_merges(words: Mapping[str, int], count: int) -> list[Pair]:
    """The first `count` merges of words with their frequencies."""
    split = {word: tuple(word) for word in words}
    # ties are decided by ids: characters by their code, then merges in the order they come
    ids = {token: i for i, token in enumerate(sorted({c for word in words for c in word}))}
    merges: list[Pair] = []
    while len(merges) < count:
        counts: Counter[Pair] = Counter()
        for word, tokens in split.items():
            for pair in pairwise(tokens):
                counts[pair] += words[word]
        if not counts:
            break
        best = min(counts, key=lambda p: (-counts[p], ids[p[0]], ids[p[1]]))
        merges.append(best)
        ids.setdefault(best[0] + best[1], len(ids))
        split = {word: merge_pair(tokens, best) for word, tokens in split.items()}
    return merges


def merge_pair(tokens: Tokens, pair: Pair) -> Tokens:
    """Every occurrence of the pair as one token, from left to right."""
    merged: list[str] = []
    for token in tokens:
        if merged and (merged[-1], token) == pair:
            merged[-1] += token
        else:
            merged.append(token)
    return tuple(merged)


def merge_steps(word: str, merges: Sequence[Pair]) -> list[tuple[Pair | None, Tokens]]:
    """The word before any merge and after each that applies, the earliest learned first."""
    rank = {pair: i for i, pair in enumerate(merges)}
    steps: list[tuple[Pair | None, Tokens]] = [(None, tuple(word))]
    while True:
        tokens = steps[-1][1]
        known = [pair for pair in pairwise(tokens) if pair in rank]
        if not known:
            return steps
        best = min(known, key=lambda pair: rank[pair])
        steps.append((best, merge_pair(tokens, best)))


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Words as GPT-2 separates them: a space belongs to the word that follows it."""
    separate = _byte_level()
    return Counter(word for text in texts for word, _ in separate.pre_tokenize_str(text))


def library_merges(texts: Sequence[str], count: int) -> tuple[Any, list[Pair]]:
    """The library's tokenizer trained on the same texts, and the merges it learned."""
    from tokenizers import Tokenizer, models, trainers

    library = Tokenizer(models.BPE())
    library.pre_tokenizer = separate = _byte_level()
    alphabet = separate.alphabet()  # all bytes, so that nothing is unknown
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + count, initial_alphabet=alphabet, show_progress=False
    )
    library.train_from_iterator(texts, trainer)
    merges = json.loads(library.to_str())["model"]["merges"]
    return library, [(one, other) for one, other in merges]


def _byte_level() -> Any:
    from tokenizers import pre_tokenizers

    return pre_tokenizers.ByteLevel(add_prefix_space=False)
