"""Fine-tune a classifier on labelled texts and classify new texts with it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.core.devices import resolve_device
from attnlab.core.errors import IntegrityError, UsageError

if TYPE_CHECKING:
    from attnlab.api.progress import ProgressChoice
    from attnlab.api.running import Run
    from attnlab.lab.plan import Plan
    from attnlab.lab.record import Record
    from attnlab.lab.table import Row


def finetune(  # noqa: PLR0913  (each is one choice of a training)
    data: str | Path,
    *,
    text: str = "text",
    label: str = "label",
    second: str = "",
    method: str = "full",
    model: str = "minilm-l6",
    epochs: float = 3.0,
    seed: int = 0,
    threads: int | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    out: str | Path = "runs",
    progress: "ProgressChoice" = None,
) -> "Run":
    """Fine-tune an encoder on labelled texts: a .csv, .tsv or .jsonl file, a folder, or an asset.

    `text`, `second` and `label` name columns; `method` is full, head, prefix, prefix-layers or
    lora. `attnlab predict RUN` classifies new texts.
    """
    from attnlab.api.running import run

    chosen = {
        "data": str(data),
        "text": text,
        "label": label,
        "second": second,
        "method": method,
        "model": model,
        "epochs": epochs,
        "threads": threads,
        "device": device,
        "first_seed": seed,
    }
    planned = plan_finetuning(chosen, settings or {})
    return run(planned, out=out, engine="inline", progress=progress)


def plan_finetuning(chosen: Mapping[str, Any], more: Mapping[str, Any]) -> "Plan":
    """Plan one fine-tuning; `more` holds settings that `finetune` has no parameter for."""
    from attnlab.api.running import plan
    from attnlab.lab.engine.pool import default_workers

    for key in more.keys() & (chosen.keys() - {"first_seed"}):
        raise UsageError(f"--set {key}: use the option --{key} instead")
    threads, model = chosen["threads"] or default_workers("cpu"), chosen["model"]
    if Path(model).is_dir():  # by its whole path, so that `predict` finds it from anywhere
        model = str(Path(model).resolve())
    return plan("finetune", "quick", {**more, **chosen, "threads": threads, "model": model})


def finetune_document(done: "Run") -> dict[str, Any]:
    """The document of `attnlab finetune --json`, for the first seed; `collapse` is None if none."""
    row = next(iter(done.table.done()))
    collapse = row.failure("collapse")
    return {
        "run": done.record.name,
        "accuracy": row["accuracy"],
        "interval": [row["accuracy_low"], row["accuracy_high"]],
        "majority": row["majority"],
        "parameters": {name: row[name] for name in ("trained", "stored", "head")},
        "collapse": collapse.why if collapse else None,
        "tested": row["tested"],
        "path": str(done.path),
    }


def predict(
    run: str, texts: Sequence[str], out: Path, device: str = "cpu", seconds: Sequence[str] = ()
) -> dict[str, Any]:
    """The class and the probabilities of each text, by the classifier a run holds."""
    record, row = _row(run, out)  # refuses a wrong name before torch, which loads slowly
    document = json.loads(row.documents["tuned.json"])
    if not {"labels", "longest"} <= document.keys():
        raise IntegrityError("tuned.json does not describe a fine-tuned model: the run is damaged")
    pairs = _pairs(texts, seconds, bool(document.get("pair")))
    import torch

    from attnlab.models.encoder import open_encoder
    from attnlab.tasks.encoder_inputs import encode_examples
    from attnlab.tasks.labelled import Example
    from attnlab.training.classify import predict
    from attnlab.training.tune import rebuild_classifier

    encoder = open_encoder(str(record.spec.settings["model"]))
    model = rebuild_classifier(document, row.tensors("tuned."), encoder).to(resolve_device(device))
    rows = encode_examples(
        encoder.tokenizer, [Example(a, b, 0) for a, b in pairs], document["longest"]
    )
    predictions = predict(model, rows.batches_by_length(32))
    shares = torch.from_numpy(predictions.logits).double().softmax(dim=1).tolist()
    labels = document["labels"]
    answers = [
        {
            "text": a,
            **({"second": b} if b is not None else {}),
            "label": labels[best],
            "probabilities": dict(zip(labels, share, strict=True)),
            "cut_tokens": int(rows.lost_tokens[i]),
        }
        for i, ((a, b), best, share) in enumerate(
            zip(pairs, predictions.classes, shares, strict=True)
        )
    ]
    return {"run": record.name, "predictions": answers}


def _row(run: str, out: Path) -> "tuple[Record, Row]":
    from attnlab.lab.record import Record
    from attnlab.lab.runs import find_run

    name, _, trial = run.partition("@")
    record = Record.open(find_run(name, out))
    rows = [row for row in record.table().done() if row.documents.get("tuned.json")]
    rows = [row for row in rows if row.id.startswith(trial)]
    if not rows:
        what = f"trial {trial!r} with a classifier" if trial else "fine-tuned classifier"
        raise UsageError(f"run {record.name} has no {what}; `attnlab finetune` trains one")
    return record, rows[0]


def _pairs(
    texts: Sequence[str], seconds: Sequence[str], pair: bool
) -> list[tuple[str, str | None]]:
    if not texts or not all(text.strip() for text in texts):
        raise UsageError("--text: an empty text cannot be classified")
    if pair and len(seconds) != len(texts):
        raise UsageError("this classifier reads pairs of texts: give one --second for every --text")
    if seconds and not pair:
        raise UsageError("this classifier reads single texts, not pairs: leave out --second")
    return list(zip(texts, seconds if pair else [None] * len(texts), strict=True))
