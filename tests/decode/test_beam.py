"""Beam search: brute force where that is possible, a plain loop and the library elsewhere."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from attnlab.core.errors import UsageError
from attnlab.decode.generate import generate
from attnlab.decode.strategy import parse_strategy
from tests.decode.plain import Markov
from tests.decode.test_stepper import LIBRARY, PROMPTS, hub
from tests.models.variants import gpt, small

STEPS, VOCABULARY = 4, 5


def tiny() -> Any:
    return gpt(small(vocab=VOCABULARY, block=13))


def scores(
    model: Any, prompt: Sequence[int], texts: Sequence[Sequence[int]], temperature: float = 1.0
) -> list[float]:
    """Σ log p of each text; texts of one length, all at once."""
    ids = torch.tensor([[*prompt, *text] for text in texts])
    log_p = (model.logits(ids).double() / temperature).log_softmax(-1)
    chosen = log_p[:, :-1].gather(2, ids[:, 1:, None])[:, len(prompt) - 1 :, 0]
    return chosen.sum(dim=1).tolist()


def every_text(
    model: Any, prompt: Sequence[int], stop: set[int], temperature: float = 1.0
) -> list[tuple[float, tuple[int, ...]]]:
    """All of them, best first: those that end, and those of four tokens that do not."""
    found = []
    for length in range(1, STEPS + 1):
        texts = list(itertools.product(range(VOCABULARY), repeat=length))
        for ids, score in zip(texts, scores(model, prompt, texts, temperature), strict=True):
            if stop.isdisjoint(ids[:-1]) and (ids[-1] in stop or length == STEPS):
                found.append((score, ids[:-1] if ids[-1] in stop else ids))
    return sorted(found, key=lambda pair: (-pair[0], pair[1]))


@pytest.mark.parametrize("temperature", [1.0, 2.5])
@pytest.mark.parametrize("stop", [set(), {2}, {0, 3}], ids=str)
def test_a_wide_beam_equals_brute_force(stop: set[int], temperature: float) -> None:
    model, prompt, n = tiny(), [1, 4, 2], 7
    strategy = parse_strategy(f"beam:width=625,temperature={temperature}")
    found = generate(model, [prompt], strategy, max_new_tokens=STEPS, n=n, stop_ids=stop)
    wanted = every_text(model, prompt, stop, temperature)[:n]
    assert [text.ids for text in found] == [ids for _, ids in wanted]
    for text in found:
        assert text.logprob == pytest.approx(scores(model, prompt, [text.ids])[0], abs=1e-10)
        assert text.ended == ("length" if len(text.ids) == STEPS else "token")


def beamed(model: Any, prompt: Sequence[int], width: int, stop: set[int]) -> tuple[int, ...]:
    """The same search as a plain loop over lists, each text scored from its start."""
    beam: list[tuple[int, ...]] = [()]
    endings: list[tuple[float, tuple[int, ...]]] = []
    for _ in range(STEPS):
        grown = [(*ids, token) for ids in beam for token in range(VOCABULARY)]
        scored = dict(zip(grown, scores(model, prompt, grown), strict=True))
        ranked = sorted(grown, key=lambda ids: -scored[ids])
        endings += [(scored[ids], ids[:-1]) for ids in ranked[:width] if ids[-1] in stop]
        beam = [ids for ids in ranked if ids[-1] not in stop][:width]
    endings += list(zip(scores(model, prompt, beam), beam, strict=True))
    return max(endings, key=lambda pair: pair[0])[1]


@pytest.mark.parametrize("width", [1, 2, 3, 7])
@pytest.mark.parametrize("stop", [set(), {2}], ids=str)
def test_a_narrow_beam_equals_the_plain_loop(width: int, stop: set[int]) -> None:
    model, prompts = tiny(), [[1, 4, 2], [3], [0, 0, 2, 1, 3]]
    strategy = parse_strategy(f"beam:width={width}")
    found = generate(model, prompts, strategy, max_new_tokens=STEPS, stop_ids=stop)
    assert [t.ids for t in found] == [beamed(model, p, width, stop) for p in prompts]


@pytest.mark.parametrize("name", LIBRARY)
def test_the_librarys_own_beam_where_nothing_ends(name: str) -> None:
    model = hub(name)
    found = generate(model, PROMPTS, parse_strategy("beam:width=3"), max_new_tokens=11, n=3)
    for i, prompt in enumerate(PROMPTS):
        theirs = model.library.generate(
            torch.tensor([prompt]),
            max_new_tokens=11,
            do_sample=False,
            num_beams=3,
            num_return_sequences=3,
            length_penalty=0.0,
            eos_token_id=None,
            attention_mask=torch.ones(1, len(prompt)),
        )
        ours = [list(text.ids) for text in found[3 * i : 3 * i + 3]]
        assert theirs[:, len(prompt) :].tolist() == ours


def test_a_wider_beam_finds_what_greedy_misses() -> None:
    """0 leads on to four equal chances, 1 to a certainty."""
    table = torch.full((5, 5), -20.0, dtype=torch.float64)
    table[4, 0], table[4, 1] = math.log(0.6), math.log(0.4)
    table[0], table[1, 3] = math.log(0.2), 0.0
    model = Markov(table)
    found = [
        generate(model, [[4]], parse_strategy(f"beam:width={w}"), max_new_tokens=2)[0].ids
        for w in (1, 2)
    ]
    assert found == [(0, 0), (1, 3)]


def test_the_search_ends_when_no_better_text_is_possible() -> None:
    table = torch.full((5, 5), -5.0, dtype=torch.float64)
    table[:, 2] = 5.0
    model = Markov(table)
    (found,) = generate(
        model, [[0]], parse_strategy("beam:width=3"), max_new_tokens=40, stop_ids=[2]
    )
    assert (found.ids, found.ended) == ((), "token")
    assert len(model.asked) == 3, "one step of three rows"


def test_asking_for_more_texts_than_exist_is_refused() -> None:
    table = torch.full((5, 5), -math.inf, dtype=torch.float64)
    table[:, 1] = 0.0
    with pytest.raises(UsageError, match="only 1 text possible, not 2"):
        generate(Markov(table), [[0]], parse_strategy("beam:width=2"), max_new_tokens=3, n=2)


def test_the_repetition_penalty_uses_each_beams_own_text() -> None:
    """With a large one no token comes twice while others are left."""
    model = Markov(torch.rand(7, 7, generator=torch.Generator().manual_seed(1)) + 1)
    (found,) = generate(
        model, [[3]], parse_strategy("beam:width=4,repetition=1000"), max_new_tokens=6
    )
    assert sorted(found.ids) == [0, 1, 2, 4, 5, 6]
