"""What `attnlab train` and `attnlab finetune` print during a training, and when it fails."""

from typing import TYPE_CHECKING

import typer

from attnlab.core.notes import note

if TYPE_CHECKING:
    from attnlab.api.running import Run
    from attnlab.lab.plan import Plan


class TrainingProgress:
    """Announces a training and shows its steps; nothing when quiet."""

    def __init__(self, planned: "Plan", quiet: bool, what: str = "") -> None:
        from attnlab.api.progress import progress_for

        settings = planned.study.settings
        what = what or f"{getattr(settings, 'steps', 0):,} steps"
        if not quiet:
            note(f"run {planned.name}: {what} on {settings.device}")
        self.progress = progress_for(planned.trials, quiet)

    def check(self, done: "Run", metric: str) -> None:
        """Exit with 1 and the reason if there is no model; say so if nothing had to be run."""
        if self.progress and not self.progress.started:
            note("this training is already stored: nothing was run again")
        for row in done.table:
            if row.state != "done":
                why = row.reasons.get(metric) or (row.error.strip().splitlines() or [""])[-1]
                note(f"{row.state}: {why}")
                raise typer.Exit(1)
