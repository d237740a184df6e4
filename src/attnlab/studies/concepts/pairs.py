"""A question and its passage as an encoder reads them; what attention mask and segment ids do.

    [CLS] question [SEP] passage [SEP] [PAD] [PAD]
    segments  0 0 0 0 1 1 1   0 0        mask  1 1 1 1 1 1 1  0 0

Each pair is read alone, then padded with its mask, padded without it, with all segment ids 0, and
as one text without [SEP] between. The distance is 1 − cosine of the pooled vectors.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome
from attnlab.models.encoder import Encoder, Texts, open_encoder, pool
from attnlab.studies.concepts.study import ConceptsSettings
from attnlab.studies.concepts.texts import gpt2_tokenizer
from attnlab.tasks.boolq import boolq
from attnlab.tasks.encoder_inputs import encode_examples
from attnlab.tasks.labelled import Example

SHOWN = 24  # tokens of the pair in the figure
SHOWN_WORDS = 8  # of its passage
PADDING = 16  # tokens added to a pair


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
