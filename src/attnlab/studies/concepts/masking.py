"""What the labels of a masked language model are, counted on real sentences.

    text    the  film  is   a    masterpiece          15 % of the words are chosen; of these
    input   the [MASK] is   a    stone                80 % become [MASK], 10 % another word,
    label    ·   film  ·    ·    masterpiece          10 % stay; · = −100, not scored

The collator of transformers chooses; we count. A random word may be the word itself, once in the
vocabulary's size.
"""

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attnlab.core.tokens import IGNORE
from attnlab.lab.trial import Outcome, Trial
from attnlab.models.encoder import open_encoder
from attnlab.studies.concepts.texts import splits, taken
from attnlab.tasks.corpus import split_sentences

BYTES = 250  # of a sentence: more than most have
LONGEST = 128
SHOWN = 14


@dataclass(frozen=True)
class Counted:
    """Words that may be chosen, that were, and what became of these."""

    words: int
    chosen: int
    mask: int
    random: int
    kept: int
    markers: int  # of [CLS] and [SEP], which must never be chosen

    def as_metrics(self) -> dict[str, Any]:
        """By name, with wrong ones."""
        return {**self.__dict__}


def mask_texts(trial: Trial) -> Outcome:
    """Texts of the news as the collator gives them to a model."""
    c = trial.config
    tokenizer = open_encoder(c["encoder"]).tokenizer
    articles = taken(splits("news").train, BYTES * c["masked"], trial.stream.child("texts"))
    texts = [s for article in articles for s in split_sentences(article)][: c["masked"]]
    ids = tokenizer(texts, truncation=True, max_length=LONGEST)["input_ids"]
    inputs, labels = masked(tokenizer, ids, trial.stream.child("masks").number % 2**31)
    before = tokenizer.pad({"input_ids": ids}, return_tensors="pt")["input_ids"]
    found = count(before, inputs, labels, tokenizer)
    return Outcome(
        found.as_metrics(),
        documents={"masked.json": json.dumps(shown(tokenizer, before, inputs, labels))},
    )


def masked(tokenizer: Any, ids: list[list[int]], seed: int) -> tuple[Tensor, Tensor]:
    """(inputs, labels) of the library's collator, padded; a pure function of the seed."""
    from transformers import DataCollatorForLanguageModeling

    collate = DataCollatorForLanguageModeling(tokenizer, mlm=True, mlm_probability=0.15, seed=seed)
    batch = collate([{"input_ids": row} for row in ids])
    return batch["input_ids"], batch["labels"]


def count(before: Tensor, inputs: Tensor, labels: Tensor, tokenizer: Any) -> Counted:
    """What became of every word; a place that is not scored must be as it was."""
    special = torch.isin(before, torch.tensor(tokenizer.all_special_ids))
    chosen = labels != IGNORE
    assert torch.equal(before[~chosen], inputs[~chosen]), "what is not chosen stays"
    assert torch.equal(before[chosen], labels[chosen]), "the label is the word that stood there"
    mask = chosen & (inputs == tokenizer.mask_token_id)
    kept = chosen & (inputs == before)
    return Counted(
        int((~special).sum()),
        int(chosen.sum()),
        int(mask.sum()),
        int((chosen & ~mask & ~kept).sum()),
        int(kept.sum()),
        int((chosen & special).sum()),
    )


def shown(tokenizer: Any, before: Tensor, inputs: Tensor, labels: Tensor) -> dict[str, Any]:
    """A stretch of SHOWN words in which something of each kind happens, if there is one."""
    mask, kept = inputs == tokenizer.mask_token_id, inputs == before
    chosen, best = labels != IGNORE, (-1, 0, 0)
    for row in range(len(before)):
        for start in range(0, before.shape[1] - SHOWN, SHOWN // 2):
            part = (row, slice(start, start + SHOWN))
            here = chosen[part]
            kinds = (
                (here & mask[part]).any(),
                (here & kept[part]).any(),
                (here & ~mask[part] & ~kept[part]).any(),
            )
            best = max(best, (sum(map(bool, kinds)), -row, -start))
    row, start = -best[1], -best[2]
    part = (row, slice(start, start + SHOWN))
    name = tokenizer.convert_ids_to_tokens
    labelled = [name(i) if i != IGNORE else "·" for i in labels[part].tolist()]
    return {
        "text": name(before[part].tolist()),
        "input": name(inputs[part].tolist()),
        "label": labelled,
    }
