"""A training in a separate process: `python drive.py FOLDER STEPS [PAUSE]`.

Prints a line per step, then the digest. A signal saves a checkpoint and exits with 128 + number.
"""

import signal
import sys
from pathlib import Path
from types import FrameType

sys.path.insert(0, str(Path(__file__).parent))
from tiny import Endless, Tiny, dev_loss, digest, one_thread, settings

from attnlab.core.errors import AttnlabError, exit_code_of
from attnlab.training.loop import train
from attnlab.training.result import Hooks, Progress, TrainResult


def training(
    folder: Path, steps: int, pause: float = 0.0, hooks: Hooks | None = None
) -> TrainResult:
    """Run the training that these tests share: checkpoints every 3 steps, evaluations every 5."""
    wanted = hooks or Hooks(evaluate=dev_loss)
    return train(
        Tiny(), Endless(pause=pause), settings(steps=steps), checkpoints=folder, hooks=wanted
    )


def main() -> None:
    one_thread()
    asked: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        asked.append(number)

    def show(progress: Progress) -> None:
        print("step", progress.step, flush=True)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, note)
    folder, steps = Path(sys.argv[1]), int(sys.argv[2])
    pause = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
    hooks = Hooks(evaluate=dev_loss, progress=show, stop=lambda: bool(asked))
    try:
        found = training(folder, steps, pause, hooks)
    except AttnlabError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code_of(error))
    if found.ending == "stopped":
        sys.exit(128 + asked[0])
    print("digest", digest(folder), flush=True)


if __name__ == "__main__":
    main()
