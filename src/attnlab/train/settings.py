"""What a training can be told; everything here but the last two changes the numbers."""

from typing import Any, Literal

from pydantic import Field, model_validator

from attnlab.core.config import Settings

OptimizerName = Literal["adamw", "sgd", "adagrad"]
ScheduleName = Literal["cosine", "linear", "constant", "unclamped"]
Precision = Literal["float32", "bfloat16"]
STORAGE_SETTINGS = ("checkpoint_every", "keep")  # how often it is stored: no number depends on them


class TrainSettings(Settings):
    """One training: `steps` updates on batches of `batch` rows."""

    steps: int = Field(default=2000, ge=1)
    batch: int = Field(default=32, ge=1)  # rows of a step, whatever `accumulate` is
    accumulate: int = Field(default=1, ge=1)  # pieces a batch is computed in, to save memory
    seed: int = Field(default=0, ge=0, lt=2**63)  # of what draws inside a step, dropout say

    optimizer: OptimizerName = "adamw"
    learning_rate: float = Field(default=1e-3, gt=0)
    schedule: ScheduleName = "cosine"
    warmup_fraction: float = Field(default=0.05, ge=0, le=1)  # of the steps: the rate rises
    final_fraction: float = Field(default=0.1, ge=0, le=1)  # of the rate: where it ends
    horizon: float = Field(default=1.0, gt=0)  # of the steps: where "unclamped" is first at its end
    weight_decay: float = Field(default=0.1, ge=0)  # on matrices; biases and norms are left alone
    betas: tuple[float, float] = (0.9, 0.99)  # of AdamW
    momentum: float = Field(default=0.0, ge=0, lt=1)  # of SGD
    clip: float = Field(default=1.0, ge=0)  # largest norm of the gradient; 0: as it comes

    precision: Precision = "float32"  # bfloat16: autocast, the weights stay float32
    compile: bool = False
    deterministic: bool = False  # on a GPU: slower kernels whose bits repeat
    evaluate_every: int = Field(default=0, ge=0)  # steps; 0: once, after the last one

    checkpoint_every: int = Field(default=0, ge=0)  # steps; 0: at evaluations and the end only
    keep: int = Field(default=2, ge=2)  # newest checkpoints kept; the best is kept besides

    @model_validator(mode="after")
    def _options_of_the_optimizer(self) -> "TrainSettings":
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum is an option of sgd, not of {self.optimizer}")
        if self.horizon != 1 and self.schedule != "unclamped":
            raise ValueError(f"horizon is an option of 'unclamped', not of {self.schedule!r}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError("betas must be at least 0 and below 1")
        return self

    def identity(self) -> dict[str, Any]:
        """The settings that change the numbers, as plain JSON: what a resumed run must share."""
        return self.model_dump(mode="json", exclude=set(STORAGE_SETTINGS))

    def is_due(self, every: int, done: int) -> bool:
        """Whether something that happens each `every` steps happens after `done` of them."""
        return done == self.steps or (every > 0 and done % every == 0)
