"""recomputation: fires on figures that cannot come from one another; silent where they can."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attnlab.audit.recomputation import NAME, between, recomputation


def test_the_clean_twin_passes() -> None:
    table = [
        {"name": "GPT", "dev loss": "5.73", "dev perplexity": "308", "right": "24.4"},
        {"name": "bigram", "dev loss": 6.1, "dev perplexity": 446, "right": "5.0"},
    ]
    found = recomputation(table, items={"right": 500})
    assert (found.name, found.verdict, found.number) == (NAME, "pass", 0)
    assert found.evidence["checks"] == 4


def test_exp_of_5_73_is_not_401() -> None:
    found = recomputation([{"name": "GPT", "loss": "5.73", "perplexity": "401"}])
    assert (found.verdict, found.number) == ("fail", 1)
    assert "GPT: perplexity is 401, but exp(loss) = exp(5.73) is 308" in found.why


@pytest.mark.parametrize("columns", [("val_nll", "val_ppl"), ("Loss (dev)", "PPL (dev)")])
def test_columns_by_other_names(columns: tuple[str, str]) -> None:
    good, bad = ({columns[0]: 2.0, columns[1]: p} for p in ("7.39", "8.39"))
    assert recomputation([good]).verdict == "pass"
    assert recomputation([bad]).verdict == "fail"
    other = {"train loss": 2.0, "dev perplexity": 99.0, "glossary": 3}
    assert recomputation([other]).verdict == "not-applicable"


def test_a_share_that_no_number_of_items_gives_is_caught() -> None:
    found = recomputation([{"right": "4.55%"}, {"right": "5.0%"}], items={"right": 500})
    assert found.number == 1 and "no number out of 500 is: 23/500 is 0.046" in found.why
    assert recomputation([{"right": "4.55%"}], items={"right": 11 * 20}).verdict == "pass"
    assert recomputation([{"right": 0.6217125}], items={"right": 3270}).verdict == "pass"
    assert recomputation([{"right": 0.6217125}], items={"right": 3271}).verdict == "fail"
    assert recomputation([{"right": "103%"}], items={"right": 7}).verdict == "fail"


def test_the_fewest_items_that_could_give_a_column() -> None:
    table = [{"test": 0.9}, {"test": 0.6}, {"test": 0.8}]
    found = recomputation(table, items={"test": 872})
    assert found.verdict == "pass"
    assert found.evidence["smallest_items"]["test"] <= 10
    exact = recomputation([{"test": x} for x in ("0.90", "0.60", "0.80")], items={"test": 872})
    assert exact.evidence["smallest_items"]["test"] == 10


def test_a_total_that_is_none_is_caught() -> None:
    row = {"name": "sst2", "train": 6920, "dev": 872, "test": 1821, "all": 9613}
    parts = {"all": ("train", "dev", "test")}
    assert recomputation([row], totals=parts).verdict == "pass"
    found = recomputation([{**row, "all": 9631}], totals=parts)
    assert found.verdict == "fail" and "its parts add up to 9613" in found.why
    rounded = {"a": "33.3", "b": "33.3", "c": "33.3", "all": "100.0"}
    assert recomputation([rounded], totals={"all": ("a", "b", "c")}).verdict == "pass"


def test_one_rouge_l_of_two_is_caught() -> None:
    both = {"rouge1": 0.266, "rouge2": 0.084, "rougeL": 0.186, "rougeLsum": 0.216}
    assert recomputation([both]).verdict == "pass"
    one = {k: v for k, v in both.items() if k != "rougeLsum"}
    found = recomputation([one])
    assert found.verdict == "fail" and "ROUGE-L without ROUGE-Lsum" in found.why
    other = {"ROUGE-1": 0.266, "ROUGE-Lsum": 0.216}
    assert "ROUGE-Lsum without ROUGE-L:" in recomputation([other]).why


def test_rouge_l_above_rouge_1_is_caught() -> None:
    row = {"rouge1": 0.186, "rougeL": 0.266, "rougeLsum": 0.18}
    assert "ROUGE-L exceeds ROUGE-1" in recomputation([row]).why


def test_a_figure_that_is_none_is_caught() -> None:
    found = recomputation([{"name": "perceiver", "right": "16.67.4"}])
    assert found.verdict == "fail" and "'16.67.4', which is no figure" in found.why
    assert recomputation([{"name": "7b model", "note": "n/a"}]).verdict == "not-applicable"


def test_not_applicable() -> None:
    assert recomputation([]).verdict == "not-applicable"
    assert recomputation([{"loss": 5.7}]).verdict == "not-applicable"


def test_the_range_of_a_figure() -> None:
    assert between("401") == (400.5, 401.5)
    assert between("5.0") == pytest.approx((4.95, 5.05))
    assert between(5.73) == pytest.approx((5.725, 5.735))
    assert between("−2%") == (-2.5, -1.5)


@given(st.floats(0.01, 12), st.integers(0, 4), st.integers(0, 4))
@settings(max_examples=200, derandomize=True, deadline=None)
def test_honestly_rounded_figures_always_agree(loss: float, digits: int, more: int) -> None:
    row = {"loss": f"{loss:.{digits}f}", "perplexity": f"{math.exp(loss):.{more}f}"}
    assert recomputation([row]).verdict == "pass"


@given(
    st.integers(1, 997).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))),
    st.integers(1, 6),
)
@settings(max_examples=200, derandomize=True, deadline=None)
def test_honestly_rounded_shares_always_agree(share: tuple[int, int], digits: int) -> None:
    k, n = share
    for text in (f"{k / n:.{digits}f}", f"{100 * k / n:.{digits}f}%"):
        assert recomputation([{"right": text}], items={"right": n}).verdict == "pass"
