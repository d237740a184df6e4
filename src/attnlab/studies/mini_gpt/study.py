"""What the three studies share: the same trials for every arm, baselines and audits."""

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar

from attnlab.audit.checks.attention_worth import attention_worth
from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.audited import audit_findings
from attnlab.studies.mini_gpt.arms import Arm
from attnlab.studies.mini_gpt.evidence import Arms
from attnlab.studies.mini_gpt.settings import FULL, SMOKE, MiniSettings

HELPS = "attention-helps"  # the claim every one of these studies makes
ORDERS = ("unigram", "bigram", "trigram")
COURSE = "course report: news sentences, vocabulary 26,604"
PROTOCOL = (
    "text",
    "min_count",
    "size",
    "block",
    "steps",
    "batch",
    "by_length",
    "learning_rate",
    "warmup",
    "scored",
    "singles",
    "sample_tokens",
    "normal",
    "ungrammatical",
    "long",
    "device",
)


class MiniStudy(Study):
    """Arms that differ in one part; seeds; n-gram baselines on the same tokens."""

    Settings: ClassVar[type[StudySettings]] = MiniSettings
    presets: ClassVar = {"smoke": SMOKE, "full": FULL}
    version = 2  # samples come from decode/generate.py since
    shares_accelerator = True
    settings: MiniSettings

    @abstractmethod
    def arms(self) -> Mapping[str, Arm]:
        """Name -> what it changes in the plain GPT."""

    def trials(self) -> Sequence[Trial]:
        """Every arm with every seed, slow arms first; one trial for each baseline."""
        own = {key: getattr(self.settings, key) for key in PROTOCOL}
        text = {key: own[key] for key in ("text", "min_count", "block", "scored")}
        found = [
            self.trial(seed, kind="gpt", arm=arm, place=place, parts=parts, part=arm, **own)
            for seed in range(self.settings.seeds)
            for place, (arm, parts) in enumerate(self.arms().items())
        ]
        return found + [
            self.trial(0, kind="ngram", order=order, part="baselines", **text) for order in ORDERS
        ]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Train and measure one model, or count n-grams."""
        from attnlab.studies.mini_gpt.work import work

        return work(trial, context)

    declared: ClassVar[Mapping[str, Sequence[str]]] = {}  # arm -> audits it must fail

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Every model at its start and end; seeds and intervals behind every difference."""
        claims = self.claims(table)
        decided = {c.name: c.runs for c in claims if c.runs and c.verdict != "undecided"}
        return [
            seeds_and_interval(decided),
            _attention_worth(claims),
            *audit_findings(table, claims, self.declared),
        ]

    def figures(self, table: Table) -> list[Figure]:
        """Perplexity by arm, against sentence length, and of the three sentences."""
        from attnlab.studies.mini_gpt.figures import shared_figures

        return shared_figures(Arms(table), self.settings)

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """What it means in this study, then what every study of this kind must say."""
        from attnlab.studies.mini_gpt.discussion import shared_sections

        arms = Arms(table)
        return [
            Section("What it means", tuple(self.meaning(arms, {c.name: c for c in claims}))),
            *shared_sections(arms, self.settings),
        ]

    @abstractmethod
    def meaning(self, arms: Arms, found: Mapping[str, Claim]) -> list[str]:
        """Paragraphs written from the verdicts."""


def _attention_worth(claims: Sequence[Claim]) -> Finding:
    """What attention as a whole is worth here, beside every difference between trained arms."""
    helps = next(c for c in claims if c.name == HELPS)
    compared = {
        c.name: math.log(c.estimate.value)
        for c in claims
        if c.quantity.startswith("perplexity")
        and c.name != HELPS
        and not c.name.startswith("beats-")
        and c.estimate.value > 0
    }
    return attention_worth(helps.runs, compared)


def said(claim: Claim) -> str:
    """'holds (interval [1.2, 1.3] lies inside …)'."""
    return f"{claim.verdict} ({claim.why})"
