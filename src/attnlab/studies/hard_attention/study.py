"""The study itself: the question, its trials, and who answers which part of it."""

from collections.abc import Sequence
from typing import ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.hard_attention.arms import arms
from attnlab.studies.hard_attention.settings import FULL, SMOKE, HardSettings

TASK = ("pairs", "symbols", "answers", "scored")
MODEL = ("width", "steps", "batch", "points", "device")


class HardAttention(Study):
    """Attention that takes the one best item: measured slopes, and a task learned with it."""

    name = "hard-attention"
    question = "Why can gradient descent not train argmax attention, and what helps?"
    source = "A course exercise on attention by hand: argmax instead of softmax"
    Settings: ClassVar[type[StudySettings]] = HardSettings
    presets: ClassVar = {"smoke": SMOKE, "full": FULL}
    expected: ClassVar = {
        "smoke": "about 10 seconds on two cores",
        "quick": "about 3 minutes on two cores",
        "full": "not measured",
    }
    shares_accelerator = True
    settings: HardSettings

    def trials(self) -> Sequence[Trial]:
        """The given example; sets of instances; every arm, learning rate and seed; baselines."""
        s = self.settings
        task = {key: getattr(s, key) for key in TASK}
        model = {key: getattr(s, key) for key in MODEL}
        drawn = {
            "temperatures": s.temperatures,
            "instances": s.instances,
            "many": s.many,
            "keys": s.instance_keys,
            "dim": s.instance_dim,
            "outputs": s.instance_outputs,
        }
        example = {"keys": s.given_keys, "values": s.given_values, "query": s.given_query}
        return [
            self.trial(0, kind="given", part="given example", **example),
            *(self.trial(seed, kind="slopes", part="slopes", **drawn) for seed in range(s.seeds)),
            *(
                self.trial(
                    seed,
                    kind="model",
                    part=arm,
                    arm=arm,
                    order=order,
                    choice=choice,
                    rate=rate,
                    **task,
                    **model,
                )
                for seed in range(s.seeds)
                for order, (arm, choice) in enumerate(arms(s).items())
                for rate in s.rates
            ),
            *(
                self.trial(seed, kind="baselines", part="baselines", width=s.width, **task)
                for seed in range(s.seeds)
            ),
        ]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Measure slopes, or train and look up."""
        from attnlab.studies.hard_attention.work import work

        return work(trial, context)

    def claims(self, table: Table) -> list[Claim]:
        """Slopes first, then what they mean for learning."""
        from attnlab.studies.hard_attention.claims import claims

        return claims(table, self.settings)

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Seeds, baselines, constant answers, test rows, what attention is worth here."""
        from attnlab.studies.hard_attention.audits import audits

        return audits(table, self.settings)

    def figures(self, table: Table) -> list[Figure]:
        """The staircase, slopes against temperature, learning curves, accuracies."""
        from attnlab.studies.hard_attention.figures import figures

        return figures(table, self.settings)

    def answer(self, claims: Sequence[Claim]) -> str:
        """One sentence from the verdicts."""
        from attnlab.studies.hard_attention.discussion import answer

        return answer(claims)

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """Why it is so, what helps, and what is often said but not so."""
        from attnlab.studies.hard_attention.discussion import discussion

        return discussion(table, claims, self.settings)
