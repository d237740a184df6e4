"""What the labels of a masked language model are, counted on real sentences.

    text    the  film  is   a    masterpiece        15 % of the tokens are selected; of these
    input   the [MASK] is   a    stone              80 % become [MASK], 10 % another token,
    label    ·   film  ·    ·    masterpiece        10 % stay; · = −100, not scored

The collator of transformers selects; we count. A random token is the token itself once in the
size of the vocabulary.
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.lab.trial import Outcome
from attnlab.models.encoder import open_encoder
from attnlab.studies.concepts.study import ConceptsSettings
from attnlab.studies.concepts.texts import sample_bytes, text_splits
from attnlab.tasks.corpus import split_sentences

SENTENCE_BYTES = 250  # more than most sentences have
MAX_LENGTH = 128
SHOWN = 14


@dataclass(frozen=True)
class MaskCounts:
    """Tokens that may be selected, that were, and what became of these."""

    words: int
    chosen: int
    mask: int
    random: int
    kept: int
    markers: int  # selected special tokens: there must be none


def mask_sentences(s: ConceptsSettings, seed: Seed) -> Outcome:
    """Sentences of the news as the collator gives them to a model."""
    tokenizer = open_encoder(s.encoder).tokenizer
    news = text_splits("news").train
    articles = sample_bytes(news, SENTENCE_BYTES * s.masked, seed.child("texts"))
    texts = [text for article in articles for text in split_sentences(article)][: s.masked]
    ids = tokenizer(texts, truncation=True, max_length=MAX_LENGTH)["input_ids"]
    inputs, labels = mask_tokens(tokenizer, ids, seed.child("masks").number % 2**31)
    before = tokenizer.pad({"input_ids": ids}, return_tensors="pt")["input_ids"]
    example = masking_example(tokenizer, before, inputs, labels)
    return Outcome(
        asdict(count_masked(before, inputs, labels, tokenizer)),
        documents={"masked.json": json.dumps(example)},
    )


def mask_tokens(tokenizer: Any, ids: list[list[int]], seed: int) -> tuple[Tensor, Tensor]:
    """Inputs and labels of the library's collator, padded; a pure function of the seed."""
    from transformers import DataCollatorForLanguageModeling

    collate = DataCollatorForLanguageModeling(tokenizer, mlm=True, mlm_probability=0.15, seed=seed)
    batch = collate([{"input_ids": row} for row in ids])
    return batch["input_ids"], batch["labels"]


def count_masked(before: Tensor, inputs: Tensor, labels: Tensor, tokenizer: Any) -> MaskCounts:
    """What became of every token; a token that is not scored must be unchanged."""
    special = torch.isin(before, torch.tensor(tokenizer.all_special_ids))
    chosen = labels != IGNORE
    assert torch.equal(before[~chosen], inputs[~chosen]), "a token without a label changed"
    assert torch.equal(before[chosen], labels[chosen]), "a label is not the original token"
    mask = chosen & (inputs == tokenizer.mask_token_id)
    kept = chosen & (inputs == before)
    return MaskCounts(
        words=int((~special).sum()),
        chosen=int(chosen.sum()),
        mask=int(mask.sum()),
        random=int((chosen & ~mask & ~kept).sum()),
        kept=int(kept.sum()),
        markers=int((chosen & special).sum()),
    )


def masking_example(
    tokenizer: Any, before: Tensor, inputs: Tensor, labels: Tensor
) -> dict[str, list[str]]:
    """The first stretch of SHOWN tokens with as many of the three outcomes as any has."""
    chosen = labels != IGNORE
    mask = chosen & (inputs == tokenizer.mask_token_id)
    kept = chosen & (inputs == before)
    outcomes = torch.stack([mask, kept, chosen & ~mask & ~kept])
    best = (-1, 0, 0)
    for row in range(len(before)):
        for start in range(0, before.shape[1] - SHOWN, SHOWN // 2):
            kinds = int(outcomes[:, row, start : start + SHOWN].any(dim=1).sum())
            best = max(best, (kinds, -row, -start))
    row, start = -best[1], -best[2]
    shown = (row, slice(start, start + SHOWN))
    name = tokenizer.convert_ids_to_tokens
    return {
        "text": name(before[shown].tolist()),
        "input": name(inputs[shown].tolist()),
        "label": [name(i) if i != IGNORE else "·" for i in labels[shown].tolist()],
    }
