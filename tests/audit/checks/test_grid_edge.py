"""grid-edge: fires on a choice at an end of its grid, silent on one inside it."""

import pytest

from attnlab.audit.checks.grid_edge import NAME, Choice, grid_edge

TRIED = (0.01, 0.1, 1.0)


def choice(chosen: float, tried: tuple[float, ...] = TRIED, search: str = "SGD") -> Choice:
    return Choice(search, "sgd_rates", chosen, tried, ("sgd-is-worse",))


def test_choices_inside_the_grid_pass() -> None:
    finding = grid_edge([choice(0.1), choice(0.1)])
    assert (finding.name, finding.verdict, finding.number) == (NAME, "pass", 0)
    assert finding.undermines == () and "all 2 choices lie inside" in finding.why


@pytest.mark.parametrize(
    ("chosen", "end", "direction"), [(1.0, "largest", "upwards"), (0.01, "smallest", "downwards")]
)
def test_a_choice_at_an_end_fails_and_names_what_to_widen(
    chosen: float, end: str, direction: str
) -> None:
    finding = grid_edge([choice(0.1), choice(chosen)])
    assert (finding.verdict, finding.number) == ("fail", 1)
    assert finding.why == (
        f"SGD chose {chosen:g}, the {end} value tried, in 1 of 2 searches "
        f"(widen sgd_rates {direction})"
    )
    assert finding.undermines == ("sgd-is-worse",)


def test_each_search_is_judged_by_what_it_tried_itself() -> None:
    """The same choice is an end of one grid and inside the one that went further."""
    assert grid_edge([choice(1.0, (*TRIED, 3.0))]).verdict == "pass"
    mixed = grid_edge([choice(1.0, (*TRIED, 3.0)), choice(1.0)])
    assert (mixed.verdict, mixed.number) == ("fail", 1)
    other = Choice("AdamW", "adamw_rates", 1.0, TRIED, ("adamw-is-better",))
    assert grid_edge([choice(0.1), other]).undermines == ("adamw-is-better",)


def test_both_ends_are_told() -> None:
    why = grid_edge([choice(1.0), choice(0.01)]).why
    assert "widen sgd_rates downwards" in why and "widen sgd_rates upwards" in why


def test_one_value_is_no_search() -> None:
    assert grid_edge([]).verdict == "not-applicable"
    assert grid_edge([choice(1.0, (1.0,)), choice(1.0, (1.0, 1.0))]).verdict == "not-applicable"


def test_a_value_far_away_bounds_nothing() -> None:
    """5e-5 was tried for another reason; what lies between it and 0.03 was not."""
    gap = (5e-5, 0.03, 0.1)
    found = grid_edge([choice(0.03, gap)])
    assert found.verdict == "fail" and "widen sgd_rates downwards" in found.why
    assert grid_edge([choice(0.03, (*gap, 0.01))]).verdict == "pass"
