"""What can be varied; the defaults are the quick scale."""

from typing import Any, Literal

from pydantic import Field, model_validator

from attnlab.lab.study import StudySettings

Part = Literal["pair", "loop", "order", "merges", "masking", "ids", "anew"]
PARTS: tuple[Part, ...] = ("anew", "ids", "order", "pair", "masking", "merges", "loop")
Target = Literal["law", "plays", "records"]
NAMES = {
    "news": "news",
    "law": "court cases",
    "plays": "Shakespeare's plays",
    "records": "rows of a table",
}


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


class ConceptsSettings(StudySettings):
    """Which concepts are run, on how much of which real texts, with how small a model."""

    seeds: int = about("draws of texts and weights a part", 5, ge=1)
    parts: tuple[Part, ...] = about("which of the concepts are run", PARTS, min_length=1)
    encoder: str = about("an asset or a Hugging Face folder: who reads pairs", "minilm-l6")
    reader: str = about("an asset or a Hugging Face folder: who reads foreign ids", "smollm2")

    pairs: int = about("questions with their passage, read as pairs", 24, ge=2)
    longest: int = about("max_length: tokens a pair may have", 96, ge=8)
    sentences: int = about("about films, to learn from in order or shuffled", 800, ge=16)
    epochs: int = about("times they are read", 4, ge=1)
    masked: int = about("sentences whose words are masked", 800, ge=1)
    merges: int = about("that both programs learn", 200, ge=1)
    merge_bytes: int = about("of the text that merges are learnt from", 60_000, ge=100)
    foreign: int = about("texts read with the ids of another tokenizer", 24, ge=2)
    foreign_tokens: int = about("of each", 64, ge=2)

    targets: tuple[Target, ...] = about(
        "texts that are like the news, or are not", ("law", "records"), min_length=1
    )
    sizes: tuple[int, ...] = about(
        "bytes of them to learn from, rising", (20_000, 100_000, 500_000), min_length=1
    )
    source_bytes: int = about(
        "of news, which the borrowed tokenizer and model have read", 1_500_000, ge=1000
    )
    scored_bytes: int = about("of dev, and of test, that are scored", 40_000, ge=500)
    vocabulary: int = about("of every tokenizer", 1024, ge=300)
    layers: int = about("of the GPT", 3, ge=1)
    heads: int = about("of each layer", 3, ge=1)
    width: int = about("of the GPT", 48, ge=2)
    block: int = about("tokens it reads at once", 64, ge=2)
    batch: int = about("rows a step", 16, ge=1)
    pretrain_steps: int = about("on the news", 600, ge=1)
    steps: int = about("on the target, however few bytes it has", 350, ge=1)
    evaluations: int = about(
        "times dev is scored: the step is chosen there, test is reported", 5, ge=1
    )
    learning_rate: float = about("peak of AdamW's step size, fresh weights", 3e-3, gt=0)
    tune_rate: float = about("peak on pretrained weights", 1.5e-3, gt=0)

    @model_validator(mode="after")
    def _together(self) -> "ConceptsSettings":
        for name in ("parts", "targets", "sizes"):
            if len(set(getattr(self, name))) != len(getattr(self, name)):
                raise ValueError(f"{name}: one is named twice")
        if list(self.sizes) != sorted(self.sizes) or self.sizes[0] < 1000:
            raise ValueError("sizes must rise, from 1,000 bytes on")
        if self.width % self.heads:
            raise ValueError(f"width {self.width} cannot be divided among {self.heads} heads")
        return self


SMOKE: dict[str, Any] = {
    "seeds": 3,
    "parts": ["anew", "order", "pair", "masking", "merges", "loop"],
    "targets": ["records"],
    "sizes": [4000, 9000],
    "source_bytes": 20_000,
    "scored_bytes": 1500,
    "vocabulary": 300,
    "layers": 1,
    "heads": 2,
    "width": 8,
    "block": 16,
    "batch": 4,
    "pretrain_steps": 4,
    "steps": 4,
    "evaluations": 2,
    "pairs": 3,
    "sentences": 24,
    "masked": 12,
    "merges": 20,
    "merge_bytes": 3000,
    "foreign": 3,
    "foreign_tokens": 8,
}
FULL: dict[str, Any] = {
    "seeds": 5,
    "targets": ["law", "plays", "records"],
    "pairs": 200,
    "longest": 256,
    "sentences": 4000,
    "masked": 8000,
    "merges": 1000,
    "merge_bytes": 400_000,
    "foreign": 200,
    "foreign_tokens": 100,
    "sizes": [20_000, 100_000, 500_000, 2_000_000],
    "source_bytes": 1_700_000,
    "scored_bytes": 100_000,
    "vocabulary": 4096,
    "layers": 6,
    "heads": 6,
    "width": 192,
    "block": 128,
    "batch": 32,
    "pretrain_steps": 6000,
    "steps": 3000,
    "evaluations": 15,
    "learning_rate": 1e-3,
    "tune_rate": 5e-4,
}
