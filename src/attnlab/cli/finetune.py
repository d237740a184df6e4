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
    note,
    say,
    say_json,
    say_table,
)

OWN_OPTIONS = {
    "data": "--data",
    "text": "--text",
    "second": "--second",
    "label": "--label",
    "method": "--method",
    "model": "--model",
    "epochs": "--epochs",
    "threads": "--threads",
    "device": "--device",
}


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
    epochs: Annotated[float, typer.Option(help="Times every row is met.")] = 3.0,
    seed: Annotated[int, typer.Option(min=0, help="Of head, adapter and order.")] = 0,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: cores.")] = None,
    set_: SetOption = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no remarks.")] = False,
) -> None:
    """Fine-tune an encoder on labelled texts; stopped, the same command goes on from there."""
    from attnlab.api import plan, run
    from attnlab.api.finetuning import finetune_document
    from attnlab.cli.progress import progress_for
    from attnlab.cli.settings import assigned
    from attnlab.core.errors import UsageError
    from attnlab.lab.engine.local import default_workers

    settings = assigned(set_)
    for key in settings.keys() & OWN_OPTIONS.keys():
        raise UsageError(f"--set {key}: it has its own option, {OWN_OPTIONS[key]}")
    settings |= {
        "data": data,
        "text": text,
        "label": label,
        "second": second,
        "method": method,
        "model": _place(model),
        "epochs": epochs,
        "threads": threads or default_workers("cpu"),
        "device": device,
        "first_seed": seed,
    }
    planned = plan("finetune", "quick", settings)
    if not quiet:
        note(f"run {planned.name}: {method} on {model}, {planned.study.settings.device}")
    progress = progress_for(planned.trials, quiet)
    done = run(planned, out=out, engine="inline", progress=progress)
    if progress and not progress.started:
        note("this training is stored already: nothing was run again")
    for row in done.table:
        if row.state != "done":
            why = row.reasons.get("accuracy") or (row.error.strip().splitlines() or [""])[-1]
            note(f"{row.state}: {why}")
            raise typer.Exit(1)
    found = finetune_document(done)
    if json:
        say_json(found)
    else:
        _show(found, done)


def _place(model: str) -> str:
    """A folder by its whole path, so that `predict` finds it from anywhere."""
    return str(Path(model).resolve()) if Path(model).is_dir() else model


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
