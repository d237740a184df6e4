"""The runs in an output folder: find one by name, list them, remove one."""

import re
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from attnlab.core.config import suggest
from attnlab.core.errors import AttnlabError, UsageError, storage_errors
from attnlab.core.files import PARTIAL
from attnlab.core.signed import read_signed
from attnlab.lab.artefacts import remove_folder
from attnlab.lab.folder import run_lock
from attnlab.lab.manifest import MANIFEST, files_of, read_manifest
from attnlab.lab.run_spec import ENV, STUDY, TRIALS, read_run_spec
from attnlab.lab.store import count_states
from attnlab.lab.trial import FINISHED

RUN_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,80}")


@dataclass(frozen=True)
class RunInfo:
    """One line of `attnlab runs`; `problem` says why a run could not be read."""

    name: str
    study: str = ""
    scale: str = ""
    done: int = 0
    total: int = 0
    complete: bool = False
    created: str = ""
    size: int = 0
    problem: str = ""


def find_run(text: str, out: Path) -> Path:
    """RUN is a folder, its name in `out`, or the beginning of exactly one name."""
    if _is_run(Path(text)):
        return Path(text)
    names = sorted(path.name for path in _run_folders(out))
    if text in names:
        return out / text
    if not names:
        raise UsageError(f"no run {text!r}: there are no runs in {out}")
    close = [name for name in names if name.startswith(text)] if RUN_NAME.fullmatch(text) else []
    if len(close) == 1:
        return out / close[0]
    if close:
        raise UsageError(f"{text!r} is the beginning of {len(close)} runs: {', '.join(close[:6])}")
    raise UsageError(f"no run {text!r} in {out}: {suggest(text, names)}")


def list_runs(out: Path) -> list[RunInfo]:
    """Every run in `out`, by name; nothing is hashed, a damaged one carries its problem."""
    return [_info(path) for path in sorted(_run_folders(out))]


def remove_run(path: Path) -> None:
    """Delete a run nobody is using; half a run is never left under its name."""
    with run_lock(path), storage_errors(path):
        doomed = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}removed-", dir=path.parent))
        path.rename(doomed / path.name)
    remove_folder(doomed)


def _info(path: Path) -> RunInfo:
    try:
        spec, manifest = read_run_spec(path), read_manifest(path)
        states = count_states(path / TRIALS)
        sessions = read_signed(path / ENV).get("sessions") or [{}]
        if manifest.sealed:
            size = sum(entry.size for entry in manifest.files.values())
        else:
            size = sum((path / name).stat().st_size for name in files_of(path))
    except AttnlabError as error:
        return RunInfo(path.name, problem=str(error))
    except (OSError, AttributeError, TypeError, KeyError) as error:
        return RunInfo(path.name, problem=f"unreadable: {error}")
    return RunInfo(
        name=path.name,
        study=spec.study,
        scale=spec.scale,
        done=sum(count for state, count in states.items() if state in FINISHED),
        total=spec.trials,
        complete=manifest.complete and manifest.sealed,
        created=str(sessions[0].get("started", "")),
        size=size,
    )


def _run_folders(out: Path) -> Iterator[Path]:
    with storage_errors(out):
        if out.exists() and not out.is_dir():
            raise UsageError(f"{out}: not a folder; --out names the folder that holds the runs")
        found = list(out.iterdir()) if out.exists() else []
    yield from (path for path in found if RUN_NAME.fullmatch(path.name) and _is_run(path))


def _is_run(path: Path) -> bool:
    """A damaged run is one too: any of its three files will do."""
    try:
        return path.is_dir() and any((path / name).exists() for name in (STUDY, MANIFEST, TRIALS))
    except OSError:
        return False
