"""The exact law of random keys, by other means; the study from start to report."""

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.spatial import ConvexHull

from attnlab.api import run
from attnlab.core.seeds import Seed
from attnlab.lab.study import Study
from attnlab.lab.table import Table
from attnlab.lab.trial import TrialContext
from attnlab.studies.attention_design.gaussian import (
    asymptotic_share,
    corner_angle,
    exact_share,
    facet_share,
)
from attnlab.studies.attention_design.study import AttentionDesign


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
    done = run("attention-design", scale="smoke", out=tmp_path / "runs", workers=2)
    assert not done.failed and done.report.is_file() and len(done.results["figures"]) == 6
    verdicts = {claim["name"]: claim["verdict"] for claim in done.results["claims"]}
    for name in ("corners-only", "least-squares", "sphere", "beta", "extraction"):
        assert verdicts[name] == "holds"
    assert verdicts["no-scale"] == verdicts["facets"] == "fails"
    audits = {audit["name"]: audit["verdict"] for audit in done.results["audits"]}
    assert audits["hull-agreement"] == audits["optimality"] == "pass"


def test_keys_of_ones_own_and_in_space() -> None:
    made: Study = AttentionDesign.at(
        "smoke", keys=[[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1]], values=[[1], [2], [3], [4]]
    )
    done = made.run(made.trials()[0], TrialContext())
    assert done.metrics["selected"] == done.metrics["corners"] == 4
    assert made.figures(Table([])) == []
