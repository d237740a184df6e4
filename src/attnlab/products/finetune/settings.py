"""Settings of a fine-tuning, and the data its `data` names."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import model_validator

from attnlab.core.config import suggest
from attnlab.core.errors import UsageError
from attnlab.core.files import sha256_file, sha256_files
from attnlab.lab.study import StudySettings, setting

if TYPE_CHECKING:
    from attnlab.tasks.labelled import LabelledData
    from attnlab.training.tune import TuneSettings

KNOWN = ("sentiment", "boolq", "snli")
# default learning rates: methods with fewer parameters need larger ones; each is the best of three
# by dev accuracy on sentences and on BoolQ (docs/results/adapting.md)
RATES = {"full": 1e-4, "head": 5e-3, "prefix": 5e-3, "prefix-layers": 1.5e-2, "lora": 3e-3}


class FinetuneSettings(StudySettings):
    """The labelled texts, the encoder, what of it is trained, and how."""

    seeds: int = setting("models, each with its own seed", 1, ge=1)
    first_seed: int = setting("the first of these seeds", 0, ge=0)
    data: str = setting(
        "sentiment, boolq, snli, a .csv, .tsv or .jsonl file, or a folder of splits", "sentiment"
    )
    data_sha256: str = setting(
        "hash of the data, filled in automatically: other data make another run", ""
    )
    text: str = setting("name of the column with the text", "text")
    second: str = setting("name of the column with a second text; empty: none", "")
    label: str = setting("name of the column with the label", "label")
    rows: int = setting("training rows; 0: all", 0, ge=0)
    scored: int = setting("dev rows and test rows, each; 0: all", 0, ge=0)

    model: str = setting("encoder: an asset, a Hugging Face folder or a hub name", "minilm-l6")
    model_sha256: str = setting("hash of the encoder's weights in a folder, filled in", "")
    init: Literal["pretrained", "random"] = setting(
        "initial weights of the encoder; random: the same architecture, not pretrained",
        "pretrained",
    )
    method: Literal["full", "head", "prefix", "prefix-layers", "lora"] = setting(
        "what is trained", "full"
    )
    pooling: Literal["mean", "first", "virtual"] = setting(
        "input of the head: mean over tokens, first token, or first prefix vector", "mean"
    )
    prefix_length: int = setting("trained vectors of a prefix", 128, ge=1)
    rank: int = setting("rank of LoRA", 8, ge=1)
    alpha: float = setting("alpha of LoRA; its output is scaled by alpha / rank", 16.0, gt=0)
    longest: int = setting(
        "maximum tokens per text; 0: the context length of the encoder", 256, ge=0
    )

    epochs: float = setting("training epochs", 3.0, gt=0)
    batch: int = setting("batch size in rows", 32, ge=1)
    optimizer: Literal["adamw", "sgd", "adagrad"] = setting("optimizer of torch.optim", "adamw")
    momentum: float = setting("momentum of SGD", 0.0, ge=0, lt=1)
    learning_rate: float = setting("peak learning rate; 0: the method's default", 0.0, ge=0)
    warmup: float = setting("share of the steps with a rising learning rate", 0.1, ge=0, le=1)
    weight_decay: float = setting("weight decay of matrices", 0.01, ge=0)
    precision: Literal["float32", "bfloat16"] = setting(
        "bfloat16 uses autocast, on a GPU", "float32"
    )
    deterministic: bool = setting("use deterministic kernels on a GPU", True)
    evaluations: int = setting("evaluations on dev per epoch", 2, ge=1)
    threads: int = setting("CPU threads; they change the last bits of the results", 1, ge=1)

    @model_validator(mode="after")
    def _fits(self) -> "FinetuneSettings":
        if self.pooling == "virtual" and self.method != "prefix":
            raise ValueError(
                "pooling 'virtual' reads the first prefix vector: it needs method 'prefix'"
            )
        if self.init == "random" and self.method != "full":
            raise ValueError("random weights cannot be adapted: init 'random' needs method 'full'")
        if self.momentum and self.optimizer != "sgd":
            raise ValueError(f"momentum is an option of sgd, not of {self.optimizer}")
        return self

    @property
    def rate(self) -> float:
        """The peak learning rate: the one that was set, or the method's default."""
        return self.learning_rate or RATES[self.method]

    def tuning(self) -> "TuneSettings":
        """The settings that say which parameters are added and which are trained."""
        from attnlab.training.tune import TuneSettings

        return TuneSettings(**self.model_dump(include=set(TuneSettings.model_fields)))


def data_sha256(data: str) -> str:
    """SHA-256 of a file, or of the splits in a folder; '' for the data sets of an asset."""
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
    """SHA-256 of the weights in a folder; '' for an asset or a hub name; UsageError for others."""
    from attnlab import assets
    from attnlab.assets.hub import is_encoder_name

    if Path(model).is_dir():
        files = sorted(Path(model).glob("model*.safetensors"))
        return sha256_file(files[0]) if len(files) == 1 else sha256_files(files)
    if model in assets.names() or is_encoder_name(model):
        return ""
    raise UsageError(f"{model}: no such folder, asset, or owner/name of a hub")


def load_data(s: FinetuneSettings) -> "LabelledData":
    """The labelled texts; UsageError if the file changed since its hash became a setting."""
    from attnlab.tasks.labelled import Columns, read_labelled_table

    if s.data in KNOWN:
        from attnlab.tasks.known_data import boolq, rotten_tomatoes, snli

        return {"sentiment": rotten_tomatoes, "boolq": boolq, "snli": snli}[s.data]()
    if s.data_sha256 and data_sha256(s.data) != s.data_sha256:
        raise UsageError(f"{s.data}: the file changed since this run was started")
    path, columns = Path(s.data), Columns(s.text, s.label, s.second or None)
    if path.is_dir():
        from attnlab.tasks.split_folder import read_folder

        return read_folder(path, columns)
    return read_labelled_table(path, columns)
