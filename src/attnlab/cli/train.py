"""attnlab train: train a small GPT on your own text."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    QuietOption,
    note,
    say,
    say_json,
    say_table,
    set_option,
)
from attnlab.cli.training import TrainingProgress


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
    from attnlab.cli.settings import parse_settings
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
    chosen = {
        "text": text,
        "size": size,
        "tokenizer": tokenizer,
        "position": position,
        "steps": steps,
        "prompt": prompt,
        "threads": threads,
        "device": device,
        "first_seed": seed,
    }
    planned = plan_training(chosen, parse_settings(set_), sharded)
    shown = TrainingProgress(planned, quiet)
    done = train_distributed(planned, out, sharded, shown.progress)
    if done is None:  # not the first process of several
        return
    shown.check(done, "dev_perplexity")
    summary = training_summary(done)
    if json:
        say_json(summary)
    else:
        _show(summary, done.table.rows[0])


def _show(summary: dict[str, Any], row: Any) -> None:
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
