"""How much a set of texts repeats itself: within a text, and from one text to the next.

    distinct_n         different n-grams / n-grams, all texts together (Li et al. 2016)
    self_bleu          mean over texts of BLEU against all the other texts (Zhu et al. 2018)
    repetition_rate    share of a text's n-grams that occurred before in it (Welleck et al. 2020)
    longest_loop       tokens in the longest stretch made of one block repeated in a row
    longest_repeat     tokens in the longest substring that occurs twice in the text
    entropy            −Σ p ln p of the n-grams of all texts together, in nats

A text is a sequence of tokens: words (measure/words.py) or a model's ids. The numbers differ, so
say which. distinct_n falls and entropy rises with the number of tokens: compare texts of similar
length and number. Without any n-gram the result is NaN.
"""

import math
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Tokens = Sequence[Hashable]
Gram = tuple[Hashable, ...]
T = TypeVar("T", bound=Hashable)
UNSEEN = 0.1  # count used where nothing matches: method 1 of Chen and Cherry (2014)


def diversity(texts: Sequence[Tokens], n: int = 4) -> dict[str, float]:
    """All metrics of a set of texts; those of single texts as a mean over texts that have one."""
    rates = [r for text in texts if not math.isnan(r := repetition_rate(text, n))]
    return {
        **{f"distinct_{k}": distinct_n(texts, k) for k in range(1, 4)},
        f"self_bleu_{n}": float(self_bleu(texts, n).mean()) if len(texts) > 1 else math.nan,
        f"repetition_{n}": _mean(rates),
        "longest_loop": _mean([longest_loop(text) for text in texts]),
        "longest_repeat": _mean([longest_repeat(text) for text in texts]),
        "entropy": entropy(texts),
        "tokens": _mean([len(text) for text in texts]),
    }


def ngrams(tokens: Sequence[T], n: int) -> Iterator[tuple[T, ...]]:
    """All n-grams of the tokens, from left to right."""
    if n < 1:
        raise ValueError(f"n must be at least 1, got {n}")
    return zip(*(tokens[i:] for i in range(n)), strict=False)


def distinct_n(texts: Sequence[Tokens], n: int) -> float:
    """Different n-grams / n-grams of all texts together; NaN where there is none."""
    counts = _pooled(texts, n)
    return len(counts) / counts.total() if counts else math.nan


def entropy(texts: Sequence[Tokens], n: int = 1) -> float:
    """−Σ p ln p over the n-grams of all texts together, in nats; NaN where there is none."""
    counts = _pooled(texts, n)
    if not counts:
        return math.nan
    p = np.fromiter(counts.values(), float) / counts.total()
    return float(-(p * np.log(p)).sum()) + 0.0


def repetition_rate(tokens: Tokens, n: int = 4) -> float:
    """1 − different n-grams / n-grams of one text: the share that repeats earlier ones."""
    return 1 - distinct_n([tokens], n)


def longest_loop(tokens: Tokens) -> int:
    """Tokens in the longest stretch made of one block, at least twice in a row; 0 if none.

    The last repetition may be incomplete: a b a b a is a loop of 5 with the block a b.
    """
    longest = 0
    for period in range(1, len(tokens) // 2 + 1):
        run = 0
        for i in range(period, len(tokens)):
            run = run + 1 if tokens[i] == tokens[i - period] else 0
            if run >= period:
                longest = max(longest, run + period)
    return longest


def longest_repeat(tokens: Tokens) -> int:
    """Tokens in the longest substring that occurs twice; the two may overlap.

    By bisection: if a substring of length n occurs twice, so do its prefixes.
    """
    low, high = 0, len(tokens)
    while high - low > 1:
        n = (low + high) // 2
        low, high = (n, high) if repetition_rate(tokens, n) > 0 else (low, n)
    return low


def self_bleu(texts: Sequence[Tokens], n: int = 4) -> NDArray[np.float64]:
    """BLEU of each text against all the others; the mean of these is self-BLEU.

        BP · exp(1/n Σ_k ln p_k),  BP = min(1, exp(1 − r/c))

    p_k: the text's k-grams that some other text has, each at most as often as in the one that has
    it most, over all its k-grams; no match counts as 0.1 match, and no matching word gives 0.
    c: its length; r: the length among the others nearest to c, the shorter of two. Texts that
    are all the same give 1 (if they hold n tokens), texts without a common word 0.
    """
    if len(texts) < 2:
        raise ValueError("self-BLEU needs two texts or more")
    logs = np.mean([_log_precisions(texts, k) for k in range(1, n + 1)], axis=0)
    lengths = [len(text) for text in texts]
    penalty = [_brevity(c, lengths[:i] + lengths[i + 1 :]) for i, c in enumerate(lengths)]
    return np.exp(logs) * penalty


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan


def _pooled(texts: Sequence[Tokens], n: int) -> Counter[Gram]:
    return Counter(gram for text in texts for gram in ngrams(text, n))


def _log_precisions(texts: Sequence[Tokens], k: int) -> NDArray[np.float64]:
    """ln p_k of each text. The two largest counts of a k-gram tell the largest of the others."""
    counts = [Counter(ngrams(text, k)) for text in texts]
    most: dict[Gram, tuple[int, int]] = {}  # largest and second largest count over texts
    for own in counts:
        for gram, count in own.items():
            first, second = most.get(gram, (0, 0))
            most[gram] = (count, first) if count > first else (first, max(second, count))
    found = []
    for own in counts:
        matched = 0
        for gram, count in own.items():
            first, second = most[gram]
            matched += min(count, second if count == first else first)
        none = matched == 0 and k == 1
        found.append(-math.inf if none else math.log((matched or UNSEEN) / max(1, own.total())))
    return np.array(found)


def _brevity(c: int, others: Sequence[int]) -> float:
    r = min(others, key=lambda length: (abs(length - c), length))
    return 0.0 if c == 0 else min(1.0, math.exp(1 - r / c))
