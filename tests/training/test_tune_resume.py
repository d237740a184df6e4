"""A fine-tuning that is stopped and resumed ends with the weights of an uninterrupted one."""

from pathlib import Path

import pytest
import torch

from attnlab.core.seeds import Seed
from attnlab.models.encoder import open_encoder
from attnlab.tasks.encoder_inputs import ShuffledBatches, encode_examples
from attnlab.tasks.labelled import Example
from attnlab.training.classify import fit
from attnlab.training.result import Hooks
from attnlab.training.settings import TrainSettings
from attnlab.training.tensors import model_tensors
from attnlab.training.tune import Method, TuneSettings, build_classifier
from tests.models.tiny_encoder import bert_folder


@pytest.mark.parametrize("method", ["lora", "full"])
def test_stopped_and_resumed(tmp_path: Path, method: Method) -> None:
    encoder = open_encoder(bert_folder(tmp_path / "bert"))
    rows = encode_examples(
        encoder.tokenizer,
        [Example(f"w{i} good w3 " * (1 + i % 3), None, i % 2) for i in range(23)],
        21,
    )
    settings = TrainSettings(steps=11, batch=5, learning_rate=0.01, evaluate_every=3)
    tune = TuneSettings(method=method, prefix_length=5, rank=3)
    ends, logs = [], []
    model, done = build_classifier(encoder, 2, tune, Seed(1)), None
    for stops in ((), (4, 7)):
        folder = tmp_path / f"{len(stops)}"
        for at in (*stops, 99):
            model = build_classifier(encoder, 2, tune, Seed(1))
            seen = iter(range(100))
            done = fit(
                model,
                ShuffledBatches(rows, 5, Seed(2)),
                settings,
                dev=lambda: rows.batches_by_length(7),
                checkpoints=folder,
                hooks=Hooks(stop=lambda at=at, seen=seen: next(seen) >= at),
                on_predictions=lambda p: {"top_share": float((p.classes == 0).mean())},
            )
        assert done is not None and done.ending == "done"
        ends.append({n: t.detach().clone() for n, t in model_tensors(model).items()})
        logs.append(done.log)
    assert logs[0] == logs[1] and "top_share" in logs[0][2]
    assert all(torch.equal(ends[0][name], ends[1][name]) for name in ends[0])
    stored = next((tmp_path / "0").glob("step-*/model.safetensors")).stat().st_size
    whole = sum(p.numel() for p in encoder.library.parameters()) * 4
    assert (stored < whole) == (method != "full")  # the base is not written with an adapter
