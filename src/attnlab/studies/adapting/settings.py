"""Settings of the three studies and their presets; the defaults are the quick scale."""

import re
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import model_validator

from attnlab.lab.study import StudySettings, setting
from attnlab.products.finetune.settings import FinetuneSettings

CELLS = "cells.json"  # document: all cells of a search
RIGHT = "test_right"  # array: 1 for each test row that is classified correctly
Rates = tuple[float, ...]
OPTIMIZERS = ("adamw", "sgd", "momentum", "adagrad")
NAMES = {"adamw": "AdamW", "sgd": "SGD", "momentum": "SGD with momentum", "adagrad": "Adagrad"}
METHODS = ("full", "head", "prefix", "prefix-layers", "lora")
# settings that a study and each of its trainings share
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


def rate_text(rate: float) -> str:
    """A learning rate as one types it: `5e-5`, `0.0125`."""
    if rate >= 1e-3:  # 0.001 reads better than 1e-3, 1e-4 better than 0.0001
        return f"{rate:g}"
    return re.sub(r"(\.?0*)e-0*", "e-", f"{rate:.3e}")


class AdaptSettings(StudySettings):
    """The labelled texts, the encoder, and how trainings are evaluated."""

    seeds: int = setting("independent repetitions of every arm", 5, smoke=3, ge=1)
    data: str = setting(
        "sentiment, boolq, snli, or a folder of splits", "sentiment", smoke="made-up"
    )
    data_sha256: str = setting("hash of the files in a folder, filled in", "")
    model: str = setting(
        "encoder: an asset, a Hugging Face folder or a hub name", "minilm-l6", smoke="tiny"
    )
    model_sha256: str = setting("hash of the weights in a folder, filled in", "")
    pooling: Literal["mean", "first"] = setting(
        "input of the head: mean over tokens, or first token", "mean"
    )
    rows: int = setting("training rows, drawn by seed; 0: all", 200, smoke=320, full=0, ge=0)
    scored: int = setting("dev rows; 0: all", 128, smoke=100, full=0, ge=0)
    tested: int = setting("test rows; 0: all", 0, ge=0)
    longest: int = setting("maximum tokens per text", 128, smoke=24, ge=8)
    precision: Literal["float32", "bfloat16"] = setting(
        "bfloat16 uses autocast, on a GPU", "float32", full="bfloat16"
    )
    deterministic: bool = setting("use deterministic kernels on a GPU", True)
    evaluations: int = setting(
        "evaluations per epoch, on dev and on as many training rows", 1, ge=1
    )
    widen: int = setting(
        "learning rates that a search may try beyond its grid, one at a time, while dev chooses an "
        "end of it; as many batch sizes, where several are searched",
        3,
        smoke=1,
        ge=0,
    )
    widen_factor: float = setting("ratio of such a learning rate to the end of the grid", 3.0, gt=1)

    def base(self, **changed: Any) -> dict[str, Any]:
        """The settings of one training, as plain values for a trial's configuration."""
        tested = changed.pop("tested", self.tested)
        values = {name: getattr(self, name) for name in SHARED} | changed
        fields = FinetuneSettings(**values).model_dump(mode="json")
        return {name: fields[name] for name in (*SHARED, *changed)} | {"tested": tested}

    def search_config(self, rates: Sequence[float], **rest: Any) -> dict[str, Any]:
        """How a trial searches, for its configuration."""
        grown = {"widen": self.widen, "widen_factor": self.widen_factor}
        return {"kind": "search", "rates": list(rates), **rest, **grown}

    def second_task(self, prefix: str, **changed: Any) -> dict[str, Any]:
        """`base` on the data of the settings with this prefix; test is as large as dev."""
        names = ("data", "rows", "scored", "longest")
        values = {name: getattr(self, f"{prefix}_{name}") for name in names}
        return self.base(**values, tested=values["scored"], data_sha256="", **changed)


class FineTuningSettings(AdaptSettings):
    """A search, learning curves, a long training, and a collapse at too high a learning rate."""

    search: Literal["grid", "halving"] = setting(
        "grid: every cell; halving: more epochs for the best third of the cells",
        "halving",
        full="grid",
    )
    batches: tuple[int, ...] = setting(
        "batch sizes of the search", (8,), smoke=(16,), full=(64, 128, 256), min_length=1
    )
    rates: Rates = setting(
        "learning rates of the search",
        (5e-5, 2e-4, 8e-4),
        smoke=(0.003, 0.01, 0.03),
        full=(1e-5, 5e-5, 1e-4),
        min_length=1,
    )
    epochs: tuple[float, ...] = setting(
        "numbers of epochs of the search; for halving, the rungs",
        (1.0, 3.0),
        full=(2.0, 5.0),
        min_length=1,
    )
    optimizer: Literal["adamw", "sgd", "adagrad"] = setting("optimizer of every training", "adamw")
    steady_rate: float = setting(
        "learning rate outside the search: training sizes, long training", 5e-5, smoke=0.01, gt=0
    )
    steady_batch: int = setting("batch size outside the search", 8, smoke=16, full=64, ge=1)
    sizes: tuple[int, ...] = setting(
        "numbers of training rows to compare",
        (50, 200),
        smoke=(32, 320),
        full=(108, 216, 432, 865, 1730, 3460, 6920),
    )
    size_epochs: float = setting("epochs for each number of training rows", 3.0, gt=0)
    long_epochs: int = setting("epochs of the long training; 0: none", 5, smoke=4, full=10, ge=0)

    collapse_data: str = setting(
        "data on which a model collapses; empty: none", "boolq", smoke="made-up pairs"
    )
    collapse_rates: Rates = setting(
        "reported learning rates that collapse",
        (1.25e-2,),
        smoke=(20.0,),
        full=(5e-4, 1e-3, 1.25e-2, 1.25e-2),
    )
    collapse_epochs: tuple[float, ...] = setting(
        "training epochs at each of these learning rates, or one number for all; "
        "the learning rate to compare with has the fewest",
        (2.0,),
        full=(7.0, 9.0, 12.0, 20.0),
        min_length=1,
    )
    sane_rate: float = setting("learning rate to compare them with", 5e-5, smoke=0.01, gt=0)
    collapse_seeds: int = setting("models per learning rate", 3, ge=1)
    collapse_rows: int = setting("training rows there; 0: all", 128, smoke=96, full=0, ge=0)
    collapse_scored: int = setting(
        "dev rows and test rows there, each; 0: all", 64, smoke=96, full=0, ge=0
    )
    collapse_longest: int = setting(
        "maximum tokens of a question and its passage", 96, smoke=24, full=256, ge=8
    )

    @property
    def collapse_runs(self) -> list[tuple[float, float]]:
        """Learning rate and epochs of every training there; the last one is not to collapse."""
        epochs = self.collapse_epochs
        if len(epochs) == 1:
            epochs = epochs * len(self.collapse_rates)
        high = list(zip(self.collapse_rates, epochs, strict=True))
        return [*high, (self.sane_rate, min(self.collapse_epochs))]

    @model_validator(mode="after")
    def _fits(self) -> "FineTuningSettings":
        if self.rows and max(self.sizes, default=0) > self.rows:
            raise ValueError(
                f"sizes: {max(self.sizes)} rows cannot be drawn from {self.rows} training rows"
            )
        if min(self.collapse_epochs) <= 0:
            raise ValueError("collapse_epochs: epochs are greater than 0")
        if len(self.collapse_epochs) not in (1, len(self.collapse_rates)):
            raise ValueError("collapse_epochs: one number, or one for each of collapse_rates")
        if len(set(self.collapse_runs)) != len(self.collapse_runs):
            raise ValueError("collapse_rates: a learning rate and its epochs are given twice")
        return self


class OptimizerSettings(AdaptSettings):
    """Learning rates for each optimizer, and one for all."""

    optimizers: tuple[Literal["adamw", "sgd", "momentum", "adagrad"], ...] = setting(
        "optimizers to compare; momentum: SGD with momentum",
        ("adamw", "sgd", "adagrad"),
        smoke=OPTIMIZERS,
        full=OPTIMIZERS,
        min_length=1,
    )
    common_rate: float = setting("learning rate at which all are compared", 5e-5, smoke=1e-4, gt=0)
    # the same number for every optimizer: a search with more cells finds more
    adamw_rates: Rates = setting(
        "further learning rates of AdamW", (2e-4,), smoke=(0.01,), full=(2e-5, 1e-4, 2e-4)
    )
    sgd_rates: Rates = setting(
        "further learning rates of SGD", (0.1,), smoke=(0.3,), full=(0.01, 0.03, 0.1)
    )
    momentum_rates: Rates = setting(
        "further learning rates of SGD with momentum",
        (0.01,),
        smoke=(0.1,),
        full=(1e-3, 3e-3, 0.01),
    )
    adagrad_rates: Rates = setting(
        "further learning rates of Adagrad", (5e-4,), smoke=(0.1,), full=(2e-4, 5e-4, 1e-3)
    )
    momentum: float = setting("momentum of SGD with momentum", 0.9, gt=0, lt=1)
    batch: int = setting("batch size in rows", 8, smoke=16, full=64, ge=1)
    epochs: float = setting("training epochs", 2.0, full=10.0, gt=0)

    def rates(self, optimizer: str) -> list[float]:
        """The learning rates of an optimizer, the common one among them, in increasing order."""
        return sorted({self.common_rate, *getattr(self, f"{optimizer}_rates")})


class AdapterSettings(AdaptSettings):
    """Methods and encoders on two tasks."""

    methods: tuple[Literal["full", "head", "prefix", "prefix-layers", "lora"], ...] = setting(
        "methods to compare: what is trained",
        ("full", "head", "prefix"),
        smoke=METHODS,
        full=METHODS,
        min_length=1,
    )
    encoders: tuple[str, ...] = setting(
        "encoders to compare with `model` by full fine-tuning; random: the same architecture, "
        "not pretrained",
        ("random",),
    )
    factors: Rates = setting(
        "learning rates tried, as multiples of the method's default",
        (0.3, 1.0),
        smoke=(30.0,),
        full=(0.3, 1.0, 3.0),
        min_length=1,
    )
    prefix_length: int = setting("trained vectors of a prefix", 8, smoke=5, full=128, ge=1)
    rank: int = setting("rank of LoRA", 8, ge=1)
    batch: int = setting("batch size in rows", 8, smoke=16, full=64, ge=1)
    epochs: float = setting("training epochs", 2.0, smoke=3.0, full=4.0, gt=0)

    pair_data: str = setting(
        "data of the second task; empty: none", "", smoke="made-up pairs", full="boolq"
    )
    pair_seeds: int = setting("models per method there", 3, smoke=1, ge=1)
    pair_rows: int = setting("training rows there; 0: all", 0, smoke=60, ge=0)
    pair_scored: int = setting("dev rows and test rows there, each; 0: all", 0, smoke=96, ge=0)
    pair_longest: int = setting("maximum tokens of a question and its passage", 256, smoke=24, ge=8)
    pair_epochs: float = setting("training epochs there", 3.0, smoke=1.0, gt=0)
