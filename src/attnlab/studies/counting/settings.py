"""Settings of the study; the defaults are the quick scale."""

from typing import Any

from pydantic import Field, model_validator

from attnlab.lab.study import StudySettings

ARMS = ("positional", "semantic", "free", "off")  # how a model starts


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


class CountingSettings(StudySettings):
    """The task, the model, the training of a start, and two ways to train on from it."""

    seeds: int = about("models a start", 5, ge=1)
    length: int = about("tokens in a row", 10, ge=2)
    tokens: int = about("different tokens", 15, ge=2)
    width: int = about(
        "of the model; tokens start in one half of it, places in the other", 32, ge=2
    )
    hidden: int = about("units of the read-out", 128, ge=1)

    steps: int = about("of training a start", 4000, ge=1)
    batch: int = about("rows a step, always new ones", 32, ge=1)
    learning_rate: float = about("peak of AdamW's step size, before and after", 0.005, gt=0)
    noise: float = about("spread of the entries held at 0, once they are freed", 0.001, ge=0)
    freed_steps: int = about("of training on in each of two ways, everything free", 2000, ge=1)
    gentle_rate: float = about("step size of SGD then, as published", 0.001, gt=0)
    scored: int = about("test rows", 2000, ge=20)
    points: int = about("points of a learning curve", 20, ge=1)

    @model_validator(mode="after")
    def _fits(self) -> "CountingSettings":
        if self.width % 2:
            raise ValueError(f"width {self.width} has no two halves")
        return self


SMOKE: dict[str, Any] = {
    "seeds": 3,
    "length": 5,
    "tokens": 4,
    "width": 16,
    "hidden": 64,
    "steps": 600,
    "learning_rate": 0.01,
    "freed_steps": 100,
    "scored": 1000,
    "points": 5,
}
# the sizes and the number of steps that were published (there: 35,000 fixed rows, 200 epochs)
FULL: dict[str, Any] = {
    "seeds": 10,
    "width": 64,
    "steps": 200_000,
    "learning_rate": 0.001,
    "freed_steps": 100_000,
    "scored": 10_000,
    "points": 50,
}
