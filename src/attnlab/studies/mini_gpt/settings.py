"""Settings the three studies share; the defaults are the quick scale."""

from typing import Any, Literal

from pydantic import Field

from attnlab.lab.study import StudySettings


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


NORMAL = "I know not what to say to you , my lord ."
UNGRAMMATICAL = ". lord to my , say what you not know to I"
LONG = (
    "If it be so , as I have heard you say , that he who was my friend is now my enemy , and that "
    "the king , my father , will not hear me speak a word for him , then let me go from this place "
    "to some other , where I may live in peace with those that love me , and think no more of what "
    "is past , nor of the men who were the cause of all my grief , for I have seen enough of the "
    "world to know that a good name is soon lost , and that he who has lost it will not find it "
    "again , though he should live a thousand years and do nothing but good in all of them ."
)


class MiniSettings(StudySettings):
    """One text, one size, one budget for every arm of a study."""

    text: str = about("'shakespeare' (an asset), or a UTF-8 text file", "shakespeare")
    min_count: int = about("rarer words of the training text are <UNK>", 12, ge=1)
    size: Literal["nano", "micro", "mini"] = about(
        "nano 3/3/48, micro 4/4/128, mini 6/6/192", "nano"
    )
    block: int = about("longest sentence in tokens, <START> and <STOP> included", 128, ge=8)
    seeds: int = about("models an arm", 5, ge=1)
    steps: int = about("training steps", 900, ge=1)
    batch: int = about("sentences a step", 32, ge=2)
    by_length: bool = about("sentences of like length share a batch: less padding", True)
    learning_rate: float = about("peak of AdamW's step size", 0.003, gt=0)
    # with 0.05 some seeds stay long near the unigram: 120 instead of 102, and hide every effect
    warmup: float = about("share of the steps in which it rises", 0.2, ge=0, le=1)
    scored: int = about("sentences of each split that are scored", 1200, ge=4)
    singles: int = about("dev sentences scored one by one", 150, ge=2)
    sample_tokens: int = about("tokens of each sample text", 24, ge=1)
    normal: str = about("the normal sentence", NORMAL)
    ungrammatical: str = about(
        "the ungrammatical one: the same words in another order", UNGRAMMATICAL
    )
    long: str = about("the very long one", LONG)


SMOKE: dict[str, Any] = {
    "steps": 6,
    "batch": 4,
    "scored": 12,
    "singles": 4,
    "sample_tokens": 4,
    "seeds": 3,
    "min_count": 60,
    "block": 64,
    "learning_rate": 0.01,
}
FULL: dict[str, Any] = {
    "size": "micro",
    "steps": 8000,
    "batch": 64,
    "seeds": 5,
    "scored": 4000,
    "singles": 500,
    "min_count": 3,
    "learning_rate": 0.001,
}
