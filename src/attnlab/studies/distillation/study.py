"""A teacher's summaries, and a student that learns from them, from its logits, or from people."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.distillation.claims import claims
from attnlab.studies.distillation.evidence import KINDS, Arms
from attnlab.studies.distillation.settings import (
    BY_DATA,
    FULL,
    SMOKE,
    DistilSettings,
)

NOT_OF_A_TRIAL = ("seeds", "arms", "metric", "shown", "lines", "trial_seconds", "trial_memory_gb")
OF_LINES = ("stemmer", "tokenizer", "data", "lines")


class Distillation(Study):
    """Reported ROUGE-1/2/L/Lsum: teacher .266/.084/.186/.216, distilled .232/.055/.146/.184."""

    name = "distillation"
    question = "What does a small student keep of its teacher's summaries, and who teaches best?"
    source = (
        "A course report: ROUGE-1/2/L/Lsum 0.266/0.084/0.186/0.216 for the teacher, "
        "0.189/0.031/0.122/0.160 for the untuned student, 0.232/0.055/0.146/0.184 distilled, "
        "0.251/0.065/0.159/0.233 on people's summaries"
    )
    extras = ("text",)
    Settings: ClassVar[type[StudySettings]] = DistilSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"smoke": SMOKE, "full": FULL}
    expected: ClassVar = {
        "smoke": "about 30 seconds on two cores, nothing downloaded",
        "quick": "about 25 minutes on two cores; one seed: not a result",
        "full": "three seeds took 5 minutes on an H200 (--device cuda --workers 8)",
    }
    shares_accelerator = True  # such models leave most of a GPU idle: --workers 4, say
    settings: DistilSettings

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """What suits the data, under what a person says; a file's hash becomes a setting."""
        from attnlab.studies.distillation.data import NAMED, file_sha256, model_sha256

        data = overrides.get("data")
        pair = [str(overrides.get(key, "")) for key in ("teacher", "student")]
        if any(pair) and not overrides.get("models_sha256"):
            overrides["models_sha256"] = model_sha256(*pair)
        if not isinstance(data, str):
            return super().at(scale, **overrides)
        if data != "made-up":
            overrides = {"teacher": "smollm2", **overrides}
        if data not in NAMED and not overrides.get("data_sha256"):
            overrides["data_sha256"] = file_sha256(data)
        return super().at(scale, **{**BY_DATA.get(data, {}), **overrides})

    def fetch(self) -> None:
        """Data and models must be there, and fit each other, before a run is begun."""
        from attnlab.studies.distillation.data import several, splits_of
        from attnlab.studies.distillation.models import check_pair

        splits_of(self.settings)
        several(self.settings)
        check_pair(self.settings)

    def trials(self) -> Sequence[Trial]:
        """Trained arms with every seed, the longest first; the others once."""
        s, own = self.settings, self.settings_json()
        for key in NOT_OF_A_TRIAL:
            del own[key]
        for key in ("data", "teacher", "student"):  # of a path, its name: where it lies is nothing
            own[key] = Path(own[key]).name if Path(own[key]).exists() else own[key]
        # the first to need the teacher's texts writes them; the second, people's, needs none
        trained = [arm for arm in ("logits", "human", "text") if arm in s.arms]
        found = [
            self.trial(seed, arm=arm, part=arm, **own) for seed in range(s.seeds) for arm in trained
        ]
        drawn = range(s.seeds) if s.init == "random" and not s.student else range(1)
        for arm in ("teacher", "untuned"):
            seeds = drawn if arm == "untuned" else range(1)
            found += [self.trial(i, arm=arm, part=arm, **own) for i in seeds if arm in s.arms]
        on_cpu = {key: value for key, value in own.items() if key != "device"}
        if "lead" in s.arms:
            found.append(self.trial(0, arm="lead", part="no model", **on_cpu))
        lines = {key: own[key] if key in own else getattr(s, key) for key in OF_LINES}
        return [*found, self.trial(0, arm="lines", part="no model", **lines)]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Train if it is an arm that learns; write, score, audit."""
        from attnlab.studies.distillation.work import work

        return work(self.settings, trial, context)

    def claims(self, table: Table) -> list[Claim]:
        """Differences over seeds and items; one seed decides nothing about training."""
        return claims(Arms(table), self.settings)

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """Losses, masks, splits and measure; the models as they were used; the comparisons."""
        from attnlab.studies.distillation.findings import findings

        made = self.claims(table)
        decided = {c.name: c.runs for c in made if c.runs and c.verdict != "undecided"}
        return [seeds_and_interval(decided), *findings(table, made, self.settings)]

    def figures(self, table: Table) -> list[Figure]:
        """ROUGE by arm, the training, line ends."""
        from attnlab.studies.distillation.figures import figures

        return figures(Arms(table), self.settings)

    def answer(self, claims: Sequence[Claim]) -> str:
        """Whether distilling helped, and how far people's summaries are ahead."""
        found = {c.name: c for c in claims}
        first = found.get("texts-help")
        if first is None:
            return super().answer(claims)
        gain = f"{first.estimate.value:+.3f} {KINDS[self.settings.metric]}"
        if first.verdict == "undecided":
            return f"Not settled: {first.why} (here {gain} by the teacher's texts)."
        interval = f"[{first.estimate.low:+.3f}, {first.estimate.high:+.3f}]"
        word = (
            "Yes, it learns from its teacher" if first.verdict == "holds" else "It learns nothing"
        )
        rest = [
            f"{words} {_verdict(found[name])}"
            for name, words in (
                ("logits-or-texts", "that logits teach more than texts"),
                ("people-or-texts", "that people teach more than the teacher"),
                ("texts-over-lead", "that it beats the first sentence"),
            )
            if name in found
        ]
        return f"{word}: {gain} {interval} by the teacher's texts; {', '.join(rest)}."

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """The table with intervals, what is real in it, cost, line ends, samples."""
        from attnlab.studies.distillation.discussion import sections

        return sections(Arms(table), {c.name: c for c in claims}, self.settings)


def _verdict(claim: Claim) -> str:
    return "is open" if claim.verdict == "undecided" else claim.verdict
