"""The exact law of random keys, by other means; the study from start to report."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from attnlab.api.conclude import draw_conclusions
from attnlab.api.running import run
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.lab.study import Study
from attnlab.lab.table import Row, Table
from attnlab.lab.trial import TrialContext
from attnlab.studies.attention_design.gaussian import (
    asymptotic_share,
    corner_angle,
    exact_share,
    facet_share,
)
from attnlab.studies.attention_design.study import AttentionDesign
from attnlab.studies.attention_design.trial import (
    RESIDUAL,
    hull_agreement,
    hull_corners,
    optimality,
)


def test_angles_of_simplices() -> None:
    """A point, a segment, a triangle (60°), a tetrahedron (arccos(23/27) steradians)."""
    assert [corner_angle(m) for m in (1, 2, 3)] == pytest.approx([1, 1 / 2, 1 / 6], abs=1e-12)
    assert corner_angle(4) == pytest.approx(math.acos(23 / 27) / (4 * math.pi), abs=1e-9)


@pytest.mark.parametrize("h", [2, 3, 4, 5])
def test_the_law_is_what_hulls_have(h: int) -> None:
    """Against qhull: the mean of many hulls lies within four standard errors of the law."""
    rng = Seed(h).numpy_generator()
    for n, times in ((13, 300), (31, 200), (211, 60)):
        shares = [len(ConvexHull(rng.normal(size=(n, h))).vertices) / n for _ in range(times)]
        error = max(np.std(shares, ddof=1) / math.sqrt(times), 1e-4)
        assert abs(np.mean(shares) - exact_share(n, h)) < 4 * error, (n, np.mean(shares))


def test_few_points_are_all_corners_and_facets_equal_corners_in_the_plane() -> None:
    assert exact_share(3, 2) == exact_share(4, 3) == exact_share(2, 5) == 1.0
    assert asymptotic_share(997, 2) == pytest.approx(facet_share(997, 2), rel=1e-12)
    # f0 = 2 + f2 / 2 for every simplicial polytope in space: half as many corners as facets
    assert asymptotic_share(997, 3) == pytest.approx(facet_share(997, 3) / 2, rel=1e-9)


def test_the_limit_is_approached_from_below() -> None:
    for h in (2, 3, 5):
        ratios = [exact_share(n, h) / asymptotic_share(n, h) for n in (10**3, 10**5, 10**7)]
        assert ratios[0] < ratios[1] < ratios[2] < 1


def test_the_smoke_scale_runs_to_its_report(tmp_path: Path) -> None:
    done = run("attention-design", scale="smoke", out=tmp_path / "runs", engine="inline")
    assert not done.failed and done.report.is_file() and len(done.results["figures"]) == 6
    found = draw_conclusions(AttentionDesign.at("smoke"), done.table)  # as if it were no smoke run
    verdicts = {claim.name: claim.verdict for claim in found.claims}
    holds = ("corners-only", "sphere", "beta", "extraction", "margin-is-longer", "squares-lose")
    for name in (*holds, "least-squares", "together", "shorter-query"):
        assert verdicts[name] == "holds", name
    for name in ("no-scale", "facets", "hand-picked-scores", "unit-key"):
        assert verdicts[name] == "fails", name
    checks = {claim.name for claim in found.claims if claim.kind == "check"}
    assert checks == {*holds, "exact-law", "late"}
    audits = {audit["name"]: audit["verdict"] for audit in done.results["audits"]}
    assert audits["hull-agreement"] == audits["optimality"] == "pass"


def test_keys_of_ones_own_and_in_space() -> None:
    made: Study = AttentionDesign.at(
        "smoke", keys=[[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], values=[[1], [2], [3], [4]]
    )
    done = made.run(made.trials()[0], TrialContext())
    assert done.metrics["selected"] == done.metrics["corners"] == 4
    assert made.figures(Table([])) == []


PLANE = [[1.6, 0.2], [0.3, 1.5], [-1.5, 0.6], [-0.4, -1.4], [0.1, 0.3]]
LINE = [[-1.0], [0.5], [2.0], [1.5]]
SPACE = np.eye(7)[:4].tolist()  # fewer keys than dimensions


@pytest.mark.parametrize(("keys", "corners"), [(PLANE, 4), (LINE, 2), (SPACE, 4)])
def test_the_exercise_works_in_any_dimension(keys: list[list[float]], corners: int) -> None:
    n = len(keys)
    scores = [3.0, 3.0] + [-3.0] * (n - 2)
    made: Study = AttentionDesign.at("smoke", keys=keys, values=np.eye(n).tolist(), scores=scores)
    trial = made.trials()[0]
    done = made.run(trial, TrialContext())
    assert done.metrics["selected"] == done.metrics["corners"] == corners
    loaders: dict[str, Any] = {
        "load_curves": lambda: done.curves,
        "load_documents": lambda: done.documents,
    }
    table = Table([Row("exercise", 0, "done", dict(trial.config), done.metrics, **loaders)])
    found = draw_conclusions(made, table)
    assert next(c.verdict for c in found.claims if c.name == "corners-only") == "holds"
    assert "shorter-query" not in {c.name for c in found.claims}  # of the reported keys only
    drawn = {figure.name: figure.draw() for figure in made.figures(table)}
    assert drawn.keys() == {"keys", "weights"} | ({"plane"} if len(keys[0]) == 2 else set())


def test_corners_of_flat_and_equal_keys() -> None:
    square = np.array([[0, 0, 1], [1, 0, 1], [0, 1, 1], [1, 1, 1], [0.5, 0.5, 1]])
    assert hull_corners(square) == {0, 1, 2, 3}
    assert hull_corners(np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])) == {0}
    assert hull_corners(np.array([[2.0, 2.0]])) == {0}


@pytest.mark.parametrize(
    "settings", [{"keys": [[1, 0], [0, 1]]}, {"scores": [3, 3]}, {"values": [[1], [2]]}]
)
def test_an_exercise_whose_parts_do_not_fit_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"three or more|one entry per key"):
        AttentionDesign.at("smoke", **settings)


def test_an_empty_table_decides_nothing_but_the_formulas() -> None:
    found = draw_conclusions(AttentionDesign.at("smoke"), Table([]))
    decided = {claim.name for claim in found.claims if claim.verdict != "undecided"}
    assert decided == {"facets", "late"}
    text = " ".join([found.answer, *(p for s in found.sections for p in s.paragraphs)])
    assert text.startswith("Not settled") and "nan" not in text


def sphere_row(seed: int, disagree: int) -> Row:
    config = {"kind": "selectable", "law": "sphere", "n": 8, "h": 2}
    metrics = {"share": 1.0, "disagree": disagree}
    findings = [hull_agreement(disagree, checked=3)]
    return Row(f"sphere {seed}", seed, "done", config, metrics, findings=findings)


@pytest.mark.parametrize(("disagree", "verdict"), [(0, "holds"), (1, "undecided")])
def test_a_hull_that_select_contradicts_decides_nothing(disagree: int, verdict: str) -> None:
    rows = [sphere_row(seed, disagree if seed == 2 else 0) for seed in range(4)]
    found = draw_conclusions(AttentionDesign.at("smoke"), Table(rows))
    assert next(c.verdict for c in found.claims if c.name == "sphere") == verdict


def test_audits_of_a_trial_can_fail() -> None:
    assert optimality(RESIDUAL / 2).verdict == "pass"
    assert optimality(2 * RESIDUAL).verdict == "fail"
    assert hull_agreement(0, checked=0).verdict == "not-applicable"
