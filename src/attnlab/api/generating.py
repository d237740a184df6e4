"""Continue a prompt with any model and one or several decoding strategies."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnlab.api.listener import Listener
from attnlab.api.targets import Target, find_target
from attnlab.core.errors import UsageError

if TYPE_CHECKING:
    from attnlab.decode.strategy import Strategy


def generate(  # noqa: PLR0913  (what a person may choose)
    target: str,
    prompt: str,
    out: Path = Path("runs"),
    device: str = "cpu",
    *,
    strategies: Sequence[str] = ("temperature:t=0.8",),
    n: int = 1,
    max_new_tokens: int = 60,
    seed: int = 0,
    listener: Listener | None = None,
) -> dict[str, Any]:
    """Generate n continuations of a prompt per strategy: the document of `generate --json`.

    Strategies are written as on the command line: "greedy", "top-p:p=0.7", "beam:width=4" …
    """
    listener = listener or Listener()
    location = find_target(target, out, device)  # refuses a wrong name before torch is loaded
    from attnlab.decode.strategy import parse_strategy

    chosen = [parse_strategy(text) for text in strategies]  # before a model is loaded
    narrow = next((s for s in chosen if s.width is not None and s.width < n), None)
    if narrow is not None:
        raise UsageError(
            f"{narrow} gives at most {narrow.width} texts, not {n}: use a larger width"
        )
    model = location.load()
    ids = model.required_reader.encode(prompt)
    if not ids:
        raise UsageError(f"{model.name} has no start token: give a --prompt to begin with")
    unknown = model.count_unknown(prompt, listener.remark)
    for text in _remarks(model, len(ids), max_new_tokens):
        listener.remark(text)
    how = {"max_new_tokens": max_new_tokens, "n": n, "seed": seed, "stop_ids": _ends(model)}
    answers = [_answer(model, ids, strategy, how, listener) for strategy in chosen]
    return {"model": model.name, "prompt": prompt, "unknown": unknown, "strategies": answers}


def _answer(
    target: Target, ids: list[int], strategy: "Strategy", how: dict[str, Any], listener: Listener
) -> dict[str, Any]:
    from attnlab.decode.generate import generate
    from attnlab.decode.text import Stream

    decode = target.required_reader.decode
    stream = Stream(decode, ids)

    def on_token(row: int, token: int) -> None:
        if row == 0 and (piece := stream.piece(token)):
            listener.piece(piece)

    listener.begins(strategy)
    texts = generate(target.model, [ids], strategy, decode=decode, on_token=on_token, **how)
    if rest := stream.last(texts[0].text or ""):
        listener.piece(rest)
    listener.ends(texts)
    shown = [{"text": t.text, "ids": list(t.ids), "logprob": t.logprob} for t in texts]
    return {"name": strategy.name, "settings": dict(strategy.settings), "texts": shown}


def _ends(target: Target) -> set[int]:
    """The ids that end a text, according to the tokenizer and the generation config."""
    from attnlab.models.hub import HubModel
    from attnlab.models.trainable import end_ids

    ends = end_ids(target.model) if isinstance(target.model, HubModel) else set[int]()
    stop = target.required_reader.stop
    return ends if stop is None else ends | {stop}


def _remarks(target: Target, length: int, new: int) -> list[str]:
    """Remarks for the user where the prompt is not read as one would expect."""
    remarks = []
    tokenizer = getattr(target.model, "tokenizer", None)
    if getattr(getattr(tokenizer, "library", None), "chat_template", None):
        remarks.append(
            f"{target.name} is a chat model: the prompt is continued as plain text, not answered"
        )
    context = target.model.context
    if length > context:
        remarks.append(
            f"the prompt has {length:,} tokens, of which {target.name} reads the last {context:,}"
        )
    elif length + new - 1 > context:
        remarks.append(
            f"{target.name} reads {context:,} tokens at once: from new token "
            f"{context - length + 2:,} on it reads only the last {context:,}"
        )
    return remarks
