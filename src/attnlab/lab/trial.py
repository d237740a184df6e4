"""The unit of work: a frozen configuration with a seed, and what comes out of it.

id(trial) = first 16 hex of SHA-256(study, version, configuration, seed): same question, same id,
on any machine. Everything an outcome holds is a pure function of the trial, except `cost`
(seconds, memory), which is kept apart, outside every digest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np

from attnlab.audit.finding import Finding
from attnlab.core.config import content_hash
from attnlab.core.seeds import Seed

Scalar = float | int | str | bool | None
State = Literal["done", "failed", "crashed", "oom", "timeout", "diverged"]
FINISHED: frozenset[str] = frozenset({"done", "diverged"})  # never run again


@dataclass(frozen=True)
class Trial:
    """One independent piece of a study; `config` holds plain JSON values only."""

    study: str
    version: int
    config: Mapping[str, Any]
    seed: int

    @cached_property
    def id(self) -> str:
        """Content hash: 16 hex digits."""
        names = ("study", "version", "config", "seed")
        return content_hash({name: getattr(self, name) for name in names}, digits=16)

    @property
    def on_accelerator(self) -> bool:
        """Its configuration names a device that is not the CPU: such trials take turns."""
        return self.config.get("device", "cpu") != "cpu"

    @property
    def stream(self) -> Seed:
        """The seed object every random number of this trial comes from."""
        return Seed(self.seed)


@dataclass(frozen=True)
class Outcome:
    """What a trial found. A metric that does not exist is None, with its reason in `reasons`."""

    metrics: Mapping[str, Scalar]
    cost: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)
    curves: Mapping[str, list[float]] = field(default_factory=dict)
    samples: list[str] = field(default_factory=list)
    documents: Mapping[str, str] = field(default_factory=dict)  # by name: a model's config, say
    reasons: Mapping[str, str] = field(default_factory=dict)
    findings: Sequence[Finding] = ()  # what audits said of this trial; the lab sums them up


@dataclass(frozen=True)
class TrialContext:
    """What the lab gives a running trial: where to compute, and where to write.

    `scratch` is gone when the trial ends, however it ends. `checkpoints` outlives a killed trial
    and is removed once the trial is stored: who checkpoints there goes on from there.
    """

    device: str = "cpu"
    scratch: Path | None = None
    checkpoints: Path | None = None
    stopping: Callable[[], bool] = lambda: False  # a signal came: leave with TrialStopped
    step: Callable[[int, int, str], None] = lambda done, of, words: None  # for a progress bar


class TrialStopped(Exception):
    """A trial left early because it was asked to; it will go on from its checkpoint."""
