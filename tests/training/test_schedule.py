import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnlab.core.config import build
from attnlab.core.errors import UsageError
from attnlab.training.schedule import learning_rate
from attnlab.training.settings import TrainSettings

from .tiny import settings


def rates(**values: object) -> list[float]:
    wanted = settings(**values)
    return [learning_rate(step, wanted) for step in range(wanted.steps)]


def test_the_three_shapes_by_hand() -> None:
    plain = {"steps": 10, "warmup_fraction": 0.2, "learning_rate": 8.0, "final_fraction": 0.25}
    assert rates(**plain, schedule="constant") == [4.0] + [8.0] * 9
    assert rates(**plain, schedule="linear") == [
        4.0,
        8.0,
        8.0,
        7.25,
        6.5,
        5.75,
        5.0,
        4.25,
        3.5,
        2.75,
    ]
    cosine = rates(**plain, schedule="cosine")
    assert cosine[:3] == [4.0, 8.0, 8.0]
    assert cosine[6] == pytest.approx((2.0 + 8.0) / 2, rel=1e-15), "half way: the middle"
    assert cosine[9] == pytest.approx(2.0 + 6.0 * (1 + math.cos(math.pi * 7 / 8)) / 2, rel=1e-15)


@given(
    steps=st.integers(1, 500),
    warmup=st.floats(0, 1),
    final=st.floats(0, 1),
    shape=st.sampled_from(["cosine", "linear", "constant"]),
)
def test_rises_then_falls_and_never_rests_at_zero(
    steps: int, warmup: float, final: float, shape: str
) -> None:
    found = rates(
        steps=steps, warmup_fraction=warmup, final_fraction=final, schedule=shape, learning_rate=1.0
    )
    top = found.index(max(found))
    assert all(0 < rate <= 1 + 1e-12 for rate in found)
    assert found[: top + 1] == sorted(found[: top + 1])
    assert all(later <= earlier + 1e-12 for earlier, later in pairwise(found[top:]))
    assert min(found[top:]) >= final - 1e-12 or top == steps - 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"stepps": 3}, "did you mean 'steps'"),
        ({"steps": 0}, "steps"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"warmup_fraction": 100}, "warmup_fraction"),
        ({"optimizer": "adam"}, "optimizer"),
        ({"momentum": 0.9}, "momentum is an option of sgd"),
        ({"betas": [0.9, 1.0]}, "betas"),
        ({"keep": 1}, "keep"),
        ({"learning_rate": math.inf}, "learning_rate"),
    ],
)
def test_a_wrong_setting_is_one_line(wrong: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said) as caught:
        build(TrainSettings, wrong)
    assert "\n" not in str(caught.value)
