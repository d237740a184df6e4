"""Maps are checked, tables say what the maps say, JSON holds them."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.report import attention
from attnlab.report.attention import (
    TOLERANCE,
    AttentionMaps,
    as_json,
    most_looked_at,
    summary,
    table,
)


def softmax_maps(layers: int, heads: int, n: int, *, causal: bool = True) -> np.ndarray:
    scores = np.random.default_rng(7).normal(size=(layers, heads, n, n)) * 2
    if causal:
        scores = np.where(np.tri(n, dtype=bool), scores, -np.inf)
    raised = np.exp(scores - scores.max(-1, keepdims=True))
    return raised / raised.sum(-1, keepdims=True)


def made(layers: int = 2, heads: int = 3, n: int = 5, *, causal: bool = True) -> AttentionMaps:
    tokens = tuple(f"Ġw{place}" for place in range(n))
    return AttentionMaps("a model", tokens, softmax_maps(layers, heads, n, causal=causal))


def by_hand() -> AttentionMaps:
    """Two heads over `a b c`: the first looks back one step, the second at nothing but `a`."""
    back = [[1, 0, 0], [0.75, 0.25, 0], [0, 0.5, 0.5]]
    first = [[1, 0, 0], [1, 0, 0], [1, 0, 0]]
    return AttentionMaps("a model", ("a", " b", "\n"), np.array([[back, first]]))


@pytest.mark.parametrize(
    "shape", [(2, 3, 5), (2, 3, 5, 4), (2, 3, 4, 4), (0, 3, 5, 5), (2, 0, 5, 5)]
)
def test_a_wrong_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UsageError, match=r"\(layer, head, 5, 5\)"):
        AttentionMaps("a model", tuple("abcde"), np.zeros(shape))


def test_no_tokens_are_refused() -> None:
    with pytest.raises(UsageError, match="no tokens"):
        AttentionMaps("a model", (), np.zeros((1, 1, 0, 0)))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (math.nan, "not finite"),
        (math.inf, "not finite"),
        (-0.75, r"go down to -0\.\d+"),
        (0.75, r"sum to 1\.\d+, not to 1 or 0"),
    ],
)
def test_weights_that_are_none_are_refused_and_named(value: float, why: str) -> None:
    weights = softmax_maps(2, 3, 5)
    weights[1, 2, 3, 1] += value
    with pytest.raises(IntegrityError, match=rf"^layer 1, head 2, token 3: .*{why}"):
        AttentionMaps("a model", tuple("abcde"), weights)


def test_a_token_that_looks_at_nothing_is_accepted_and_said() -> None:
    weights = softmax_maps(1, 1, 3)
    weights[0, 0, 0] = 0
    maps = AttentionMaps("a model", tuple("abc"), weights)
    assert table(maps, 0, 0)[1][0] == ["0", "a", "nothing", "–", "–"]
    assert maps.empty[0, 0].tolist() == [[True] * 3, [False, False, True], [False] * 3]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_within_the_tolerance(dtype: torch.dtype) -> None:
    scores = torch.randn(3, 5, 127, 127, generator=torch.Generator().manual_seed(3))
    weights = scores.to(dtype).softmax(-1).float()
    off = float((weights.sum(-1) - 1).abs().max())
    assert torch.finfo(dtype).eps / 50 < off < TOLERANCE  # it is off, and that is accepted
    assert AttentionMaps("a model", ("x",) * 127, weights.numpy()).layers == 3


def test_maps_cannot_be_changed_behind_the_checks() -> None:
    weights = softmax_maps(1, 1, 3)
    maps = AttentionMaps("a model", tuple("abc"), weights)
    weights[:] = 7
    assert maps.weights.max() <= 1
    with pytest.raises(ValueError, match="read-only"):
        maps.weights[0] = 7


def test_causal_is_seen() -> None:
    assert made().causal
    assert not made(causal=False).causal
    assert not made(causal=False).empty.any()


def test_one_head_by_hand() -> None:
    columns, rows = table(by_hand(), 0, 0, top=2)
    assert columns == ["position", "token", "looks most at", "2nd"]
    assert rows == [
        ["0", "a", "1.000 a (0)", "–"],
        ["1", "␣b", "0.750 a (0)", "0.250 ␣b (1)"],
        ["2", "↵", "0.500 ␣b (1)", "0.500 ↵ (2)"],  # a tie: from the left
    ]


def test_without_a_head_the_mean_of_all() -> None:
    _, rows = table(by_hand(), 0, None)
    assert rows[1][2:] == ["0.875 a (0)", "0.125 ␣b (1)", "–"]
    assert rows[2][2:] == ["0.500 a (0)", "0.250 ␣b (1)", "0.250 ↵ (2)"]


def test_without_a_layer_five_numbers_a_head() -> None:
    columns, rows = table(by_hand())
    assert columns[:2] == ["layer", "head"]
    entropy = -(0.75 * math.log2(0.75) + 0.25 * math.log2(0.25))
    assert rows == [
        # second token: 0.75 a step back; third: 0.5 a step back
        ["0", "0", f"{(entropy + 1) / 2:.2f}", "0.6", "0.375", "0.625", "0.375"],
        ["0", "1", "0.00", "1.5", "1.000", "0.500", "0.000"],
    ]


def test_a_head_without_a_layer_is_that_head_of_every_layer() -> None:
    _, rows = table(made(2, 3), None, 1)
    assert [row[:2] for row in rows] == [["0", "1"], ["1", "1"]]
    assert rows == table(made(2, 3))[1][1::3]


def test_summary_is_what_slow_loops_say() -> None:
    maps = made(2, 3, 7, causal=False)
    found = summary(maps)
    for layer in range(2):
        for head in range(3):
            w = maps.weights[layer, head].astype(float)
            queries = range(1, 7)
            bits = [-sum(x * math.log2(x) for x in w[q]) for q in queries]
            far = [sum(w[q, k] * abs(q - k) for k in range(7)) for q in queries]
            wanted = (
                (found.entropy, bits),
                (found.distance, far),
                (found.first, [w[q, 0] for q in queries]),
                (found.previous, [w[q, q - 1] for q in queries]),
                (found.itself, [w[q, q] for q in queries]),
            )
            for ours, values in wanted:
                assert ours[layer, head] == pytest.approx(sum(values) / 6, rel=1e-12)


def test_a_text_of_one_token_has_no_summary() -> None:
    maps = AttentionMaps("a model", ("a",), np.ones((1, 2, 1, 1)))
    assert table(maps)[1] == [["0", "0", *"–––––"], ["0", "1", *"–––––"]]
    assert table(maps, 0, 0) == (
        ["position", "token", "looks most at"],
        [["0", "a", "1.000 a (0)"]],
    )


def test_queries_that_look_at_nothing_are_left_out_of_the_means() -> None:
    weights = np.zeros((1, 1, 3, 3))
    weights[0, 0, 2, 1] = 1
    found = summary(AttentionMaps("a model", tuple("abc"), weights))
    assert (found.previous[0, 0], found.first[0, 0], found.distance[0, 0]) == (1, 0, 1)


@pytest.mark.parametrize(
    ("layer", "head", "top", "why"),
    [
        (2, None, 3, "layer 2 does not exist: there are layers 0 to 1"),
        (-1, None, 3, "layer -1"),
        (0, 3, 3, "head 3 does not exist: there are heads 0 to 2"),
        (None, 9, 3, "head 9"),
        (0, 0, 0, "top is 0"),
    ],
)
def test_what_does_not_exist_is_said(
    layer: int | None, head: int | None, top: int, why: str
) -> None:
    with pytest.raises(UsageError, match=why):
        table(made(2, 3), layer, head, top)


def test_columns_are_counted_in_words() -> None:
    columns, rows = table(made(1, 1, 23), 0, 0, top=100)
    assert columns[2:6] == ["looks most at", "2nd", "3rd", "4th"]
    assert columns[12:16] == ["11th", "12th", "13th", "14th"]
    assert columns[-3:] == ["21st", "22nd", "23rd"]
    assert {len(row) for row in rows} == {25}


def test_a_long_token_does_not_fill_the_terminal() -> None:
    maps = AttentionMaps("a model", ("x" * 400, "b"), np.full((1, 1, 2, 2), 0.5))
    _, rows = table(maps, 0, 0)
    assert max(len(cell) for row in rows for cell in row) < 40


def test_a_tiny_weight_is_not_shown_as_none() -> None:
    assert attention.weight_text(0.0004) == "<0.001"
    assert attention.weight_text(0.0005) == "0.001"
    assert most_looked_at(np.array([0.0, 0.2, 0.8]), 3) == [(2, 0.8), (1, 0.2)]


def test_json_holds_tokens_and_six_digits() -> None:
    maps = made(2, 3, 5)
    read = json.loads(json.dumps(as_json(maps), allow_nan=False))
    assert read["target"] == "a model"
    assert read["tokens"] == ["Ġw0", "Ġw1", "Ġw2", "Ġw3", "Ġw4"]  # as the tokenizer has them
    found = np.array(read["weights"])
    assert found.shape == (2, 3, 5, 5)
    assert np.abs(found - maps.weights).max() <= 0.5e-6 + np.finfo(np.float32).eps
    assert max(len(str(x)) for x in found.ravel().tolist()) <= 8 + len("e-05") - 2


def test_a_picture_needs_a_known_ending(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"map\.gif: .*\.png, \.svg or \.pdf"):
        attention.save(attention.picture(made(1, 1, 3)), tmp_path / "map.gif")
    assert not list(tmp_path.iterdir())
