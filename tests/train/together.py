"""One of the processes of a training: `python together.py FOLDER KIND STEPS [PAUSE]`.

KIND: adamw64, sgd32 (no dropout: comparable with one process) or noisy (dropout and a counting
buffer). The first process prints a line a step, then the digest.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import torch
from tiny import Endless, Tiny, dev_loss, digest, one_thread, settings

from attnlab.core.errors import AttnlabError, exit_code_of
from attnlab.lab.supervise import obey_leash
from attnlab.train.loop import train
from attnlab.train.ranks import Ranks, joined
from attnlab.train.result import Hooks, Progress

KINDS = {
    "adamw64": {"optimizer": "adamw"},
    "sgd32": {"optimizer": "sgd", "learning_rate": 0.1, "momentum": 0.9},
    "noisy": {"optimizer": "adamw"},
}


def training(folder: Path, kind: str, steps: int, ranks: Ranks, pause: float = 0.0) -> Tiny:
    dtype = torch.float64 if kind == "adamw64" else torch.float32
    model = Tiny(noisy=kind == "noisy", dtype=dtype)

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
    obey_leash()
    one_thread()
    folder, kind, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    pause = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    try:
        with joined("cpu") as ranks:
            training(folder, kind, steps, ranks, pause)
            if ranks.leads:
                print("digest", digest(folder), flush=True)
    except AttnlabError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code_of(error))


if __name__ == "__main__":
    main()
