"""The study itself: the question, and who answers which part of it."""

from collections.abc import Sequence
from typing import ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.head_robustness.settings import FULL, SMOKE, RobustnessSettings


class HeadRobustness(Study):
    """A course exercise: average two values with one query or with two, when keys are random."""

    name = "head-robustness"
    question = "Do two heads average two values more reliably than one when a key's length varies?"
    source = "Course exercise on multi-head attention: keys around orthonormal means, one long axis"
    Settings: ClassVar[type[StudySettings]] = RobustnessSettings
    presets: ClassVar = {"smoke": SMOKE, "full": FULL}
    expected: ClassVar = {
        "smoke": "about 10 seconds on two cores",
        "quick": "about 1 minute on two cores",
        "full": "not measured",
    }
    settings: RobustnessSettings

    def trials(self) -> Sequence[Trial]:
        """Both parts of the exercise, then β, the spread and α varied; the exact law of each."""
        from attnlab.studies.head_robustness.plan import plan

        return plan(self.settings, self.trial)

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Draw keys, or compute the law of the output."""
        from attnlab.studies.head_robustness.work import work

        return work(trial)

    def claims(self, table: Table) -> list[Claim]:
        """The exercise's two statements, where they stop, and whether both ways agree."""
        from attnlab.studies.head_robustness.claims import claims

        return claims(table, self.settings)

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Seeds and intervals; exact law against draws; quadrature against itself."""
        from attnlab.studies.head_robustness.claims import audits

        return audits(table, self.settings)

    def figures(self, table: Table) -> list[Figure]:
        """The draws, the distribution, then β, the spread and α."""
        from attnlab.studies.head_robustness.figures import figures

        return figures(table, self.settings)

    def answer(self, claims: Sequence[Claim]) -> str:
        """One sentence from the verdicts."""
        from attnlab.studies.head_robustness.discussion import answer

        return answer(claims)

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """Why one head swings, why two do not, and where the usual answer stops."""
        from attnlab.studies.head_robustness.discussion import discussion

        return discussion(table, claims, self.settings)
