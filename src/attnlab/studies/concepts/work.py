"""One trial is one concept with one seed."""

import json
from typing import Any

from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.concepts import merges as bpe
from attnlab.studies.concepts.texts import splits, taken

SHOWN = 9  # merges of a word that is shown


def work(trial: Trial, context: TrialContext) -> Outcome:
    """The part that the trial names."""
    part = trial.config["part"]
    if part == "anew":
        from attnlab.studies.concepts.anew import try_ways

        return try_ways(trial, context)
    if part == "order":
        from attnlab.studies.concepts.order import in_order

        return in_order(trial, context)
    if part == "pair":
        from attnlab.studies.concepts.pairs import read_pairs

        return read_pairs(trial)
    if part == "ids":
        from attnlab.studies.concepts.foreign import read_foreign

        return read_foreign(trial)
    if part == "masking":
        from attnlab.studies.concepts.masking import mask_texts

        return mask_texts(trial)
    if part == "merges":
        return merge_text(trial)
    from attnlab.studies.concepts.loop import small_facts

    return small_facts(trial)


def merge_text(trial: Trial) -> Outcome:
    """Merges learnt by both programs, and applied by both to words of other texts."""
    c, seed = trial.config, trial.stream
    texts, held = (
        taken(part, c["merge_bytes"], seed.child(name))
        for name, part in (("learn", splits("plays").train), ("apply", splits("plays").dev))
    )
    words = bpe.counted(texts)
    ours = bpe.learn(words, c["merges"])
    library, theirs = bpe.library_merges(texts, c["merges"])
    new = list(bpe.counted(held))
    pieces = [tuple(t.value for t in library.model.tokenize(word)) for word in new]
    applied = [bpe.steps(word, ours)[-1][1] == p for word, p in zip(new, pieces, strict=True)]
    seen = [word for word in new if word.strip("Ġ").isalpha() and word.isascii() is False]
    shown = max(
        seen or new,
        key=lambda word: (len(bpe.steps(word, ours)) <= SHOWN, len(bpe.steps(word, ours)), word),
    )
    found: dict[str, Any] = {
        "merges_same": sum(a == b for a, b in zip(ours, theirs, strict=False)),
        "merges_learnt": max(len(ours), len(theirs)),
        "words_same": sum(applied),
        "words_applied": len(new),
        "words_learnt_from": len(words),
        "unseen_words": sum(word not in words for word in new),
    }
    told = [[list(pair or ()), list(pieces)] for pair, pieces in bpe.steps(shown, ours)]
    first = [list(pair) for pair in ours[:12]]
    return Outcome(
        found, documents={"merges.json": json.dumps({"word": shown, "steps": told, "first": first})}
    )
