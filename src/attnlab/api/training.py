"""Train a small GPT on a text; fine-tune a classifier on labelled texts, and classify with it."""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from attnlab.api.progress import ProgressChoice
from attnlab.api.running import Run, plan, run
from attnlab.core.devices import resolve_device
from attnlab.core.errors import AttnlabError, IntegrityError, UsageError
from attnlab.lab.engine.pool import default_workers
from attnlab.lab.manifest import CHECKPOINTS
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.run_spec import STUDY
from attnlab.lab.runs import find_run
from attnlab.lab.stop import stop_on_signals
from attnlab.lab.table import Row
from attnlab.lab.trial import TrialContext, TrialStopped

LIMITS = ("trial_seconds", "trial_memory_gb")  # of workers; a training runs in this process


def train(  # noqa: PLR0913  (each is one choice of a training)
    text: str | Path,
    *,
    size: str = "nano",
    tokenizer: str = "char",
    position: str = "learned",
    steps: int = 2000,
    seed: int = 0,
    prompt: str = "",
    threads: int | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str = "auto",
    out: str | Path = "runs",
    progress: ProgressChoice = None,
) -> Run:
    """Train a GPT of a size (nano, micro, mini) on a text file, a folder of .txt, or an asset.

    Called again, a stopped training continues from its checkpoint and a finished one is returned
    at once. `settings` are any others of `attnlab show train`. The run's folder is a
    TARGET for `attnlab.load`, `generate`, `attend` and `check`.
    """
    planned = plan_training(
        settings or {},
        text=str(text),
        size=size,
        tokenizer=tokenizer,
        position=position,
        steps=steps,
        prompt=prompt,
        threads=threads,
        device=device,
        seed=seed,
    )
    return run(planned, out=out, engine="inline", progress=progress)


def plan_training(more: Mapping[str, Any], *, sharded: bool = False, **options: Any) -> Plan:
    """Plan one training with the options of `train`; `more` are settings it has no option for."""
    if not options["text"].strip():
        raise UsageError("--text is empty: name a file, a folder of .txt files, or shakespeare")
    chosen = _settings_of(options, more)
    for key in more.keys() & set(LIMITS):
        raise UsageError(f"--set {key}: `attnlab train` has no such limit; leave it out")
    if sharded and more.get("compile"):
        raise UsageError("--sharded does not work with compile: leave out one of the two")
    on_this_machine = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    threads = chosen["threads"] or max(1, default_workers("cpu") // on_this_machine)
    defaults = {"checkpoint_every": max(1, chosen["steps"] // 40)}
    return plan("train", "quick", {**defaults, **more, **chosen, "threads": threads})


def train_distributed(
    planned: Plan, out: Path, sharded: bool, progress: ProgressChoice = None
) -> Run | None:
    """One training on the processes that torchrun, or `--processes`, has started.

    The first process stores the run and returns it; the others compute with it and return None.
    """
    from attnlab.training.ranks import join_process_group

    settings: Any = planned.study.settings
    with join_process_group(settings.device, sharded) as group:
        if group.is_main:
            return run(planned, out=out, engine="inline", progress=progress)
        _follow(planned, out)
        return None


def _follow(plan: Plan, out: Path) -> None:
    """Run the same trials as the first process, from its checkpoints, and store nothing."""
    study, folder = plan.study, out / plan.name
    finished = Record.open(folder).finished_ids() if (folder / STUDY).exists() else set[str]()
    with stop_on_signals() as stop:
        for trial in plan.trials:
            if trial.id in finished:
                continue
            context = TrialContext(
                device=study.settings.device,
                checkpoints=folder / CHECKPOINTS / trial.id,
                stopping=lambda: bool(stop.signal_number),
            )
            try:
                study.run(trial, context)
            except TrialStopped:
                break
            except AttnlabError:
                raise
            except Exception:  # the first process gets the same error and records it
                continue
        stop.raise_if_asked("the first process stores a checkpoint")


def training_summary(done: Run) -> dict[str, Any]:
    """The document of `attnlab train --json`, for the first seed."""
    row = done.table.rows[0]
    names = ("train_perplexity", "dev_perplexity", "parameters")
    return {
        "run": done.record.name,
        **{name: row[name] for name in names},
        "tokens_per_second": row.cost.get("tokens_per_second"),
        "baselines": {n: row[f"{n}_perplexity"] for n in ("unigram", "bigram", "trigram")},
        "vocabulary": row["vocabulary"],
        "sample": row.samples[0] if row.samples else "",
        "path": str(done.path),
    }


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
    progress: ProgressChoice = None,
) -> Run:
    """Fine-tune an encoder on labelled texts: a .csv, .tsv or .jsonl file, a folder, or an asset.

    `text`, `second` and `label` name columns; `method` is full, head, prefix, prefix-layers or
    lora. `attnlab predict RUN` classifies new texts.
    """
    planned = plan_finetuning(
        settings or {},
        data=str(data),
        text=text,
        label=label,
        second=second,
        method=method,
        model=model,
        epochs=epochs,
        threads=threads,
        device=device,
        seed=seed,
    )
    return run(planned, out=out, engine="inline", progress=progress)


def plan_finetuning(more: Mapping[str, Any], **options: Any) -> Plan:
    """Plan one fine-tuning with the options of `finetune`; `more` are any other settings."""
    chosen = _settings_of(options, more)
    threads, model = chosen["threads"] or default_workers("cpu"), chosen["model"]
    if Path(model).is_dir():  # by its whole path, so that `predict` finds it from anywhere
        model = str(Path(model).resolve())
    return plan("finetune", "quick", {**more, **chosen, "threads": threads, "model": model})


def _settings_of(options: dict[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """The options as settings, of which the seed is the first seed; none may be in `more` too."""
    option_of = {**{name: name for name in options}, "first_seed": "seed"}
    for key in more.keys() & option_of.keys():
        raise UsageError(f"--set {key}: use the option --{option_of[key]} instead")
    seed = options.pop("seed")
    return {**options, "first_seed": seed}


def finetune_document(done: Run) -> dict[str, Any]:
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


def _row(run: str, out: Path) -> tuple[Record, Row]:
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
