"""attnlab finetune: fine-tune an encoder on your own labelled texts."""

from typing import Annotated, Any

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    QuietOption,
    say,
    say_json,
    say_table,
    set_option,
)
from attnlab.cli.training import TrainingProgress


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
    from attnlab.api.finetuning import finetune_document, plan_finetuning
    from attnlab.api.running import run
    from attnlab.cli.settings import parse_settings

    chosen = {
        "data": data,
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
    planned = plan_finetuning(chosen, parse_settings(set_))
    shown = TrainingProgress(planned, quiet, f"{method} on {model}")
    done = run(planned, out=out, engine="inline", progress=shown.progress)
    shown.check(done, "accuracy")
    document = finetune_document(done)
    if json:
        say_json(document)
    else:
        _show(document, done)


def _show(summary: dict[str, Any], done: Any) -> None:
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
