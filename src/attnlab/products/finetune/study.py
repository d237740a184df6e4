"""The study behind `attnlab finetune`: one set of labelled texts, one encoder, one method."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim, judge
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.measure.intervals import Estimate, wilson
from attnlab.products.finetune.settings import FinetuneSettings, data_sha256, labelled, model_sha256

AUDITS = ("split-overlap", "freeze", "collapse", "baselines", "adapter-effect", "metric-invariance")
BEATS, ALIVE = "beats-majority", "no-collapse"
SMOKE: dict[str, Any] = {"rows": 24, "scored": 20, "epochs": 1.0, "batch": 8, "method": "head"}


class Finetune(Study):
    """An encoder adapted to labelled texts."""

    name = "finetune"
    question = "What does this encoder learn from these labelled texts?"
    source = "MISSION.md 6"
    Settings: ClassVar[type[StudySettings]] = FinetuneSettings
    presets: ClassVar = {"smoke": SMOKE, "full": {"seeds": 3, "epochs": 5.0}}
    expected: ClassVar = {
        "smoke": "seconds",
        "quick": "sentiment with method full: 10 minutes on one core",
        "full": "not measured",
    }
    settings: FinetuneSettings

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """The hashes of data and of a folder's weights become settings: others, another run."""
        data, model = overrides.get("data", "sentiment"), overrides.get("model", "minilm-l6")
        if isinstance(data, str) and not overrides.get("data_sha256"):
            overrides["data_sha256"] = data_sha256(data)
        if isinstance(model, str) and not overrides.get("model_sha256"):
            overrides["model_sha256"] = model_sha256(model)
        made = super().at(scale, **overrides)
        assert isinstance(made.settings, FinetuneSettings)
        if made.settings.data_sha256:
            labelled(made.settings)  # a table that cannot be read is told before torch is loaded
        return made

    def fetch(self) -> None:
        """Data and encoder must be there and fit each other before a run is begun."""
        from attnlab.products.finetune.work import prepared

        prepared(self.settings)

    def trials(self) -> Sequence[Trial]:
        """One a seed; everything that changes the numbers is in its configuration."""
        own, first = self.settings_json(), self.settings.first_seed
        for key in ("seeds", "first_seed", "trial_seconds", "trial_memory_gb"):
            del own[key]
        for key in ("data", "model"):  # a hash says which one; where it lies does not matter
            own[key] = Path(own[key]).name if own[f"{key}_sha256"] else own[key]
        return [self.trial(seed, **own) for seed in range(first, first + self.settings.seeds)]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Encode, train, choose by dev, score test once, audit."""
        from attnlab.products.finetune.work import finetuned

        return finetuned(self.settings, trial, context)

    def claims(self, table: Table) -> list[Claim]:
        """Against the majority, by the worst of the seeds; and whether any of them collapsed."""
        rows = [row for row in table if row.get("accuracy") is not None]
        if not rows:
            return []
        worst = min(rows, key=lambda row: row["accuracy"])
        share = wilson(worst["right"], worst["tested"])
        return [
            judge(
                BEATS,
                "The classifier beats the most frequent answer",
                share,
                above=worst["majority"],
                quantity="test accuracy, the lowest of the seeds",
                trials=[worst.id],
            ),
            _alive(rows),
        ]

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """One finding an audit over all models."""
        rows = [row for row in table if row.get("audit_freeze") is not None]
        return [_finding(name, rows) for name in AUDITS] if rows else []

    def figures(self, table: Table) -> list[Figure]:
        """Loss and accuracy against steps."""
        from attnlab.products.finetune.figures import learning_figure

        return [learning_figure(table)] if len(table) else []

    def answer(self, claims: Sequence[Claim]) -> str:
        """A collapse comes first."""
        found = {claim.name: claim for claim in claims}
        if BEATS not in found:
            return "Nothing was trained to its end."
        if found[ALIVE].verdict == "fails":
            return f"Collapsed: {found[ALIVE].why}."
        share = found[BEATS].estimate
        beats = {"holds": "above", "fails": "not above"}.get(
            found[BEATS].verdict, "not told apart from"
        )
        return (
            f"{share.value:.1%} of {share.n} test rows are right "
            f"[{share.low:.1%}, {share.high:.1%}], {beats} the most frequent answer."
        )

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """What was cut away, which nobody read."""
        lines = tuple(f"{row['cut']}." for row in list(table)[:1] if row.get("cut"))
        lines += tuple(text for row in list(table)[:1] for text in row.samples)
        return [Section("What was cut", lines)] if lines else []


def _alive(rows: Sequence[Row]) -> Claim:
    said = [str(row["audit_collapse"]) for row in rows]
    bad = [words.removeprefix("fail: ") for words in said if words.startswith("fail")]
    count = Estimate(float(len(bad)), n=len(rows), method="models that collapsed", exact=True)
    statement = "The predictions are those of a model, not of a constant"
    why = bad[0] if bad else f"none of {len(rows)} models collapsed"
    trials = tuple(row.id for row in rows)
    return Claim(
        ALIVE, statement, "fails" if bad else "holds", count, why, "models collapsed", trials=trials
    )


def _finding(name: str, rows: Sequence[Row]) -> Finding:
    said = [str(row[f"audit_{name}"]) for row in rows]
    bad = [words.removeprefix("fail: ") for words in said if words.startswith("fail")]
    hit = (BEATS,) if name not in ("collapse", "baselines") else ()
    evidence: dict[str, Any] = {"models": len(rows), "failing": len(bad)}
    if name == "collapse":
        evidence["first_epoch"] = [row["collapse_first_epoch"] for row in rows]
        evidence["collapsed_evaluations"] = [row["collapsed_evaluations"] for row in rows]
    if bad:
        return Finding(name, "fail", len(bad), 0, bad[0], evidence, hit)
    if all(words == "not-applicable" for words in said):
        return Finding(name, "not-applicable", None, 0, "it applies to no model", evidence)
    return Finding(name, "pass", 0, 0, f"all {len(rows)} models pass", evidence, hit)
