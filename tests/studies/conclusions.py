"""What a smoke run would conclude if it were allowed to."""

from attnlab.api.conclude import Conclusions, draw_conclusions, study_of
from attnlab.api.running import Run


def conclusions(done: Run) -> Conclusions:
    """The claims, audits and sections of a smoke run, judged as those of a larger one."""
    return draw_conclusions(study_of(done.record), done.table.done())


def verdicts(done: Run) -> dict[str, str]:
    """Claim -> verdict."""
    return {claim.name: claim.verdict for claim in conclusions(done).claims}
