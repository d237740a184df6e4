"""A whole life of a record without workers: `python small_run.py OUT`; the same every time."""

import sys
from pathlib import Path

import numpy as np

from attnlab.core.errors import AttnlabError, exit_code_of
from attnlab.lab.plan import Plan
from attnlab.lab.record import Record
from attnlab.lab.source import load_study_class, read_source
from attnlab.lab.trial import Outcome

TINY = Path(__file__).parent / "tiny_study.py"


def small_run(out: Path) -> Record:
    source = read_source(str(TINY))
    study = load_study_class(source).at()
    record = Record.create_or_open(out, Plan.of(study, source))
    with record.lock():
        finished = record.finished_ids()
        for seed in range(2):
            trial = study.trial(seed)
            if trial.id not in finished:
                outcome = Outcome({"x": 1.0 / 3}, arrays={"a": np.ones(3)}, curves={"c": [1.0]})
                record.add(trial, "done", outcome)
                record.flush()
        record.write_results({"answer": "1"})
        record.write_file("figures/one.svg", b"<svg/>")
        record.seal()
    return record


if __name__ == "__main__":
    try:
        small_run(Path(sys.argv[1]))
    except AttnlabError as error:
        print(error, file=sys.stderr)
        sys.exit(exit_code_of(error))
