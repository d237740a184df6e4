"""What an encoder reads, pairs of texts and masked sentences, and what the parts of it do.

A question and its passage:

    [CLS] question [SEP] passage [SEP] [PAD] [PAD]
    segments  0 0 0 0 1 1 1   0 0        mask  1 1 1 1 1 1 1  0 0

Each pair is read alone, then padded with its mask, padded without it, with all segment ids 0, and
as one text without [SEP] between. The distance is 1 − cosine of the pooled vectors.

The labels of a masked language model:

    text    the  film  is   a    masterpiece        15 % of the tokens are selected; of these
    input   the [MASK] is   a    stone              80 % become [MASK], 10 % another token,
    label    ·   film  ·    ·    masterpiece        10 % stay; · = −100, not scored

The collator of transformers selects; we count. A random token is the token itself once in the
size of the vocabulary.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from attnlab.core.seeds import Seed
from attnlab.core.tokens import IGNORE
from attnlab.lab.trial import Outcome
from attnlab.models.encoder import Encoder, Texts, open_encoder, pool
from attnlab.studies.concepts.study import ConceptsSettings
from attnlab.studies.concepts.texts import gpt2_tokenizer, sample_bytes, text_splits
from attnlab.tasks.corpus import split_sentences
from attnlab.tasks.encoder_inputs import encode_examples
from attnlab.tasks.known_data import boolq
from attnlab.tasks.labelled import Example

SHOWN = 24  # tokens of the pair in the figure
SHOWN_WORDS = 8  # of its passage
SHOWN_MASKED = 14  # tokens of the masked example
PADDING = 16  # tokens added to a pair
SENTENCE_BYTES = 250  # more than most sentences have
MAX_TOKENS = 128  # of a sentence


def read_pairs(s: ConceptsSettings, seed: Seed) -> Outcome:
    """The form of every pair, and how far each change moves its vector."""
    encoder = open_encoder(s.encoder)
    examples = sample_examples(boolq().dev, s.pairs, seed.child("pairs"))
    rows = encode_examples(encoder.tokenizer, examples, s.longest)
    assert rows.token_types is not None
    special = encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id
    forms = [
        is_pair(ids, segments, *special)
        for ids, segments in zip(rows.ids, rows.token_types, strict=True)
    ]
    moved = [distances(encoder, rows.batch([i]), examples[i]) for i in range(len(examples))]
    by_change = {name: np.array([m[name] for m in moved]) for name in moved[0]}
    batch = rows.batch(range(len(examples)))
    return Outcome(
        {
            "form_share": float(np.mean(forms)),
            "pairs": len(examples),
            "rows": batch.ids.shape[0],
            "places": batch.ids.shape[1],
            "padding_share": float(batch.key_padding_mask.float().mean()),
            "cut_rows": rows.truncated_rows,
            "cut_tokens": rows.truncated_tokens,
            **{name: float(np.mean(values)) for name, values in by_change.items()},
            "masked_most": float(by_change["masked"].max()),
        },
        arrays=by_change,
        documents={"pair.json": json.dumps(pair_example(encoder, examples, s.longest))},
    )


def sample_examples(examples: Sequence[Example], count: int, seed: Seed) -> list[Example]:
    """`count` different examples."""
    chosen = seed.numpy_generator().choice(len(examples), size=count, replace=False)
    return [examples[i] for i in chosen]


def is_pair(ids: np.ndarray, segments: np.ndarray, cls: int, sep: int) -> bool:
    """[CLS] a [SEP] b [SEP], segment 0 up to the first [SEP] and 1 after it."""
    ends = np.flatnonzero(ids == sep)
    if ids[0] != cls or len(ends) != 2 or ends[1] != len(ids) - 1:
        return False
    return bool((segments == (np.arange(len(ids)) > ends[0])).all())


@torch.no_grad()
def mean_vectors(
    encoder: Encoder, ids: Tensor, padding_mask: Tensor, segments: Tensor | None = None
) -> Tensor:
    """The mean over tokens of the encoder's last states, one vector per text."""
    options = {} if segments is None else {"token_type_ids": segments}
    states = encoder.library(
        input_ids=ids, attention_mask=(~padding_mask).long(), **options
    ).last_hidden_state
    return pool(states, padding_mask, "mean")


def distances(encoder: Encoder, alone: Texts, example: Example) -> dict[str, float]:
    """1 − cos between the pair as it should be read and each change of it."""
    assert alone.kinds is not None
    pad_id = int(encoder.tokenizer.pad_token_id or 0)
    ids = pad(alone.ids, (0, PADDING), value=pad_id)
    segments = pad(alone.kinds, (0, PADDING), value=0)
    padding_mask = pad(alone.key_padding_mask, (0, PADDING), value=True)
    joined = Example(" ".join(example.texts), None, 0)
    one = encode_examples(encoder.tokenizer, [joined], alone.ids.shape[1]).batch([0])
    changed = {
        "masked": (ids, padding_mask, segments),
        "unmasked": (ids, torch.zeros_like(padding_mask), segments),
        "no_segments": (alone.ids, alone.key_padding_mask, torch.zeros_like(alone.kinds)),
        "one_text": (one.ids, one.key_padding_mask, one.kinds),
    }
    right = mean_vectors(encoder, alone.ids, alone.key_padding_mask, alone.kinds)
    return {
        name: _cosine_distance(right[0].double(), mean_vectors(encoder, *inputs)[0].double())
        for name, inputs in changed.items()
    }


def _cosine_distance(a: Tensor, b: Tensor) -> float:
    """½ |a/‖a‖ − b/‖b‖|² = 1 − cos, without the loss of digits near 1."""
    gap = a / a.norm() - b / b.norm()
    return float(gap.dot(gap) / 2)


def pair_example(encoder: Encoder, examples: Sequence[Example], longest: int) -> dict[str, Any]:
    """The shortest question with the start of its passage, token by token, also for RoBERTa."""
    short = min(examples, key=lambda e: len(e.text))
    words = (short.second or "").split()
    example = Example(short.text, " ".join(words[:SHOWN_WORDS]), 0)
    row = encode_examples(encoder.tokenizer, [example], longest).batch([0], width=SHOWN)
    assert row.kinds is not None
    tokens = encoder.tokenizer.convert_ids_to_tokens(row.ids[0].tolist())
    return {
        "texts": list(example.texts),
        "tokens": tokens[:SHOWN],
        "ids": row.ids[0].tolist()[:SHOWN],
        "segments": row.kinds[0].tolist()[:SHOWN],
        "mask": (~row.key_padding_mask[0]).long().tolist()[:SHOWN],
        "roberta": roberta_tokens(*example.texts),
    }


def roberta_tokens(one: str, other: str) -> list[str]:
    """<s> a </s> </s> b </s>, by the library's own processor with GPT-2's merges."""
    from tokenizers import processors

    start, end = "<s>", "</s>"
    tokenizer = gpt2_tokenizer()
    tokenizer.add_special_tokens([start, end])
    tokenizer.post_processor = processors.RobertaProcessing(
        (end, tokenizer.token_to_id(end)), (start, tokenizer.token_to_id(start))
    )
    return tokenizer.encode(one, other).tokens


def mask_sentences(s: ConceptsSettings, seed: Seed) -> Outcome:
    """Sentences of the news as the collator gives them to a model."""
    tokenizer = open_encoder(s.encoder).tokenizer
    news = text_splits("news").train
    articles = sample_bytes(news, SENTENCE_BYTES * s.masked, seed.child("texts"))
    texts = [text for article in articles for text in split_sentences(article)][: s.masked]
    ids = tokenizer(texts, truncation=True, max_length=MAX_TOKENS)["input_ids"]
    inputs, labels = mask_tokens(tokenizer, ids, seed.child("masks").number % 2**31)
    before = tokenizer.pad({"input_ids": ids}, return_tensors="pt")["input_ids"]
    example = masking_example(tokenizer, before, inputs, labels)
    return Outcome(
        count_masked(before, inputs, labels, tokenizer),
        documents={"masked.json": json.dumps(example)},
    )


def mask_tokens(tokenizer: Any, ids: list[list[int]], seed: int) -> tuple[Tensor, Tensor]:
    """Inputs and labels of the library's collator, padded; a pure function of the seed."""
    from transformers import DataCollatorForLanguageModeling

    collate = DataCollatorForLanguageModeling(tokenizer, mlm=True, mlm_probability=0.15, seed=seed)
    batch = collate([{"input_ids": row} for row in ids])
    return batch["input_ids"], batch["labels"]


def masked_outcomes(
    tokenizer: Any, before: Tensor, inputs: Tensor, labels: Tensor
) -> dict[str, Tensor]:
    """What became of the selected tokens: True where it is [MASK], another token, or the same."""
    chosen = labels != IGNORE
    mask, kept = chosen & (inputs == tokenizer.mask_token_id), chosen & (inputs == before)
    return {"mask": mask, "random": chosen & ~mask & ~kept, "kept": kept}


def count_masked(before: Tensor, inputs: Tensor, labels: Tensor, tokenizer: Any) -> dict[str, int]:
    """Tokens that may be selected, that were, and what became of these; selected markers.

    A token that is not scored must be unchanged.
    """
    special = torch.isin(before, torch.tensor(tokenizer.all_special_ids))
    chosen = labels != IGNORE
    assert torch.equal(before[~chosen], inputs[~chosen]), "a token without a label changed"
    assert torch.equal(before[chosen], labels[chosen]), "a label is not the original token"
    counted = {
        "words": ~special,
        "chosen": chosen,
        **masked_outcomes(tokenizer, before, inputs, labels),
        "markers": chosen & special,
    }
    return {name: int(where.sum()) for name, where in counted.items()}


def masking_example(
    tokenizer: Any, before: Tensor, inputs: Tensor, labels: Tensor
) -> dict[str, list[str]]:
    """The first stretch of SHOWN_MASKED tokens with as many of the three outcomes as any has."""
    outcomes = torch.stack(list(masked_outcomes(tokenizer, before, inputs, labels).values()))
    kinds = {
        (row, start): int(outcomes[:, row, start : start + SHOWN_MASKED].any(dim=1).sum())
        for row in range(len(before))
        for start in range(0, before.shape[1] - SHOWN_MASKED, SHOWN_MASKED // 2)
    }
    row, start = max(kinds, key=kinds.__getitem__, default=(0, 0))
    shown = (row, slice(start, start + SHOWN_MASKED))
    name = tokenizer.convert_ids_to_tokens
    return {
        "text": name(before[shown].tolist()),
        "input": name(inputs[shown].tolist()),
        "label": [name(i) if i != IGNORE else "·" for i in labels[shown].tolist()],
    }
