"""attnlab train: a GPT from parts, trained on your text; the run is a target like any model."""

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
    SetOption,
    note,
    say,
    say_json,
    say_table,
)

OWN_OPTIONS = {
    "text": "--text",
    "tokenizer": "--tokenizer",
    "size": "--size",
    "position": "--position",
    "steps": "--steps",
    "prompt": "--prompt",
    "threads": "--threads",
    "device": "--device",
}


LIMITS = {"trial_seconds", "trial_memory_gb"}  # of workers; a training runs in this process


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("train")(train)


def train(  # noqa: PLR0913  (each is one documented option)
    text: Annotated[str, typer.Option(help="A UTF-8 file, a folder of .txt, or an asset.")],
    size: Annotated[str, typer.Option(help="nano, micro or mini.")] = "nano",
    tokenizer: Annotated[str, typer.Option(help="char, word or bpe.")] = "char",
    position: Annotated[
        str, typer.Option(help="learned, sinusoidal, rotary, alibi or none.")
    ] = "learned",
    steps: Annotated[int, typer.Option(help="Updates of the weights.")] = 2000,
    seed: Annotated[int, typer.Option(min=0, help="Of weights, order and sample.")] = 0,
    prompt: Annotated[str, typer.Option(help="What the sample goes on from.")] = "",
    threads: Annotated[int | None, typer.Option(min=1, help="Default: cores / processes.")] = None,
    processes: Annotated[
        int, typer.Option(min=1, max=1024, help="Share each batch; a lost one is replaced.")
    ] = 1,
    sharded: Annotated[
        bool, typer.Option("--sharded", help="Each process holds a part of the model.")
    ] = False,
    set_: SetOption = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress, no remarks.")] = False,
) -> None:
    """Train a small GPT on a text; killed or stopped, the same command goes on from there."""
    from attnlab.api import plan
    from attnlab.api.following import follow
    from attnlab.cli.settings import assigned
    from attnlab.core.errors import UsageError
    from attnlab.lab.engine.local import default_workers
    from attnlab.lab.supervise import LEASH, obey_leash, supervise

    if sharded and processes == 1 and int(os.environ.get("WORLD_SIZE", "1")) == 1:
        raise UsageError("--sharded: needs several processes: --processes N, or torchrun")
    if processes > 1 and LEASH not in os.environ:
        if "RANK" in os.environ:
            raise UsageError("--processes: torchrun has started them already; leave it out")
        command = [sys.executable, "-m", "attnlab", *sys.argv[1:]]
        raise typer.Exit(supervise(command, processes, lambda text: None if quiet else note(text)))
    from attnlab.train.ranks import join_process_group  # after that: it brings torch

    obey_leash()
    beside = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    settings = assigned(set_)
    _refuse(text, settings)
    settings |= {
        "text": text,
        "size": size,
        "tokenizer": tokenizer,
        "position": position,
        "steps": steps,
        "prompt": prompt,
        "threads": threads or max(1, default_workers("cpu") // beside),
        "device": device,
        "first_seed": seed,
    }
    settings.setdefault("checkpoint_every", max(1, steps // 40))
    planned = plan("train", "quick", settings)
    if sharded and settings.get("compile"):
        raise UsageError("--sharded: not with compile; leave one of the two out")
    with join_process_group(planned.study.settings.device, sharded) as ranks:
        if ranks.is_main:
            _lead(planned, out, quiet, json)
        else:
            follow(planned, out)


def _lead(planned: Any, out: Path, quiet: bool, json: bool) -> None:
    """Train, store, say."""
    from attnlab.api import run
    from attnlab.cli.progress import progress_for

    settings = planned.study.settings
    if not quiet:
        note(f"run {planned.name}: {settings.steps:,} steps on {settings.device}")
    progress = progress_for(planned.trials, quiet)
    done = run(planned, out=out, engine="inline", progress=progress)
    if progress and not progress.started:
        note("this training is stored already: nothing was run again")
    for row in done.table:
        if row.state != "done":
            why = row.reasons.get("dev_perplexity") or (row.error.strip().splitlines() or [""])[-1]
            note(f"{row.state}: {why}")
            raise typer.Exit(1)
    found = _found(done)
    if json:
        say_json(found)
    else:
        _show(found, done.table.rows[0])


def _refuse(text: str, settings: dict[str, Any]) -> None:
    """What cannot be meant."""
    from attnlab.core.errors import UsageError

    if not text.strip():
        raise UsageError("--text: name a file, a folder of .txt files, or shakespeare")
    for key in settings.keys() & OWN_OPTIONS.keys():
        raise UsageError(f"--set {key}: it has its own option, {OWN_OPTIONS[key]}")
    for key in settings.keys() & LIMITS:
        raise UsageError(f"--set {key}: a training has no such limit; stop it when you like")


def _found(done: Any) -> dict[str, Any]:
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


def _show(found: dict[str, Any], row: Any) -> None:
    say_table(
        ["quantity", "value"],
        [
            ["train perplexity", f"{found['train_perplexity']:.3f}"],
            [
                "dev perplexity",
                f"{found['dev_perplexity']:.3f} (best of the steps, {row['best_step']})",
            ],
            *[[f"  {name}, dev", f"{value:.3f}"] for name, value in found["baselines"].items()],
            ["vocabulary", f"{found['vocabulary']:,}"],
            ["parameters", f"{found['parameters']:,}"],
            ["tokens/s", f"{found['tokens_per_second'] or float('nan'):,.0f}"],
        ],
    )
    say(f"\n{found['sample']}\n")
    say(str(Path(found["path"])))
