"""The teacher is its formula; data sets are drawn in chunks, stored whole, checked on loading."""

import math

import pytest
import torch

from attnlab.core.config import build
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.solvable import teacher as module
from attnlab.solvable.teacher import Teacher, TeacherSettings
from tests.reference import student as reference


@pytest.mark.parametrize("scaling", ["paper", "unscaled"])
def test_attention_is_the_formula(scaling: str) -> None:
    s = build(TeacherSettings, {"dim": 13, "rank": 2, "scaling": scaling, "omega": 0.2})
    teacher = Teacher.draw(s, Seed(1))
    data = teacher.sample(7, Seed(2))
    mixing = torch.tensor(s.mixing, dtype=torch.float64)
    for n in range(7):
        x = data.tokens[:, n]
        expected = reference.teacher_attention(
            x, teacher.weights, 0.2, mixing, s.field_scale, False
        )
        torch.testing.assert_close(data.attention[:, :, n], expected)
        torch.testing.assert_close(data.targets()[:, n], expected @ x)


def test_tokens_have_the_stated_size() -> None:
    """Mean 0 and variance σ² within five standard errors of 2·10⁵ draws."""
    s = build(TeacherSettings, {"dim": 101, "sigma": 0.5})
    tokens = Teacher.draw(s, Seed(1)).sample(1009, Seed(2)).tokens
    count = tokens.numel()
    assert abs(float(tokens.mean())) < 5 * 0.5 / math.sqrt(count)
    assert abs(float(tokens.var()) / 0.25 - 1) < 5 * math.sqrt(2 / count)


def test_unscaled_positions_and_fields() -> None:
    paper = build(TeacherSettings, {"dim": 100})
    unscaled = build(TeacherSettings, {"dim": 100, "scaling": "unscaled"})
    assert (paper.field_scale, paper.position_size) == (0.1, 0.1)
    assert (unscaled.field_scale, unscaled.position_size) == (1.0, 1.0)
    assert paper.signs.tolist() == [1.0, -1.0]


def test_chunks_do_not_change_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """A data set is what its chunks hold, in order; the chunk size is fixed by the settings."""
    s = build(TeacherSettings, {"dim": 13})
    monkeypatch.setattr(module, "CHUNK_NUMBERS", 13 * 2 * 5)
    teacher = Teacher.draw(s, Seed(1))
    whole = teacher.sample(17, Seed(2)).tokens
    pieces = list(teacher.chunks(17, Seed(2), torch.float64))
    assert [p.shape[1] for p in pieces] == [5, 5, 5, 2]
    assert torch.equal(torch.cat(pieces, dim=1), whole)


def test_same_seed_same_data_other_seed_other_data() -> None:
    s = build(TeacherSettings, {"dim": 13})
    teacher = Teacher.draw(s, Seed(1))
    first, again = teacher.sample(7, Seed(2)), teacher.sample(7, Seed(2))
    assert torch.equal(first.tokens, again.tokens)
    assert not torch.equal(first.tokens, teacher.sample(7, Seed(3)).tokens)


@pytest.mark.parametrize(
    "bad",
    [
        {"mixing": [[0.6, 0.4]]},
        {"mixing": [[0.6, 0.5], [0.4, 0.6]]},
        {"omega": 1.5},
        {"dim": 1},
        {"mixing": [[1.2, -0.2], [0.4, 0.6]]},
        {"tokens": 3},
        {"dimm": 10},
        {"scaling": "papper"},
    ],
)
def test_settings_that_make_no_sense_are_refused(bad: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        build(TeacherSettings, bad)
