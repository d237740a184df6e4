"""The audits of the study: what a course's settings do wrong is shown, and must be found."""

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.audit.checks.baselines import baselines
from attnlab.audit.checks.contamination import contamination
from attnlab.audit.checks.schedule import schedule
from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.checks.split_overlap import split_overlap
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.table import Row
from attnlab.studies.audited import audit_findings
from attnlab.studies.knowledge.arms import schedule_of
from attnlab.studies.knowledge.evidence import Arms
from attnlab.studies.knowledge.settings import KnowledgeSettings

STEPS = 650  # epochs of the course; the shape of a schedule does not depend on the number


def checks(arms: Arms, s: KnowledgeSettings, claims: Sequence[Claim]) -> list[Finding]:
    """Everything that may undermine the answer."""
    # arms that never differ (nothing was learnt) are no comparison
    decided = {c.name: c.runs for c in claims if any(c.runs) and c.verdict != "undecided"}
    return [
        seeds_and_interval(decided),
        *_against_baselines(arms),
        _enough_people(arms, claims),
        _by_arm("coverage", arms, "audit_coverage", ("perceiver-course",)),
        _by_arm("collapse", arms, "collapse", None),
        _schedules(s),
        *_data(s),
        *audit_findings(arms.table, claims, {}),
    ]


def _against_baselines(arms: Arms) -> list[Finding]:
    if not arms.rows("pretrained"):
        return []
    known = {
        "the commonest answer": arms.mean("pretrained", "majority"),
        "the commonest taught answer": arms.mean("pretrained", "commonest_taught"),
    }
    share, top = arms.share("pretrained", "read"), arms.mean("pretrained", "ceiling")
    return [baselines(share, known, ceiling=top)]


def _enough_people(arms: Arms, claims: Sequence[Claim]) -> Finding:
    effect = next((c.estimate.value for c in claims if c.name == "pretraining-knows"), 0.0)
    counts = {
        arm: (sum(int(r["read_right"]) for r in rows), sum(int(r["read_n"]) for r in rows))
        for arm in ("none", "pretrained")
        if (rows := [r for r in arms.rows(arm) if r.get("read_n")])
    }
    return small_sample(counts, effect if effect == effect else 0.0)


def _by_arm(name: str, arms: Arms, metric: str, declared: tuple[str, ...] | None) -> Finding:
    """One finding over all models; the declared arms must fail it. None: whoever fails is named."""
    rows: list[tuple[str, Row]] = [
        (arm, row) for arm in arms.names() for row in arms.rows(arm) if row.get(metric)
    ]
    failing = {row.id: arm for arm, row in rows if str(row[metric]).startswith("fail")}
    evidence: dict[str, Any] = {"models": len(rows), "failing": sorted(set(failing.values()))}
    if not rows:
        return Finding(name, "not-applicable", None, 0, "no model was trained", evidence)
    wanted = {row.id: arm for arm, row in rows if arm in (declared or ())}
    if declared is None:  # a model without knowledge may well answer as a constant would
        wanted = {key: arm for key, arm in failing.items() if arm != "pretrained"}
    wrong = failing.keys() ^ wanted.keys()
    if wrong:
        arm, row = next((arm, row) for arm, row in rows if row.id in wrong)
        said = str(row[metric]).removeprefix("fail: ")
        return Finding(name, "fail", len(wrong), 0, f"{arm}: {said}", evidence)
    why = f"{len(rows) - len(wanted)} of {len(rows)} models pass"
    if wanted:
        arm, row = next((arm, row) for arm, row in rows if row.id in wanted)
        as_said = "as it must be shown to" if declared else "which is no knowledge to be told"
        why += f"; {arm} fails, {as_said}: {str(row[metric]).removeprefix('fail: ')}"
    return Finding(name, "pass", 0, 0, why, evidence)


def _schedules(s: KnowledgeSettings) -> Finding:
    """The corrected schedule must pass; the course's, where it is an arm, must fail and be told."""
    fixed = {phase: rates("fixed", phase) for phase in ("reading", "asked")}
    found = {phase: schedule(values) for phase, values in fixed.items()}
    bad = next((f for f in found.values() if f.verdict != "pass"), None)
    if bad is not None:
        return bad
    one = found["reading"]
    if "course-schedule" not in s.arms:
        return one
    course = {phase: schedule(rates("course", phase), floor=0.1) for phase in fixed}
    evidence: Mapping[str, Any] = {phase: f.as_json() for phase, f in course.items()}
    if any(f.verdict == "pass" for f in course.values()):
        return Finding(
            "schedule", "fail", None, None, "the course's passes, and must not", evidence
        )
    told = "; ".join(f"{phase}: {f.why}" for phase, f in course.items())
    why = f"{one.why}; the course's schedule fails, as it must be shown to ({told})"
    return Finding("schedule", "pass", one.number, one.threshold, why, evidence)


def rates(name: str, phase: str) -> list[float]:
    """The learning rate of every step, as a share of its peak."""
    from attnlab.train.schedule import learning_rate
    from attnlab.train.settings import TrainSettings

    settings = TrainSettings(steps=STEPS, learning_rate=1.0, **schedule_of(name, phase))
    return [learning_rate(step, settings) for step in range(STEPS)]


def _data(s: KnowledgeSettings) -> list[Finding]:
    """No test name is taught; no test question stands in the text (its facts do, by design)."""
    from attnlab.studies.knowledge.data import material

    world = material(s.model_dump(mode="json"), 0).world
    names = {kind: [q.name for q in getattr(world, kind)] for kind in ("taught", "read")}
    asked = contamination([q.text for q in world.read], world.documents)
    return [split_overlap(names), asked]
