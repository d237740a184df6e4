"""A save of two processes, interrupted at every disk call: `python torn.py FOLDER`.

One of the two is killed, or refused, at its first call, its second … until none is left; then the
same training goes on. Says one JSON line a point.
"""

import os
import shutil
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import sharded_teams
import torch
from crash import CALLS, Fuse
from sharded_teams import stored, team, training
from stack import Stack, content
from tiny import one_thread, settings

from attnlab.training import loop
from attnlab.training.checkpoint import latest_checkpoint
from attnlab.training.optimizer import build_optimizer
from attnlab.training.ranks import Ranks

POINTS = 100  # more than there are


def lit(ranks: Ranks, own: Path, rank: int, fuse: Fuse) -> bool:
    """Train one step with the fuse in the save of `rank`; return whether it was not reached."""
    owner: Any = vars(loop)["_Loop"]
    real, loops = owner._save, []

    def guarded(self: Any) -> None:
        if not loops and ranks.rank == rank:
            for name in CALLS:
                fuse.guard(os, name)
            fuse.guard(Path, "open")
            fuse.guard_writing()
        loops.append(self)
        real(self)

    owner._save = guarded
    training(own, ranks, 1)
    return fuse.left > 0


def torn(folder: Path, rank: int, action: str) -> None:
    for number in range(1, POINTS):
        own = shutil.copytree(folder / "before", folder / f"{action}-{rank}-{number}")
        fuse = Fuse(number, action)
        told = team("torn", 2, lambda ranks, own=own, fuse=fuse: lit(ranks, own, rank, fuse))
        found = latest_checkpoint(own)
        step = found.state.step if found else 0
        team("again", 2, lambda ranks, own=own: training(own, ranks).steps)
        left = [name for name in os.listdir(own) if name.startswith(".partial")]
        sharded_teams.say(
            name="point",
            rank=rank,
            action=action,
            number=number,
            told=told,
            step=step,
            content=content(own, torch.float64),
            leftovers=left,
        )
        shutil.rmtree(own)
        if told[rank].get("found"):
            return


def main() -> None:
    one_thread()
    build_optimizer(Stack(), settings())  # loads what torch loads late, before the forks
    folder = Path(sys.argv[1])
    stored(folder)
    for action in ("kill", "refuse"):
        for rank in (0, 1):
            torn(folder, rank, action)


if __name__ == "__main__":
    main()
