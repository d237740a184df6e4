"""A plan: a study with its settings, where its code comes from, and its trials, listed once.

`Plan.of` is the one place where trials are enumerated and checked; the command line, the run
folder, the engines and the report all read the same plan.
"""

import copy
import gc
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from attnlab.core.errors import AttnlabError, UsageError
from attnlab.lab.source import Source, read_source
from attnlab.lab.study import Study
from attnlab.lab.trial import Trial

T = TypeVar("T")
MOST_TRIALS = 200_000  # refused as settings or while being declared, not when memory is gone
LARGEST = 2**53  # beyond it integers are no longer exact in JSON, and no setting means it


@dataclass(frozen=True)
class Plan:
    """What will be run; `name` is the run's folder."""

    study: Study
    source: Source
    scale: str
    trials: Sequence[Trial]

    @staticmethod
    def of(study: Study, source: str | Source, scale: str = "quick") -> "Plan":
        """Check the settings, list the trials, check these; UsageError for whatever is wrong."""
        check_settings(study)
        origin = read_source(source) if isinstance(source, str) else source
        return Plan(study, origin, scale, _checked_trials(study))

    @property
    def name(self) -> str:
        """`<study>-<12 hex>`: the same question with the same settings has the same name."""
        return f"{self.study.name}-{self.study.run_id}"


def call_study(study: Study, what: str, question: Callable[[], T]) -> T:
    """Call a study's own code; where it fails, one line says where, and its trials are safe."""
    try:
        return question()
    except AttnlabError:
        raise
    except (Exception, SystemExit) as error:
        if study.__class__.__module__.startswith("attnlab."):
            raise
        frames = traceback.extract_tb(error.__traceback__)
        last = [frame for frame in frames if "jinja2" not in Path(frame.filename).parts][-1]
        kept = "" if what == "trials" else "; its trials are stored"
        raise UsageError(
            f"study {study.name!r}, {what}: {type(error).__name__}: {error} "
            f"({Path(last.filename).name}, line {last.lineno}){kept}"
        ) from error


def check_settings(study: Study) -> None:
    """A study needs a question, and its numbers must be storable and its seeds countable."""
    if not isinstance(getattr(study, "question", None), str):
        raise UsageError(f"study {study.name!r} has no `question`: one sentence, as text")
    for key, value in study.settings_json().items():
        numbers = _numbers(value)
        if any(abs(number) > LARGEST for number in numbers):
            raise UsageError(f"setting {key!r}: a number beyond 2**53 is too large")
        if key.endswith("seeds") and any(number > MOST_TRIALS for number in numbers):
            raise UsageError(f"setting {key!r} asks for more than {MOST_TRIALS:,} trials")


def _numbers(value: object) -> list[float]:
    if isinstance(value, int | float):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [number for item in items for number in _numbers(item)]


def _checked_trials(study: Study) -> Sequence[Trial]:
    """At least one trial, no two alike, all of this study."""
    trials = _list_trials(study)
    if not trials:
        raise UsageError(f"study {study.name!r} declares no trials with these settings")
    ids = {trial.id for trial in trials}
    if len(ids) != len(trials):
        raise UsageError(f"study {study.name!r} declares {len(trials) - len(ids)} trials twice")
    for trial in trials:
        if (trial.study, trial.version) != (study.name, study.version):
            raise UsageError(f"study {study.name!r} declares a trial of {trial.study!r}")
        if not -(1 << 63) <= trial.seed < 1 << 63:
            raise UsageError(f"seed {trial.seed} does not fit in 64 bits")
    return trials


def _list_trials(study: Study) -> Sequence[Trial]:
    """study.trials(), ended as soon as there are too many."""
    counting, count = copy.copy(study), 0

    def trial(seed: int, **config: object) -> Trial:
        nonlocal count
        count += 1
        if count > MOST_TRIALS:
            raise UsageError(
                f"study {study.name!r} declares more than {MOST_TRIALS:,} trials: use fewer seeds"
            )
        return study.trial(seed, **config)

    vars(counting)["trial"] = trial
    collecting = gc.isenabled()
    gc.disable()  # all trials are kept: to search them for garbage would take half of the time
    try:
        return call_study(study, "trials", lambda: list(counting.trials()))
    finally:
        if collecting:
            gc.enable()
