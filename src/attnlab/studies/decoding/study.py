"""Greedy, sampling, temperature, top-k, top-p and their kin on the same prompts, beside people."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.finding import Finding
from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_file
from attnlab.lab.claim import Claim
from attnlab.lab.study import Figure, Section, Study, StudySettings
from attnlab.lab.table import Table
from attnlab.lab.trial import Outcome, Trial, TrialContext
from attnlab.studies.decoding.claims import claims
from attnlab.studies.decoding.evidence import PEOPLE, Evidence
from attnlab.studies.decoding.settings import FULL, SMOKE, DecodingSettings, draws_nothing

NAMED = ("xsum", "made-up", "none")  # no file, though one may have such a name
NOT_OF_A_TRIAL = (
    "seeds",
    "temperatures",
    "ks",
    "ps",
    "more",
    "shown",
    "limit_tokens",
    "trial_seconds",
    "trial_memory_gb",
)
OF_TEXTS = ("repeat", "judge")  # measures of texts, of which the limits have none


class Decoding(Study):
    """Nothing was reported in numbers; the limits are theorems and are checked as such."""

    name = "decoding"
    question = "How does the choice of the next token make texts likely, diverse, repetitive?"
    source = "A course task: a story's first sentence continued by five strategies"
    Settings: ClassVar[type[StudySettings]] = DecodingSettings
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {"smoke": SMOKE, "full": FULL}
    expected: ClassVar = {
        "smoke": "about 30 seconds on two cores, nothing downloaded",
        "quick": "about 10 minutes on two cores",
        "full": "not measured; meant for a GPU (--device cuda)",
    }
    shares_accelerator = True  # such models leave most of a GPU idle: --workers 4, say
    settings: DecodingSettings

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """A file's hash becomes a setting: another file is another run."""
        for key in ("prompts", "human"):
            path = overrides.get(key)
            if isinstance(path, str) and path and not (key == "human" and path in NAMED):
                if not Path(path).is_file():
                    known = (
                        f"neither {', '.join(NAMED)} nor a file" if key == "human" else "no file"
                    )
                    raise UsageError(f"{key} {path!r}: {known}")
                overrides.setdefault(f"{key}_sha256", sha256_file(Path(path)))
        model = overrides.get("model")
        if isinstance(model, str) and Path(model).exists():
            from attnlab.studies.distillation.data import model_sha256

            overrides.setdefault("model_sha256", model_sha256(model))
        return super().at(scale, **overrides)

    def fetch(self) -> None:
        """Model, prompts, real texts and judge must be there before a run is begun."""
        from attnlab.studies.decoding.work import check

        check(self.settings)

    def trials(self) -> Sequence[Trial]:
        """The longest first: beams, strategies that draw with every seed, the others once."""
        s, own = self.settings, self.settings_json()
        for key in NOT_OF_A_TRIAL:
            del own[key]
        for key in ("model", "prompts", "human"):  # of a path, its name: where it lies is nothing
            own[key] = Path(own[key]).name if own[key] and Path(own[key]).exists() else own[key]
        bare = {key: value for key, value in own.items() if key not in OF_TEXTS}
        fixed = [text for text in s.strategies() if draws_nothing(text)]
        drawn = [text for text in s.strategies() if text not in fixed]
        beams = [text for text in fixed if text.startswith("beam")]
        found = [self.trial(0, arm=text, **own) for text in beams]
        found.append(self.trial(0, arm="limits", limit_tokens=s.limit_tokens, **bare))
        found.append(self.trial(0, arm="audits", **bare))
        found += [self.trial(seed, arm=text, **own) for text in drawn for seed in range(s.seeds)]
        found += [self.trial(0, arm=text, **own) for text in fixed if text not in beams]
        return [*found, *([self.trial(0, arm=PEOPLE, **own)] if s.has_human else [])]

    def run(self, trial: Trial, context: TrialContext) -> Outcome:
        """Write a text after every prompt, and measure it."""
        from attnlab.studies.decoding.work import work

        return work(self.settings, trial, context)

    def claims(self, table: Table) -> list[Claim]:
        """The limits exactly; the rest over prompts."""
        return claims(Evidence(table, self.settings))

    def audits(self, table: Table, claims: Sequence[Claim]) -> list[Finding]:
        """The comparisons; the model, the sampler and the log-probabilities."""
        from attnlab.studies.decoding.findings import findings

        made = self.claims(table)
        decided = {c.name: c.runs for c in made if c.runs and c.verdict != "undecided"}
        return [seeds_and_interval(decided), *findings(table, made)]

    def figures(self, table: Table) -> list[Figure]:
        """Likelihood against diversity, the three curves, every strategy, people."""
        from attnlab.studies.decoding.figures import figures

        return figures(Evidence(table, self.settings))

    def answer(self, claims: Sequence[Claim]) -> str:
        """The trade in one sentence."""
        from attnlab.studies.decoding.discussion import answer

        return answer({c.name: c for c in claims}) or super().answer(claims)

    def discussion(self, table: Table, claims: Sequence[Claim]) -> list[Section]:
        """The table with intervals, limits, who is nearest to people, samples side by side."""
        from attnlab.studies.decoding.discussion import sections

        return sections(Evidence(table, self.settings), {c.name: c for c in claims})
