"""What the three studies share: settings, and trials that train one encoder on labelled texts."""

import re
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from attnlab.lab.study import NOT_OF_A_TRIAL, Study, StudySettings, deferred, setting
from attnlab.lab.table import Table
from attnlab.products.finetune.settings import FinetuneSettings, data_sha256, model_sha256
from attnlab.studies.adapting.evidence import SHARES, AdaptArms

MADE_UP, TINY = ("made-up", "made-up pairs"), "tiny"
RANDOM = "random"
Rates = tuple[float, ...]


def rate_text(rate: float) -> str:
    """A learning rate as one types it: `5e-5`, `0.0125`."""
    if rate >= 1e-3:  # 0.001 reads better than 1e-3, 1e-4 better than 0.0001
        return f"{rate:g}"
    return re.sub(r"(\.?0*)e-0*", "e-", f"{rate:.3e}")


def rates_text(rates: Iterable[float]) -> str:
    """Learning rates as one types them, separated by commas."""
    return ", ".join(map(rate_text, rates))


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
        "end of it; the same number of batch sizes, where several are searched",
        3,
        smoke=1,
        ge=0,
    )
    widen_factor: float = setting("ratio of such a learning rate to the end of the grid", 3.0, gt=1)

    def base(self, **changed: Any) -> dict[str, Any]:
        """The settings of one training, as plain values for a trial's configuration."""
        tested = changed.pop("tested", self.tested)
        shared = AdaptSettings.model_fields.keys() & FinetuneSettings.model_fields.keys()
        values = {name: getattr(self, name) for name in shared - NOT_OF_A_TRIAL} | changed
        training = FinetuneSettings(**values).model_dump(mode="json", include=set(values))
        return training | {"tested": tested}

    def second_task(self, prefix: str, **changed: Any) -> dict[str, Any]:
        """`base` on the data of the settings with this prefix; test is as large as dev."""
        names = ("data", "rows", "scored", "longest")
        values = {name: getattr(self, f"{prefix}_{name}") for name in names}
        return self.base(**values, tested=values["scored"], data_sha256="", **changed)

    def search_config(
        self,
        rates: Sequence[float],
        batches: Sequence[int],
        epochs: Sequence[float],
        search: str = "grid",
    ) -> dict[str, Any]:
        """How a trial searches, for its configuration."""
        return {
            "kind": "search",
            "search": search,
            "rates": list(rates),
            "batches": list(batches),
            "all_epochs": list(epochs),
            "widen": self.widen,
            "widen_factor": self.widen_factor,
        }


class AdaptStudy(Study):
    """A study whose trials are searches or single trainings of a classifier."""

    Settings: ClassVar[type[StudySettings]] = AdaptSettings
    settings: Any
    shares_accelerator = True  # such encoders leave most of a GPU idle: --workers 12, say

    fetch = deferred(".trial:check_tasks")
    run = deferred(".trial:run")

    @classmethod
    def at(cls, scale: str = "quick", **overrides: object) -> "Study":
        """The hashes of data and weights become settings, so that other files are another run."""
        data, model = overrides.get("data"), overrides.get("model")
        if isinstance(data, str) and data not in MADE_UP and not overrides.get("data_sha256"):
            overrides["data_sha256"] = data_sha256(data)
        if isinstance(model, str) and model != TINY and not overrides.get("model_sha256"):
            overrides["model_sha256"] = model_sha256(model)
        study = super().at(scale, **overrides)
        for name in getattr(study.settings, "encoders", ()):
            if name not in (RANDOM, TINY):
                model_sha256(name)  # a wrong name is reported before torch is loaded
        return study

    @abstractmethod
    def labels(self) -> Mapping[str, str]:
        """Every arm in words."""

    def evidence(self, table: Table) -> AdaptArms:
        """The trials by arm."""
        return AdaptArms(table, self.labels(), shares=SHARES)
