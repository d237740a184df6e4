"""attnlab finetune: an encoder adapted to your labelled texts; `attnlab predict` asks it."""

from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    SetOption,
    say,
    say_json,
    say_table,
)
from attnlab.cli.training import TrainingProgress


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("finetune")(finetune)


def finetune(  # noqa: PLR0913  (each is one documented option)
    data: Annotated[
        str,
        typer.Option(help="A .csv, .tsv, .jsonl, a folder of splits, sentiment, boolq or snli."),
    ],
    text: Annotated[str, typer.Option(help="Column of the text.")] = "text",
    label: Annotated[str, typer.Option(help="Column of the label.")] = "label",
    second: Annotated[str, typer.Option(help="Column of a second text, for pairs.")] = "",
    method: Annotated[str, typer.Option(help="full, head, prefix, prefix-layers or lora.")] = (
        "full"
    ),
    model: Annotated[
        str, typer.Option(help="An asset, a Hugging Face folder, or a hub's name.")
    ] = "minilm-l6",
    epochs: Annotated[float, typer.Option(help="Passes over the training rows.")] = 3.0,
    seed: Annotated[
        int, typer.Option(min=0, help="Random seed of the new weights and of the order of rows.")
    ] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: cores.")] = None,
    set_: SetOption = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no remarks.")] = False,
) -> None:
    """Fine-tune an encoder on labelled texts; stopped, the same command goes on from there."""
    from attnlab.api.finetuning import finetune_document, plan_finetuning
    from attnlab.api.running import run
    from attnlab.cli.settings import assigned

    chosen = {
        "data": data,
        "text": text,
        "label": label,
        "second": second,
        "method": method,
        # a folder by its whole path, so that `predict` finds it from anywhere
        "model": str(Path(model).resolve()) if Path(model).is_dir() else model,
        "epochs": epochs,
        "threads": threads,
        "device": device,
        "first_seed": seed,
    }
    planned = plan_finetuning(chosen, assigned(set_))
    shown = TrainingProgress(planned, quiet, f"{method} on {model}")
    done = run(planned, out=out, engine="inline", progress=shown.progress)
    shown.check(done, "accuracy")
    document = finetune_document(done)
    if json:
        say_json(document)
    else:
        _show(document, done)


def _show(found: dict[str, Any], done: Any) -> None:
    """A collapse in the first line; then accuracy beside what needs no model."""
    say(done.results["answer"])
    low, high = found["interval"]
    counts, row = found["parameters"], done.table.rows[0]
    say_table(
        ["quantity", "value"],
        [
            ["test accuracy", f"{found['accuracy']:.4f} [{low:.4f}, {high:.4f}]"],
            ["  most frequent answer", f"{found['majority']:.4f}"],
            ["test rows", f"{found['tested']:,}"],
            ["dev accuracy", f"{row['dev_accuracy']:.4f} (best of the steps, {row['best_step']})"],
            ["numbers trained", f"{counts['trained']:,}"],
            ["  stored", f"{counts['stored']:,}"],
            ["  of the head", f"{counts['head']:,}"],
            ["training texts", str(row["cut"])],
        ],
    )
    for audit in done.results["audits"]:
        if audit["verdict"] == "fail":
            say(f"✗ {audit['name']}: {audit['why']}")
    say(found["path"])
