"""The audits of the study: what a course's settings do wrong is shown, and must be found."""

from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.audit.checks.baselines import baselines
from attnlab.audit.checks.contamination import contamination
from attnlab.audit.checks.grid_edge import Choice, grid_edge
from attnlab.audit.checks.schedule import schedule
from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.checks.split_overlap import split_overlap
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.findings import resting_on
from attnlab.measure.shares import effective_items, pooled_share
from attnlab.studies.knowledge.arms import KnowledgeArms, schedule_of
from attnlab.studies.knowledge.study import Knowledge, KnowledgeSettings

STEPS = 650  # epochs of the course; the shape of a schedule does not depend on the number


def audits(study: Knowledge, arms: KnowledgeArms, claims: Sequence[Claim]) -> list[Finding]:
    """Baselines, the number of people, schedules, and the data splits."""
    return [
        *_against_baselines(arms),
        _enough_people(arms, claims),
        *_rates_inside(arms, claims),
        _schedules(study.settings),
        *_data(study.settings),
    ]


def _against_baselines(arms: KnowledgeArms) -> list[Finding]:
    if not arms.rows("pretrained"):
        return []
    known = {
        "the commonest answer": arms.mean("pretrained", "majority"),
        "the commonest taught answer": arms.mean("pretrained", "commonest_taught"),
    }
    share, top = arms.share("pretrained", "read"), arms.mean("pretrained", "ceiling")
    return [baselines(share, known, ceiling=top)]


def _enough_people(arms: KnowledgeArms, claims: Sequence[Claim]) -> Finding:
    effect = next((c.estimate.value for c in claims if c.name == "pretraining-knows"), 0.0)
    counts = {}
    for arm in ("none", "pretrained"):
        if asked := arms.asked(arm, "read"):
            people = round(effective_items(asked))  # seeds that differ are worth fewer people
            counts[arm] = (round(pooled_share(asked) * people), people)
    return small_sample(counts, effect)


def _rates_inside(arms: KnowledgeArms, claims: Sequence[Claim]) -> list[Finding]:
    """Whether the learning rate of every Perceiver lies inside those that it tried."""
    choices = [
        Choice(arms.label(arm), "perceiver_rates", chosen, tried, resting_on(claims, [trial]))
        for arm in arms.names()
        for trial, chosen, tried in arms.searches(arm)
    ]
    return [grid_edge(choices)] if choices else []


def _schedules(s: KnowledgeSettings) -> Finding:
    """The corrected schedule must pass; the course's, where it is an arm, must fail."""
    phases = ("reading", "asked")
    corrected = [schedule(rates("fixed", phase)) for phase in phases]
    one = next((finding for finding in corrected if finding.verdict != "pass"), corrected[0])
    if one.verdict != "pass" or "course-schedule" not in s.arms:
        return one
    course = {phase: schedule(rates("course", phase), floor=0.1) for phase in phases}
    evidence: Mapping[str, Any] = {phase: f.as_json() for phase, f in course.items()}
    if any(f.verdict == "pass" for f in course.values()):
        why = "the course's schedule passes, though it must fail"
        return Finding("schedule", "fail", None, None, why, evidence)
    told = "; ".join(f"{phase}: {f.why}" for phase, f in course.items())
    why = f"{one.why}; the course's schedule fails, as it must ({told})"
    return Finding("schedule", "pass", one.number, one.threshold, why, evidence)


def rates(name: str, phase: str) -> list[float]:
    """The learning rate of every step, as a share of its peak."""
    from attnlab.training.schedule import learning_rate
    from attnlab.training.settings import TrainSettings

    settings = TrainSettings(steps=STEPS, learning_rate=1.0, **schedule_of(name, phase))
    return [learning_rate(step, settings) for step in range(STEPS)]


def _data(s: KnowledgeSettings) -> list[Finding]:
    """No test name is taught; no test question stands in the text (its facts do, by design)."""
    from attnlab.studies.knowledge.data import material

    world = material(s.model_dump(mode="json"), 0).world
    names = {kind: [q.name for q in getattr(world, kind)] for kind in ("taught", "read")}
    asked = contamination([q.text for q in world.read], world.documents)
    return [split_overlap(names), asked]
