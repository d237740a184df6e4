"""The study itself: the question, and who answers which part of it."""

from collections.abc import Sequence
from typing import ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.phase_transition.settings import FULL, SMOKE, PhaseSettings


class PhaseTransition(Study):
    """Cui, Behrens, Krzakala, Zdeborová 2024: a phase transition in one attention layer."""

    name = "phase-transition"
    version = 1
    question = (
        "How many samples per dimension does attention need before it reads meaning "
        "rather than position?"
    )
    source = "Cui, Behrens, Krzakala, Zdeborová 2024 (arXiv 2402.03902), Figures 2 and 3"
    Settings: ClassVar[type[StudySettings]] = PhaseSettings
    presets: ClassVar = {"smoke": SMOKE, "full": FULL}
    expected: ClassVar = {
        "smoke": "about 20 seconds on two cores",
        "quick": "about 5 minutes on two cores",
        "full": "Figures 2 and 3 with theory: 30 minutes on one H200, 8 workers",
    }
    settings: PhaseSettings

    def trials(self) -> Sequence[Trial]:
        """Figure 2, Figure 3, sizes, open questions, ridge, side experiments, theory."""
        from attnlab.studies.phase_transition.plan import plan

        return plan(self.settings, self.trial)

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Simulate or integrate, as the trial says."""
        from attnlab.studies.phase_transition.work import work

        return work(trial, context.device)

    def claims(self, table: Table) -> list[Claim]:
        """What the paper says, and what we add, each decided by the table."""
        from attnlab.studies.phase_transition.claims import claims

        return claims(table, self.settings)

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Score scale; seeds and intervals behind every claim."""
        from attnlab.studies.phase_transition.claims import audits

        return audits(table, self.settings)

    def figures(self, table: Table) -> list[Figure]:
        """Figures 2 and 3, then what is beyond them."""
        from attnlab.studies.phase_transition.figures import figures

        return figures(table, self.settings)

    def answer(self, claims: Sequence[Claim]) -> str:
        """One sentence from the verdicts."""
        from attnlab.studies.phase_transition.discussion import answer

        return answer(claims)

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """What it means, and every difference from the paper."""
        from attnlab.studies.phase_transition.discussion import discussion

        return discussion(table, claims, self.settings)
