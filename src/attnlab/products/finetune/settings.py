"""What a fine-tuning can be told, and which data its `data` means."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_file, sha256_files
from attnlab.lab.study import StudySettings

if TYPE_CHECKING:
    from attnlab.tasks.labelled import LabelledData
    from attnlab.train.tune import TuneSettings

KNOWN = ("sentiment", "boolq", "snli")
# what has few numbers to move needs the larger steps; best of three each by dev, on sentences and
# on BoolQ (docs/results/adapting.md)
RATES = {"full": 1e-4, "head": 5e-3, "prefix": 5e-3, "prefix-layers": 1.5e-2, "lora": 3e-3}


def about(text: str, default: Any, **limits: Any) -> Any:
    """A field with its meaning, as `attnlab show` prints it."""
    return Field(default=default, description=text, **limits)


class FinetuneSettings(StudySettings):
    """LabelledData texts, an encoder, a method and a training."""

    seeds: int = about("models, each with its own seed", 1, ge=1)
    first_seed: int = about("the first of these seeds", 0, ge=0)
    data: str = about(
        "sentiment, boolq, snli, a .csv, .tsv or .jsonl, a folder of splits", "sentiment"
    )
    data_sha256: str = about("of the file, filled in: other data are another run", "")
    text: str = about("the column of the text", "text")
    second: str = about("the column of a second text; empty: none", "")
    label: str = about("the column of the label", "label")
    rows: int = about("rows that are learnt from; 0: all", 0, ge=0)
    scored: int = about("rows of dev and of test; 0: all", 0, ge=0)

    model: str = about("an asset, a Hugging Face folder, or a hub's name", "minilm-l6")
    model_sha256: str = about("of a folder's weights, filled in", "")
    init: Literal["pretrained", "random"] = about(
        "where its weights begin; random: the same architecture, knowing nothing", "pretrained"
    )
    method: Literal["full", "head", "prefix", "prefix-layers", "lora"] = about(
        "what learns", "full"
    )
    pooling: Literal["mean", "first", "virtual"] = about("what the head reads", "mean")
    prefix_length: int = about("trained vectors of a prefix", 128, ge=1)
    rank: int = about("of lora", 8, ge=1)
    alpha: float = about("of lora: its size is alpha / rank", 16.0, gt=0)
    longest: int = about("tokens a text may have; 0: as many as the encoder reads", 256, ge=0)

    epochs: float = about("times every row is met", 3.0, gt=0)
    batch: int = about("rows an update", 32, ge=1)
    optimizer: Literal["adamw", "sgd", "adagrad"] = about("from torch.optim", "adamw")
    momentum: float = about("of sgd", 0.0, ge=0, lt=1)
    learning_rate: float = about("its peak; 0: as the method needs", 0.0, ge=0)
    warmup: float = about("share of the steps in which it rises", 0.1, ge=0, le=1)
    weight_decay: float = about("on matrices", 0.01, ge=0)
    precision: Literal["float32", "bfloat16"] = about("bfloat16: autocast on a GPU", "float32")
    deterministic: bool = about("on a GPU: kernels whose bits repeat", True)
    evaluations: int = about("times an epoch that dev is scored", 2, ge=1)
    threads: int = about("of the CPU: they change the last bits", 1, ge=1)

    @model_validator(mode="after")
    def _fits(self) -> "FinetuneSettings":
        if self.pooling == "virtual" and self.method != "prefix":
            raise ValueError("pooling 'virtual' reads the first trained vector: method 'prefix'")
        if self.init == "random" and self.method != "full":
            raise ValueError("init 'random' knows nothing that an adapter could use: method 'full'")
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum is an option of sgd, not of {self.optimizer}")
        return self

    @property
    def rate(self) -> float:
        """The peak of the learning rate."""
        return self.learning_rate or RATES[self.method]

    def tuning(self) -> "TuneSettings":
        """The part that says what is added and what learns."""
        from attnlab.train.tune import TuneSettings

        return TuneSettings(
            method=self.method,
            pooling=self.pooling,
            prefix_length=self.prefix_length,
            rank=self.rank,
            alpha=self.alpha,
        )


def data_sha256(data: str) -> str:
    """SHA-256 of a file, or of the splits of a folder; '' for data of an asset."""
    if data in KNOWN:
        return ""
    path = Path(data)
    try:
        if path.is_dir():
            from attnlab.tasks.split_folder import split_files

            return sha256_files(split_files(path).values())
        if path.is_file():
            return sha256_file(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{data}: {getattr(error, 'strerror', None) or error}") from None
    if path.suffix:
        raise UsageError(f"{data}: no such file")
    raise UsageError(f"unknown data {data!r}: {suggest(data, KNOWN)}; or name a file")


def model_sha256(model: str) -> str:
    """SHA-256 of a folder's weights; '' for an asset or a hub's name; UsageError for neither."""
    from attnlab import assets
    from attnlab.assets.hub import is_encoder_name

    if Path(model).is_dir():
        files = sorted(Path(model).glob("model*.safetensors"))
        return sha256_file(files[0]) if len(files) == 1 else sha256_files(files)
    if model in assets.names() or is_encoder_name(model):
        return ""
    raise UsageError(f"{model}: no such folder, asset, or owner/name of a hub")


def labelled(s: FinetuneSettings) -> "LabelledData":
    """The data, if they are still those that were asked for."""
    from attnlab.tasks.labelled import Columns, read_labelled_table

    if s.data in KNOWN:
        return _known(s.data)
    if s.data_sha256 and data_sha256(s.data) != s.data_sha256:
        raise UsageError(f"{s.data}: changed since this run was started")
    path, columns = Path(s.data), Columns(s.text, s.label, s.second or None)
    if path.is_dir():
        from attnlab.tasks.split_folder import read_folder

        return read_folder(path, columns)
    return read_labelled_table(path, columns)


def _known(name: str) -> "LabelledData":
    from attnlab.tasks.boolq import boolq
    from attnlab.tasks.sentiment import rotten_tomatoes
    from attnlab.tasks.snli import snli

    return {"sentiment": rotten_tomatoes, "boolq": boolq, "snli": snli}[name]()
