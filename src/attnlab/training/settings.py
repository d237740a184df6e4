"""The settings of a training; all of them except STORAGE_SETTINGS change the numbers."""

from typing import Any, Literal

from pydantic import Field, model_validator

from attnlab.core.config import Settings

OptimizerName = Literal["adamw", "sgd", "adagrad"]
ScheduleName = Literal["cosine", "linear", "constant", "unclamped"]
Precision = Literal["float32", "bfloat16"]
STORAGE_SETTINGS = ("checkpoint_every", "keep")  # when checkpoints are written and deleted


class TrainSettings(Settings):
    """One training: `steps` optimizer steps on batches of `batch` rows."""

    steps: int = Field(default=2000, ge=1, description="number of optimizer steps")
    batch: int = Field(default=32, ge=1, description="rows per step, whatever `accumulate` is")
    accumulate: int = Field(
        default=1,
        ge=1,
        description="micro-batches per step (gradient accumulation), to save memory",
    )
    seed: int = Field(
        default=0,
        ge=0,
        lt=2**63,
        description="seed of torch's global generators, which dropout reads",
    )

    optimizer: OptimizerName = Field(default="adamw", description="optimizer")
    learning_rate: float = Field(default=1e-3, gt=0, description="peak learning rate")
    schedule: ScheduleName = Field(default="cosine", description="learning rate after the warm-up")
    warmup_fraction: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="fraction of the steps in which the learning rate rises",
    )
    final_fraction: float = Field(
        default=0.1, ge=0, le=1, description="final learning rate, as a fraction of the peak"
    )
    horizon: float = Field(
        default=1.0,
        gt=0,
        description='where schedule "unclamped" reaches 0, as a multiple of the steps',
    )
    weight_decay: float = Field(
        default=0.1, ge=0, description="weight decay of matrices; biases and norms get none"
    )
    betas: tuple[float, float] = Field(default=(0.9, 0.99), description="betas of AdamW")
    momentum: float = Field(default=0.0, ge=0, lt=1, description="momentum of SGD")
    clip: float = Field(default=1.0, ge=0, description="largest gradient norm; 0: no clipping")

    precision: Precision = Field(
        default="float32", description="bfloat16: autocast, while the weights stay float32"
    )
    compile: bool = Field(default=False, description="compile the loss with torch.compile")
    deterministic: bool = Field(
        default=False, description="on a GPU: slower kernels that repeat bit for bit"
    )
    evaluate_every: int = Field(
        default=0, ge=0, description="steps between evaluations; 0: only after the last step"
    )

    checkpoint_every: int = Field(
        default=0,
        ge=0,
        description="steps between checkpoints; 0: only at new best values and at the end",
    )
    keep: int = Field(
        default=2, ge=2, description="newest checkpoints to keep; the best is always kept"
    )

    @model_validator(mode="after")
    def _check_options(self) -> "TrainSettings":
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum is an option of sgd, not of {self.optimizer}")
        if self.horizon != 1 and self.schedule != "unclamped":
            raise ValueError(f"horizon is an option of 'unclamped', not of {self.schedule!r}")
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError("betas must be at least 0 and below 1")
        return self

    def identity(self) -> dict[str, Any]:
        """Return the settings that change the numbers, as JSON; a resumed run must share them."""
        return self.model_dump(mode="json", exclude=set(STORAGE_SETTINGS))

    def is_due(self, every: int, done: int) -> bool:
        """Tell whether an action with period `every` is due after `done` steps.

        Every action is due after the last step; with period 0 it is due only then.
        """
        return done == self.steps or (every > 0 and done % every == 0)
