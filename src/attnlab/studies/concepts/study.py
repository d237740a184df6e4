"""The study itself: the question, its trials, and who answers which part of it."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.concepts.claims import claims
from attnlab.studies.concepts.evidence import Found
from attnlab.studies.concepts.settings import FULL, PARTS, SMOKE, ConceptsSettings

OF_PART: dict[str, tuple[str, ...]] = {
    "pair": ("encoder", "pairs", "longest"),
    "loop": (),
    "order": ("encoder", "sentences", "epochs"),
    "merges": ("merges", "merge_bytes"),
    "masking": ("encoder", "masked"),
    "ids": ("reader", "foreign", "foreign_tokens"),
    "anew": (
        "sizes",
        "source_bytes",
        "scored_bytes",
        "vocabulary",
        "layers",
        "heads",
        "width",
        "block",
        "batch",
        "pretrain_steps",
        "steps",
        "evaluations",
        "learning_rate",
        "tune_rate",
    ),
}
ASSETS: dict[str, tuple[str, ...]] = {
    "pair": ("boolq", "gpt2-bpe"),
    "loop": (),
    "order": ("movie-reviews",),
    "merges": ("shakespeare",),
    "masking": ("xsum",),
    "ids": ("xsum", "gpt2-bpe"),
    "anew": ("xsum", "gpt2-bpe"),
}
TARGETS = {"law": "multi-lexsum", "plays": "shakespeare", "records": "people"}


class Concepts(Study):
    """Each part is one thing that is taught; its claims say what running it shows."""

    name = "concepts"
    question = "What do tokenizers, masks, labels and pretraining do, when one looks?"
    source = (
        "Exam questions of courses on adapting pretrained models; one attempt answered wrongly why "
        "tokenizer and model must come from the same checkpoint"
    )
    Settings: ClassVar[type[StudySettings]] = ConceptsSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"smoke": SMOKE, "full": FULL}
    expected: ClassVar = {
        "smoke": "under a minute on two cores",
        "quick": "about 12 minutes on two cores",
        "full": "not measured; hours on two cores",
    }
    settings: ConceptsSettings

    def fetch(self) -> None:
        """Every asset a part needs, before any trial starts."""
        from attnlab import assets

        s = self.settings
        wanted = {name for part in s.parts for name in ASSETS[part]}
        wanted |= {TARGETS[t] for t in s.targets} if "anew" in s.parts else set()
        named = {s.encoder} if {"pair", "order", "masking"} & set(s.parts) else set()
        named |= {s.reader} if "ids" in s.parts else set()
        for name in sorted(wanted | (named & set(assets.names()))):
            assets.get(name)

    def trials(self) -> Sequence[Trial]:
        """Every part with every seed, the long ones first."""
        own, found = self.settings_json(), []
        for part in sorted(self.settings.parts, key=PARTS.index):
            config = {key: own[key] for key in OF_PART[part]} | {"part": part}
            configs = [config]
            if part == "anew":
                configs = [config | {"target": target} for target in self.settings.targets]
            found += [
                self.trial(seed, **one) for one in configs for seed in range(self.settings.seeds)
            ]
        return found

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """One concept with one seed."""
        from attnlab.studies.concepts.work import work

        return work(trial, context)

    def claims(self, table: Table) -> list[Claim]:
        """One or more of every part that was run."""
        return claims(Found(table.done()), self.settings)

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Splits, baselines, sizes of samples, many comparisons, the models."""
        from attnlab.studies.concepts.checks import checks

        found = Found(table.done())
        return checks(found, self.settings, claims(found, self.settings))

    def figures(self, table: Table) -> list[Figure]:
        """A pair token by token, a word merge by merge, bits per byte against data, ids."""
        from attnlab.studies.concepts.figures import figures

        return figures(Found(table.done()), self.settings)

    def answer(self, claims: Sequence[Claim]) -> str:
        """One sentence from the verdicts."""
        from attnlab.studies.concepts.discussion import answer

        return answer(claims)

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """Every concept as a question, with what was seen."""
        from attnlab.studies.concepts.discussion import discussion

        return discussion(Found(table.done()), claims, self.settings)
