"""The data and the encoder of a trial, opened once a process; rows to learn from drawn by seed."""

import json
from dataclasses import replace
from functools import lru_cache

from attnlab.core.config import build, canonical_json
from attnlab.core.seeds import Seed
from attnlab.models.encoder import Encoder, open_encoder
from attnlab.products.finetune.settings import FinetuneSettings, labelled
from attnlab.products.finetune.work import Prepared, assembled, begun
from attnlab.studies.adapting import tiny
from attnlab.tasks.labelled import LabelledData

MADE_UP = {"made-up": tiny.texts, "made-up pairs": tiny.pairs}
# what decides which ids a trial reads; trainings that share them share the work
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


def material(s: FinetuneSettings, seed: Seed, tested: int = 0) -> Prepared:
    """Splits in ids. Fewer rows than all are the first of an order that the seed shuffles.

    So a smaller set is part of every larger one of the same seed, and another seed learns from
    other rows: its spread is that of the sample too. dev and test are the same for all.
    """
    own = canonical_json(s.model_dump(mode="json", include=set(OF_IDS)))
    p = _in_ids(own, seed.number if s.rows else 0, tested)
    return replace(p, encoder=begun(s, p.encoder, seed))


@lru_cache(maxsize=2)
def _in_ids(text: str, seed: int, tested: int) -> Prepared:
    s = build(FinetuneSettings, json.loads(text))
    data = _data(s.data)
    train = data.train
    if s.rows:
        order = Seed(seed).child("rows").numpy_generator().permutation(len(train))
        train = tuple(train[int(i)] for i in order[: s.rows])
    few = data.sample(0, s.scored, tested)
    own = LabelledData(data.name, data.labels, train, few.dev, few.test, data.note)
    return assembled(s, own, _encoder(s.model))


@lru_cache(maxsize=2)
def _data(name: str) -> LabelledData:
    return MADE_UP[name]() if name in MADE_UP else labelled(FinetuneSettings(data=name))


@lru_cache(maxsize=2)
def _encoder(name: str) -> Encoder:
    return tiny.encoder() if name == "tiny" else open_encoder(name)
