"""Methods to fine-tune an encoder for C classes, with their number of trainable parameters.

    full           every weight                                    encoder + Cd + C
    head           the linear map on the pooled vector             Cd + C          (2d + 2)
    prefix         n trained vectors before the word embeddings    nd + Cd + C     (130d + 2)
    prefix-layers  n trained keys and values in each of L layers   2nLd + Cd + C   ((256L + 2)d + 2)
    lora           W + (α/r)·BA on every query and value matrix    4rLd + Cd + C

The brackets have n = 128 and C = 2; d is the width of the encoder, r the rank of LoRA.
prefix is peft's PromptTuning, prefix-layers its PrefixTuning: both shift the text by n positions,
which leaves context − n tokens for it. peft's own classifier would pool virtual token 0 and drop
the token types of a pair; here the head pools the text's tokens (pooling "virtual" is peft's way)
and the token types stay. The base encoder is copied, never changed.
"""

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import model_validator
from torch import Tensor, nn

from attnlab.core.config import Settings, build, setting
from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.extras import require
from attnlab.core.seeds import Seed
from attnlab.models.encoder import Classifier, Encoder, Pooling
from attnlab.training.tensors import model_tensors, restore_model

Method = Literal["full", "head", "prefix", "prefix-layers", "lora"]
METHODS: tuple[Method, ...] = ("full", "head", "prefix", "prefix-layers", "lora")
PREFIXES = ("prefix", "prefix-layers")
BY_PEFT = (*PREFIXES, "lora")
FORMAT = 1


class TuneSettings(Settings):
    """Which parameters are added to an encoder and which of them are trained."""

    method: Method = setting("fine-tuning method", "lora")
    pooling: Pooling = setting("how token vectors become one vector for the head", "mean")
    prefix_length: int = setting("trained vectors of prefix and prefix-layers", 128, ge=1)
    rank: int = setting("rank of LoRA", 8, ge=1)
    alpha: float = setting("LoRA's update is scaled by alpha / rank", 16.0, gt=0)

    @model_validator(mode="after")
    def _check_pooling(self) -> "TuneSettings":
        if self.pooling == "virtual" and self.method != "prefix":
            raise ValueError("pooling 'virtual' reads a trained vector and needs method 'prefix'")
        return self


@dataclass(frozen=True)
class ParameterCounts:
    """How many parameters are trained, how many are stored, and how many belong to the head."""

    trained: int
    stored: int
    head: int


def build_classifier(
    encoder: Encoder, classes: int, settings: TuneSettings, seed: Seed
) -> Classifier:
    """Build a classifier on a copy of the encoder; only the method's parameters are trainable."""
    max_text_tokens(encoder, settings)
    base = Encoder(encoder.name, copy.deepcopy(encoder.library), encoder.tokenizer, encoder.sha256)
    generator = seed.child("head").torch_generator()
    model = Classifier(base, classes, generator, settings.pooling)
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
    """Return how many tokens a text may have: the context minus the trained prefix vectors."""
    check_installed(settings.method)
    limit = encoder.context - (settings.prefix_length if settings.method in PREFIXES else 0)
    if limit < 8:
        raise UsageError(
            f"prefix_length {settings.prefix_length}: {encoder.name} reads {encoder.context} "
            "tokens, which leaves no room for a text"
        )
    return limit


class Prefix(nn.Module):
    """peft's trained vectors before every text: at the input, or as keys and values."""

    def __init__(self, library: Any, settings: TuneSettings, seed: Seed) -> None:
        super().__init__()
        from peft import PrefixTuningConfig, PromptTuningConfig, TaskType, get_peft_model

        self.length, self.at_input = settings.prefix_length, settings.method == "prefix"
        config_class: Any = PromptTuningConfig if self.at_input else PrefixTuningConfig
        wrapped: Any = get_peft_model(
            library,
            config_class(task_type=TaskType.FEATURE_EXTRACTION, num_virtual_tokens=self.length),
        )
        self.trained = wrapped.prompt_encoder
        self._wrapped = (wrapped,)  # in a tuple: as a child module it would add the encoder again
        if self.at_input:
            # peft draws from N(0, 1), some twenty times the size of a word embedding
            words = library.get_input_embeddings().weight
            generator = seed.torch_generator()
            chosen = torch.randint(len(words), (self.length,), generator=generator)
            with torch.no_grad():
                self.trained["default"].embedding.weight.copy_(words[chosen])

    def vectors(self, rows: int) -> Tensor | None:
        """Return the input vectors (rows, length, width); None for method prefix-layers."""
        return self._wrapped[0].get_prompt(batch_size=rows) if self.at_input else None

    def past(self, rows: int) -> Any:
        """Return the keys and values of every layer; None for method prefix."""
        return None if self.at_input else self._wrapped[0].get_prompt(batch_size=rows)


def count_parameters(model: Classifier) -> ParameterCounts:
    """Count trained and stored parameters; tied tensors count once."""
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    stored = sum(tensor.numel() for tensor in model_tensors(model).values())
    return ParameterCounts(trained, stored, sum(p.numel() for p in model.head.parameters()))


def expected_trainable(encoder: Encoder, classes: int, settings: TuneSettings) -> int | None:
    """Trainable parameters by the method's formula; None if unknown for this encoder."""
    d, layers, n = encoder.width, encoder.layers, settings.prefix_length
    head = classes * d + classes
    if settings.method == "full":
        encoder_count = bert_parameter_count(encoder.library.config)
        return None if encoder_count is None else encoder_count + head
    added = {
        "head": 0,
        "prefix": n * d,
        "prefix-layers": 2 * n * layers * d,
        "lora": 4 * settings.rank * layers * d,
    }
    return added[settings.method] + head


def bert_parameter_count(config: Any) -> int | None:
    """(V + P + T + 2)d + L(4(d² + d) + 2df + f + d + 4d): a BERT without its pooler.

    V tokens, P positions, T token types, f the width of the MLP. A layer norm has 2d parameters;
    there is one after the embeddings and two in every layer.
    """
    if config.model_type not in ("bert", "roberta"):
        return None
    d, f = config.hidden_size, config.intermediate_size
    table = config.vocab_size + config.max_position_embeddings + config.type_vocab_size + 2
    layer = 4 * (d * d + d) + 2 * d * f + f + d + 4 * d
    return table * d + config.num_hidden_layers * layer


def trainable_names(model: Classifier) -> set[str]:
    """Names of the parameters that require a gradient, for the audit `freeze`."""
    return {name for name, p in model.named_parameters() if p.requires_grad}


def describe_classifier(
    model: Classifier, settings: TuneSettings, labels: tuple[str, ...]
) -> dict[str, Any]:
    """Return what `rebuild_classifier` needs besides the tensors, as plain JSON."""
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
    """Rebuild a classifier from its description, its tensors and the same base encoder."""
    try:
        number, sha256 = int(document["format"]), str(document["sha256"])
        settings = build(TuneSettings, document["tune"])
        classes = len(document["labels"])
    except (KeyError, TypeError, ValueError) as error:
        raise IntegrityError(f"not the description of a fine-tuned model: {error}") from None
    if number > FORMAT:
        raise IntegrityError(f"written by a newer attnlab (format {number}, this reads {FORMAT})")
    if sha256 != encoder.sha256:
        raise IntegrityError(
            f"fine-tuned from another {document.get('model')}: its weights have SHA-256 "
            f"{sha256[:12]}, these {encoder.sha256[:12]}"
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
    """Seed torch's global generator, from which peft draws, and restore it on exit."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed.number)
        yield
