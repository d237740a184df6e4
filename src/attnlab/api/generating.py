"""Continue a prompt with any model, by one decoding strategy or by several side by side."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from attnlab.api.targets import Target, find_target
from attnlab.core.errors import UsageError

if TYPE_CHECKING:
    from attnlab.decode.generate import Generated
    from attnlab.decode.strategy import Strategy


class Listener(Protocol):
    """Who follows a generation: methods are called as things happen, and may do nothing."""

    def remark(self, text: str) -> None:
        """Something a person should know about how the model is used."""
        ...

    def begins(self, strategy: "Strategy") -> None:
        """Its texts come next."""
        ...

    def piece(self, text: str) -> None:
        """More of its first text."""
        ...

    def ends(self, texts: "Sequence[Generated]") -> None:
        """All of its texts."""
        ...


class Silent:
    """Shows nothing."""

    def remark(self, text: str) -> None:
        """Drop it."""

    def begins(self, strategy: "Strategy") -> None:
        """Show nothing."""

    def piece(self, text: str) -> None:
        """Show nothing."""

    def ends(self, texts: "Sequence[Generated]") -> None:
        """Show nothing."""


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
    """n continuations of a prompt by each strategy: the document of `attnlab generate --json`.

    `strategies` are written as on the command line: "greedy", "top-p:p=0.7", "beam:width=4" …
    """
    listener = listener or Silent()
    place = find_target(target, out, device)  # a wrong name first: torch is slow to load
    from attnlab.decode.strategy import parse_strategy

    chosen = [parse_strategy(text) for text in strategies]  # before a model is loaded
    narrow = next((s for s in chosen if s.width is not None and s.width < n), None)
    if narrow is not None:
        raise UsageError(f"{narrow} gives {narrow.width} texts at most, not {n}")
    found = place.load()
    ids = _prompt(found, prompt)
    for text in _remarks(found, len(ids), max_new_tokens):
        listener.remark(text)
    how = {"max_new_tokens": max_new_tokens, "n": n, "seed": seed, "stop_ids": _ends(found)}
    answers = [_answer(found, ids, strategy, how, listener) for strategy in chosen]
    return {"model": found.name, "prompt": prompt, "strategies": answers}


def _prompt(found: Target, prompt: str) -> list[int]:
    if found.reader is None:
        raise UsageError(f"{found.name} has no tokenizer: it cannot read a text")
    ids = list(found.reader.encode(prompt))
    if not ids:
        raise UsageError(f"{found.name} needs a --prompt: it has no token that begins a text")
    return ids


def _answer(
    found: Target, ids: list[int], strategy: "Strategy", how: dict[str, Any], listener: Listener
) -> dict[str, Any]:
    from attnlab.decode.generate import generate
    from attnlab.decode.text import Stream

    assert found.reader is not None  # _prompt has asked
    stream = Stream(found.reader.decode, ids)

    def heard(row: int, token: int) -> None:
        if row == 0 and (piece := stream.piece(token)):
            listener.piece(piece)

    listener.begins(strategy)
    texts = generate(
        found.model, [ids], strategy, decode=found.reader.decode, on_token=heard, **how
    )
    if rest := stream.last(texts[0].text or ""):
        listener.piece(rest)
    listener.ends(texts)
    shown = [{"text": t.text, "ids": list(t.ids), "logprob": t.logprob} for t in texts]
    return {"name": strategy.name, "settings": dict(strategy.settings), "texts": shown}


def _ends(found: Target) -> set[int]:
    """The ids that end a text: the tokenizer's, and those the model's own settings name."""
    library = getattr(found.model, "library", None)
    named = getattr(getattr(library, "generation_config", None), "eos_token_id", None)
    ends = {named} if isinstance(named, int) else set(named or ())
    return ends | ({found.reader.stop} if found.reader and found.reader.stop is not None else set())


def _remarks(found: Target, length: int, new: int) -> list[str]:
    """How the prompt is read, where that is not what a person would expect."""
    remarks = []
    tokenizer = getattr(found.model, "tokenizer", None)
    if getattr(getattr(tokenizer, "library", None), "chat_template", None):
        remarks.append(
            f"{found.name} is a chat model: the prompt is continued as plain text, not answered"
        )
    context = found.model.context
    if length > context:
        remarks.append(
            f"the prompt has {length:,} tokens, of which {found.name} reads the last {context:,}"
        )
    elif length + new - 1 > context:
        remarks.append(
            f"{found.name} reads {context:,} tokens at once: from token "
            f"{context - length + 2:,} on, the last {context:,}"
        )
    return remarks
