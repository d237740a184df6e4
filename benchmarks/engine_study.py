"""Trials that do nothing, or sleep: what is left is the lab's own work."""

import time
from collections.abc import Sequence
from typing import cast

from attnlab.lab.claim import Claim
from attnlab.lab.study import Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext


class EmptySettings(StudySettings):
    """How many, and how long each sleeps."""

    trials: int = 10
    sleep: float = 0.0


class Empty(Study):
    """Nothing, many times."""

    name = "empty"
    question = "What does the lab itself cost?"
    Settings = EmptySettings

    def trials(self) -> Sequence[Trial]:
        """One a seed, in five groups."""
        own = cast(EmptySettings, self.settings)
        return [self.trial(seed, group=seed % 5) for seed in range(own.trials)]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Sleep, if at all."""
        return Outcome(work(trial.seed, cast(EmptySettings, self.settings).sleep))

    def claims(self, table: Table) -> list[Claim]:
        """None."""
        return []


def work(seed: int, sleep: float) -> dict[str, float | int | str | bool | None]:
    """What a trial does; joblib is given the same."""
    if sleep:
        time.sleep(sleep)
    return {"value": seed / 7}
