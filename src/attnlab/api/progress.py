"""Show the progress of a run on stderr: bars on a terminal, a line now and then in a pipe."""

import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from attnlab.core.notes import draws_bars, note
from attnlab.lab.execute import Progress
from attnlab.lab.trial import Trial
from attnlab.report.text import counted, duration

PLAIN_SECONDS = 5.0  # between plain lines


def stage_of(trial: Trial) -> str:
    """The part of the study that a trial belongs to; "trials" if the study has no parts."""
    return str(trial.config.get("part", "trials"))


def pace(rate: float) -> str:
    """`3.1/s`, or `14 s each` of what takes longer than a second."""
    return f"{rate:.1f}/s" if rate >= 1 else f"{duration(1 / rate)} each"


class PlainProgress(Progress):
    """Prints a line like `12/48 trials, 3.1/s, about 12 s left` every few seconds."""

    def __init__(self) -> None:
        self.total = self.done = self.before = 0
        self.started = False
        self.began = self.last = time.monotonic()

    def start(self, total: int, already_done: int) -> None:
        """Print how many trials there are."""
        self.started = True
        self.total, self.done, self.before = total, already_done, already_done
        self.began = self.last = time.monotonic()
        kept = f", {already_done} already done" if already_done else ""
        note(f"{counted(total, 'trial')}{kept}")

    def advance(self, trial: Trial, state: str) -> None:
        """Count a trial; print a line if the last one is old or the trial failed."""
        self.done += 1
        now = time.monotonic()
        if state not in ("done", "diverged"):
            note(f"trial {trial.id} ({stage_of(trial)}): {state}")
        if now - self.last >= PLAIN_SECONDS or self.done == self.total:
            self.last = now
            rate = (self.done - self.before) / max(now - self.began, 1e-9)
            left = duration((self.total - self.done) / rate)
            rest = f", about {left} left" if self.done < self.total else ""
            note(f"{self.done}/{self.total} trials, {pace(rate)}{rest}")

    def step(self, trial: Trial, done: int, of: int, words: str) -> None:
        """Print a line like `step 200/2000, loss 4.1, 8,100 tokens/s` every few seconds."""
        now = time.monotonic()
        if now - self.last >= PLAIN_SECONDS or done == of:
            self.last = now
            note(f"step {done}/{of}, {words}")


class BarProgress:
    """One rich bar per part of the study; a single bar for a resumed run."""

    def __init__(self, trials: Sequence[Trial]) -> None:
        from rich import progress
        from rich.console import Console

        self.totals = Counter(stage_of(t) for t in trials)
        self.bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("{task.fields[rate]}"),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.tasks: dict[str, Any] = {}
        self.started = self.inside = False

    def start(self, total: int, already_done: int) -> None:
        """Draw the bars."""
        self.started = True
        if already_done:  # of which parts is not known
            whole = self.bars.add_task("trials", total=total, completed=already_done, rate="")
            self.tasks = dict.fromkeys(self.totals, whole)
        for name, count in self.totals.items() if not already_done else ():
            self.tasks[name] = self.bars.add_task(name, total=count, rate="")
        self.bars.start()

    def advance(self, trial: Trial, state: str) -> None:
        """Move the bar of the trial's part."""
        task = self.tasks[stage_of(trial)]
        speed = self.bars.tasks[task].speed
        self.bars.update(task, advance=0 if self.inside else 1, rate=pace(speed) if speed else "")
        if state not in ("done", "diverged"):
            self.bars.console.print(f"trial {trial.id}: {state}", style="red")

    def step(self, trial: Trial, done: int, of: int, words: str) -> None:
        """Show the steps of the trial on the bar of its part."""
        self.inside, task = True, self.tasks[stage_of(trial)]
        self.bars.update(task, description="steps", completed=done, total=of, rate=words)

    def stop(self) -> None:
        """Leave the finished bars on the screen."""
        self.bars.stop()


ProgressChoice = Progress | bool | None  # True: a bar or lines; None and False: nothing


def resolve_progress(choice: ProgressChoice, trials: Sequence[Trial]) -> Progress | None:
    """The caller's own object; for True a bar on a terminal and lines in a pipe; else None."""
    if choice is True:
        return BarProgress(trials) if draws_bars() else PlainProgress()
    return None if choice is False else choice
