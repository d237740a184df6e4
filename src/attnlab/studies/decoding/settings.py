"""What can be varied; the defaults are the quick scale."""

from typing import Any, Literal

from pydantic import Field, model_validator

from attnlab.lab.study import StudySettings

ANCHORS = ("greedy", "sample")
KEYS = {"temperature": "t", "top-k": "k", "top-p": "p"}  # the three curves
TEMPERED = "top-p:p=0.9,temperature=0.7"
MORE = (TEMPERED, "min-p:p=0.1", "typical:p=0.9", "greedy:repetition=1.3", "beam:width=4")
# exact for any model whose likeliest token is one alone; k = |V| is added once |V| is known
GREEDY_LIMITS = (
    "temperature:t=0",
    "temperature:t=1e-09",
    "top-k:k=1",
    "top-p:p=0",
    "top-p:p=1e-09",
    "min-p:p=1",
)
SAMPLE_LIMITS = ("temperature:t=1", "top-k:k=0", "top-p:p=1", "min-p:p=0", "typical:p=1")


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


class DecodingSettings(StudySettings):
    """A model, prompts, real texts, and the strategies that go on from them."""

    seeds: int = about("texts a prompt: seed j draws text j by every strategy", 3, ge=2)

    model: str = about(
        "'smollm2' (an asset), 'tiny' (random), a folder, a .gguf or a hub name", "smollm2"
    )
    model_sha256: str = about("of its files where they are here; filled in", "")
    prompts: str = about("a UTF-8 text file, one a line; empty: the 53 openings of this study", "")
    prompts_sha256: str = about("of that file, filled in: another file is another run", "")
    first_prompts: int = about("so many of them, from the first on; 0: all", 0, ge=0)
    human: str = about(
        "texts whose beginnings are prompts too, so that people's continuations stand beside the "
        "model's: 'xsum' (an asset), 'made-up', a text file with one a line, or 'none'",
        "xsum",
    )
    human_sha256: str = about("of that file, filled in", "")
    human_texts: int = about("how many of them are used", 30, ge=0)
    human_tokens: int = about("tokens of their beginnings", 16, ge=1)

    new_tokens: int = about("longest continuation, in the model's tokens", 24, ge=4)
    limit_tokens: int = about("of the texts that the limits are shown on", 8, ge=1)
    batch: int = about("texts written at once", 96, ge=1)

    temperatures: tuple[float, ...] = about(
        "T of the curve; greedy is T = 0, plain sampling 1", (0.5, 0.8, 1.2)
    )
    ks: tuple[int, ...] = about("k of the curve; greedy is k = 1", (5, 20, 100))
    ps: tuple[float, ...] = about(
        "p of the curve; greedy is p = 0, plain sampling 1", (0.5, 0.7, 0.9)
    )
    more: tuple[str, ...] = about("further strategies, as `attnlab generate` takes them", MORE)

    repeat: int = about("n of the n-grams whose repetition within a text is counted", 3, ge=1)
    judge: Literal["minilm-l6", "none"] = about(
        "encoder that judges how near a text is to its prompt; shared words are counted anyway",
        "minilm-l6",
    )
    shown: int = about("texts a strategy, of the first prompt, that the report shows", 3, ge=0)

    @model_validator(mode="after")
    def _together(self) -> "DecodingSettings":
        known = {"tiny": "xsum"}.get(self.model, "made-up")
        if self.human == known:
            raise ValueError("model 'tiny' and human 'made-up' know the same words: use both")
        twice = [text for text in self.strategies() if self.strategies().count(text) > 1]
        if twice:
            raise ValueError(f"strategy {twice[0]!r} is there twice")
        return self

    def curve(self, name: str) -> dict[float, str]:
        """Strategy of each value of T, k or p, the values rising."""
        values = {"temperature": self.temperatures, "top-k": self.ks, "top-p": self.ps}[name]
        return {value: f"{name}:{KEYS[name]}={value!r}" for value in sorted(values)}

    def strategies(self) -> list[str]:
        """All of them as `parse_strategy` writes them: greedy and plain sampling first."""
        from attnlab.decode.strategy import parse_strategy  # imports torch: a second

        curves = [text for name in KEYS for text in self.curve(name).values()]
        return [str(parse_strategy(text)) for text in (*ANCHORS, *curves, *self.more)]

    @property
    def has_human(self) -> bool:
        """Whether people's texts are beside the model's."""
        return self.human != "none" and self.human_texts > 0


def draws_nothing(text: str) -> bool:
    """Whether a strategy writes the same every time: greedy, temperature 0, a beam."""
    from attnlab.decode.strategy import parse_strategy

    found = parse_strategy(text)
    return found.width is not None or found.filters.temperature == 0


SMOKE: dict[str, Any] = {
    "model": "tiny",
    "human": "made-up",
    "judge": "none",
    "first_prompts": 23,
    "human_texts": 11,
    "human_tokens": 7,
    "new_tokens": 12,
    "limit_tokens": 6,
    "temperatures": [0.5],
    "ks": [20],
    "ps": [0.7],
}
FULL: dict[str, Any] = {
    "seeds": 10,
    "human_texts": 200,
    "human_tokens": 32,
    "new_tokens": 64,
    "limit_tokens": 64,
    "batch": 256,
    "repeat": 4,
    "temperatures": [0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 1.1, 1.2, 1.5],
    "ks": [2, 5, 10, 20, 50, 100, 500, 2000],
    "ps": [0.1, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99],
    "more": [
        *MORE,
        "top-k:k=20,temperature=0.7",
        "min-p:p=0.05",
        "typical:p=0.5",
        "top-p:p=0.9,repetition=1.1",
        "beam:width=8",
    ],
}
