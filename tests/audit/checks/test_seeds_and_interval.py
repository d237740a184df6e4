"""seeds-and-interval: fires on a lucky seed and on many comparisons, silent on the clean twin."""

import numpy as np

from attnlab.audit.checks.seeds_and_interval import LEVEL, MIN_RUNS, NAME, seeds_and_interval
from attnlab.core.seeds import Seed
from attnlab.measure.intervals import t_test_p


def differences(effect: float, runs: int, name: str) -> list[float]:
    rng = Seed(31).child("differences", name).numpy_generator()
    return list(effect + rng.normal(0, 0.1, runs))


def test_the_clean_twin_passes() -> None:
    found = seeds_and_interval({n: differences(1.0, 5, n) for n in ("warm", "cold", "wet")})
    assert (found.name, found.verdict, found.number) == (NAME, "pass", 5)
    assert "all 3 differences" in found.why
    assert found.evidence["covers_zero"] == []


def test_one_lucky_seed_is_caught() -> None:
    found = seeds_and_interval({"warm": differences(1.0, 5, "warm"), "lucky": [7.0]})
    assert (found.verdict, found.number, found.threshold) == ("fail", 1, MIN_RUNS)
    assert "'lucky' rests on 1 run, and" in found.why


def test_noise_is_caught() -> None:
    found = seeds_and_interval({"warm": differences(1.0, 5, "warm"), "noise": [1.0, -1.1, 0.2]})
    assert found.verdict == "fail"
    assert found.evidence["covers_zero"] == ["noise"]
    assert "noise" in found.why and "warm" not in found.why


def test_the_best_of_many_noisy_comparisons_is_caught() -> None:
    """Alone it would pass; among its 60 siblings it is what chance gives."""
    arms = {f"arm {i}": differences(0.0, 5, f"arm {i}") for i in range(61)}
    best = min(arms, key=lambda name: t_test_p(arms[name]))
    assert t_test_p(arms[best]) < LEVEL
    assert seeds_and_interval({best: arms[best]}).verdict == "pass"
    assert best in seeds_and_interval(arms).evidence["covers_zero"]


def test_equal_runs_are_no_accident() -> None:
    alone = seeds_and_interval({"same": [0.5] * 3})
    assert alone.verdict == "pass" and alone.why.startswith("the only difference concluded from")
    assert seeds_and_interval({"zero": [0.0] * 3}).verdict == "fail"


def test_not_applicable() -> None:
    found = seeds_and_interval({})
    assert (found.verdict, found.number) == ("not-applicable", None)


def test_evidence_can_be_stored() -> None:
    evidence = seeds_and_interval({"warm": differences(1.0, 5, "warm")}).as_json()["evidence"]
    assert evidence["runs"] == {"warm": 5}
    assert np.isfinite(evidence["holm_p"]["warm"])
