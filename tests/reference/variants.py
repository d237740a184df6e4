"""What each variant of attention does, by definition: one position, pair or query at a time. fp64.

Each seam has a table from a variant's name to its formula, written out from the variant's settings
and parameters. A variant without an entry is asked itself, one row, one pair or one query at a
time: then the loops still settle that it acts on each of them alone.
"""

import math
from collections.abc import Callable, Iterable
from functools import reduce
from operator import add
from typing import Any

import torch
from torch import Tensor

from attnlab.parts.mask import Mask
from attnlab.parts.merge import Merge
from attnlab.parts.normalise import Normalise
from attnlab.parts.part import PositionIds
from attnlab.parts.position import Position
from attnlab.parts.project import Project

Row = Tensor  # one position: d_model
Head = Tensor  # one position of one head: d_head


def total(numbers: Iterable[Tensor]) -> Tensor:
    """The sum, one after the other."""
    return reduce(add, numbers)


def affine(weight: Tensor, bias: Tensor | None, x: Tensor) -> Tensor:
    """Σ_i W[o,i] x[i] + b[o]."""
    made = (weight * x).sum(dim=1)
    return made if bias is None else made + bias


def of(map_: Any, x: Tensor) -> Tensor:
    """A linear map of the part, applied by hand."""
    return affine(map_.weight, map_.bias, x)


# ------------------------------------------------------------------------------------- project


def projected(part: Project, x: Row) -> list[Tensor]:
    """q, k and v of one position, each (head, d_head), shared keys once for each query head."""
    if part.name == "after":  # a norm or an MLP, then a projection
        after: Any = part
        return projected(after.project, row_by_row(after.before, x))
    formula = PROJECT.get(part.name)
    if formula is None:
        row = x[None, None]
        found = [made[0, :, 0] for made in part(row, row.clone())]
    else:
        inner = (part.heads, part.kv_heads, part.kv_heads)
        found = [
            made.reshape(heads, -1) for made, heads in zip(formula(part, x), inner, strict=True)
        ]
    return [each_query_head(made, part.heads) for made in found]


def each_query_head(made: Tensor, heads: int) -> Tensor:
    """Head h reads the keys and values of head ⌊h · kv_heads / heads⌋."""
    return torch.stack([made[h * len(made) // heads] for h in range(heads)])


def _linear(part: Any, x: Row) -> list[Tensor]:
    return list(of(part.qkv, x).split([part.inner, part.kv_inner, part.kv_inner]))


def _tied(part: Any, x: Row) -> list[Tensor]:
    return [of(part.shared, x), of(part.shared, x), of(part.value, x)]


def _low_rank(part: Any, x: Row) -> list[Tensor]:
    ups = (part.up_query, part.up_key, part.up_value)
    return [of(up, low) for up, low in zip(ups, of(part.down, x).chunk(3), strict=True)]


def _mlp(part: Any, x: Row) -> list[Tensor]:
    made = []
    for network in range(3):
        out = x
        for depth, layer in enumerate(part.layers):
            out = out.clamp_min(0) if depth else out
            bias = None if layer.bias is None else layer.bias.chunk(3)[network]
            out = affine(layer.weight[network].T, bias, out)
        made.append(out)
    return made


PROJECT: dict[str, Callable[[Any, Row], list[Tensor]]] = {
    "linear": _linear,
    "tied": _tied,
    "low-rank": _low_rank,
    "mlp": _mlp,
}

# --------------------------------------------------------------------------------- norm and mlp


def row_by_row(part: Any, x: Row) -> Row:
    """A norm or an MLP of one position."""
    formula = {"norm": NORM, "mlp": MLP}[part.seam].get(part.name)
    return part(x[None, None])[0, 0] if formula is None else formula(part, x)


def _layer_norm(part: Any, x: Row) -> Row:
    centred = [v - total(x) / len(x) for v in x]
    variance = total([c * c for c in centred]) / len(x)
    normed = torch.stack([c / (variance + part.eps) ** 0.5 for c in centred]) * part.weight
    return normed if part.bias is None else normed + part.bias


def _rms_norm(part: Any, x: Row) -> Row:
    power = total([v * v for v in x]) / len(x)
    return torch.stack([v / (power + part.eps) ** 0.5 for v in x]) * part.weight


def _gelu(part: Any, x: Row) -> Row:
    u = of(part.wide, x)
    bent = [0.5 * v * (1 + torch.tanh(math.sqrt(2 / math.pi) * (v + 0.044715 * v**3))) for v in u]
    return of(part.out, torch.stack(bent))


def _swiglu(part: Any, x: Row) -> Row:
    units = of(part.wide, x)
    half = len(units) // 2
    gated = [units[i] / (1 + torch.exp(-units[i])) * units[half + i] for i in range(half)]
    return of(part.out, torch.stack(gated))


NORM: dict[str, Callable[[Any, Row], Row]] = {"layer": _layer_norm, "rms": _rms_norm}
MLP: dict[str, Callable[[Any, Row], Row]] = {"gelu": _gelu, "swiglu": _swiglu}

# ------------------------------------------------------------------------------------ position


def embedded(part: Position, x: Row, place: int) -> Row:
    """What a position adds to one embedding."""
    formula = EMBED.get(part.name)
    if formula is not None:
        return formula(part, x, place)
    return part.on_embeddings(x[None, None], torch.tensor([[place]]))[0, 0]


def turned(part: Position, heads: Tensor, place: int) -> Tensor | None:
    """What a position does to one query or key, given as (head, d_head); None without a formula."""
    formula = TURN.get(part.name)
    return formula and torch.stack([formula(part, head, place) for head in heads])


def turned_pair(
    part: Position, query: Tensor, key: Tensor, position_ids: tuple[int, int]
) -> tuple[Tensor, Tensor]:
    """The same for one pair, by the part itself."""
    at = PositionIds(torch.tensor([[position_ids[0]]]), torch.tensor([[position_ids[1]]]))
    q, k = part.on_heads(query[None, :, None], key[None, :, None], at)
    return q[0, :, 0], k[0, :, 0]


def scored(part: Position, scores: Tensor, position_ids: tuple[int, int]) -> Tensor:
    """What a position does to the scores of one pair, one number a head."""
    formula = SCORE.get(part.name)
    if formula is not None:
        of_all = len(scores)
        return torch.stack(
            [formula(part, s, (h, of_all), position_ids) for h, s in enumerate(scores)]
        )
    at = PositionIds(torch.tensor([[position_ids[0]]]), torch.tensor([[position_ids[1]]]))
    return part.on_scores(scores[None, :, None, None], at)[0, :, 0, 0]


def _learned(part: Any, x: Row, place: int) -> Row:
    return x + part.table[max(place, 0)]


def _sinusoidal(part: Any, x: Row, place: int) -> Row:
    config, width = part.config, len(x)
    waves = []
    for i in range(width):
        even = i - i % 2
        power = even if config.exponent == "standard" else i
        angle = place / config.base ** (power / width)
        waves.append(config.scale * (math.cos(angle) if i % 2 else math.sin(angle)))
    return x + torch.tensor(waves, dtype=x.dtype)


def _rotary(part: Any, x: Head, place: int) -> Head:
    half, out = len(x) // 2, list(x)
    for m in range(half):
        angle = place * part.config.base ** (-2 * m / len(x))
        turn = complex(math.cos(angle), math.sin(angle))
        out[m] = x[m] * turn.real - x[m + half] * turn.imag
        out[m + half] = x[m] * turn.imag + x[m + half] * turn.real
    return torch.stack(out)


def _rotary_llama(part: Any, x: Head, place: int) -> Head:
    c, half, out = part.config, len(x) // 2, list(x)
    for m in range(half):
        rate = c.base ** (-2 * m / len(x))
        wavelength = 2 * math.pi / rate
        if c.factor > 1 and wavelength > c.original / c.low:
            rate = rate / c.factor
        elif c.factor > 1 and wavelength >= c.original / c.high:
            share = (c.original / wavelength - c.low) / (c.high - c.low)
            rate = (1 - share) * rate / c.factor + share * rate
        turn = complex(math.cos(place * rate), math.sin(place * rate))
        out[m] = x[m] * turn.real - x[m + half] * turn.imag
        out[m + half] = x[m] * turn.imag + x[m + half] * turn.real
    return torch.stack(out)


def _alibi(
    part: Any, score: Tensor, head: tuple[int, int], position_ids: tuple[int, int]
) -> Tensor:
    slope = 2 ** (-part.config.base * (head[0] + 1) / head[1])
    return score - slope * abs(position_ids[0] - position_ids[1])


def _same(part: Any, x: Tensor, *rest: object) -> Tensor:
    return x


EMBED: dict[str, Callable[[Any, Row, int], Row]] = {
    "none": _same,
    "learned": _learned,
    "sinusoidal": _sinusoidal,
    "rotary": _same,
    "rotary-llama": _same,
    "alibi": _same,
}
TURN: dict[str, Callable[[Any, Head, int], Head]] = {
    "none": _same,
    "learned": _same,
    "sinusoidal": _same,
    "rotary": _rotary,
    "rotary-llama": _rotary_llama,
    "alibi": _same,
}
SCORE: dict[str, Callable[[Any, Tensor, tuple[int, int], tuple[int, int]], Tensor]] = {
    "none": _same,
    "learned": _same,
    "sinusoidal": _same,
    "rotary": _same,
    "rotary-llama": _same,
    "alibi": _alibi,
}

# ---------------------------------------------------------------------------------------- mask


def looks(part: Mask, i: int, j: int) -> bool:
    """Whether the query at place i may look at the key at place j."""
    formula = MASK.get(part.name)
    if formula is not None:
        return formula(part.config, i, j)
    return bool(part(torch.tensor([[[i]]]), torch.tensor([[[j]]])))


MASK: dict[str, Callable[[Any, int, int], bool]] = {
    "causal": lambda config, i, j: j <= i,
    "full": lambda config, i, j: True,
    "self": lambda config, i, j: i == j,
    "prefix": lambda config, i, j: j <= i or j < config.length,
    "window": lambda config, i, j: 0 <= i - j < config.size,
    "and": lambda config, i, j: all(MASK[s.part.name](s, i, j) for s in config.sides),
    "or": lambda config, i, j: any(MASK[s.part.name](s, i, j) for s in config.sides),
}

# ----------------------------------------------------------------------------------- normalise


def normalised(part: Normalise, scores: list[Tensor], allowed: list[bool]) -> list[Tensor]:
    """The weights of one query."""
    formula = NORMALISE.get(part.name)
    if formula is not None:
        return formula(scores, allowed)
    one = torch.stack(scores)[None, None, None]
    return list(part(one, torch.tensor(allowed)[None, None, None])[0, 0, 0])


def _softmax(scores: list[Tensor], allowed: list[bool]) -> list[Tensor]:
    top = max((s.item() for s, ok in zip(scores, allowed, strict=True) if ok), default=0.0)
    parts = [
        torch.exp(s - top) if ok else torch.zeros_like(s)
        for s, ok in zip(scores, allowed, strict=True)
    ]
    whole = total(parts) if any(allowed) else torch.ones_like(scores[0])
    return [part / whole for part in parts]


def _argmax(scores: list[Tensor], allowed: list[bool]) -> list[Tensor]:
    seen = [s.item() if ok else -math.inf for s, ok in zip(scores, allowed, strict=True)]
    best = seen.index(max(seen)) if any(allowed) else -1
    return [torch.full_like(s, float(j == best)) for j, s in enumerate(scores)]


def _straight_through(scores: list[Tensor], allowed: list[bool]) -> list[Tensor]:
    pairs = zip(_argmax(scores, allowed), _softmax(scores, allowed), strict=True)
    return [hard + (soft - soft.detach()) for hard, soft in pairs]


NORMALISE: dict[str, Callable[[list[Tensor], list[bool]], list[Tensor]]] = {
    "softmax": _softmax,
    "argmax": _argmax,
    "straight-through": _straight_through,
}

# --------------------------------------------------------------------------------------- merge


def merged(part: Merge, heads: Tensor) -> Tensor:
    """The output of every position; heads are (batch head pos d_head)."""
    formula = MERGE.get(part.name)
    if formula is None:
        return part(heads)
    batch, count, length, _ = heads.shape
    arranged = formula(part, heads)
    return torch.stack(
        [
            torch.stack(
                [
                    of(part.out, torch.cat([arranged[b][h][t] for h in range(count)]))
                    for t in range(length)
                ]
            )
            for b in range(batch)
        ]
    )


def _size(head: Tensor) -> Tensor:
    power = (head * head).sum()
    return power.sqrt() if power.item() > 0 else power  # at 0 the root has no slope


def _share(head: Tensor, norm: Tensor, whole: Tensor) -> Tensor:
    """head · norm / whole; where nothing was seen all three are 0, and so is the result."""
    return head * norm / whole if whole.item() > 0 else torch.zeros_like(head)


def _shuffled(part: Any, heads: Tensor) -> Any:
    order = part.order(heads.shape[1]).tolist()
    return [[row[h] for h in order] for row in heads]


def _shifted(part: Any, heads: Tensor) -> Any:
    count = heads.shape[1]
    return [[row[(h - part.config.by) % count] for h in range(count)] for row in heads]


def _reweighted(part: Any, heads: Tensor) -> Any:
    norms = [[_size(head) for head in row] for row in heads]
    out = []
    for b, row in enumerate(heads):
        over_rows = [total(column) for column in zip(*norms, strict=True)]
        totals = over_rows if part.config.over == "batch" else [total(norms[b])] * len(row)
        out.append([_share(head, norms[b][h], totals[h]) for h, head in enumerate(row)])
    return out


def _reweighted_causal(part: Any, heads: Tensor) -> Any:
    out = []
    for row in heads:
        norms = [[_size(head[: t + 1]) for t in range(len(head))] for head in row]
        sums = [total(norm[t] for norm in norms) for t in range(row.shape[1])]
        out.append(
            [
                torch.stack([_share(head[t], norms[h][t], sums[t]) for t in range(len(head))])
                for h, head in enumerate(row)
            ]
        )
    return out


MERGE: dict[str, Callable[[Any, Tensor], Any]] = {
    "concat": _same,
    "shuffle": _shuffled,
    "shift": _shifted,
    "reweight": _reweighted,
    "reweight-causal": _reweighted_causal,
}
TABLES: dict[str, list[dict[str, Any]]] = {
    "project": [PROJECT],
    "position": [EMBED, TURN, SCORE],
    "mask": [MASK],
    "normalise": [NORMALISE],
    "merge": [MERGE],
    "norm": [NORM],
    "mlp": [MLP],
}
