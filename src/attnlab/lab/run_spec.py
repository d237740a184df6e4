"""study.json: study and settings, enough to repeat the run; and the names in a run folder."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import attnlab
from attnlab.core.config import Settings, content_hash
from attnlab.core.errors import IntegrityError
from attnlab.core.files import read_json
from attnlab.core.signed import refuse_newer
from attnlab.lab.manifest import FORMAT
from attnlab.lab.plan import Plan

STUDY, ENV, TRIALS, RESULTS = "study.json", "env.json", "trials.db", "results.json"
REPORT, FIGURES, CSV = "report.html", "figures", "trials.csv"
ASKED = {"study", "version", "settings"}  # the fields that a run's name is a hash of


class RunSpec(Settings):
    """The content of study.json; `run` is the hash of study, version and settings."""

    format: Literal[1, 2]
    attnlab: str
    study: str
    version: int
    source: str | dict[str, str]
    scale: str
    run: str
    trials: int
    settings: dict[str, Any]

    @property
    def source_sha256(self) -> str | None:
        """Hash of the code this run was started from; None where an older attnlab kept none."""
        return self.source.get("sha256") if isinstance(self.source, dict) else None


def run_spec(plan: Plan) -> RunSpec:
    """What study.json of a new run will hold."""
    study = plan.study
    return RunSpec(
        format=FORMAT,
        attnlab=attnlab.__version__,
        study=study.name,
        version=study.version,
        source=plan.source.as_json(),
        scale=plan.scale,
        run=study.run_id,
        trials=len(plan.trials),
        settings=study.settings_json(),
    )


def read_run_spec(folder: Path) -> RunSpec:
    """The folder's study.json; IntegrityError when it is damaged, newer or of another run."""
    path = folder / STUDY
    value = read_json(path)
    refuse_newer(path, value, FORMAT)
    try:
        # through JSON, as it was written: strict fields then mean the same on both ways
        spec = RunSpec.model_validate_json(json.dumps(value))
        same = content_hash(spec.model_dump(include=ASKED), 12) == spec.run
    except (ValueError, RecursionError):
        raise IntegrityError(f"{path}: not a study that was written here") from None
    if not same:
        raise IntegrityError(f"{path}: its settings are not those of run {spec.run[:40]}")
    return spec


def digest_of(spec: RunSpec, row_hashes: Sequence[str]) -> str:
    """SHA-256 over everything deterministic: question, settings, and the hash of every row."""
    return content_hash([spec.model_dump(include={*ASKED, "run"}), list(row_hashes)])
