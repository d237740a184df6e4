"""seeds-and-interval: fires on a comparison with too few runs, silent on the clean twin."""

from attnlab.audit.checks.seeds_and_interval import MIN_RUNS, NAME, seeds_and_interval


def test_enough_runs_pass() -> None:
    finding = seeds_and_interval({"warm": 5, "cold": 4, "wet": 7})
    assert (finding.name, finding.verdict, finding.number) == (NAME, "pass", 4)
    assert "corrected over 3" in finding.why


def test_a_lucky_seed_fails_and_is_named() -> None:
    finding = seeds_and_interval({"warm": 5, "lucky": 1, "pair": MIN_RUNS - 1})
    assert (finding.verdict, finding.number) == ("fail", 1)
    assert finding.undermines == ("lucky", "pair")
    assert "'lucky' (and 1 more) rests on 1 run" in finding.why


def test_a_comparison_that_was_not_made_is_counted_only() -> None:
    finding = seeds_and_interval({"warm": 5, "not-run": 0})
    assert (finding.verdict, finding.number) == ("pass", 5)
    assert "the one comparison" in finding.why and "corrected over 2" in finding.why


def test_no_comparison_at_all_is_not_applicable() -> None:
    assert seeds_and_interval({}).verdict == "not-applicable"
    assert seeds_and_interval({"not-run": 0}).verdict == "not-applicable"
