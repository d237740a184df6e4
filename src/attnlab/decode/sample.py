"""next ~ softmax(logits / T) at the last position, appended, again; T = 0 takes the largest.

The whole text goes through the model for every token, so it is exact for any model, whatever its
parts; the last `context` tokens are all that is read.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from attnlab.core.errors import UsageError


@torch.no_grad()
def continuation(  # noqa: PLR0913  (a sampler has this many settings)
    logits: Callable[[Tensor], Tensor],
    ids: Sequence[int],
    count: int,
    generator: torch.Generator,
    *,
    context: int,
    stop: int | None = None,
    temperature: float = 1.0,
) -> list[int]:
    """Up to `count` ids that follow `ids`; ends early at `stop`, which is not part of them.

    `logits` takes ids (1, length) and gives (1, length, vocabulary).
    """
    if not len(ids) or not temperature >= 0:
        raise UsageError("sampling needs at least one token to start from and a temperature >= 0")
    text, found = list(ids), []
    for _ in range(count):
        last = logits(torch.tensor([text[-context:]]))[0, -1].double().cpu()
        token = _draw(last, temperature, generator)
        if token == stop:
            break
        text.append(token)
        found.append(token)
    return found


def _draw(logits: Tensor, temperature: float, generator: torch.Generator) -> int:
    if logits.isnan().any() or not (logits > -torch.inf).any():
        raise UsageError("the model's logits are not numbers: nothing can be drawn from them")
    if temperature == 0:
        return int(logits.argmax())  # the lowest id among equals
    weights = torch.softmax(logits / temperature, dim=0)
    return int(torch.multinomial(weights, 1, generator=generator))
