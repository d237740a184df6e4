"""The loop: limits, frequencies, rows that do not know each other, endings, log-probabilities."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.decode.generate import Generated, generate
from attnlab.decode.strategy import Strategy, parse_strategy
from tests.decode import plain
from tests.decode.plain import INF, Markov, surprise
from tests.decode.test_stepper import LIBRARY, PROMPTS, hub
from tests.models.variants import gpt, small

RARE = 1e-6
FREQUENCIES: dict[str, dict[str, float]] = {
    "sample": {},
    "temperature:t=0.6": {"temperature": 0.6},
    "temperature:t=1.7": {"temperature": 1.7},
    "top-k:k=4": {"top_k": 4},
    "top-k:k=5,temperature=0.8": {"top_k": 5, "temperature": 0.8},
    "top-p:p=0.7": {"top_p": 0.7},
    "top-p:p=0.7,temperature=1.5": {"top_p": 0.7, "temperature": 1.5},
    "min-p:p=0.2": {"min_p": 0.2},
    "typical:p=0.5": {"typical": 0.5},
    "top-p:p=0.95,top-k=7,min-p=0.1": {"top_p": 0.95, "top_k": 7, "min_p": 0.1},
}


def texts(model: Any, prompts: Sequence[Sequence[int]], strategy: str, **more: Any) -> list[Any]:
    given = {"max_new_tokens": 9, "seed": 3, **more}
    return [t.ids for t in generate(model, prompts, parse_strategy(strategy), **given)]


def exact(model: Markov, start: int, settings: dict[str, float]) -> Tensor:
    """P(first, second): the filtered chances of one step times those of the next."""
    rows = [plain.chances(plain.filtered(row, **settings)) for row in model.table.tolist()]
    chance = torch.tensor(rows, dtype=torch.float64)
    return (chance[start][:, None] * chance).flatten()


@pytest.mark.parametrize("strategy", FREQUENCIES)
def test_pairs_come_as_often_as_the_filtered_distribution_says(strategy: str) -> None:
    model = Markov.random(11)
    found = texts(model, [[2]], strategy, n=4001, max_new_tokens=2, batch=4001)
    counts = torch.bincount(torch.tensor([a * 11 + b for a, b in found]), minlength=121)
    assert surprise(counts, exact(model, 2, FREQUENCIES[strategy])) > RARE
    others = [s for name, s in FREQUENCIES.items() if name != strategy]
    assert max(surprise(counts, exact(model, 2, s)) for s in others) < RARE, "it tells nothing"


def test_a_repetition_penalty_changes_the_frequencies_of_earlier_tokens() -> None:
    """Token 4 has a logit above 0, token 6 one below; both are in the prompt."""
    model = Markov.random(7)
    found = texts(model, [[6, 4, 5]], "sample:repetition=1.9", n=4001, max_new_tokens=1, batch=4001)
    counts = torch.bincount(torch.tensor(found)[:, 0], minlength=7)
    row = model.table[5].clone()
    assert row[6] < -0.5 and row[4] > 1.5
    for seen in (4, 5, 6):
        row[seen] = row[seen] / 1.9 if row[seen] > 0 else row[seen] * 1.9
    assert surprise(counts, row.softmax(-1)) > RARE > surprise(counts, model.table[5].softmax(-1))


MODELS = {"ours": lambda: gpt(small(), torch.float32), **{n: lambda n=n: hub(n) for n in LIBRARY}}


@pytest.mark.parametrize("name", MODELS)
def test_limits_of_each_strategy_equal_greedy_or_plain_sampling(name: str) -> None:
    model = MODELS[name]()
    greedy, drawn = (texts(model, PROMPTS, s, n=2) for s in ("greedy", "sample"))
    for same in (
        "temperature:t=0",
        "top-k:k=1",
        "top-p:p=0",
        "top-p:p=1e-12",
        "min-p:p=1",
        "sample:temperature=0",
        "top-k:k=1,temperature=1.7",
        "beam:width=1",
        "greedy:repetition=1",
        "top-p:p=0.9,temperature=0",
    ):
        assert texts(model, PROMPTS, same, n=1 if "beam" in same else 2) == (
            greedy[::2] if "beam" in same else greedy
        ), same
    for same in (
        "temperature:t=1",
        "top-k:k=0",
        "top-k:k=53",
        "top-k:k=54",
        "top-p:p=1",
        "min-p:p=0",
        "typical:p=1",
        "sample:repetition=1,temperature=1",
    ):
        assert texts(model, PROMPTS, same, n=2) == drawn, same
    assert greedy != drawn
    assert texts(model, PROMPTS, "sample", n=2, seed=4) != drawn
    assert texts(model, PROMPTS, "sample", n=2, seed=Seed(3)) == drawn


@pytest.mark.parametrize("strategy", ["greedy", "sample", "top-p:p=0.8", "beam:width=3"])
@pytest.mark.parametrize("name", MODELS)
def test_a_text_does_not_depend_on_neighbours_batch_or_order(name: str, strategy: str) -> None:
    model, prompts = MODELS[name](), [[5, 3, 8], [7, 1, 2, 9, 4, 6, 11], [13], [2, 2]]
    together = texts(model, prompts, strategy)
    assert [texts(model, [prompt], strategy)[0] for prompt in prompts] == together
    assert texts(model, prompts[::-1], strategy) == together[::-1]
    for batch in (1, 3):
        assert texts(model, prompts, strategy, batch=batch) == together
    if strategy != "beam:width=3":
        many = texts(model, prompts, strategy, n=5)
        assert many[::5] == together
        assert texts(model, prompts, strategy, n=3) == [
            t for i in range(4) for t in many[5 * i : 5 * i + 3]
        ]
        longer = texts(model, prompts, strategy, max_new_tokens=23)
        assert [t[:9] for t in longer] == together


def test_a_prompt_twice_gives_what_one_prompt_gives_with_n() -> None:
    model = gpt(small())
    twice = texts(model, [[5, 3], [7], [5, 3]], "sample", n=2)
    assert twice[:2] + twice[4:] == texts(model, [[5, 3]], "sample", n=4)
    assert len(set(twice)) == 6


@pytest.mark.parametrize("length", [5, 31, 37])
def test_beyond_the_context_and_prompts_longer_than_it(length: int) -> None:
    """The last 31 tokens are read, at every step."""
    model = gpt(small())
    text = [i % 53 for i in range(3, 3 + length)]
    expected = list(text)
    for _ in range(41):
        expected.append(int(model.logits(torch.tensor([expected[-31:]]))[0, -1].argmax()))
    assert texts(model, [text], "greedy", max_new_tokens=41) == [tuple(expected[length:])]


@pytest.mark.parametrize("name", LIBRARY)
def test_greedy_is_the_librarys_own(name: str) -> None:
    model = hub(name)
    ours = texts(model, PROMPTS, "greedy", max_new_tokens=17)
    for prompt, found in zip(PROMPTS, ours, strict=True):
        theirs = model.library.generate(
            torch.tensor([prompt]),
            max_new_tokens=17,
            do_sample=False,
            eos_token_id=None,
            attention_mask=torch.ones(1, len(prompt)),
        )
        assert theirs[0, len(prompt) :].tolist() == list(found)


@pytest.mark.parametrize(
    "strategy", ["greedy", "top-k:k=7,temperature=0.5", "beam:width=2", "sample:repetition=1.5"]
)
@pytest.mark.parametrize("name", MODELS)
def test_log_probabilities_are_the_models_before_any_filter(name: str, strategy: str) -> None:
    model = MODELS[name]()
    found = generate(model, PROMPTS, parse_strategy(strategy), max_new_tokens=7, seed=1)
    for prompt, text in zip(PROMPTS, found, strict=True):
        whole = torch.tensor([[*prompt, *text.ids]])
        log_p = model.logits(whole)[0].double().log_softmax(-1)[len(prompt) - 1 : -1]
        expected = log_p.gather(1, torch.tensor(text.ids)[:, None])[:, 0]
        torch.testing.assert_close(
            torch.tensor(text.logprobs).double(), expected, rtol=0, atol=1e-4
        )
        assert text.logprob == math.fsum(text.logprobs)


LETTERS = "abcdefghijk"


def spell(ids: Sequence[int]) -> str:
    return "".join(LETTERS[i] for i in ids)


def chain(*order: int) -> Markov:
    """Says the ids in turn, for certain."""
    table = torch.full((11, 11), -INF, dtype=torch.float64)
    table[:, 10] = -1.0
    for now, then in pairwise(order):
        table[now, then] = 5.0
    return Markov(table)


def one(model: Any, prompt: Sequence[int], strategy: str = "greedy", **more: Any) -> Generated:
    return generate(model, [prompt], parse_strategy(strategy), **{"max_new_tokens": 5, **more})[0]


def test_stop_tokens_end_a_text_and_are_no_part_of_it() -> None:
    found = one(chain(0, 1, 2, 3, 4, 5), [0], stop_ids=[3, 7], decode=spell)
    assert (found.ids, found.ended, found.text) == ((1, 2), "token", "bc")
    assert len(found.logprobs) == 2
    at_once = one(chain(0, 1), [0], stop_ids=[1], decode=spell)
    assert (at_once.ids, at_once.logprob, at_once.text) == ((), 0, "")
    never = one(chain(0, 1, 2, 3, 4, 5), [0], stop_ids=[0, 9])
    assert (never.ids, never.ended, never.text) == ((1, 2, 3, 4, 5), "length", None)


def test_stop_strings_end_it_before_them() -> None:
    model = chain(0, 1, 2, 3, 4, 5)
    found = one(model, [0], stop_strings=["zz", "cd"], decode=spell)
    assert (found.text, found.ids, found.ended) == ("b", (1, 2, 3), "string")
    assert one(model, [0], stop_strings=["ab"], decode=spell).ended == "length", "the prompt's own"
    earliest = one(model, [0], stop_strings=["d", "bcd"], decode=spell)
    assert (earliest.text, earliest.ids) == ("", (1, 2, 3))
    both = one(model, [0], stop_strings=["c"], stop_ids=[2], decode=spell)
    assert (both.text, both.ended) == ("b", "token")


def test_rows_end_one_by_one() -> None:
    """The others go on as if nothing had been."""
    model = chain(0, 1, 2, 3, 4, 5)
    found = generate(
        model, [[0], [2], [4], [3]], Strategy("greedy"), max_new_tokens=7, stop_ids=[4, 10]
    )
    assert [t.ids for t in found] == [(1, 2, 3), (3,), (5,), ()]
    heard: list[tuple[int, int]] = []
    generate(
        model,
        [[0], [2], [4], [3]],
        Strategy("greedy"),
        max_new_tokens=7,
        n=2,
        stop_ids=[4, 10],
        on_token=lambda row, token: heard.append((row, token)),
    )
    assert sorted(heard) == [(0, 1), (0, 2), (0, 3), (2, 3), (4, 5)]


def test_on_token_is_called_for_every_new_token() -> None:
    model, heard = gpt(small()), []
    found = generate(
        model,
        PROMPTS,
        Strategy("sample"),
        max_new_tokens=5,
        n=3,
        batch=4,
        on_token=lambda row, token: heard.append((row, token)),
    )
    assert [tuple(t for r, t in heard if r == row) for row in range(12)] == [t.ids for t in found]


@pytest.mark.parametrize("strategy", ["greedy", "sample", "top-k:k=3", "beam:width=2"])
def test_logits_that_are_nan_or_infinite_are_refused(strategy: str) -> None:
    for bad in (math.nan, INF):
        model = chain(0, 1, 2, 3)
        model.table[2, 5] = bad
        with pytest.raises(UsageError, match="logits are NaN or infinite"):
            one(model, [0], strategy)
        # a row that has ended is not asked; beams end when nothing better can come
        done = generate(model, [[1], [0]], parse_strategy(strategy), max_new_tokens=3, stop_ids=[2])
        assert [t.ids for t in done] == [(), (1,)]
    model.table[2] = -INF
    with pytest.raises(UsageError, match="logits are NaN or infinite"):
        one(model, [0], strategy)


def test_a_token_with_logit_minus_infinity_is_never_chosen() -> None:
    table = torch.full((11, 11), -INF)
    table[:, [3, 7]] = 0.0
    found = texts(Markov(table), [[0]], "temperature:t=100", n=97, max_new_tokens=5)
    assert {i for ids in found for i in ids} == {3, 7}


def test_a_tie_goes_to_the_lowest_id() -> None:
    table = torch.zeros(11, 11)
    table[:, :4] = -1.0
    for same in ("greedy", "top-k:k=1", "top-p:p=0", "min-p:p=1", "beam:width=1", "beam:width=3"):
        assert texts(Markov(table), [[9]], same, max_new_tokens=2) == [(4, 4)], same
    kept = texts(Markov(table), [[9]], "top-k:k=3", n=97, max_new_tokens=1)
    assert {ids[0] for ids in kept} == {4, 5, 6}


def test_greedy_generates_n_equal_texts_once() -> None:
    model = chain(0, 1, 2)
    found = generate(model, [[0]], Strategy("greedy"), n=5, max_new_tokens=2)
    assert len(found) == 5 and len(set(found)) == 1 and len(model.asked) == 2


def test_half_precision_and_any_vocabulary() -> None:
    model = gpt(small(), torch.bfloat16)
    found = generate(model, PROMPTS, Strategy("sample"), max_new_tokens=5, seed=1)
    assert all(math.isfinite(t.logprob) and t.logprob < 0 for t in found)
    (likeliest,) = generate(model, [PROMPTS[0]], Strategy("greedy"), max_new_tokens=1)
    with torch.no_grad():
        logits = model(torch.tensor([PROMPTS[0]]))[0, -1].float()  # probabilities in 32 bits
    assert likeliest.logprob == pytest.approx(float(logits.log_softmax(-1).max()), abs=1e-5)
    wide = Markov.random(601, scale=0.1)
    assert max(i for ids in texts(wide, [[600]], "sample", n=7) for i in ids) > 256


def test_bad_calls_are_refused() -> None:
    model = gpt(small())
    bad: list[tuple[dict[str, Any], str]] = [
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"n": 0}, "n must"),
        ({"batch": 0}, "batch"),
        ({"prompts": [[1], []]}, "prompt 1 has no token"),
        ({"prompts": [[53]]}, "ids must lie in 0 … 52"),
        ({"prompts": [[-1]]}, "ids must lie in 0 … 52"),
        ({"stop_strings": ["a"]}, "need `decode`"),
        ({"stop_strings": [""], "decode": spell}, "not be empty"),
        ({"strategy": "beam:width=2", "n": 3}, "gives at most 2 texts, not 3"),
        (
            {"strategy": "beam:width=2", "stop_strings": ["a"], "decode": spell},
            "cannot end at stop strings",
        ),
    ]
    for change, words in bad:
        given: dict[str, Any] = {"prompts": [[1]], "max_new_tokens": 3, "strategy": "sample"}
        given |= change
        with pytest.raises(UsageError, match=words):
            generate(model, strategy=parse_strategy(given.pop("strategy")), **given)
    assert generate(model, [], Strategy("sample"), max_new_tokens=3) == []


def test_gradients_and_the_random_state_are_left_alone() -> None:
    model = gpt(small())
    before = torch.get_rng_state()
    generate(model, [[1]], Strategy("sample"), max_new_tokens=3)
    assert torch.equal(before, torch.get_rng_state())
    assert all(p.grad is None for p in model.parameters())
