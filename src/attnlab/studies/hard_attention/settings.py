"""Settings of the study; the defaults are the quick scale."""

from typing import Any

from pydantic import Field, model_validator

from attnlab.lab.study import StudySettings

Grid = tuple[float, ...]
Vectors = tuple[tuple[float, float], ...]


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


class HardSettings(StudySettings):
    """A given example, random instances for the gradients, and a task for the learning."""

    seeds: int = about("sets of random instances; models an arm and learning rate", 5, ge=1)

    given_keys: Vectors = about(
        "keys of the given example, in the plane",
        ((1.0, 0.1), (0.5, 0.9), (-0.6, 0.8), (-0.9, -0.5), (0.4, -0.9)),
    )
    given_values: Grid = about("its values, a number a key", (1.0, -0.5, 2.0, 0.0, 1.5))
    given_query: tuple[float, float] = about("its query", (2.2, 0.6))

    temperatures: Grid = about(
        "T of softmax(scores / T)",
        (2.0, 1.4, 1.0, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12, 0.08, 0.05, 0.03, 0.02, 0.01),
    )
    instances: int = about("instances a set, measured by autograd and by differences", 12, ge=3)
    many: int = about("instances a set for the mean, by the formula of the slope", 20_000, ge=10)
    instance_keys: int = about("keys of an instance", 8, ge=2)
    instance_dim: int = about("dimensions h of its keys; scores are k·q/√h", 4, ge=1)
    instance_outputs: int = about("dimensions of its values", 3, ge=1)

    pairs: int = about("(key, value) pairs in a row of the task", 8, ge=2)
    symbols: int = about("different keys", 16, ge=2)
    answers: int = about("different values", 16, ge=2)
    width: int = about("of the one-layer model", 32, ge=2)
    steps: int = about("training steps", 800, ge=1)
    batch: int = about("rows a step, always new ones", 64, ge=1)
    rates: Grid = about(
        "learning rates; each arm is reported at its best on dev rows", (0.003, 0.01, 0.03, 0.1)
    )
    cold: float = about("T of the arm with a low fixed temperature", 0.01, gt=0)
    anneal_to: float = about("T at the end of the annealed arm; it starts at 1", 0.02, gt=0)
    scored: int = about("test rows, and as many dev rows", 2000, ge=20)
    points: int = about("points of a learning curve", 20, ge=1)

    @model_validator(mode="after")
    def _fits(self) -> "HardSettings":
        if len(self.given_keys) != len(self.given_values) or not self.given_keys:
            raise ValueError("given_keys and given_values must have the same length, 1 or more")
        if self.symbols < self.pairs:
            raise ValueError(f"{self.pairs} pairs with different keys need as many symbols")
        for name in ("temperatures", "rates"):
            values = getattr(self, name)
            if not values or min(values) <= 0 or len(set(values)) < len(values):
                raise ValueError(f"{name} must be above 0 and differ")
        return self


SMOKE: dict[str, Any] = {
    "seeds": 3,
    "temperatures": [2.0, 0.5, 0.1, 0.02],
    "instances": 3,
    "many": 400,
    "steps": 150,
    "batch": 32,
    "rates": [0.01],
    "scored": 500,
    "points": 5,
}

FULL: dict[str, Any] = {
    "seeds": 10,
    "instances": 100,
    "many": 200_000,
    "pairs": 16,
    "symbols": 64,
    "answers": 32,
    "width": 64,
    "steps": 5000,
    "batch": 128,
    "rates": [0.001, 0.003, 0.01, 0.03, 0.1],
    "scored": 10_000,
    "points": 40,
}
