"""The study itself: the question, its trials, and who answers which part of it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.counting.settings import ARMS, FULL, SMOKE, CountingSettings

NOT_OF_A_TRIAL = ("seeds", "trial_seconds", "trial_memory_gb")
OF_FREEING = ("noise", "freed_steps", "gentle_rate")


class Counting(Study):
    """The counting task beside the solvable model: one architecture, two mechanisms."""

    name = "counting"
    question = "Can one and the same attention layer count by places and by tokens?"
    source = "Cui et al. 2024 (arXiv 2402.03902), the histogram task"
    Settings: ClassVar[type[StudySettings]] = CountingSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"smoke": SMOKE, "full": FULL}
    expected: ClassVar = {
        "smoke": "about half a minute on two cores",
        "quick": "about 4 minutes on two cores",
        "full": "not measured",
    }
    shares_accelerator = True
    settings: CountingSettings

    def trials(self) -> Sequence[Trial]:
        """Every start with every seed; what is held nowhere is not freed."""
        own = self.settings_json()
        for key in NOT_OF_A_TRIAL:
            del own[key]
        never = dict.fromkeys(OF_FREEING)
        return [
            self.trial(seed, arm=arm, part=arm, **own | (never if arm in ("free", "off") else {}))
            for arm in ARMS
            for seed in range(self.settings.seeds)
        ]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Train a start; free it; train on."""
        from attnlab.studies.counting.work import work

        return work(trial, context)

    def claims(self, table: Table) -> list[Claim]:
        """Both solutions, and whether they last."""
        from attnlab.studies.counting.claims import claims
        from attnlab.studies.counting.evidence import Starts

        return claims(Starts(table.done()))

    def audits(self, table: Table) -> list[Finding]:
        """Seeds, baselines, what attention is worth, what is held, constant answers."""
        from attnlab.studies.counting.audits import audits
        from attnlab.studies.counting.evidence import Starts

        return audits(Starts(table.done()), self.settings)

    def figures(self, table: Table) -> list[Figure]:
        """Attention maps, accuracy by part of the scores, learning curves."""
        from attnlab.studies.counting.evidence import Starts
        from attnlab.studies.counting.figures import figures

        return figures(Starts(table.done()))

    def answer(self, claims: Sequence[Claim]) -> str:
        """One sentence from the verdicts."""
        from attnlab.studies.counting.discussion import answer

        return answer(claims)

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """How each solution counts, and what is left of it when all is free."""
        from attnlab.studies.counting.discussion import discussion
        from attnlab.studies.counting.evidence import Starts

        return discussion(Starts(table.done()), claims, self.settings)
