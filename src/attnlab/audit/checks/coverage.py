"""coverage: does every token reach the predictions that may use it?

Runs: one token at a time is changed, and the logits after it are compared with what they were; at
the short length for every token, at longer ones for some. Number: the share of tokens that no
later prediction reads. Fails when there is one, when all logits are constant, or when no prediction
reads an earlier token though the model has parts that mix positions. How far back it looks is
reported: a window is not a fault, but you should know of it. Weights that are all zero, as some
start their training, are given small values first.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.audit.probing.attention_scores import RecordScores
from attnlab.audit.probing.copies import fill_zero_weights
from attnlab.audit.probing.noise import movement, noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import repeatable, two_tokens
from attnlab.audit.probing.subject import Subject
from attnlab.core.plural import counted

NAME = "coverage"
SAMPLED, FEW = 16, 6  # tokens tried in longer texts
LONGER = (131, 521)
MIXERS = (nn.RNNBase, nn.Conv1d, nn.MultiheadAttention, nn.TransformerEncoderLayer)


@audit(NAME, question="Is it blind to some tokens?", needs=(two_tokens, repeatable))
def coverage(subject: Subject, probe: Probe) -> Finding:
    """Judge a causal model, or any that answers at every position."""
    fine = subject.finest()
    fine = fill_zero_weights(fine) or fine
    return _position_coverage(fine, probe) if fine.per_position else _row_coverage(fine, probe)


def _position_coverage(subject: Subject, probe: Probe) -> Finding:
    n = probe.short_length(subject)
    if not _finite(subject, probe, n):
        raise NotApplicable("its answers are not finite")
    maps = [_measure(subject, probe, n, 8 if subject.large else n)]
    most = min(subject.context, probe.length or LONGER[-1])
    for length in {subject.fitting(min(n, most)) for n in LONGER[: 1 if subject.large else None]}:
        if length > n and _finite(subject, probe, length):
            few = subject.large or length > LONGER[0]
            maps.append(_measure(subject, probe, length, FEW if few else SAMPLED))
    maps.sort(key=lambda m: m.length)
    share = max(len(m.unread) / len(m.moves) for m in maps)
    evidence = {
        f"length {m.length}": {"unread": m.unread, "looks_back": m.looks_back} for m in maps
    }
    if all(len(m.unread) == len(m.moves) for m in maps):
        return _reads_no_earlier_token(subject, probe, maps, evidence)
    problem = ""
    if blind := next((m for m in maps if m.unread), None):
        where = f"position {_span(blind.unread)} of {blind.length}"
        problem = f"no later prediction reads the token at {where}: the model is blind to it"
    why = "every token is read by later predictions" + maps[-1].window
    return Finding.judged(NAME, problem, why, share, 0.0, evidence)


def _reads_no_earlier_token(
    subject: Subject, probe: Probe, maps: "list[_Influence]", evidence: Mapping[str, object]
) -> Finding:
    """No prediction reads an earlier token: right for a bigram table, a fault with attention."""
    with RecordScores(probe.short_length(subject)) as seen:
        subject.logits(probe.rows(subject, rows=1))
    inside = subject.visible_module
    parts = [] if inside is None else [m for m in inside.modules() if isinstance(m, MIXERS)]
    problem = ""
    if not any(m.moves[j][j] > m.floor for m in maps for j in m.moves):
        problem = "no prediction reads any token: its logits are the same for every text"
    elif seen.scores or seen.fused or parts:
        problem = "no prediction reads an earlier token: the model sees one token at a time"
    why = "every prediction reads its own token and no earlier one: it is a bigram model"
    return Finding.judged(NAME, problem, why, 1.0, 0.0, evidence)


@dataclass(frozen=True)
class _Influence:
    """How far the logits at every position move when the token at j changes: moves[j][t]."""

    length: int
    moves: dict[int, list[float]]
    floor: float  # the noise: smaller movements do not count

    @property
    def unread(self) -> list[int]:
        """Tokens that move no later prediction."""
        moves = self.moves.items()
        return [j for j, sizes in moves if max(sizes[j + 1 :], default=0.0) <= self.floor]

    @property
    def looks_back(self) -> int:
        """The largest distance from a token to a prediction that reads it."""
        reads = (t - j for j, s in self.moves.items() for t in range(j, len(s)) if s[t])
        return max(reads, default=0)

    @property
    def window(self) -> str:
        """A phrase that tells how far back it looks, where that is not the whole text."""
        first = min(self.moves)
        if self.looks_back >= self.length - 1 - first:
            return ""
        return f", and none looks back further than about {counted(self.looks_back, 'token')}"


def _measure(subject: Subject, probe: Probe, length: int, count: int) -> _Influence:
    ids = probe.rows(subject, length, rows=1)
    floor = noise_of(subject, probe).value
    measured = _Influence(length, influence(subject, ids, _positions_to_try(length, count)), floor)
    if measured.unread:  # attention to a few tokens only may skip some: try another text
        other = probe.rows(subject, length, rows=1, draw=2)
        measured.moves.update(influence(subject, other, measured.unread))
    room = subject.fitting(min(subject.context, 2 * length))
    # attention by blocks reads a token once its block is full
    if measured.unread and room > length:
        longer = probe.rows(subject, room, rows=1)
        measured.moves.update(influence(subject, longer, measured.unread))
    return measured


def _finite(subject: Subject, probe: Probe, length: int) -> bool:
    """Whether no logit is NaN, which would hide every movement."""
    return not bool(subject.logits(probe.rows(subject, length, rows=1)).isnan().any())


def _positions_to_try(length: int, count: int) -> list[int]:
    """`count` evenly spaced positions, without the last, which nothing comes after."""
    count = min(count, length - 1)
    return sorted({round(i * (length - 2) / max(1, count - 1)) for i in range(count)})


def influence(subject: Subject, ids: Tensor, positions: list[int]) -> dict[int, list[float]]:
    """Position j -> how far the logits of each position move when the token at j changes."""
    before = subject.logits(ids)
    movements: dict[int, list[float]] = {}
    for j in positions:
        gap = torch.zeros(before.shape[1], dtype=torch.float64)
        for step in (1,) if subject.large else (1, subject.vocabulary // 2):
            other = ids.clone()
            other[:, j] = (other[:, j] + max(1, step)) % subject.vocabulary
            gap = torch.maximum(gap, movement(before, subject.logits(other))[0].cpu())
        movements[j] = gap.tolist()
    return movements


def _span(positions: list[int]) -> str:
    if len(positions) == 1:
        return str(positions[0])
    return f"{positions[0]} and {len(positions) - 1} others up to {positions[-1]}"


def _row_coverage(subject: Subject, probe: Probe) -> Finding:
    """Judge a model with one answer per row: every token must change it."""
    n = probe.short_length(subject)
    movements = influence(subject, probe.rows(subject, n, rows=1), list(range(n)))
    unread = [j for j, moves in movements.items() if not any(moves)]
    problem = ""
    if unread:
        problem = f"the answer does not read the token at position {_span(unread)} of {n}"
    evidence, why = {"length": n, "unread": unread}, "the answer reads every token"
    return Finding.judged(NAME, problem, why, len(unread) / n, 0.0, evidence)
