"""Ways to adapt an encoder to C classes, and how many numbers learn in each.

    full           every weight                                    encoder + Cd + C
    head           the linear map on the pooled vector             Cd + C          (2d + 2)
    prefix         n trained vectors before the words              nd + Cd + C     (130d + 2)
    prefix-layers  n trained keys and values in each of L layers   2nLd + Cd + C   ((256L + 2)d + 2)
    lora           W + (α/r)·BA on every query and value map       4rLd + Cd + C

n = 128, C = 2 in brackets. prefix is peft's PromptTuning, prefix-layers its PrefixTuning: both
move the text n positions on, so that context − n tokens are left for it. peft's own classifier
would read virtual token 0 and drop the segments of a pair; here the head reads the text's tokens
(pooling "virtual" is peft's way) and segments stay. The base encoder is copied, never changed.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn

from attnlab.core.config import Settings, build
from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.extras import require
from attnlab.core.seeds import Seed
from attnlab.models.encoder import Classifier, Encoder, Pooling
from attnlab.train.tensors import model_tensors, restore_model

Method = Literal["full", "head", "prefix", "prefix-layers", "lora"]
METHODS: tuple[Method, ...] = ("full", "head", "prefix", "prefix-layers", "lora")
PREFIXES = ("prefix", "prefix-layers")
BY_PEFT = (*PREFIXES, "lora")
FORMAT = 1


class TuneSettings(Settings):
    """What is added to an encoder, and what of it learns."""

    method: Method = "lora"
    pooling: Pooling = "mean"
    prefix_length: int = Field(default=128, ge=1)  # of the prefixes
    rank: int = Field(default=8, ge=1)  # of lora
    alpha: float = Field(default=16.0, gt=0)  # of lora: its size is alpha / rank

    @model_validator(mode="after")
    def _virtual_needs_one(self) -> "TuneSettings":
        if self.pooling == "virtual" and self.method != "prefix":
            raise ValueError("pooling 'virtual' reads the first trained vector: method 'prefix'")
        return self


@dataclass(frozen=True)
class ParameterCounts:
    """Numbers that learn, numbers that are written to disk, and those of the head among them."""

    trained: int
    stored: int
    head: int

    def as_json(self) -> dict[str, int]:
        """By name."""
        return asdict(self)


def build_classifier(
    encoder: Encoder, classes: int, settings: TuneSettings, seed: Seed
) -> Classifier:
    """A classifier on a copy of the encoder, of which only what the method says may learn."""
    max_text_tokens(encoder, settings)
    own = Encoder(encoder.name, copy.deepcopy(encoder.library), encoder.tokenizer, encoder.sha256)
    generator = seed.child("head").torch_generator()
    model = Classifier(own, classes, generator, settings.pooling)
    model.encoder.requires_grad_(settings.method == "full")
    if settings.method == "lora":
        with _seed_torch(seed.child("adapter")):
            _add_lora(model.encoder, settings)
    elif settings.method in PREFIXES:
        with _seed_torch(seed.child("adapter")):
            model.extra = Prefix(model.encoder, settings, seed.child("vectors"))
    return model.eval()


def check_installed(method: str) -> None:
    """A UsageError where the method needs peft and peft is not installed."""
    if method in BY_PEFT:
        require("models", f"method {method!r}", "peft")


def max_text_tokens(encoder: Encoder, settings: TuneSettings) -> int:
    """Tokens left for a text: the context, less the trained vectors before it."""
    check_installed(settings.method)
    left = encoder.context - (settings.prefix_length if settings.method in PREFIXES else 0)
    if left < 8:
        raise UsageError(
            f"prefix_length {settings.prefix_length}: {encoder.name} reads {encoder.context} "
            "tokens, which leaves no room for a text"
        )
    return left


class Prefix(nn.Module):
    """Trained vectors of peft before every text: at the input, or as keys and values."""

    def __init__(self, library: Any, settings: TuneSettings, seed: Seed) -> None:
        super().__init__()
        from peft import PrefixTuningConfig, PromptTuningConfig, TaskType, get_peft_model

        self.length, self.at_input = settings.prefix_length, settings.method == "prefix"
        kind: Any = PromptTuningConfig if self.at_input else PrefixTuningConfig
        wrapped: Any = get_peft_model(
            library, kind(task_type=TaskType.FEATURE_EXTRACTION, num_virtual_tokens=self.length)
        )
        self.trained = wrapped.prompt_encoder  # the wrapper holds the encoder too: not a child
        self._wrapped = (wrapped,)
        if self.at_input:
            # peft draws N(0, 1), some twenty times the size of a word's vector
            words = library.get_input_embeddings().weight
            generator = seed.torch_generator()
            chosen = torch.randint(len(words), (self.length,), generator=generator)
            with torch.no_grad():
                self.trained["default"].embedding.weight.copy_(words[chosen])

    def vectors(self, rows: int) -> Tensor | None:
        """The same for every row, or None where they are keys and values."""
        return self._wrapped[0].get_prompt(batch_size=rows) if self.at_input else None

    def past(self, rows: int) -> Any:
        """Keys and values of every layer."""
        return None if self.at_input else self._wrapped[0].get_prompt(batch_size=rows)


def count_parameters(model: Classifier) -> ParameterCounts:
    """What learns and what is stored, tied tensors once."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    stored = sum(tensor.numel() for tensor in model_tensors(model).values())
    return ParameterCounts(trained, stored, sum(p.numel() for p in model.head.parameters()))


def expected_trainable(encoder: Encoder, classes: int, settings: TuneSettings) -> int | None:
    """The closed formula of the method; None where none is known for this encoder."""
    d, layers, n = encoder.width, encoder.layers, settings.prefix_length
    head = classes * d + classes
    if settings.method == "full":
        whole = bert_parameter_count(encoder.library.config)
        return None if whole is None else whole + head
    added = {
        "head": 0,
        "prefix": n * d,
        "prefix-layers": 2 * n * layers * d,
        "lora": 4 * settings.rank * layers * d,
    }
    return added[settings.method] + head


def bert_parameter_count(config: Any) -> int | None:
    """(V + P + T + 2)d + L(4(d² + d) + 2df + f + d + 4d): a BERT without its pooler.

    V words, P positions, T segments, f the width inside; 2d a layer norm, three of which are
    that of the embeddings and the two of every layer.
    """
    if config.model_type not in ("bert", "roberta"):
        return None
    d, f = config.hidden_size, config.intermediate_size
    table = config.vocab_size + config.max_position_embeddings + config.type_vocab_size + 2
    layer = 4 * (d * d + d) + 2 * d * f + f + d + 4 * d
    return table * d + config.num_hidden_layers * layer


def trainable_names(model: Classifier) -> set[str]:
    """Names of the parameters that ought to learn, for the audit freeze."""
    return {name for name, p in model.named_parameters() if p.requires_grad}


def describe_classifier(
    model: Classifier, settings: TuneSettings, labels: tuple[str, ...]
) -> dict[str, Any]:
    """What `rebuild_classifier` must know besides the tensors, as plain JSON."""
    return {
        "format": FORMAT,
        "model": model.base.name,
        "sha256": model.base.sha256,
        "tune": settings.model_dump(mode="json"),
        "labels": list(labels),
    }


def rebuild_classifier(
    document: Mapping[str, Any], tensors: Mapping[str, Tensor], encoder: Encoder
) -> Any:
    """The classifier again, from its description, its tensors and the same base encoder."""
    try:
        number, sha256 = int(document["format"]), str(document["sha256"])
        settings = build(TuneSettings, document["tune"])
        classes = len(document["labels"])
    except (KeyError, TypeError, ValueError) as error:
        raise IntegrityError(f"not the description of a tuned model: {error}") from None
    if number > FORMAT:
        raise IntegrityError(f"written by a newer attnlab (format {number}, this reads {FORMAT})")
    if sha256 != encoder.sha256:
        raise IntegrityError(
            f"tuned on another {document.get('model')}: its weights have SHA-256 {sha256[:12]}, "
            f"these {encoder.sha256[:12]}"
        )
    model = build_classifier(encoder, classes, settings, Seed(0))
    restore_model(model, tensors)
    return model.eval()


def _add_lora(library: Any, settings: TuneSettings) -> None:
    from peft import LoraConfig, inject_adapter_in_model

    config = LoraConfig(r=settings.rank, lora_alpha=settings.alpha)  # type: ignore[arg-type]
    try:
        inject_adapter_in_model(config, library)
    except ValueError as error:
        why = str(error).splitlines()[0][:200]
        raise UsageError(f"lora: peft cannot adapt this encoder: {why}") from None


@contextmanager
def _seed_torch(seed: Seed) -> Iterator[None]:
    """peft draws from torch's global generator: inside it is a stream of ours, then as before."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed.number)
        yield
