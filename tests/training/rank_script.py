"""One process of a data-parallel training: `python rank_script.py FOLDER KIND STEPS [PAUSE]`.

KIND: adamw64, sgd32, gentle32 (no dropout: comparable with one process) or noisy (dropout and a
counting buffer). The prefix "sharded-" trains a model with blocks, sharded if there are several
processes. Rank 0 prints a line per step, then the digest.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import torch
from stack import Stack, content
from tiny import Endless, Tiny, dev_loss, digest, one_thread, settings

from attnlab.core.errors import AttnlabError, exit_code_of
from attnlab.lab.supervise import end_with_supervisor
from attnlab.training.loop import train
from attnlab.training.ranks import Ranks, join_process_group
from attnlab.training.result import Hooks, Progress

KINDS = {
    "adamw64": {"optimizer": "adamw"},
    "sgd32": {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.9},
    # of the model with blocks: at 0.1 the training itself makes rounding ten times larger
    "gentle32": {"optimizer": "sgd", "learning_rate": 0.01, "momentum": 0.9},
    "noisy": {"optimizer": "adamw"},
}


SHARDED = "sharded-"


def dtype_of(kind: str) -> torch.dtype:
    return torch.float64 if kind.endswith("64") else torch.float32


def training(folder: Path, kind: str, steps: int, ranks: Ranks, pause: float = 0.0) -> Tiny:
    maker, kind = (Stack if kind.startswith(SHARDED) else Tiny), kind.removeprefix(SHARDED)
    model = maker(noisy=kind == "noisy", dtype=dtype_of(kind))

    def show(progress: Progress) -> None:
        print("step", progress.step, flush=True)

    train(
        model,
        Endless(pause=pause),
        settings(steps=steps, **KINDS[kind]),
        checkpoints=folder,
        hooks=Hooks(evaluate=dev_loss, progress=show),
        ranks=ranks,
    )
    return model


def main() -> None:
    end_with_supervisor()
    one_thread()
    folder, kind, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    try:
        cut = kind.startswith(SHARDED) and os.environ.get("WORLD_SIZE", "1") != "1"
        with join_process_group("cpu", cut) as ranks:
            training(folder, kind, steps, ranks, pause)
            if ranks.is_main:
                asked = KINDS[kind.removeprefix(SHARDED)]
                found = content(folder, dtype_of(kind), **asked) if cut else digest(folder)
                print("digest", found, flush=True)
    except AttnlabError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code_of(error))


if __name__ == "__main__":
    main()
