"""Anyone's language model behind the protocol: a Hugging Face folder, a hub name, a .gguf file.

    model = load("path/to/folder");   model = load("owner/name");   model = load("small.gguf")

Weights are read from safetensors and GGUF only, and what a hub name stands for is fetched as data
first (`attnlab.assets`), then checked like any folder. No code of a repository is run, unless it is
trusted and pinned by its hash (`remote_code.py`).
"""

import inspect
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from attnlab import assets
from attnlab.assets.hub import HUB_NAME
from attnlab.core.errors import AttnlabError, IntegrityError, UsageError
from attnlab.core.extras import require
from attnlab.core.files import read_json
from attnlab.core.tokens import IGNORE
from attnlab.models.protocol import Ids, Logits, Map, PaddingMask
from attnlab.models.remote_code import check_commit, check_hash, check_map
from attnlab.models.weights import weight_files

GGUF = b"GGUF"
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json")
CONTEXT = 2048  # positions read at once where a model states no limit


@dataclass(frozen=True)
class HubTokenizer:
    """A model's own tokenizer."""

    library: Any

    @property
    def size(self) -> int:
        """How many tokens it knows."""
        return len(self.library)

    @property
    def start(self) -> int | None:
        """The id that begins a text, if there is one."""
        return self.library.bos_token_id

    @property
    def stop(self) -> int | None:
        """The id that ends a text, if there is one."""
        return self.library.eos_token_id

    def encode(self, text: str) -> list[int]:
        """The text's ids, without markers."""
        return list(self.library(text, add_special_tokens=False)["input_ids"])

    def decode(self, ids: Iterable[int]) -> str:
        """The text of ids; markers are left out."""
        return self.library.decode([int(i) for i in ids], skip_special_tokens=True)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id's own name, for labels."""
        return self.library.convert_ids_to_tokens([int(i) for i in ids])


class HubModel:
    """A transformers model in evaluation mode; `library` is the model itself."""

    def __init__(self, name: str, library: Any, tokenizer: HubTokenizer | None) -> None:
        self.name, self.library, self.tokenizer = name, library.eval(), tokenizer
        self._settings = library.config.get_text_config()
        self._takes_position_ids = "position_ids" in inspect.signature(library.forward).parameters

    @property
    def vocabulary(self) -> int:
        """How many ids there are."""
        return int(self._settings.vocab_size)

    @property
    def context(self) -> int:
        """The most positions it was made for."""
        return int(getattr(self._settings, "max_position_embeddings", None) or CONTEXT)

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.library.device

    def parameter_count(self) -> int:
        """All numbers it holds; a tied matrix counts once."""
        return sum(p.numel() for p in self.library.parameters())

    def logits(self, ids: Ids, key_padding_mask: PaddingMask = None) -> Logits:
        """Scores of the next id after every position, without gradient."""
        return self._run(ids, key_padding_mask).logits

    def nll(
        self, ids: Ids, targets: Ids, key_padding_mask: PaddingMask = None
    ) -> tuple[Float[Tensor, ""], Int[Tensor, ""]]:
        """Σ −log p over targets that are not IGNORE, and their number; without gradient."""
        scores = self.logits(ids, key_padding_mask).flatten(0, 1).float()
        wanted = targets.flatten().to(scores.device)
        total = functional.cross_entropy(scores, wanted, ignore_index=IGNORE, reduction="sum")
        return total, (wanted != IGNORE).sum()

    def attentions(self, ids: Ids) -> list[Map]:
        """The weights of every layer, by the plain implementation: the fused ones keep none."""
        usual = self.library.config._attn_implementation
        self.library.set_attn_implementation("eager")
        try:
            maps = self._run(ids, None, output_attentions=True).attentions
        finally:
            self.library.set_attn_implementation(usual)
        if not maps or any(weights is None for weights in maps):
            kind = self._settings.model_type
            raise UsageError(f"{self.name}: a {kind!r} gives no attention maps")
        return list(maps)

    @torch.no_grad()
    def _run(self, ids: Ids, key_padding_mask: PaddingMask, **options: Any) -> Any:
        if key_padding_mask is not None:
            visible = (~key_padding_mask).long().to(self.device)
            options["attention_mask"] = visible
            if self._takes_position_ids:  # the library counts padding on the left as text
                options["position_ids"] = (visible.cumsum(dim=1) - 1).clamp_min(0)
        return self.library(input_ids=ids.to(self.device), use_cache=False, **options)


def load(
    target: str | Path,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    revision: str | None = None,
    own_head: bool = False,
    trust: bool = False,
) -> HubModel:
    """The model and tokenizer of a folder, a .gguf file or a hub name (owner/name).

    It must be a causal language model, unless it may come with its own head, whatever that is. With
    `trust`, code it brings is run if `revision` pins it.
    """
    path, name = Path(target), str(target)
    if path.exists():
        name = path.resolve().stem if path.is_file() else path.resolve().name
        _check_pin(path, revision, trust)
    elif HUB_NAME.fullmatch(name):
        if trust:
            check_commit(revision)
        path = assets.get(name, source="hub", revision=revision, code=trust).path
    else:
        raise UsageError(f"{target}: no such folder or file, and no owner/name of a hub")
    options = {"trust_remote_code": trust, **safe_options(path, trust)}
    folder = path if path.is_dir() else path.parent
    with translate_errors(name), quiet():
        library = _model(folder, {"dtype": dtype, **options}, own_head)
        tokenizer = _tokenizer(folder, options)
    return HubModel(name, library.to(device), tokenizer)


def _check_pin(path: Path, revision: str | None, trust: bool) -> None:
    """A file has no code; a folder's is pinned by its hash, and nothing else of it has a pin."""
    if trust and path.is_dir():
        check_hash(path, revision)
    elif trust or revision is not None:
        raise UsageError(f"{path}: a revision pins what a hub has, or the trusted code of a folder")


def safe_options(path: Path, trust: bool = False) -> dict[str, Any]:
    """Options with which transformers loads a folder or file, once it is found safe to open."""
    folder = path if path.is_dir() else path.parent
    if (folder / "adapter_config.json").exists():
        raise UsageError(f"{folder}: an adapter, not a whole model")
    if path.is_dir() and (path / "config.json").exists():
        _check_settings(path, trust)
        weight_files(path)
        return {"use_safetensors": True}
    files = sorted(path.glob("*.gguf")) if path.is_dir() else [path]
    if len(files) != 1:
        raise UsageError(f"{path}: neither a config.json nor exactly one .gguf file is here")
    with files[0].open("rb") as file:
        if file.read(len(GGUF)) != GGUF:
            raise IntegrityError(f"{files[0]}: not a GGUF file")
    require("models", f"{files[0]}: a GGUF file", "accelerate", "gguf")
    return {"gguf_file": files[0].name}


def _check_settings(folder: Path, trust: bool) -> None:
    """config.json may choose among what transformers has, and must not fetch code unasked."""
    settings = read_json(folder / "config.json")
    kind = settings.get("model_type") if isinstance(settings, dict) else None
    if not isinstance(kind, str):
        raise IntegrityError(f"{folder / 'config.json'}: names no model_type")
    import transformers

    from attnlab.models.hugging_face import MODEL_TYPE  # and so makes it known to transformers

    if trust:
        check_map(folder)
    trusted = trust and settings.get("auto_map")
    if kind not in (MODEL_TYPE, *transformers.CONFIG_MAPPING) and not trusted:
        own = "runs on code of its own, which is not run unless `audit` is told to trust it"
        unknown = f"is not known to transformers {transformers.__version__}"
        raise IntegrityError(
            f"{folder}: a {kind!r} model {own if settings.get('auto_map') else unknown}"
        )
    for key, value in _all_settings(settings):
        fetched = key.endswith("implementation") and "/" in str(value)
        if fetched or (key == "transformers_weights" and value is not None):
            raise IntegrityError(f"{folder / 'config.json'}: {key} = {value!r} is refused")


def _all_settings(settings: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        yield key, value
        if isinstance(value, dict):
            yield from _all_settings(value)


def _model(folder: Path, options: dict[str, Any], own_head: bool) -> Any:
    kind = _class_of(folder) if own_head and "gguf_file" not in options else None
    if kind is None:
        from transformers import AutoModelForCausalLM as kind
    return load_whole(kind, folder, **options)


def load_whole(kind: Any, folder: Path, without: str = "\0", **options: Any) -> Any:
    """A model of this class; only weights with `without` in their name may be missing."""
    model, report = kind.from_pretrained(folder, output_loading_info=True, **options)
    missing = [*report["missing_keys"], *report["mismatched_keys"]]
    if absent := [name for name in missing if without not in name]:
        raise IntegrityError(f"{folder}: {len(absent)} weights are missing, {absent[0]} first")
    return model


def _class_of(folder: Path) -> Any:
    """The class of transformers that config.json names; None leaves the choice to the library."""
    import transformers

    named = read_json(folder / "config.json").get("architectures") or [""]
    named_class = getattr(transformers, str(named[0]), None)
    base = transformers.PreTrainedModel
    return named_class if isinstance(named_class, type) and issubclass(named_class, base) else None


def _tokenizer(folder: Path, options: dict[str, Any]) -> HubTokenizer | None:
    """The folder's own, or None: a model may be looked at without text."""
    from transformers import AutoTokenizer

    if "gguf_file" not in options and not any((folder / n).exists() for n in TOKENIZER_FILES):
        return None
    known = {n: v for n, v in options.items() if n in ("gguf_file", "trust_remote_code")}
    return HubTokenizer(AutoTokenizer.from_pretrained(folder, **known))


@contextmanager
def translate_errors(name: str) -> Iterator[None]:
    """Whatever goes wrong in a library that reads many formats, in one line."""
    try:
        yield
    except AttnlabError:
        raise
    except Exception as error:
        reason = next(iter(str(error).strip().splitlines()), "")[:300]
        line = f"{name}: cannot be opened: {reason or type(error).__name__}"
        raise (UsageError if isinstance(error, ImportError) else IntegrityError)(line) from None


@contextmanager
def quiet() -> Iterator[None]:
    """Neither progress bars nor advice of transformers on our streams."""
    from transformers.utils import logging

    level, shown = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        with redirect_stderr(StringIO()):  # the bar of the GGUF reader has no switch
            yield
    finally:
        logging.set_verbosity(level)
        if shown:
            logging.enable_progress_bar()
