"""The audits of the study: splits of texts, baselines, sizes of samples, the models themselves."""

from collections.abc import Sequence

from attnlab.audit.checks.baselines import baselines
from attnlab.audit.checks.seeds_and_interval import seeds_and_interval
from attnlab.audit.checks.small_sample import small_sample
from attnlab.audit.checks.split_overlap import split_overlap
from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.measure.intervals import wilson
from attnlab.studies.audited import audit_findings
from attnlab.studies.concepts.evidence import Found
from attnlab.studies.concepts.settings import ConceptsSettings


def checks(found: Found, s: ConceptsSettings, claims: Sequence[Claim]) -> list[Finding]:
    """Everything that may undermine the answers."""
    decided = {c.name: c.runs for c in claims if any(c.runs) and c.verdict != "undecided"}
    return [
        seeds_and_interval(decided),
        *_shuffled(found, claims),
        *_texts(found, s),
        *audit_findings(found.table, claims, {}),
    ]


def _shuffled(found: Found, claims: Sequence[Claim]) -> list[Finding]:
    """Learning in a drawn order must beat the constant answer, or the comparison says nothing."""
    rows = found.rows("order")
    if not rows:
        return []
    right = sum(round(r["shuffled_accuracy"] * r["tested"]) for r in rows)
    asked = sum(int(r["tested"]) for r in rows)
    effect = next((c.estimate.value for c in claims if c.name == "shuffling-helps"), 0.0)
    return [
        baselines(wilson(right, asked), {"the commoner class": found.mean("order", "majority")}),
        small_sample({"shuffled": (right, asked)}, effect if effect == effect else 0.0),
    ]


def _texts(found: Found, s: ConceptsSettings) -> list[Finding]:
    """No document of a target stands in two of its splits; dev chooses, test is reported."""
    if not found.rows("anew"):
        return []
    from attnlab.studies.concepts.texts import splits

    parts = {
        f"{target} {name}": part
        for target in s.targets
        for name, part in zip(("train", "dev", "test"), splits(target).parts, strict=True)
    }
    return [
        split_overlap(
            {"news train": splits("news").train, **parts}, chosen_on="dev", reported_on="test"
        )
    ]
