"""Attention weights, perplexity, audits, comparison and export of any model."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.api.targets import Opening, Target, find_target, load_target, to_gpt
from attnlab.core.devices import resolve_device
from attnlab.core.errors import UsageError

if TYPE_CHECKING:
    from attnlab.audit.finding import Finding, Verdicts
    from attnlab.report.attention import AttentionMaps

DEFAULT_TEXT = "The king sent for his son, and said to him that the war was over."
LONGEST_MAP = 512


def _ignore(remark: str) -> None:
    """Where nobody listens to remarks."""


def attend(
    target: str,
    text: str,
    out: Path = Path("runs"),
    device: str = "cpu",
    *,
    remark: Callable[[str], None] = _ignore,
) -> "AttentionMaps":
    """The attention weights of a model on a text: weights[layer, head, query, key], and tokens.

    `target` is a run, a Hugging Face folder, a .gguf file, an asset or `module:function`. `remark`
    is called if the model does not know some characters; the result has their number.
    """
    loaded = load_target(target, out, device)  # refuses a wrong name before torch is loaded
    import numpy as np
    import torch

    from attnlab.models.perceiver import Perceiver
    from attnlab.report.attention import AttentionMaps

    ids = loaded.ids(text)
    longest = min(loaded.model.context, LONGEST_MAP)
    if len(ids) > longest:
        raise UsageError(
            f"the text has {len(ids)} tokens and at most {longest} can be shown: shorten it"
        )
    if isinstance(loaded.model, Perceiver):
        raise UsageError(f"{loaded.name}: a Perceiver has no attention from token to token to show")
    maps = loaded.model.attentions(torch.tensor([ids]))
    weights = np.stack([layer[0].float().cpu().numpy() for layer in maps])
    unknown = loaded.count_unknown(text, remark)
    return AttentionMaps(loaded.name, tuple(loaded.required_reader.tokens(ids)), weights, unknown)


def perplexity(  # noqa: PLR0913  (what a person may choose)
    target: str,
    text: str,
    out: Path,
    device: str,
    *,
    lines: bool = False,
    stride: int | None = None,
    stop: bool = False,
    remark: Callable[[str], None] = _ignore,
) -> dict[str, Any]:
    """The perplexity of a text of any length; each token is scored once.

    `stop`: the token that ends a text is scored too (after every line, with `lines`). The studies
    of small GPTs score their sentences in this way; without it, the end of the text is not scored.
    `remark` is called if the model does not know some characters; `unknown` is their number.
    """
    loaded = load_target(target, out, device)
    from attnlab.measure.perplexity import score, token_nll, windows

    pieces = [line for line in text.splitlines() if line.strip()] if lines else [text]
    rows = [ids for piece in pieces if len(ids := _ids(loaded, piece, stop)) > 1]
    if not rows:
        raise UsageError("the text is too short to score: it needs two tokens or more")
    context = min(loaded.model.context, max(map(len, rows)))
    batches = [window for row in rows for window in windows(row, context, stride)]
    whole = score(token_nll(loaded.model.logits), batches, resolve_device(device)).perplexity
    answer: dict[str, Any] = {
        "target": loaded.name,
        "perplexity": whole.corpus,
        "nll": whole.nll,
        "tokens": whole.tokens,
        "stop_scored": stop,
        "unknown": loaded.count_unknown("\n".join(pieces), remark),
        "bits_per_byte": whole.nll / math.log(2) / max(1, sum(len(p.encode()) for p in pieces)),
    }
    if lines:
        if max(map(len, rows)) - 1 > context:
            raise UsageError(
                f"--lines: a line is longer than the model's context of {context} tokens"
            )
        answer |= {"sentences": len(rows), "mean_of_sentences": whole.sentence_mean}
    return answer


def audit(  # noqa: PLR0913  (what a person may choose)
    target: str,
    out: Path,
    device: str,
    *,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    seed: int = 0,
    length: int | None = None,
    revision: str | None = None,
    trust: bool = False,
    on_finding: "Callable[[Finding], None]" = lambda finding: None,
) -> "Verdicts":
    """Run every audit that applies to a model, or those named in `only`, without `skip`."""
    how = Opening(own_head=True, revision=revision, trust=trust)
    place = find_target(target, out, device, how)  # refuses a wrong name before torch is loaded
    if only or skip:  # refuses a wrong audit before the model is loaded
        from attnlab.audit.catalogue import select_audits

        select_audits(only, skip)
    loaded = place.load()
    from attnlab.audit.catalogue import check

    return check(
        loaded.model,
        only=only,
        skip=skip,
        seed=seed,
        length=length,
        name=loaded.name,
        on_finding=on_finding,
    )


def _ids(target: Target, piece: str, stop: bool) -> list[int]:
    """The ids of a text, with the token that ends it if `stop`."""
    reader = target.required_reader
    end = reader.stop if stop else None
    if stop and end is None:
        raise UsageError(f"--stop: {target.name} has no token that ends a text")
    return [*reader.encode(piece), *([] if end is None else [end])]


def compare(first: str, second: str, text: str | None, out: Path, device: str) -> dict[str, Any]:
    """max and mean |logits of A − logits of B|, and the share of positions with equal argmax."""
    places = [find_target(name, out, device) for name in (first, second)]  # both, before torch
    a, b = (place.load() for place in places)
    import torch

    if a.model.vocabulary != b.model.vocabulary:
        raise UsageError(
            f"{a.name} has {a.model.vocabulary:,} tokens and {b.name} {b.model.vocabulary:,}: "
            "their logits cannot be compared"
        )
    ids = _common_ids(a, b, text)
    with torch.no_grad():
        x, y = (m.model.logits(torch.tensor([ids])).double().cpu() for m in (a, b))
    gap = (x - y).abs()
    return {
        "a": a.name,
        "b": b.name,
        "positions": len(ids),
        "max_gap": float(gap.max()),
        "mean_gap": float(gap.mean()),
        "argmax_agreement": float((x.argmax(-1) == y.argmax(-1)).double().mean()),
    }


def _common_ids(a: Target, b: Target, text: str | None) -> list[int]:
    """The ids of the text, if both tokenizers agree; ids 0, 1, 2 … if there is no tokenizer."""
    readers = [t for t in (a, b) if t.reader is not None]
    if not readers:
        if text is not None:
            raise UsageError(
                f"neither {a.name} nor {b.name} has a tokenizer: leave out --text and --file"
            )
        return list(range(min(16, a.model.vocabulary)))
    ids = [t.ids(text or DEFAULT_TEXT) for t in readers]
    if len(ids) == 2 and ids[0] != ids[1]:
        raise UsageError(
            f"{a.name} and {b.name} split this text into different tokens: not comparable"
        )
    longest = min(a.model.context, b.model.context)
    return ids[0][:longest]


def export_target(target: str, folder: Path, out: Path) -> list[str]:
    """Write a GPT as a Hugging Face folder; returns the names of the files."""
    place = find_target(target, out)
    if place.kind == "function":
        raise UsageError(f"{target}: a function has no weights to export")
    if folder.exists() and any(folder.iterdir() if folder.is_dir() else [folder]):
        raise UsageError(f"{folder}: exists and is not empty; choose a new folder")
    model = to_gpt(place.load())
    from attnlab.models.hugging_face import export

    tokenizer = model.tokenizer
    own = hasattr(tokenizer, "to_json")
    export(model, tokenizer.to_json() if own else tokenizer, folder)
    return sorted(path.name for path in folder.iterdir())
