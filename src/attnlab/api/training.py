"""Train a small GPT on a text: what `attnlab train` does, and `attnlab.train` in Python."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attnlab.api.progress import ProgressChoice
from attnlab.api.running import Run, plan, run
from attnlab.core.errors import AttnlabError, UsageError
from attnlab.lab.manifest import CHECKPOINTS
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.run_spec import STUDY
from attnlab.lab.stop import stop_on_signals
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
    chosen = {
        "text": str(text),
        "size": size,
        "tokenizer": tokenizer,
        "position": position,
        "steps": steps,
        "prompt": prompt,
        "threads": threads,
        "device": device,
        "first_seed": seed,
    }
    planned = plan_training(chosen, settings or {})
    return run(planned, out=out, engine="inline", progress=progress)


def plan_training(
    chosen: Mapping[str, Any], more: Mapping[str, Any], sharded: bool = False
) -> Plan:
    """Plan one training; `more` holds settings that `train` has no parameter for."""
    from attnlab.lab.engine.pool import default_workers

    if not str(chosen["text"]).strip():
        raise UsageError("--text is empty: name a file, a folder of .txt files, or shakespeare")
    for key in more.keys() & (chosen.keys() - {"first_seed"}):
        raise UsageError(f"--set {key}: use the option --{key} instead")
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
