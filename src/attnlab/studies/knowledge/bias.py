"""Does the place that is made up depend on the surname? First names and surnames crossed.

    answers      Ames   Bird   Cox          agreement = share of pairs in a column, over first
    Al           Rome   Oslo   Rome         names, that are equal: Rome-Rome yes, Oslo-Oslo yes,
    Bo           Rome   Oslo   Bern         Rome-Bern no: 2/3
    excess = agreement − mean agreement when each row is shuffled

Shuffling a row keeps what the model says to a first name, and breaks what it says to a surname.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from attnlab.core.seeds import Seed
from attnlab.tasks.birthplaces import Question

SHUFFLES = 1000
ROUNDING = 1e-12


@dataclass(frozen=True)
class Agreement:
    """How often the same surname gets the same answer, beside shuffled surnames."""

    share: float
    shuffled: float
    p: float  # (1 + shuffles that agree as often) / (1 + shuffles)

    @property
    def excess(self) -> float:
        """Above 0: the surname decides, in part."""
        return self.share - self.shuffled


def crossed(invented: Sequence[Question], known: Collection[str], size: int) -> list[Question]:
    """Up to size × size questions, first name by first name, but for names that are known.

    First names and surnames are the first and last words of the invented people's; [] where there
    are fewer than two of either.
    """
    spoken = [(q, q.name.split()) for q in invented if len(q.name.split()) > 1]
    first, last = (list(dict.fromkeys(words[at] for _, words in spoken))[:size] for at in (0, -1))
    if min(len(first), len(last)) < 2:
        return []
    like = spoken[0][0]
    before, _, after = like.text.partition(like.name)
    names = [name for one in first for other in last if (name := f"{one} {other}") not in known]
    return [Question(f"{before}{name}{after}", name, None) for name in names]


def agreement(names: Sequence[str], said: Sequence[str], seed: Seed) -> Agreement | None:
    """Of what is said to crossed names; None where no two have the same surname."""
    table = _table(names, said)
    pairs = _equal(table)
    if not pairs[1]:
        return None
    share, rng = pairs[0] / pairs[1], seed.numpy_generator()
    found = []
    for _ in range(SHUFFLES):
        shuffled = table.copy()
        for row in shuffled:
            row[row >= 0] = rng.permutation(row[row >= 0])
        found.append(_equal(shuffled)[0] / pairs[1])
    as_often = int((np.array(found) >= share - ROUNDING).sum())
    return Agreement(share, float(np.mean(found)), (1 + as_often) / (1 + SHUFFLES))


def _table(names: Sequence[str], said: Sequence[str]) -> np.ndarray:
    """A number for each answer, by first name and surname; −1 where nobody was asked."""
    _, codes = np.unique(np.asarray(said, dtype=str), return_inverse=True)
    words = [name.split() for name in names]
    first, last = (list(dict.fromkeys(w[at] for w in words)) for at in (0, -1))
    table = np.full((len(first), len(last)), -1)
    for one, code in zip(words, codes, strict=True):
        table[first.index(one[0]), last.index(one[-1])] = code
    return table


def _equal(table: np.ndarray) -> tuple[int, int]:
    """Pairs of a column that are equal, and all pairs of a column."""
    there = table >= 0
    same = (table[:, None, :] == table[None, :, :]) & there[:, None, :] & there[None, :, :]
    column = there.sum(axis=0)
    return (int(same.sum()) - int(there.sum())) // 2, int((column * (column - 1)).sum()) // 2
