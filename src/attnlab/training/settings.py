"""The settings of a training; all of them except STORAGE_SETTINGS change the numbers."""

from typing import Any, Literal

from pydantic import model_validator

from attnlab.core.config import Settings, setting

OptimizerName = Literal["adamw", "sgd", "adagrad"]
ScheduleName = Literal["cosine", "linear", "constant", "unclamped"]
Precision = Literal["float32", "bfloat16"]
STORAGE_SETTINGS = ("checkpoint_every", "keep")  # when checkpoints are written and deleted


class TrainSettings(Settings):
    """One training: `steps` optimizer steps on batches of `batch` rows."""

    steps: int = setting("number of optimizer steps", 2000, ge=1)
    batch: int = setting("rows per step, whatever `accumulate` is", 32, ge=1)
    accumulate: int = setting(
        "micro-batches per step (gradient accumulation), to save memory", 1, ge=1
    )
    seed: int = setting("seed of torch's global generators, which dropout reads", 0, ge=0, lt=2**63)

    optimizer: OptimizerName = setting("optimizer", "adamw")
    learning_rate: float = setting("peak learning rate", 1e-3, gt=0)
    schedule: ScheduleName = setting("learning rate after the warm-up", "cosine")
    warmup_fraction: float = setting(
        "fraction of the steps in which the learning rate rises", 0.05, ge=0, le=1
    )
    final_fraction: float = setting(
        "final learning rate, as a fraction of the peak", 0.1, ge=0, le=1
    )
    horizon: float = setting(
        'where schedule "unclamped" reaches 0, as a multiple of the steps', 1.0, gt=0
    )
    weight_decay: float = setting("weight decay of matrices; biases and norms get none", 0.1, ge=0)
    betas: tuple[float, float] = setting("betas of AdamW", (0.9, 0.99))
    momentum: float = setting("momentum of SGD", 0.0, ge=0, lt=1)
    clip: float = setting("largest gradient norm; 0: no clipping", 1.0, ge=0)

    precision: Precision = setting("bfloat16: autocast, while the weights stay float32", "float32")
    compile: bool = setting("compile the loss with torch.compile", False)
    deterministic: bool = setting("on a GPU: slower kernels that repeat bit for bit", False)
    evaluate_every: int = setting("steps between evaluations; 0: only after the last step", 0, ge=0)

    checkpoint_every: int = setting(
        "steps between checkpoints; 0: only at new best values and at the end", 0, ge=0
    )
    keep: int = setting("newest checkpoints to keep; the best is always kept", 2, ge=2)

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
