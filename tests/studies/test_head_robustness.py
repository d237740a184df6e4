"""One head or two: draws equal loops, the law equals closed forms, audits see planted faults."""

import itertools
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.text import Text
from scipy.integrate import quad
from scipy.stats import binom, norm

from attnlab.api.conclude import draw_conclusions
from attnlab.api.running import Run, run
from attnlab.construct.inputs import attention_weights
from attnlab.core.errors import UsageError
from attnlab.lab.claim import apply_audits
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import Trial
from attnlab.studies.head_robustness import trial as trial_file
from attnlab.studies.head_robustness.checks import UNDERMINED, agreement, allowed, quadrature
from attnlab.studies.head_robustness.study import (
    BETA,
    NOISE,
    SWEPT,
    VARIES,
    Evidence,
    HeadRobustness,
    line,
)
from attnlab.studies.head_robustness.trial import (
    Sample,
    draws,
    law,
    limit,
    numbers,
    orthonormal,
    returns_own,
)

from .conclusions import conclusions

POINT: dict[str, Any] = {
    "keys": 5,
    "dims": 11,
    "alpha": 0.013,
    "spread": 0.53,
    "beta": 7.0,
    "tolerance": 0.23,
}


def drawn(count: int, seed: int = 3, **changes: Any) -> Trial:
    config = {"kind": "draws", "part": VARIES, "draws": count, "shown": 13, **POINT, **changes}
    return Trial("head-robustness", 1, config, seed)


Smoke = tuple[HeadRobustness, Table]


@pytest.fixture(scope="module")
def smoke_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The smoke scale, run to its report."""
    return run(
        "head-robustness", scale="smoke", out=tmp_path_factory.mktemp("runs"), engine="inline"
    )


@pytest.fixture(scope="module")
def smoke(smoke_run: Run) -> Smoke:
    """The study at the smoke scale and the trials of its run."""
    study = HeadRobustness.at("smoke")
    assert isinstance(study, HeadRobustness)
    return study, smoke_run.table


def test_draws_are_attention_on_keys_drawn_one_by_one() -> None:
    """A loop over draws from the same streams, with the package's own softmax of one query.

    Both compute in doubles; scores are below 60, so a weight is right to 60 · 2⁻⁵² < 1e-13.
    """
    trial = drawn(17)
    seen, c = Sample(trial), trial.config
    means = orthonormal(5, 11, trial.stream.child("means").numpy_generator())
    noise = trial.stream.child("noise").numpy_generator()
    length = trial.stream.child("length").numpy_generator()
    for at in range(17):
        keys = np.array([mu + math.sqrt(c["alpha"]) * noise.normal(size=11) for mu in means])
        keys[0] += math.sqrt(c["spread"]) * length.normal() * means[0]
        one = attention_weights(keys, c["beta"] * (means[0] + means[1]))
        heads = [attention_weights(keys, c["beta"] * mu) for mu in means[:2]]
        two = (heads[0] + heads[1]) / 2
        wanted = np.array([0.5, 0.5, 0, 0, 0])
        for arm, weights in (("one", one), ("two", two)):
            assert np.abs(seen.pair[arm][at] - weights[:2]).max() < 1e-12
            assert abs(seen.square[arm][at] - ((weights - wanted) ** 2).sum()) < 1e-12
        assert abs(seen.own_weight[at] - heads[0][0]) < 1e-12
        assert abs(seen.own_score[at] - keys[0] @ means[0]) < 1e-12


def test_draws_do_not_depend_on_how_many_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = draws(drawn(101))
    monkeypatch.setattr(trial_file, "_AT_ONCE", 7 * 5 * 11)
    parts = draws(drawn(101))
    assert parts.metrics == pytest.approx(whole.metrics, rel=1e-12) and len(parts.arrays) == 3
    assert parts.arrays["keys"].shape == (7, 5, 2), "shown draws come from the first part only"


def test_two_keys_have_closed_forms() -> None:
    """n = 2, one head: logit w_a ~ N(0, β²(4α + s)), up to the mean of y − 1, which is 0."""
    c = {**POINT, "keys": 2, "dims": 2}
    found = numbers(law(c).one)
    spread = c["beta"] * math.sqrt(4 * c["alpha"] + c["spread"])
    edge = math.log((0.5 + c["tolerance"]) / (0.5 - c["tolerance"]))
    assert found["off"] == pytest.approx(2 * norm.sf(edge / spread), abs=1e-12)
    assert found["mean_a"] == pytest.approx(0.5, abs=1e-12)
    square, error = quad(
        lambda x: norm.pdf(x) / (1 + math.exp(-spread * x)) ** 2, -30, 30, epsabs=1e-12
    )
    assert error < 1e-10
    assert found["variance_a"] == pytest.approx(square - 0.25, abs=1e-9)
    assert found["square"] == pytest.approx(2 * found["variance_a"], abs=1e-12)


def test_the_limit_is_hard_attention() -> None:
    """α = 0: Φ(−√2). Otherwise as often as an argmax over drawn scores, within Bernstein's t."""
    assert limit(7, 0.0, 0.5) == pytest.approx(norm.cdf(-math.sqrt(2)), abs=1e-13)
    assert limit(7, 0.0, 0.0) == 0.0
    n, alpha, spread, count = 3, 1.1, 0.7, 40_000  # so much noise that heads change keys
    generator = np.random.default_rng(11)
    score = math.sqrt(alpha) * generator.normal(size=(2, count, n))
    score[0, :, 0] += 1 + math.sqrt(spread) * generator.normal(size=count)
    score[1, :, 1] += 1
    best = np.sort(score.argmax(axis=2), axis=0)
    off = float(((best[0] != 0) | (best[1] != 1)).mean())
    exact = limit(n, alpha, spread)
    assert abs(off - exact) < allowed(math.log(2 / 1e-6), exact * (1 - exact), count)
    assert abs(exact - limit(n, alpha, spread, 0.1)) < 1e-12
    direct, _ = quad(
        lambda x: norm.pdf(x, 1, math.sqrt(alpha)) * norm.cdf(x / math.sqrt(alpha)) ** (n - 1),
        -9,
        11,
        epsabs=1e-13,
    )
    assert returns_own(n, alpha, alpha, 0.05) == pytest.approx(direct, abs=1e-11)


def test_a_large_beta_comes_near_the_limit() -> None:
    """At β = 400 only scores within ln(n)/β of each other are still undecided."""
    c = {**POINT, "beta": 400.0, "alpha": 0.0}
    near = math.log(2 * c["keys"]) / c["beta"] * norm.pdf(0) / math.sqrt(c["spread"])
    gap = numbers(law(c).two)["off"] - limit(c["keys"], 0.0, c["spread"])
    assert 0 < gap < 3 * near


@pytest.mark.parametrize("p", [0.5, 0.03, 1e-4])
def test_what_chance_is_allowed_is_an_upper_bound(p: float) -> None:
    """Exact binomial tails beyond Bernstein's t hold less than the risk, and t is not absurd."""
    n, risk = 997, 1e-3
    t = allowed(math.log(2 / risk), p * (1 - p), n)
    tails = binom.sf(math.ceil(n * (p + t)) - 1, n, p) + binom.cdf(math.floor(n * (p - t)), n, p)
    assert tails <= risk
    assert t < 6 * math.sqrt(p * (1 - p) / n) + 6 / n


def test_exact_and_draws_agree_and_a_wrong_law_is_seen(smoke: Smoke) -> None:
    study, table = smoke
    e = Evidence(table, study.settings)
    good = agreement(e)
    assert good.verdict == "pass" and good.evidence["numbers"] == 6 * (1 + 1 + 3 + 3 + 3)
    assert quadrature(e).verdict == "pass"

    def planted(row: Row) -> Row:
        """The law of β = 10 with a tenth more misses of one head."""
        if row["kind"] != "exact" or row["part"] != BETA:
            return row
        curves = {**row.curves, "one_off": [0.9 * p for p in row.curves["one_off"]]}
        return replace(row, load_curves=lambda: curves)

    bad = agreement(Evidence(Table([planted(row) for row in table]), study.settings))
    assert bad.verdict == "fail" and "one_off" in bad.why and bad.undermines == UNDERMINED
    claims = apply_audits(study.claims(study.evidence(table)), [bad])
    assert {c.verdict for c in claims if c.name in UNDERMINED} == {"undecided"}
    assert {c.name for c in claims} >= set(UNDERMINED)


def test_a_coarse_quadrature_is_seen(smoke: Smoke) -> None:
    study, table = smoke
    rows = [
        replace(r, metrics={**r.metrics, "quadrature_gap": 1e-6}) if r["kind"] == "exact" else r
        for r in table
    ]
    found = quadrature(Evidence(Table(rows), study.settings))
    assert found.verdict == "fail" and found.number == 1e-6


def test_the_verdicts_follow_the_table(smoke: Smoke) -> None:
    """The smoke draws, then the same with the arms exchanged: the answer turns round."""
    study, table = smoke
    claims = {c.name: c for c in study.claims(study.evidence(table))}
    for name in (
        "one-head-swings",
        "two-heads-swing-less",
        "two-heads-off-less",
        "not-never",
        "larger-beta-one",
        "larger-beta-two",
        "no-beta-saves-one-head",
        "noise-alone",
        "equal-lengths",
    ):
        assert claims[name].verdict == "holds", name
    assert draw_conclusions(study, table).answer.startswith("Yes, but not always: two heads miss")

    def exchanged(row: Row) -> Row:
        other = {"one": "two", "two": "one"}
        metrics = {other.get(k[:3], k[:3]) + k[3:]: v for k, v in row.metrics.items()}
        return replace(row, metrics=metrics)

    swapped = [exchanged(row) if row["kind"] == "draws" else row for row in table]
    against = {c.name: c for c in study.claims(study.evidence(Table(swapped)))}
    for name in (
        "one-head-swings",
        "two-heads-swing-less",
        "two-heads-off-less",
        "noise-alone",
        "larger-beta-one",
        "larger-beta-two",
    ):
        assert against[name].verdict == "fails", name
    assert draw_conclusions(study, Table(swapped)).answer.startswith("No")
    two_seeds = Table([row for row in table if row.seed < 2])
    assert draw_conclusions(study, two_seeds).answer.startswith("Not settled")


def test_two_heads_are_off_where_head_one_loses_its_key() -> None:
    """α = 0: w_a = w_a¹/2 + a leak of e^−β at most, so off means a first weight below 1/2."""
    metrics = draws(drawn(5003, alpha=0.0, beta=12.0, tolerance=0.25)).metrics
    found = {name: float(str(value)) for name, value in metrics.items()}
    assert found["off_and_lost"] == found["two_off"] > found["negative"] > 0


def test_the_plan() -> None:
    for scale in ("smoke", "quick", "full"):
        study = HeadRobustness.at(scale)
        trials = study.trials()
        assert len({t.id for t in trials}) == len(trials)
        lines = {t.config["part"]: t.config["x"] for t in trials if t.config["kind"] == "exact"}
        assert set(lines) == set(SWEPT)
        for t in trials:
            c = t.config
            if c["kind"] == "draws":
                assert c[SWEPT[c["part"]]] in lines[c["part"]], "every point has its exact law"
                assert (c["spread"] == 0) == (c["part"] in ("equal lengths", NOISE))
        assert len({t.seed for t in trials if t.config["kind"] == "draws"}) >= 3
    assert line([2.0], 7) == [2.0] and len(line([1.0, 4.0], 1)) == 3


@pytest.mark.parametrize(
    "wrong",
    [
        {"dims": 3},
        {"betas": [1.0]},
        {"spreads": [0.1, 0.1]},
        {"alphas": [0.0, 0.1]},
        {"tolerance": 0.5},
        {"spread": 0.0},
        {"beta": -1.0},
    ],
)
def test_settings_that_make_no_study_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        HeadRobustness.at("smoke", **wrong)


def test_an_empty_table_breaks_nothing() -> None:
    study = HeadRobustness.at("smoke")
    drawn = draw_conclusions(study, Table([]))
    assert {c.verdict for c in drawn.claims} == {"undecided"}
    assert drawn.answer.startswith("Not settled") and drawn.sections
    assert study.figures(drawn.evidence) == []
    assert {f.verdict for f in drawn.findings} == {"not-applicable"}


def test_words_in_figures_are_large_enough_and_inside(smoke: Smoke) -> None:
    study, table = smoke
    made = study.figures(study.evidence(table))
    assert [f.name for f in made] == [
        "draws",
        "distribution",
        "against-beta",
        "against-spread",
        "against-noise",
    ]
    for figure in made:
        drawing = figure.draw()
        drawing.draw_without_rendering()
        everything = [t for t in drawing.findobj(Text) if isinstance(t, Text) and t.get_text()]
        assert min(float(t.get_fontsize()) for t in everything) >= 8, figure.name
        for ax in drawing.axes:
            named = [ax.title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
            boxes = {t.get_text(): t.get_window_extent() for t in named if t.get_text()}
            for words, box in boxes.items():
                assert drawing.bbox.x0 <= box.x0 and box.x1 <= drawing.bbox.x1, words
                assert drawing.bbox.y0 <= box.y0 and box.y1 <= drawing.bbox.y1, words
            for (one, a), (other, b) in itertools.combinations(boxes.items(), 2):
                assert not a.overlaps(b), f"{figure.name}: {one!r} lies on {other!r}"


def test_the_smoke_scale_runs_to_its_report(smoke_run: Run) -> None:
    is_whole(smoke_run)


def test_two_keys_without_noise_run_to_a_report(tmp_path: Path) -> None:
    few = {"draws": 500, "line_points": 0, "keys": 2, "dims": 2, "alpha": 0.0}
    is_whole(run("head-robustness", scale="smoke", out=tmp_path, engine="inline", settings=few))


def is_whole(done: Run) -> None:
    """No trial failed, no audit of the exact law did, and every figure was drawn."""
    assert not done.failed and done.report.is_file()
    assert len(done.results["figures"]) == 5
    assert not [a for a in done.results["audits"] if a["verdict"] != "pass"]
    html = done.report.read_text(encoding="utf-8")
    assert "nan" not in html.lower().split()
    headings = [section.heading for section in conclusions(done).sections]
    assert any("Where the usual answer stops" in heading for heading in headings)
