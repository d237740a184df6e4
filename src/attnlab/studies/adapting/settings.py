"""What can be varied in the three studies; the defaults are the quick scale."""

import re
from typing import Any, Literal

from pydantic import Field, model_validator

from attnlab.lab.study import StudySettings
from attnlab.products.finetune.settings import FinetuneSettings

CELLS = "cells.json"  # the document with all trainings of a search
RIGHT = "test_right"  # the array with 1 for each test row that is right
Rates = tuple[float, ...]
OPTIMIZERS = ("adamw", "sgd", "momentum", "adagrad")
NAMES = {"adamw": "AdamW", "sgd": "SGD", "momentum": "SGD with momentum", "adagrad": "Adagrad"}
METHODS = ("full", "head", "prefix", "prefix-layers", "lora")
# names that mean the same in a study and in each of its trainings
SHARED = (
    "data",
    "data_sha256",
    "model",
    "model_sha256",
    "pooling",
    "rows",
    "scored",
    "longest",
    "precision",
    "deterministic",
    "evaluations",
    "device",
)


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


def rate_text(rate: float) -> str:
    """5e-5, 0.0125: a learning rate as one types it."""
    if rate >= 1e-3:  # 0.001 reads better than 1e-3, 1e-4 better than 0.0001
        return f"{rate:g}"
    return re.sub(r"(\.?0*)e-0*", "e-", f"{rate:.3e}")


class AdaptSettings(StudySettings):
    """One set of labelled texts, one encoder, and how a training is watched."""

    data: str = about("sentiment, boolq, snli, or a folder of splits", "sentiment")
    data_sha256: str = about("of a folder's files, filled in", "")
    model: str = about("an asset, a Hugging Face folder, or a hub's name", "minilm-l6")
    model_sha256: str = about("of a folder's weights, filled in", "")
    pooling: Literal["mean", "first"] = about("what the head reads", "mean")
    rows: int = about("rows that are learnt from, drawn by seed; 0: all", 400, ge=0)
    scored: int = about("rows of dev; 0: all", 200, ge=0)
    tested: int = about("rows of test, for what dev chose; 0: all", 0, ge=0)
    longest: int = about("tokens a text may have", 128, ge=8)
    precision: Literal["float32", "bfloat16"] = about("bfloat16: autocast on a GPU", "float32")
    deterministic: bool = about("on a GPU: kernels whose bits repeat", True)
    evaluations: int = about("times an epoch that dev is scored", 2, ge=1)

    def base(self, **changed: Any) -> dict[str, Any]:
        """The settings of one training, as plain values for a trial's configuration."""
        tested = changed.pop("tested", self.tested)
        own = {name: getattr(self, name) for name in SHARED} | changed
        fields = FinetuneSettings(**own).model_dump(mode="json")
        return {name: fields[name] for name in (*SHARED, *changed)} | {"tested": tested}


class FineTuningSettings(AdaptSettings):
    """A search, learning curves, a long training, and the collapse of a rate too high."""

    search: Literal["grid", "halving"] = about(
        "every cell, or ever more epochs for ever fewer of them", "halving"
    )
    batches: tuple[int, ...] = about("rows an update, an axis of the search", (16,), min_length=1)
    rates: Rates = about("learning rates, an axis", (5e-5, 2e-4, 8e-4), min_length=1)
    epochs: tuple[float, ...] = about(
        "epochs, an axis; of halving, the rungs", (1.0, 3.0), min_length=1
    )
    optimizer: Literal["adamw", "sgd", "adagrad"] = about("of every training here", "adamw")
    steady_rate: float = about("of the learning curves and the long training", 5e-5, gt=0)
    steady_batch: int = about("of both, and of the collapse", 16, ge=1)
    sizes: tuple[int, ...] = about("training rows of the learning curve", (50, 150, 400))
    size_epochs: float = about("epochs of each", 3.0, gt=0)
    long_epochs: int = about("of the training that goes on too long; 0: none", 5, ge=0)

    collapse_data: str = about("where a rate too high is shown; empty: nowhere", "boolq")
    collapse_rates: Rates = about("reported ones, at which nothing is learnt", (1.25e-2,))
    sane_rate: float = about("beside them", 5e-5, gt=0)
    collapse_seeds: int = about("models a rate", 3, ge=1)
    collapse_rows: int = about("rows learnt from there; 0: all", 192, ge=0)
    collapse_scored: int = about("rows of dev and of test there; 0: all", 96, ge=0)
    collapse_longest: int = about("tokens of a question with its passage", 96, ge=8)
    collapse_epochs: float = about("a collapse shows within the first", 2.0, gt=0)

    @model_validator(mode="after")
    def _fits(self) -> "FineTuningSettings":
        if self.rows and max(self.sizes, default=0) > self.rows:
            raise ValueError(f"sizes: {max(self.sizes)} rows cannot be drawn from {self.rows}")
        return self


class OptimizerSettings(AdaptSettings):
    """Each optimizer with its own rates, and all of them at one."""

    rows: int = about("rows that are learnt from, drawn by seed; 0: all", 400, ge=0)
    optimizers: tuple[Literal["adamw", "sgd", "momentum", "adagrad"], ...] = about(
        "momentum: sgd with it", OPTIMIZERS, min_length=1
    )
    common_rate: float = about("the one rate for all of the unfair comparison", 5e-5, gt=0)
    adamw_rates: Rates = about("its own grid, besides the common rate", (2e-4, 8e-4))
    sgd_rates: Rates = about("of plain SGD", (0.03, 0.3, 1.0))
    momentum_rates: Rates = about("of SGD with momentum", (0.003, 0.03, 0.1))
    adagrad_rates: Rates = about("of Adagrad", (5e-4, 5e-3))
    momentum: float = about("of SGD with momentum", 0.9, gt=0, lt=1)
    batch: int = about("rows an update", 16, ge=1)
    epochs: float = about("of every training", 2.0, gt=0)

    def rates(self, optimizer: str) -> list[float]:
        """The optimizer's own grid and the common rate, by size."""
        return sorted({self.common_rate, *getattr(self, f"{optimizer}_rates")})


class AdapterSettings(AdaptSettings):
    """Methods on two tasks, and what pretraining gives."""

    rows: int = about("rows that are learnt from, drawn by seed; 0: all", 300, ge=0)
    methods: tuple[Literal["full", "head", "prefix", "prefix-layers", "lora"], ...] = about(
        "what learns", METHODS, min_length=1
    )
    encoders: tuple[str, ...] = about(
        "compared with `model`, all of them trained whole; 'random': its architecture, weights "
        "drawn anew",
        ("random",),
    )
    factors: Rates = about(
        "rates tried, as multiples of what the method usually takes", (0.3, 1.0), min_length=1
    )
    prefix_length: int = about("trained vectors of a prefix", 32, ge=1)
    rank: int = about("of lora", 8, ge=1)
    batch: int = about("rows an update", 16, ge=1)
    epochs: float = about("of every training", 2.0, gt=0)

    pair_data: str = about("the second task; empty: none", "boolq")
    pair_seeds: int = about("models a method there; below 3 nothing is concluded", 1, ge=1)
    pair_rows: int = about("rows learnt from there; 0: all", 128, ge=0)
    pair_scored: int = about("rows of dev and of test there; 0: all", 96, ge=0)
    pair_longest: int = about("tokens of a question with its passage", 96, ge=8)
    pair_epochs: float = about("of every training there", 2.0, gt=0)


TINY: dict[str, Any] = {
    "data": "made-up",
    "model": "tiny",
    "rows": 320,
    "scored": 100,
    "longest": 24,
    "evaluations": 1,
}
ALL: dict[str, Any] = {"rows": 0, "scored": 0, "tested": 0}
FINE_TUNING: dict[str, dict[str, Any]] = {
    "smoke": {
        **TINY,
        "rates": [0.003, 0.01, 0.03],
        "steady_rate": 0.01,
        "sizes": [32, 320],
        "long_epochs": 4,
        "collapse_data": "made-up pairs",
        "sane_rate": 0.01,
        "collapse_rates": [20.0],
        "collapse_rows": 96,
        "collapse_longest": 24,
    },
    "full": {
        **ALL,
        "seeds": 5,
        "search": "grid",
        "batches": [64, 128, 256],
        "rates": [1e-5, 5e-5, 1e-4],
        "epochs": [2.0, 5.0],
        "steady_batch": 32,
        "sizes": [108, 216, 432, 865, 1730, 3460, 6920],
        "long_epochs": 10,
        "collapse_rates": [5e-4, 1e-3, 1.25e-2],
        "collapse_rows": 0,
        "collapse_scored": 0,
        "collapse_longest": 256,
        "evaluations": 4,
    },
}
OPTIMIZER: dict[str, dict[str, Any]] = {
    "smoke": {
        **TINY,
        "common_rate": 1e-4,
        "adamw_rates": [0.01],
        "sgd_rates": [0.3],
        "momentum_rates": [0.1],
        "adagrad_rates": [0.1],
    },
    "full": {
        **ALL,
        "seeds": 5,
        "batch": 32,
        "epochs": 3.0,
        "adamw_rates": [2e-5, 1e-4, 2e-4, 4e-4],
        "sgd_rates": [0.03, 0.1, 0.3, 1.0],
        "momentum_rates": [3e-3, 0.01, 0.03, 0.1],
        "adagrad_rates": [2e-4, 5e-4, 1e-3, 3e-3],
    },
}
ADAPTER: dict[str, dict[str, Any]] = {
    "smoke": {
        **TINY,
        "pair_data": "made-up pairs",
        "pair_rows": 60,
        "pair_longest": 24,
        "prefix_length": 5,
        "factors": [30.0],
        "epochs": 3.0,
        "pair_epochs": 1.0,
    },
    "full": {
        **ALL,
        "factors": [0.3, 1.0, 3.0],
        "prefix_length": 128,
        "batch": 64,
        "epochs": 4.0,
        "precision": "bfloat16",
        "pair_seeds": 3,
        "pair_rows": 0,
        "pair_scored": 0,
        "pair_longest": 256,
        "pair_epochs": 3.0,
    },
}
