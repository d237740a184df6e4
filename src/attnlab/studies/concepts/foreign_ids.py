"""Ids of one tokenizer given to the model of another: there is no error.

    own       text → the model's own tokenizer → ids → perplexity
    foreign   text → another tokenizer → ids, all within the model's vocabulary → perplexity

Only an id beyond the vocabulary raises an error. A GPT-2 that is given segment ids looks them up
in its token embeddings and adds them: segment 1 is the token of id 1.
"""

import math
from typing import Any

import numpy as np
import torch

from attnlab.core.seeds import Seed
from attnlab.lab.trial import Outcome
from attnlab.measure.perplexity import score, token_nll, windows
from attnlab.models.trainable import open_trainable, redraw_weights
from attnlab.studies.concepts.study import ConceptsSettings
from attnlab.studies.concepts.texts import gpt2_tokenizer, sample_bytes, text_splits

CHARACTERS = 6  # more than a token has on average: a piece of so many per token is long enough


def read_foreign_ids(s: ConceptsSettings, seed: Seed) -> Outcome:
    """Perplexity of the same texts in the model's own ids and in GPT-2's."""
    model, other, length = open_trainable(s.reader, "cpu"), gpt2_tokenizer(), s.foreign_tokens
    assert model.tokenizer is not None
    size = CHARACTERS * 2 * s.foreign * length
    texts = sample_bytes(text_splits("news").test, size, seed.child("texts"))
    rows: dict[str, list[list[int]]] = {"own": [], "foreign": []}
    refused = 0
    for piece in (piece for text in texts for piece in _pieces(text, CHARACTERS * length)):
        own, foreign = model.tokenizer.encode(piece)[:length], other.encode(piece).ids[:length]
        if min(len(own), len(foreign)) < length or len(rows["own"]) == s.foreign:
            continue
        if max(foreign) >= model.vocabulary:
            refused += 1
            continue
        rows["own"].append(own)
        rows["foreign"].append(foreign)
    nll = token_nll(model.logits)
    scores = {
        name: score(nll, [next(windows(ids, length - 1)) for ids in encoded])
        for name, encoded in rows.items()
    }
    own, foreign = (scores[name].perplexity.corpus for name in ("own", "foreign"))
    return Outcome(
        {
            "own_perplexity": own,
            "foreign_perplexity": foreign,
            "log_ratio": math.log(foreign / own),
            "log_over_uniform": math.log(foreign / model.vocabulary),
            "texts": len(rows["own"]),
            "refused": refused,
            "vocabulary": model.vocabulary,
            "segment_gap": segments_are_words(seed.child("words").number % 2**31),
        },
        arrays={name: scored.nll / scored.tokens for name, scored in scores.items()},
        samples=[model.tokenizer.decode(rows["foreign"][0])] if rows["foreign"] else [],
    )


def _pieces(text: str, size: int) -> list[str]:
    words = " ".join(text.split())
    return [words[i : i + size] for i in range(0, len(words) - size, size)]


@torch.no_grad()
def segments_are_words(number: int) -> float:
    """Largest relative difference of a GPT-2's states: segment ids given, or their token
    embeddings added to those of the text."""
    from transformers import GPT2Config, GPT2Model

    config = GPT2Config(
        vocab_size=29,
        n_positions=11,
        n_embd=12,
        n_layer=2,
        n_head=3,
        bos_token_id=0,
        eos_token_id=0,
    )
    model: Any = GPT2Model(config).eval()
    redraw_weights(model, Seed(number))
    rng = Seed(number).child("ids").numpy_generator()
    ids = torch.from_numpy(rng.integers(0, 29, size=(2, 7)))
    segments = torch.from_numpy((np.arange(7) > 3).astype(np.int64)).expand(2, 7)
    given = model(input_ids=ids, token_type_ids=segments).last_hidden_state
    added = model(inputs_embeds=model.wte(ids) + model.wte(segments)).last_hidden_state
    plain = model(input_ids=ids).last_hidden_state
    assert not torch.allclose(given, plain), "segment ids had no effect on GPT-2"
    return float((given - added).abs().max() / plain.abs().max())
