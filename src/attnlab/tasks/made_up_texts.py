"""Labelled texts and pairs of texts made of a few dozen words, for runs of seconds.

One word of a text decides its class; for a pair, the class is whether both texts contain such a
word of the same kind. Accuracies on them mean nothing: they exercise every step of a study.
"""

from typing import Any

from attnlab.core.seeds import Seed
from attnlab.tasks.labelled import Example, LabelledData, split_by_hash

GOOD, BAD = ("good", "fine", "lovely"), ("bad", "dull", "awful")
PLAIN = ("a", "film", "the", "it", *(f"w{i}" for i in range(30)))
WORDS = (*GOOD, *BAD, *PLAIN)  # every word of every text
ROWS = 6000  # a tenth of them are test rows: accuracies are known to ±4 points
YES = 0.62  # share of the answer 'yes' among pairs, as in BoolQ


def made_up_texts(rows: int = ROWS) -> LabelledData:
    """Texts in which one word decides the class; both classes are equally frequent."""
    rng = Seed(3).child("made-up texts").numpy_generator()
    examples = [Example(_text(rng, GOOD if i % 2 else BAD), None, i % 2) for i in range(rows)]
    return split_by_hash("made-up", ("negative", "positive"), tuple(examples))


def made_up_pairs(rows: int = ROWS) -> LabelledData:
    """Pairs whose class is `yes` if both texts contain a word of the same kind."""
    rng = Seed(3).child("made-up pairs").numpy_generator()
    examples = []
    for _ in range(rows):
        one, yes = int(rng.integers(2)), bool(rng.random() < YES)
        kinds = (GOOD, BAD)
        first, second = kinds[one], kinds[one if yes else 1 - one]
        examples.append(Example(_text(rng, first, 2), _text(rng, second), int(yes)))
    return split_by_hash("made-up pairs", ("no", "yes"), tuple(examples))


def _text(rng: Any, kind: tuple[str, ...], words: int = 5) -> str:
    """Neutral words with one word of this kind at a random position."""
    text = [str(word) for word in rng.choice(PLAIN, words)]
    text.insert(int(rng.integers(words + 1)), str(rng.choice(kind)))
    return " ".join(text)
