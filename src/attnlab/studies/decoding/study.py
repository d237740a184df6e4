"""Greedy, sampling, temperature, top-k, top-p and others on the same prompts, beside people."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import model_validator

from attnlab.core.files import sha256_of_paths, sha256_of_setting
from attnlab.lab.study import NOT_OF_A_TRIAL, Study, StudySettings, deferred, setting
from attnlab.lab.trial import Trial
from attnlab.studies.decoding.strategies import ANCHORS, KEYS, MORE, PEOPLE, is_deterministic

NAMED = ("xsum", "made-up", "none")  # never files, though one may have such a name
CURVES = ("temperatures", "ks", "ps", "more")  # settings that only add strategies
OF_TEXTS = ("repeat", "judge")  # measures of texts: the trials of limits and audits have none


class DecodingSettings(StudySettings):
    """A model, prompts, texts by people, and the strategies that continue the prompts."""

    seeds: int = setting("sampled texts per prompt and strategy", 3, full=10, ge=2)

    model: str = setting(
        "'smollm2' (an asset), 'tiny' (random), a folder, a .gguf or a hub name",
        "smollm2",
        smoke="tiny",
    )
    model_sha256: str = setting("hash of a local model; filled in automatically", "")
    prompts: str = setting(
        "text file (UTF-8) with one prompt per line; empty: the 53 openings of this study", ""
    )
    prompts_sha256: str = setting("hash of that file; filled in automatically", "")
    first_prompts: int = setting("number of prompts, from the first on; 0: all", 0, smoke=23, ge=0)
    human: str = setting(
        "texts by people: their beginnings are prompts too, and people's continuations are "
        "compared with the model's: 'xsum' (an asset), 'made-up', a text file with one text per "
        "line, or 'none'",
        "xsum",
        smoke="made-up",
    )
    human_sha256: str = setting("hash of that file; filled in automatically", "")
    human_texts: int = setting("number of texts by people", 30, smoke=11, full=200, ge=0)
    human_tokens: int = setting("tokens of their beginnings", 16, smoke=7, full=32, ge=1)

    new_tokens: int = setting("longest continuation, in tokens", 24, smoke=12, full=64, ge=4)
    limit_tokens: int = setting(
        "longest continuation in the test of the limits", 8, smoke=6, full=64, ge=1
    )
    batch: int = setting("texts generated at once", 96, full=256, ge=1)

    temperatures: tuple[float, ...] = setting(
        "temperatures T; greedy is T = 0, plain sampling T = 1",
        (0.5, 0.8, 1.2),
        smoke=(0.5,),
        full=(0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.5),
    )
    ks: tuple[int, ...] = setting(
        "values of k in top-k; greedy is k = 1",
        (5, 20, 100),
        smoke=(20,),
        full=(2, 5, 10, 20, 50, 100, 500, 2000),
    )
    ps: tuple[float, ...] = setting(
        "values of p in top-p; greedy is p = 0, plain sampling p = 1",
        (0.5, 0.7, 0.9),
        smoke=(0.7,),
        full=(0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99),
    )
    more: tuple[str, ...] = setting(
        "further strategies, written as for `attnlab generate`",
        MORE,
        full=(
            *MORE,
            "top-k:k=20,temperature=0.7",
            "min-p:p=0.05",
            "typical:p=0.5",
            "top-p:p=0.9,repetition=1.1",
            "beam:width=8",
        ),
    )

    repeat: int = setting(
        "n of the n-grams whose repetition within a text is counted", 3, full=4, ge=1
    )
    judge: Literal["minilm-l6", "none"] = setting(
        "encoder that compares texts with prompts; shared words are always compared",
        "minilm-l6",
        smoke="none",
    )
    shown: int = setting("texts per strategy that the report shows", 3, ge=0)

    @model_validator(mode="after")
    def _fit_together(self) -> "DecodingSettings":
        if self.human == {"tiny": "xsum"}.get(self.model, "made-up"):
            raise ValueError("model 'tiny' and human 'made-up' know the same words: use both")
        strategies = self.strategies()
        twice = [text for text in strategies if strategies.count(text) > 1]
        if twice:
            raise ValueError(f"strategy {twice[0]!r} is given twice")
        return self

    def curve(self, name: str) -> dict[float, str]:
        """Value -> strategy along T, k or p, in rising order."""
        values = {"temperature": self.temperatures, "top-k": self.ks, "top-p": self.ps}[name]
        return {value: f"{name}:{KEYS[name]}={value!r}" for value in sorted(values)}

    def strategies(self) -> list[str]:
        """All strategies as `parse_strategy` writes them: greedy and plain sampling first."""
        from attnlab.decode.strategy import parse_strategy  # imports torch: a second

        curves = [text for name in KEYS for text in self.curve(name).values()]
        return [str(parse_strategy(text)) for text in (*ANCHORS, *curves, *self.more)]

    @property
    def has_human(self) -> bool:
        """Whether texts by people are part of the run."""
        return self.human != "none" and self.human_texts > 0


class Decoding(Study):
    """Nothing was reported in numbers; the limits are theorems and are checked as such."""

    name = "decoding"
    question = "How does the choice of the next token make texts likely, diverse, repetitive?"
    source = "A course task: a story's first sentence continued by five strategies"
    Settings: ClassVar[type[StudySettings]] = DecodingSettings
    settings: DecodingSettings
    expected: ClassVar = {
        "smoke": "about 30 seconds on two cores, nothing downloaded",
        "quick": "about 10 minutes on two cores",
        "full": "not measured; meant for a GPU (--device cuda)",
    }
    shares_accelerator = True  # such models leave most of a GPU idle: --workers 4, say
    template = "report.md"

    fetch = deferred(".trial:check_inputs")
    run = deferred(".trial:run")
    evidence = deferred(".evidence:evidence")
    claims = deferred(".claims:claims")
    figures = deferred(".figures:figures")
    facts = deferred(".facts:facts")

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """The hashes of files and of a local model become settings: another file, another run."""
        for key, known in {"prompts": (), "human": NAMED}.items():
            sha256 = sha256_of_setting(key, overrides.get(key), known)
            overrides.setdefault(f"{key}_sha256", sha256)
        overrides.setdefault("model_sha256", sha256_of_paths(str(overrides.get("model", ""))))
        return super().at(scale, **overrides)

    def trials(self) -> Sequence[Trial]:
        """The longest first: beams, strategies that sample with every seed, the others once."""
        s = self.settings
        skipped = {*NOT_OF_A_TRIAL, *CURVES, "shown", "limit_tokens"}
        config = {key: value for key, value in self.settings_json().items() if key not in skipped}
        for key in ("model", "prompts", "human"):  # the name of a path, wherever it lies
            config[key] = Path(config[key]).name if Path(config[key]).exists() else config[key]
        bare = {key: value for key, value in config.items() if key not in OF_TEXTS}
        fixed = [text for text in s.strategies() if is_deterministic(text)]
        drawn = [text for text in s.strategies() if text not in fixed]
        beams = [text for text in fixed if text.startswith("beam")]
        others = [text for text in fixed if text not in beams] + [PEOPLE] * s.has_human
        return [
            *(self.trial(0, arm=text, **config) for text in beams),
            self.trial(0, arm="limits", limit_tokens=s.limit_tokens, **bare),
            self.trial(0, arm="audits", **bare),
            *(self.trial(i, arm=text, **config) for text in drawn for i in range(s.seeds)),
            *(self.trial(0, arm=text, **config) for text in others),
        ]
