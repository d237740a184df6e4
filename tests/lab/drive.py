"""A driver process for the tests: `python drive.py OUT SETTINGS_JSON [WORKERS [RAY_ADDRESS]]`.

Prints `start`, one line a stored trial, then the digest; errors leave with their exit code.
"""

import json
import sys
from pathlib import Path

from attnlab.core.errors import AttnlabError, exit_code_of
from attnlab.lab.engine import engine_named
from attnlab.lab.execute import Silent, execute
from attnlab.lab.plan import Plan
from attnlab.lab.source import load_study_class, read_source
from attnlab.lab.trial import Trial

TINY = Path(__file__).parent / "tiny_study.py"


class Lines(Silent):
    def start(self, total: int, already_done: int) -> None:
        print("start", total, already_done, flush=True)

    def advance(self, trial: Trial, state: str) -> None:
        print("trial", trial.id, state, flush=True)

    def stop(self) -> None:
        print("stop", flush=True)


def main() -> None:
    out, settings = Path(sys.argv[1]), json.loads(sys.argv[2])
    workers = int(sys.argv[3]) if len(sys.argv) > 3 else 2
    engine = engine_named("ray", sys.argv[4]) if len(sys.argv) > 4 else "local"
    source = read_source(str(TINY))
    study = load_study_class(source).at("quick", **settings)
    try:
        record = execute(
            Plan.of(study, source),
            out=out,
            workers=workers or None,
            engine=engine,
            progress=Lines(),
        )
    except AttnlabError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code_of(error))
    print("digest", record.digest(), flush=True)


if __name__ == "__main__":
    main()
