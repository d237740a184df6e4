"""The audits of a whole run: what the trial of audits said of the model all strategies share."""

from collections.abc import Sequence
from dataclasses import replace

from attnlab.audit.finding import Finding
from attnlab.lab.claim import Claim
from attnlab.lab.table import Table
from attnlab.studies.decoding.checks import SAMPLER, TOLD
from attnlab.studies.distillation.checks import collected

OF_DRAWS = "limits-greedy"  # what draws nothing does not rest on the sampler


def findings(table: Table, claims: Sequence[Claim]) -> list[Finding]:
    """One finding an audit; every claim rests on the model, those on draws on the sampler too."""
    found = []
    for name in TOLD:
        said = {
            row.id: (str(row.get("arm")), str(row.metrics[f"audit_{name}"]))
            for row in table
            if f"audit_{name}" in row.metrics
        }
        if not said:
            continue
        finding = collected(name, said)
        hit = tuple(c.name for c in claims if not (name == SAMPLER and c.name == OF_DRAWS))
        found.append(replace(finding, undermines=hit) if finding.verdict == "fail" else finding)
    return found
