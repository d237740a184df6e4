"""The study phase-transition: its plan, its verdicts on planted tables, and a whole smoke run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attnlab.api.conclude import draw_conclusions
from attnlab.api.running import Run, run
from attnlab.lab.study import SCALES
from attnlab.lab.table import Row, Table
from attnlab.studies.phase_transition.evidence import (
    Evidence,
    gap,
    pooled_crossing,
)
from attnlab.studies.phase_transition.study import PhaseSettings, PhaseTransition

FEWER: dict[str, Any] = {"theory_points": 512, "side_seeds": 2, "seeds": 3}


@pytest.mark.parametrize("scale", SCALES)
def test_every_scale_has_a_plan_without_doubles(scale: str) -> None:
    study = PhaseTransition.at(scale)
    trials = study.trials()
    assert len({t.id for t in trials}) == len(trials)
    parts = {t.config["part"] for t in trials}
    assert parts == {
        "theory",
        "large D",
        "finite size",
        "open questions",
        "Figure 2",
        "Figure 3",
        "ridge",
        "rank 2",
        "other F",
        "matched norms",
        "scaling",
        "course recipe",
    }
    assert study.expected[scale]


def test_a_trial_keeps_its_id() -> None:
    """Origin: printf '%s' '{"config":{"alpha":1.5,"kind":"instance"},"seed":3,"study":
    "phase-transition","version":1}' (one line) | sha256sum | cut -c1-16."""
    trial = PhaseTransition.at("smoke").trial(3, kind="instance", alpha=1.5)
    assert trial.id == "9f7335a021a01faa"


def figure_two_row(alpha: float, seed: int, difference: float) -> Row:
    """A row of Figure 2 in which the positional loss exceeds the semantic one by `difference`."""
    config = {"part": "Figure 2", "kind": "instance", "alpha": alpha, "dim": 1000, "omega": 0.3}
    values: dict[str, Any] = {}
    for start, loss in (("semantic", 0.003), ("positional", 0.003 + difference), ("random", 0.004)):
        values |= {f"{start}_train_error": loss, f"{start}_test_error": loss, f"{start}_m": 0.1}
        values[f"{start}_theta"] = 0.1
    values |= {"linear_test_error": 0.002, "linear_train_error": 0.002}
    return Row(f"{alpha}-{seed}", seed, "done", config, values)


def critical_rows(value: float) -> list[Row]:
    mixing = [[0.6, 0.4], [0.4, 0.6]]
    return [
        Row(
            rule,
            0,
            "done",
            {"kind": "critical", "omega": 0.3, "rule": rule, "mixing": mixing},
            {"alpha_c": value, "alpha_l": 1.49, "alpha_w": 0.67},
        )
        for rule in ("sobol", "sobol-coarse", "lattice")
    ]


def planted(sign: Callable[[float], float], value: float = 1.25) -> Table:
    rng = np.random.default_rng(3)
    rows = [
        figure_two_row(alpha, seed, sign(alpha) * 1e-4 + 1e-6 * rng.standard_normal())
        for alpha in (0.8, 1.0, 1.6, 2.0)
        for seed in range(4)
    ]
    return Table([*rows, *critical_rows(value)])


def verdicts(table: Table) -> dict[str, str]:
    return {c.name: c.verdict for c in draw_conclusions(PhaseTransition.at(), table).claims}


def answer(table: Table) -> str:
    return draw_conclusions(PhaseTransition.at(), table).answer


def test_verdicts_follow_the_table() -> None:
    true = verdicts(planted(lambda a: 1.0 if a > 1.25 else -1.0))
    assert true["positional-wins-below"] == true["semantic-wins-above"] == "holds"
    assert true["alpha-c-theory"] == "holds"
    turned = verdicts(planted(lambda a: -1.0 if a > 1.25 else 1.0))
    assert turned["positional-wins-below"] == turned["semantic-wins-above"] == "fails"
    assert verdicts(Table([]))["alpha-c-theory"] == "undecided"  # no theory, no crossing


def size_rows(crossing: float) -> list[Row]:
    """Instances whose losses cross near this α at D = 500, and critical points of the theory."""
    rng = np.random.default_rng(7)
    rows = [
        figure_two_row(alpha, seed, 1e-3 * (alpha - crossing + 0.01 * rng.standard_normal()))
        for alpha in (1.0, 1.2, 1.4)
        for seed in range(8)
    ]
    config = {"part": "finite size", "dim": 500}
    return [replace(row, config={**row.config, **config}) for row in rows]


@pytest.mark.parametrize(("crossing", "verdict"), [(1.15, "holds"), (1.35, "fails")])
def test_the_crossing_is_judged_by_the_theory_and_by_no_window(
    crossing: float, verdict: str
) -> None:
    table = Table([*size_rows(crossing), *critical_rows(1.25)])
    assert verdicts(table)["alpha-c-simulation"] == verdict


def ridge_rows(chosen: float, tuned: float) -> list[Row]:
    """Folds chose this λ; the linear baseline has a test error of 0.002."""
    config = {"part": "ridge", "kind": "ridge", "alpha": 0.8}
    rows = []
    for seed in range(4):
        values: dict[str, Any] = {"linear_test_error": 0.002, "tuned_start": "semantic"}
        values["tuned_test_error"] = tuned * (1 + 0.01 * seed)
        for start in ("semantic", "positional"):
            values |= {f"{start}_ridge_cv": chosen, f"{start}_test_error_cv": tuned}
        curves = {"ridge": [0.001, 0.01, 0.1]}
        row = Row(f"r{seed}", seed, "done", config, values, load_curves=lambda c=curves: c)
        rows.append(row)
    return rows


@pytest.mark.parametrize(("tuned", "verdict"), [(0.0015, "holds"), (0.003, "fails")])
def test_a_ridge_at_the_end_of_its_grid_settles_nothing(tuned: float, verdict: str) -> None:
    inside, edge = (
        draw_conclusions(PhaseTransition.at(), Table([*ridge_rows(c, tuned), *critical_rows(1.25)]))
        for c in (0.01, 0.001)
    )
    for found, audited, expected in ((inside, "pass", verdict), (edge, "fail", "undecided")):
        finding = next(f for f in found.findings if f.name == "grid-edge")
        claim = next(c for c in found.claims if c.name == "tuned-attention-beats-linear")
        assert (finding.verdict, claim.verdict) == (audited, expected)
    assert "widen ridges downwards" in finding.why


def test_answers_follow_the_verdicts() -> None:
    true = answer(planted(lambda a: 1.0 if a > 1.25 else -1.0))
    assert true.startswith("Above α_c = 1.250 ± 0.000 samples per dimension the semantic solution")
    assert "contradicts" in answer(planted(lambda a: -1.0 if a > 1.25 else 1.0))
    assert answer(Table([])).startswith("Not settled")


def test_two_runs_are_not_a_result() -> None:
    table = planted(lambda a: 1.0 if a > 1.25 else -1.0)
    few = Table([r for r in table if r.seed < 2])
    assert verdicts(few)["semantic-wins-above"] == "undecided"


def open_rows(points: dict[float, tuple[float, float]]) -> list[Row]:
    """ω -> (separation of the replicas, excess of the measured overlaps); theory has 0.1."""
    at = {"part": "open questions", "kind": "instance", "alpha": 1.25, "dim": 500}
    theory = {"part": "theory", "kind": "stability", "alpha": 1.25}
    overlaps = {"m": 0.1, "theta": 0.1}
    rows = []
    for omega, (separation, excess) in points.items():
        for branch in ("positional", "semantic"):
            config = {**theory, "omega": omega, "branch": branch}
            values = {**overlaps, "separation": separation}
            rows.append(Row(f"theory {omega} {branch}", 0, "done", config, values))
        for seed in range(4):
            measured = 0.1 * (1 + excess) * (1 + 1e-3 * seed)
            values = {
                f"{branch}_{name}": value
                for branch, overlap in (("positional", "m"), ("semantic", "theta"))
                for name, value in ((overlap, measured), ("returned", 1e-3))
            }
            rows.append(Row(f"{omega} {seed}", seed, "done", {**at, "omega": omega}, values))
    return rows


@pytest.mark.parametrize(("sign", "words"), [(1, "instability of"), (-1, "does not settle it")])
def test_the_text_asks_whether_the_gap_follows_the_instability(sign: int, words: str) -> None:
    """An excess that grows with the separation is explained by it; one that falls is not."""
    points = {0.1: (0.0, 0.1), 0.2: (0.2, 0.1 + 0.05 * sign), 0.3: (0.5, 0.1 + 0.08 * sign)}
    found = draw_conclusions(PhaseTransition.at(), Table(open_rows(points)))
    verdict = next(c.verdict for c in found.claims if c.name == "positional-gap")
    (text,) = next(s.paragraphs for s in found.sections if "disagree" in s.heading)
    assert verdict == "holds" and words in text and "nan" not in text


def test_an_empty_table_is_undecided() -> None:
    """Everything failed: the report must still come out."""
    study, empty = PhaseTransition.at(), Table([])
    found = draw_conclusions(study, empty)
    assert {c.verdict for c in found.claims} == {"undecided"}
    assert {f.verdict for f in found.findings} == {"not-applicable"}
    assert found.sections and study.figures(found.evidence) == []


@pytest.mark.parametrize(
    "lost",
    [
        "theory",
        "Figure 2",
        "Figure 3",
        "finite size",
        "open questions",
        "ridge",
        "scaling",
        "other F",
        "rank 2",
        "large D",
        "matched norms",
        "course recipe",
    ],
)
def test_losing_any_part_spoils_no_other(smoke: Run, lost: str) -> None:
    """Every trial of one part failed: claims, text and the remaining figures still come out."""
    study = PhaseTransition.at("smoke", **FEWER)
    rest = Table([row for row in smoke.table if row.config["part"] != lost])
    found = draw_conclusions(study, rest)
    assert any(c.verdict == "undecided" for c in found.claims)
    text = " ".join([found.answer, *(p for s in found.sections for p in s.paragraphs)])
    assert "nan" not in text and "None" not in text and " ." not in text and "()" not in text
    for figure in study.figures(found.evidence):
        figure.draw()


def test_pooled_crossing_covers_the_truth_and_keeps_every_instance() -> None:
    """200 tables with a known crossing: the 95 % interval covers it in 90 to 99 % of them."""
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(200):
        rows = [
            figure_two_row(a, seed, a - 1.25 + 0.3 * rng.standard_normal())
            for a in (1.0, 1.25, 1.5)
            for seed in range(12)
        ]
        found = pooled_crossing(Table(rows), gap)
        assert found.n == 12
        hits += found.low < 1.25 < found.high
    assert 180 <= hits <= 198, hits


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The smoke scale with fewer instances and a coarser theory."""
    out = tmp_path_factory.mktemp("phase")
    return run("phase-transition", scale="smoke", out=out, engine="inline", settings=FEWER)


def test_smoke_run_is_whole(smoke: Run) -> None:
    assert smoke.results["counts"] == {"done": len(PhaseTransition.at("smoke", **FEWER).trials())}
    assert smoke.record.verify().ok and smoke.record.complete
    assert smoke.report.stat().st_size < 5_000_000
    names = {f["name"] for f in smoke.results["figures"]}
    assert {"figure-2", "figure-2-test", "figure-3", "critical-lines", "finite-size"} <= names
    assert all((smoke.path / f["file"]).is_file() for f in smoke.results["figures"])


def test_every_number_of_a_claim_can_be_traced(smoke: Run) -> None:
    ids = {row.id for row in smoke.table}
    for claim in smoke.results["claims"]:
        assert set(claim["trials"]) <= ids
        assert claim["effect"] is None or claim["trials"]


def test_running_again_runs_nothing(smoke: Run) -> None:
    before = {row.id: row.cost for row in smoke.table}  # a trial run again would cost otherwise
    again = run("phase-transition", scale="smoke", out=smoke.path.parent, settings=FEWER)
    assert {row.id: row.cost for row in again.table} == before and again.path == smoke.path


def test_theory_in_the_table_is_the_library(smoke: Run) -> None:
    """Golden: α_l(0.3) = 1.49 elsewhere, within the coarseness of the smoke rule."""
    found = Evidence(smoke.table, PhaseSettings()).critical_at("alpha_l")
    assert found.value == pytest.approx(1.49, abs=0.05)


def test_notebook_shows_the_answer(smoke: Run) -> None:
    assert smoke.results["answer"][:20] in getattr(smoke, "_repr_html_")()  # noqa: B009


def test_report_of_a_run_can_be_written_again(smoke: Run, tmp_path: Path) -> None:
    from attnlab.report.build import render

    assert render(smoke.record) == smoke.report.read_text(encoding="utf-8")
