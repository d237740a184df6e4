"""Generate texts with any language model and any strategy, in batches, each with its own seed.

    generate(model, [[5, 3, 8]], parse_strategy("top-p:p=0.7"), n=10, max_new_tokens=40, seed=0)

Text j of a prompt has its own random stream, which depends on the seed, the prompt's ids and j. So
it stays the same with other prompts, in another order or batch and with a larger n; with a larger
max_new_tokens it begins with the same tokens. All strategies use the same streams, so they can be
compared draw by draw. Of a prompt longer than the model's context only the end is read.
"""

from collections import Counter
from collections.abc import Collection, Sequence

import torch

from attnlab.core.errors import UsageError
from attnlab.core.plural import counted
from attnlab.core.seeds import Seed
from attnlab.decode.beam import Search, search
from attnlab.decode.loop import Generated, OnToken, Row, Stop, run
from attnlab.decode.strategy import Strategy
from attnlab.decode.text import Decode
from attnlab.models.protocol import LanguageModel

__all__ = ["Generated", "generate"]
BATCH = 64


@torch.no_grad()
def generate(  # noqa: PLR0913  (what decides a text is this much)
    model: LanguageModel,
    prompts: Sequence[Sequence[int]],
    strategy: Strategy,
    *,
    max_new_tokens: int,
    n: int = 1,
    seed: Seed | int = 0,
    stop_ids: Collection[int] = (),
    stop_strings: Sequence[str] = (),
    decode: Decode | None = None,
    on_token: OnToken | None = None,
    batch: int = BATCH,
) -> list[Generated]:
    """Generate n texts per prompt: those of the first prompt, then those of the second …

    `decode` adds the texts to the ids and is needed for stop strings. `on_token(i, id)` is called
    for every new token of text i (not for a beam, where none is final). `batch` rows run at once.
    """
    stop = Stop(max_new_tokens, frozenset(stop_ids), tuple(stop_strings), decode)
    _check(model, prompts, stop, n, batch)
    root = seed if isinstance(seed, Seed) else Seed(seed)
    if strategy.width is not None:
        return _beams(model, prompts, strategy, stop, n)
    once = strategy.filters.temperature == 0  # the same n times
    rows = _rows(prompts, 1 if once else n, root)
    report = on_token or (lambda row, token: None)
    by_length = sorted(range(len(rows)), key=lambda i: len(rows[i].prompt))
    for start in range(0, len(rows), batch):
        now = by_length[start : start + batch]
        run(
            model,
            [rows[i] for i in now],
            strategy.filters,
            stop,
            lambda row, token, now=now: report(now[row] * (n if once else 1), token),
        )
    texts = [row.done(stop) for row in rows]
    return [text for text in texts for _ in range(n)] if once else texts


def _rows(prompts: Sequence[Sequence[int]], n: int, root: Seed) -> list[Row]:
    """One row per text, each with its seed; a repeated prompt continues the numbering."""
    texts, rows = Counter[tuple[int, ...]](), []
    for prompt in prompts:
        ids = tuple(int(i) for i in prompt)
        own = root.child("generate", *ids)
        rows += [Row(ids, own.child("text", texts[ids] + j)) for j in range(n)]
        texts[ids] += n
    return rows


def _beams(
    model: LanguageModel, prompts: Sequence[Sequence[int]], strategy: Strategy, stop: Stop, n: int
) -> list[Generated]:
    width = strategy.width or 1
    if n > width:
        raise UsageError(f"{strategy} gives at most {width} texts, not {n}: use a larger width")
    if stop.strings:
        raise UsageError("beam search cannot end at stop strings: use stop_ids")
    how = Search(width, strategy.filters, stop)
    texts = []
    for row in _rows(prompts, 1, Seed(0)):
        best = search(model, row, how, n)
        if len(best) < n:
            raise UsageError(f"{strategy}: only {counted(len(best), 'text')} possible, not {n}")
        texts += [text.done(stop) for text in best]
    return texts


def _check(
    model: LanguageModel, prompts: Sequence[Sequence[int]], stop: Stop, n: int, batch: int
) -> None:
    for name, value in (("n", n), ("max_new_tokens", stop.tokens), ("batch", batch)):
        if value < 1:
            raise UsageError(f"{name} must be at least 1, got {value}")
    if stop.strings and (stop.decode is None or not all(stop.strings)):
        raise UsageError("stop strings must not be empty, and they need `decode`")
    for number, prompt in enumerate(prompts):
        if not len(prompt):
            raise UsageError(f"prompt {number} has no token: at least one is needed")
        if not 0 <= min(prompt) <= max(prompt) < model.vocabulary:
            raise UsageError(f"prompt {number}: ids must lie in 0 … {model.vocabulary - 1}")
