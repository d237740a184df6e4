"""Strategies: what a person writes is read, checked, said back, and explained."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.core.errors import UsageError
from attnlab.decode.filters import Filters
from attnlab.decode.strategy import NAMES, Strategy, parse_strategy

READ = {
    "greedy": (Filters(temperature=0.0), "the likeliest"),
    "greedy:repetition=1.2": (
        Filters(temperature=0.0, repetition=1.2),
        "repetition 1.2 → the likeliest",
    ),
    "sample": (Filters(), "draw"),
    "temperature:t=0.8": (Filters(temperature=0.8), "temperature 0.8 → draw"),
    "top-k:k=20,temperature=0.8": (
        Filters(top_k=20, temperature=0.8),
        "temperature 0.8 → top-k 20 → draw",
    ),
    "top-p:p=0.7": (Filters(top_p=0.7), "top-p 0.7 → draw"),
    "top-p:p=0.9,top-k=40": (Filters(top_p=0.9, top_k=40), "top-k 40 → top-p 0.9 → draw"),
    "min-p:p=0.1": (Filters(min_p=0.1), "min-p 0.1 → draw"),
    "typical:p=0.5": (Filters(typical=0.5), "typical 0.5 → draw"),
    "beam:width=4": (Filters(), "beam of 4"),
    " top-k : k = 3 ": (Filters(top_k=3), "top-k 3 → draw"),
}


@pytest.mark.parametrize("text", READ)
def test_read_and_explained(text: str) -> None:
    found = parse_strategy(text)
    assert (found.filters, found.order) == READ[text]
    assert found.width == (4 if found.name == "beam" else None)


REFUSED = {
    "gredy": "unknown strategy 'gredy': did you mean 'greedy'?",
    "topp:p=0.7": "unknown strategy 'topp': did you mean 'top-p'?",
    "": "unknown strategy '': known: beam,",
    "top-p:q=0.7": "top-p has no setting 'q'",
    "top-k:k=3,temprature=1": "did you mean 'temperature'?",
    "top-k": "top-k needs k=, as in top-k:k=…",
    "top-k:": "settings are key=value, separated by commas",
    "top-k:k": "settings are key=value, separated by commas",
    "top-k:k=3,": "settings are key=value, separated by commas",
    "top-k:k=3,k=4": "k is given twice",
    "top-k:k=three": "k must be a number, got 'three'",
    "top-k:k=2.5": "top-k must be a whole number >= 0, got 2.5",
    "top-k:k=-1": "top-k must be a whole number >= 0, got -1",
    "top-k:k=99999999999999999999": "top-k must be a whole number",
    "top-p:p=1.5": "top-p must lie in 0 … 1, got 1.5",
    "top-p:p=nan": "top-p must lie in 0 … 1, got nan",
    "temperature:t=-1": "temperature must be a number >= 0, got -1",
    "temperature:t=1,temperature=2": "temperature has no setting 'temperature'",
    "sample:repetition=0": "repetition must be a number > 0, got 0",
    "greedy:temperature=2": "greedy has no setting 'temperature': known: repetition",
    "beam:width=0": "width must be a whole number in 1 … 1024, got 0",
    "beam:width=2.5": "width must be a whole number",
    "beam:width=2,top-k=3": "beam has no setting 'top-k'",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refused_in_one_line_with_the_nearest_name(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_strategy(text)
    assert REFUSED[text] in str(caught.value)
    assert "\n" not in str(caught.value)


SHARE = st.floats(0, 1)
ADDED = st.fixed_dictionaries(
    {}, optional={"temperature": st.floats(0, 1e6), "repetition": st.floats(1e-3, 1e3)}
)


@st.composite
def strategies(draw: st.DrawFn) -> Strategy:
    name = draw(st.sampled_from(NAMES))
    own = {
        "temperature": {"t": st.floats(0, 1e9)},
        "top-k": {"k": st.integers(0, 10**9)},
        "beam": {"width": st.integers(1, 1024)},
        "greedy": {},
        "sample": {},
    }
    settings = draw(st.fixed_dictionaries(own.get(name, {"p": SHARE}))) | draw(ADDED)
    if name in ("greedy", "temperature"):
        settings.pop("temperature", None)
    return Strategy(name, settings)


@settings(derandomize=True, deadline=None)
@given(strategies())
def test_what_is_said_is_read_back(strategy: Strategy) -> None:
    again = parse_strategy(str(strategy))
    assert again == strategy and hash(again) == hash(strategy)
    assert again.filters == strategy.filters and again.order == strategy.order


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.text(max_size=13)
    | st.builds(
        "{}:{}={}".format,
        st.sampled_from(NAMES),
        st.sampled_from(["k", "p", "t", "width", "repetition"]),
        st.text(max_size=7),
    )
)
def test_any_text_is_a_strategy_or_a_line(text: str) -> None:
    try:
        parse_strategy(text)
    except UsageError as error:
        assert str(error)


def test_settings_are_ones_own_copy() -> None:
    given_settings = {"k": 3}
    made = Strategy("top-k", given_settings)
    given_settings["k"] = 5
    assert made.settings == {"k": 3} and made != Strategy("top-k", {"k": 5})
    assert made != "top-k:k=3"
