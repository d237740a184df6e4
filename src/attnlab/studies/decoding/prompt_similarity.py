"""How similar a text is to its own prompt, judged without the model that wrote it.

    margin   cosine(text, its prompt) − mean cosine(text, other prompts)     0 for a shuffled prompt
    rank     share of the other prompts that are less similar (ties: half)   ½ for a shuffled prompt

Cosines of word counts weighted by tf-idf, and of the mean vectors of an encoder. A text that only
repeats its prompt is similar to it: similarity is no merit by itself.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnlab.measure.words import words
from attnlab.studies.decoding.data import Prompts

Cosines = NDArray[np.float64]  # text × prompt
Texts = Sequence[str]
BATCH = 64
LONGEST = 256  # tokens that encoders of this kind were trained to read


def prompt_similarity(texts: Texts, data: Prompts, judge: str, device: str) -> dict[str, NDArray]:
    """`margin_words` and `rank_words` of every text, and the same of the judge where there is one.

    `texts` follow the last prompts of `data`; the values of prompts without a text are NaN.
    """
    ways: dict[str, Callable[[Texts, Texts], Cosines]] = {"words": by_words}
    if judge != "none":
        ways["judge"] = lambda one, other: by_encoder(one, other, judge, device)
    missing = len(data.prompts) - len(texts)
    arrays: dict[str, NDArray] = {}
    for name, cosines_of in ways.items():
        margin, rank = np.full((2, len(data.prompts)), np.nan)
        for group in data.groups:
            if group.start >= missing:
                members = [texts[i - missing] for i in group]
                cosines = cosines_of(members, [data.texts[i] for i in group])
                margin[list(group)], rank[list(group)] = against_others(cosines)
        arrays |= {f"margin_{name}": margin, f"rank_{name}": rank}
    return arrays


def against_others(cosines: Cosines) -> tuple[NDArray, NDArray]:
    """Margin and rank of every text; the diagonal belongs to its own prompt."""
    count = len(cosines)
    to_own = np.diagonal(cosines)[:, None]
    margin = (to_own[:, 0] * count - cosines.sum(axis=1)) / (count - 1)
    below = (cosines < to_own).sum(axis=1) + 0.5 * ((cosines == to_own).sum(axis=1) - 1)
    return margin, below / (count - 1)


def by_words(texts: Texts, prompts: Texts) -> Cosines:
    """Cosine of word counts, each times ln((1 + N) / (1 + prompts that have it)) + 1."""
    counted = [Counter(words(prompt)) for prompt in prompts]
    having = Counter(word for prompt in counted for word in prompt)

    def weighted(counts: Counter[str]) -> dict[str, float]:
        weights = {
            word: n * (math.log((1 + len(prompts)) / (1 + having[word])) + 1)
            for word, n in counts.items()
        }
        size = math.sqrt(sum(v * v for v in weights.values()))
        return {word: v / size for word, v in weights.items()}

    one = [weighted(Counter(words(text))) for text in texts]
    other = [weighted(counts) for counts in counted]
    return np.array([[sum(v * b.get(w, 0.0) for w, v in a.items()) for b in other] for a in one])


def by_encoder(texts: Texts, prompts: Texts, name: str, device: str) -> Cosines:
    """Cosine of the means of the encoder's last states; 0 for a text without a word."""
    return vectors(texts, name, device) @ vectors(prompts, name, device).T


def vectors(texts: Texts, name: str, device: str) -> NDArray[np.float64]:
    """One unit vector per text; zeros for a text without a word."""
    import torch

    encoder = _encoder(name, device)
    means = []
    for start in range(0, len(texts), BATCH):
        batch = encoder.tokenizer.library(
            list(texts[start : start + BATCH]),
            padding=True,
            truncation=True,
            max_length=LONGEST,
            return_tensors="pt",
        ).to(device)
        with torch.no_grad():
            states = encoder.library(**batch).last_hidden_state
        visible = batch["attention_mask"][..., None]
        mean = (states * visible).sum(dim=1) / visible.sum(dim=1)
        means.append(torch.nn.functional.normalize(mean, dim=1).double().cpu().numpy())
    some = np.array([bool(words(text)) for text in texts])
    return np.concatenate(means) * some[:, None]


@lru_cache(maxsize=1)
def _encoder(name: str, device: str) -> Any:
    from attnlab import assets
    from attnlab.models.hub import load

    return load(assets.get(name).path, device=device, own_head=True)
