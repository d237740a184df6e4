"""The data and the encoder of a trial, loaded once per process; training rows are drawn by seed."""

import json
from dataclasses import replace
from functools import lru_cache

from attnlab.core.config import build, canonical_json
from attnlab.core.seeds import Seed
from attnlab.models.encoder import Encoder, open_encoder
from attnlab.products.finetune.settings import FinetuneSettings, load_data
from attnlab.products.finetune.task import EncodedTask, encode_task, initial_encoder
from attnlab.studies.adapting import tiny
from attnlab.tasks.labelled import LabelledData

MADE_UP = {"made-up": tiny.texts, "made-up pairs": tiny.pairs}
# settings that decide the token ids; trainings that agree on them share the encoded task
OF_IDS = (
    "data",
    "data_sha256",
    "model",
    "model_sha256",
    "rows",
    "scored",
    "longest",
    "method",
    "prefix_length",
)


def load_task(s: FinetuneSettings, seed: Seed, tested: int = 0) -> EncodedTask:
    """The encoded task of one trial; `tested` is the number of test rows, 0 for all.

    Where not all training rows are wanted, they are the first of an order that the seed shuffles:
    a smaller set is part of every larger one of the same seed, and another seed draws other rows.
    Dev and test are the same for all seeds.
    """
    key = canonical_json(s.model_dump(mode="json", include=set(OF_IDS)))
    task = _encode(key, seed.number if s.rows else 0, tested)
    return replace(task, encoder=initial_encoder(s, task.encoder, seed))


@lru_cache(maxsize=2)
def _encode(key: str, seed: int, tested: int) -> EncodedTask:
    s = build(FinetuneSettings, json.loads(key))
    data = _data(s.data)
    train = data.train
    if s.rows:
        order = Seed(seed).child("rows").numpy_generator().permutation(len(train))
        train = tuple(train[int(i)] for i in order[: s.rows])
    return encode_task(s, replace(data.sample(0, s.scored, tested), train=train), _encoder(s.model))


@lru_cache(maxsize=2)
def _data(name: str) -> LabelledData:
    return MADE_UP[name]() if name in MADE_UP else load_data(FinetuneSettings(data=name))


@lru_cache(maxsize=2)
def _encoder(name: str) -> Encoder:
    return tiny.encoder() if name == "tiny" else open_encoder(name)
