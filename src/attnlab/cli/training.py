"""attnlab train, finetune and predict: models trained on your own texts."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    QuietOption,
    RunArgument,
    note,
    say,
    say_json,
    say_table,
    set_option,
)

if TYPE_CHECKING:
    from attnlab.api.running import Run
    from attnlab.lab.plan import Plan

SHOWN = 60  # characters of a text


def train(  # noqa: PLR0913  (each is one documented option)
    text: Annotated[str, typer.Option(help="A UTF-8 file, a folder of .txt files, or an asset.")],
    size: Annotated[str, typer.Option(help="Model size: nano, micro or mini.")] = "nano",
    tokenizer: Annotated[str, typer.Option(help="Tokens: char, word or bpe.")] = "char",
    position: Annotated[
        str, typer.Option(help="Positions: learned, sinusoidal, rotary, alibi or none.")
    ] = "learned",
    steps: Annotated[int, typer.Option(help="Training steps.")] = 2000,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of weights, data order and sample.")
    ] = 0,
    prompt: Annotated[str, typer.Option(help="Start of the sample printed at the end.")] = "",
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads per process; default: cores / processes.")
    ] = None,
    processes: Annotated[
        int,
        typer.Option(
            min=1,
            max=1024,
            help="Split each batch over this many processes; one that dies is restarted.",
        ),
    ] = 1,
    sharded: Annotated[
        bool, typer.Option("--sharded", help="Shard the model over the processes (FSDP).")
    ] = False,
    set_: Annotated[
        list[str] | None, set_option("`attnlab show train` lists all settings.")
    ] = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Train a small GPT on your own text.

    The run is then a TARGET for generate, attend, audit and the other commands. After a stop or a
    crash, the same command continues from the last checkpoint.
    """
    from attnlab.api.training import plan_training, train_distributed, training_summary
    from attnlab.core.config import parse_assignments
    from attnlab.core.errors import UsageError
    from attnlab.lab.supervise import SUPERVISOR, end_with_supervisor, supervise

    if sharded and processes == 1 and int(os.environ.get("WORLD_SIZE", "1")) == 1:
        raise UsageError("--sharded needs several processes: add --processes N, or use torchrun")
    if processes > 1 and SUPERVISOR not in os.environ:
        if "RANK" in os.environ:
            raise UsageError(
                "--processes: leave it out, torchrun has already started the processes"
            )
        command = [sys.executable, "-m", "attnlab", *sys.argv[1:]]
        raise typer.Exit(supervise(command, processes, lambda text: None if quiet else note(text)))
    end_with_supervisor()
    planned = plan_training(
        parse_assignments(set_),
        sharded=sharded,
        text=text,
        size=size,
        tokenizer=tokenizer,
        position=position,
        steps=steps,
        prompt=prompt,
        threads=threads,
        device=device,
        seed=seed,
    )
    progress = _announce(planned, quiet, f"{steps:,} steps")
    done = train_distributed(planned, out, sharded, progress)
    if done is None:  # not the first process of several
        return
    _require_model(done, progress, "dev_perplexity")
    summary = training_summary(done)
    if json:
        say_json(summary)
    else:
        _say_training(summary, done.table.rows[0])


def _say_training(summary: dict[str, Any], row: Any) -> None:
    best = f"{row['best_step']:,}"
    say_table(
        ["quantity", "value"],
        [
            ["train perplexity", f"{summary['train_perplexity']:.3f}"],
            ["dev perplexity", f"{summary['dev_perplexity']:.3f} (best, at step {best})"],
            *[[f"  {name}, dev", f"{value:.3f}"] for name, value in summary["baselines"].items()],
            ["vocabulary", f"{summary['vocabulary']:,}"],
            ["parameters", f"{summary['parameters']:,}"],
            ["tokens/s", f"{summary['tokens_per_second'] or float('nan'):,.0f}"],
        ],
    )
    say(f"\n{summary['sample']}\n")
    say(str(Path(summary["path"])))


def finetune(  # noqa: PLR0913  (each is one documented option)
    data: Annotated[
        str,
        typer.Option(
            help="A .csv, .tsv or .jsonl file, a folder with one file per split, or one of "
            "sentiment, boolq and snli."
        ),
    ],
    text: Annotated[str, typer.Option(help="Name of the text column.")] = "text",
    label: Annotated[str, typer.Option(help="Name of the label column.")] = "label",
    second: Annotated[
        str, typer.Option(help="Name of the column of the second text, for pairs.")
    ] = "",
    method: Annotated[
        str, typer.Option(help="What to train: full, head, prefix, prefix-layers or lora.")
    ] = "full",
    model: Annotated[
        str, typer.Option(help="An asset, a Hugging Face folder or a hub name.")
    ] = "minilm-l6",
    epochs: Annotated[float, typer.Option(help="Passes over the training data.")] = 3.0,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the new weights and the data order.")
    ] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="CPU threads; default: one per core.")
    ] = None,
    set_: Annotated[
        list[str] | None, set_option("`attnlab show finetune` lists all settings.")
    ] = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Fine-tune an encoder on your own labelled texts.

    `attnlab predict RUN` then classifies new texts. After a stop or a crash, the same command
    continues from the last checkpoint.
    """
    from attnlab.api.running import run
    from attnlab.api.training import finetune_document, plan_finetuning
    from attnlab.core.config import parse_assignments

    planned = plan_finetuning(
        parse_assignments(set_),
        data=data,
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
    progress = _announce(planned, quiet, f"{method} on {model}")
    done = run(planned, out=out, engine="inline", progress=progress)
    _require_model(done, progress, "accuracy")
    document = finetune_document(done)
    if json:
        say_json(document)
    else:
        _say_finetuning(document, done)


def _say_finetuning(summary: dict[str, Any], done: Any) -> None:
    """Print the answer, which names a collapse first, then the quantities and failed audits."""
    say(done.results["answer"])
    low, high = summary["interval"]
    counts, row = summary["parameters"], done.table.rows[0]
    say_table(
        ["quantity", "value"],
        [
            ["test accuracy", f"{summary['accuracy']:.4f} [{low:.4f}, {high:.4f}]"],
            ["  always the most frequent label", f"{summary['majority']:.4f}"],
            ["test rows", f"{summary['tested']:,}"],
            ["dev accuracy", f"{row['dev_accuracy']:.4f} (best, at step {row['best_step']:,})"],
            ["trained parameters", f"{counts['trained']:,}"],
            ["  stored in the run", f"{counts['stored']:,}"],
            ["  in the classifier head", f"{counts['head']:,}"],
            ["training texts", str(row["cut"])],
        ],
    )
    for audit in done.results["audits"]:
        if audit["verdict"] == "fail":
            say(f"✗ {audit['name']}: {audit['why']}")
    say(summary["path"])


def predict(
    run: RunArgument,
    text: Annotated[
        list[str], typer.Option(metavar="TEXT", help="A text to classify; can be repeated.")
    ],
    second: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="The second text of a pair, one for each --text."),
    ] = None,
    device: DeviceOption = "cpu",
    out: OutOption = RUNS,
    json: JsonOption = False,
) -> None:
    """Classify texts with a fine-tuned model.

    RUN comes from `attnlab finetune`. Prints each text's most probable label and its probability.
    """
    from attnlab.api.training import predict

    document = predict(run, text, out, device, second or [])
    if json:
        say_json(document)
        return
    rows = [
        [p["label"], f"{p['probabilities'][p['label']]:.3f}", " ".join(p["text"].split())[:SHOWN]]
        for p in document["predictions"]
    ]
    say_table(["label", "probability", "text"], rows)


def _announce(planned: "Plan", quiet: bool, what: str) -> Any:
    """Say what will be trained, and give what shows its steps; neither when quiet."""
    from attnlab.api.progress import resolve_progress

    if not quiet:
        note(f"run {planned.name}: {what} on {planned.study.settings.device}")
    return resolve_progress(not quiet, planned.trials)


def _require_model(done: "Run", progress: Any, metric: str) -> None:
    """Exit with 1 and the reason if there is no model; say so if nothing had to be run."""
    if progress and not progress.started:
        note("this training is already stored: nothing was run again")
    for row in done.table:
        if row.state != "done":
            why = row.reasons.get(metric) or (row.error.strip().splitlines() or [""])[-1]
            note(f"{row.state}: {why}")
            raise typer.Exit(1)
