"""A question and its passage as an encoder reads them; what mask and segments are worth.

    [CLS] question [SEP] passage [SEP] [PAD] [PAD]
    segments  0 0 0 0 1 1 1   0 0        mask  1 1 1 1 1 1 1  0 0

Each pair is read alone, then padded with its mask, padded without it, with all segments 0, and as
one text without the marker between. The distance is 1 − cosine of the pooled vectors.
"""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome, Trial
from attnlab.models.encoder import Encoder, Texts, open_encoder, pool
from attnlab.tasks.boolq import boolq
from attnlab.tasks.encoder_inputs import encode_examples
from attnlab.tasks.labelled import Example

SHOWN = 24  # tokens of the pair that is drawn
PADDING = 16  # places added to a pair
ROBERTA = ("<s>", "</s>")


def read_pairs(trial: Trial) -> Outcome:
    """The form of every pair, and how far each change moves its vector."""
    c = trial.config
    encoder = open_encoder(c["encoder"])
    chosen = draw(boolq().dev, c["pairs"], trial.stream.child("pairs"))
    rows = encode_examples(encoder.tokenizer, chosen, c["longest"])
    assert rows.token_types is not None
    special = encoder.tokenizer.cls_token_id, encoder.tokenizer.sep_token_id
    forms = [
        is_pair(ids, kinds, *special) for ids, kinds in zip(rows.ids, rows.token_types, strict=True)
    ]
    moved = [distances(encoder, rows.batch([i]), chosen[i]) for i in range(len(chosen))]
    wide = rows.batch(range(len(chosen)))
    return Outcome(
        {
            "form_share": float(np.mean(forms)),
            "pairs": len(chosen),
            "rows": wide.ids.shape[0],
            "places": wide.ids.shape[1],
            "padding_share": float(wide.key_padding_mask.float().mean()),
            "cut_rows": rows.truncated_rows,
            "cut_tokens": rows.truncated_tokens,
            **{name: float(np.mean([m[name] for m in moved])) for name in moved[0]},
            "masked_most": max(m["masked"] for m in moved),
        },
        arrays={name: np.array([m[name] for m in moved]) for name in moved[0]},
        documents={"pair.json": json.dumps(shown(encoder, chosen, c["longest"]))},
    )


def draw(examples: Sequence[Example], count: int, seed: Seed) -> list[Example]:
    """`count` of them, each once."""
    places = seed.numpy_generator().choice(len(examples), size=count, replace=False)
    return [examples[i] for i in places]


def is_pair(ids: np.ndarray, kinds: np.ndarray, cls: int, sep: int) -> bool:
    """[CLS] a [SEP] b [SEP], segments 0 up to the first [SEP] and 1 after it."""
    ends = np.flatnonzero(ids == sep)
    if ids[0] != cls or len(ends) != 2 or ends[1] != len(ids) - 1:
        return False
    return bool((kinds == (np.arange(len(ids)) > ends[0])).all())


@torch.no_grad()
def distances(encoder: Encoder, alone: Texts, example: Example) -> dict[str, float]:
    """1 − cos between the pair read as it should be and read otherwise."""
    assert alone.kinds is not None
    right = _vector(encoder, alone.ids, alone.key_padding_mask, alone.kinds)
    ids, kinds = (
        torch.nn.functional.pad(t, (0, PADDING), value=v)
        for t, v in ((alone.ids, int(encoder.tokenizer.pad_token_id or 0)), (alone.kinds, 0))
    )
    hidden = torch.nn.functional.pad(alone.key_padding_mask, (0, PADDING), value=True)
    nothing = torch.zeros_like(hidden)
    one = encode_examples(
        encoder.tokenizer, [Example(" ".join(example.texts), None, 0)], alone.ids.shape[1]
    )
    single = one.batch([0])
    assert single.kinds is not None
    read = {
        "masked": _vector(encoder, ids, hidden, kinds),
        "unmasked": _vector(encoder, ids, nothing, kinds),
        "no_segments": _vector(
            encoder, alone.ids, alone.key_padding_mask, torch.zeros_like(alone.kinds)
        ),
        "one_text": _vector(encoder, single.ids, single.key_padding_mask, single.kinds),
    }
    return {name: _distance(right, vector) for name, vector in read.items()}


def _vector(encoder: Encoder, ids: Tensor, hidden: Tensor, kinds: Tensor) -> Tensor:
    states = encoder.library(
        input_ids=ids, attention_mask=(~hidden).long(), token_type_ids=kinds
    ).last_hidden_state
    return pool(states, hidden, "mean")[0].double()


def _distance(a: Tensor, b: Tensor) -> float:
    """½ |a/‖a‖ − b/‖b‖|² = 1 − cos, without the loss of digits near 1."""
    gap = a / a.norm() - b / b.norm()
    return float(gap.dot(gap) / 2)


def shown(encoder: Encoder, chosen: Sequence[Example], longest: int) -> dict[str, Any]:
    """The shortest pair token by token, padded; and the same in RoBERTa's form."""
    short = min(chosen, key=lambda e: len(e.text))
    words = (short.second or "").split()
    small = Example(short.text, " ".join(words[:8]), 0)
    row = encode_examples(encoder.tokenizer, [small], longest).batch([0], width=SHOWN)
    assert row.kinds is not None
    names = encoder.tokenizer.convert_ids_to_tokens(row.ids[0].tolist())
    return {
        "texts": list(small.texts),
        "tokens": names[:SHOWN],
        "ids": row.ids[0].tolist()[:SHOWN],
        "segments": row.kinds[0].tolist()[:SHOWN],
        "mask": (~row.key_padding_mask[0]).long().tolist()[:SHOWN],
        "roberta": roberta_form(*small.texts),
    }


def roberta_form(one: str, other: str) -> list[str]:
    """<s> a </s> </s> b </s>, by the library's own processor over GPT-2's merges."""
    from tokenizers import processors

    from attnlab.studies.concepts.foreign import gpt2_tokenizer

    library = gpt2_tokenizer()
    library.add_special_tokens(list(ROBERTA))
    start, end = ROBERTA
    library.post_processor = processors.RobertaProcessing(
        (end, library.token_to_id(end)), (start, library.token_to_id(start))
    )
    return library.encode(one, other).tokens
