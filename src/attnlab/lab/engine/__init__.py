"""Who executes the trials: an interface, so that a machine and a cluster differ by one file.

An engine runs trials in any order, anywhere, and hands each result to the sink in the driver's
process, one by one; the driver alone writes. The number of workers never changes a result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, Protocol

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.lab.source import Source
from attnlab.lab.study import Study
from attnlab.lab.trial import Outcome, State, Trial

ENGINES = ("local", "inline", "ray")


@dataclass(frozen=True)
class Job:
    """Trials of one study, and all a worker needs to build it again."""

    source: Source
    study: Study
    trials: Sequence[Trial]
    device: str  # resolved: never "auto"
    scratch: Path  # a folder the engine may fill and must not expect to survive
    checkpoints: Path  # a folder with one folder a trial, which outlives a killed trial
    workers: int | None = None


@dataclass(frozen=True)
class Result:
    """How one trial ended."""

    trial: Trial
    state: State
    outcome: Outcome | None = None
    error: str = ""
    cost: Mapping[str, float] = field(default_factory=dict)


class Sink(Protocol):
    """The driver's side. Its methods may raise: the engine then ends its workers and passes on."""

    @property
    def stopping(self) -> bool:
        """A signal came."""
        ...

    def step(self, trial: Trial, done: int, of: int, words: str) -> None:
        """How far a trial is, when the engine knows."""

    def accept(self, result: Result) -> None:
        """A trial ended."""

    def tick(self) -> None:
        """Called several times a second, also when nothing arrives."""


class Engine(Protocol):
    """Runs a job to its end, or until the sink raises; leaves no process behind."""

    elsewhere: ClassVar[bool]  # on other machines too: a device need not be on this one

    def execute(self, job: Job, sink: Sink) -> None:
        """Hand every trial's result to the sink."""


def engine_named(name: str, address: str | None = None) -> Engine:
    """The engine of that name, loaded on first use. `address`: of a Ray cluster."""
    if address is not None and name != "ray":
        raise UsageError(f"an address belongs to engine 'ray', not to {name!r}")
    if name in ("local", "inline"):
        from attnlab.lab.engine.local import InlineEngine, LocalEngine

        return LocalEngine() if name == "local" else InlineEngine()
    if name == "ray":
        from attnlab.lab.engine.ray import RayEngine

        return RayEngine(address)
    raise UsageError(f"unknown engine {name!r}: {suggest(name, ENGINES)}")
