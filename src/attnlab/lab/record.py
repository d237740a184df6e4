"""A run on disk: `OUT/<study>-<12 hex>/`.

study.json  study and settings     trials.db   one row a trial; committed = finished
env.json    where it was computed  artefacts/  what trials left
results.json, figures/, report.html            made from the table once the trials are done
MANIFEST.json                      size and SHA-256 of every file, itself included

Only the process inside `lock()` writes. Killed at any instant, the folder still verifies, and
the same command goes on where it stopped.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from attnlab.core.devices import resolve_device
from attnlab.core.errors import AttnlabError, IntegrityError, UsageError
from attnlab.core.files import read_json, write_bytes, write_json
from attnlab.core.signed import check_entry, entry_of, read_signed, write_signed
from attnlab.lab.artefacts import ARTEFACTS, remove_folder, sync_artefacts, write_artefacts
from attnlab.lab.environment import session
from attnlab.lab.folder import create_folder, open_manifest, remove_partial, run_lock
from attnlab.lab.manifest import FORMAT, Manifest, files_of, read_manifest, write_manifest
from attnlab.lab.plan import Plan
from attnlab.lab.rows import artefacts_of, checked_row, stored_row
from attnlab.lab.run_spec import ENV, RESULTS, TRIALS, RunSpec, digest_of, read_run_spec, run_spec
from attnlab.lab.store import StoredRow, StoreWriter, read_rows
from attnlab.lab.table import Table
from attnlab.lab.trial import FINISHED, Outcome, State, Trial
from attnlab.lab.verify import Verification, verify_run

SETTLED_NS = 100_000_000  # clocks of file systems tick in milliseconds
GROUP_SECONDS, GROUP_TRIALS = 0.2, 50  # a commit costs a disk sync: share it


class Record:
    """One run folder. Anyone may read; inside `lock()` it may be changed, then `seal`ed."""

    def __init__(self, path: Path, spec: RunSpec) -> None:
        self.path = path
        self.spec = spec
        self._source_sha256 = spec.source_sha256
        self._owned = self._changing = False
        self._writer: StoreWriter | None = None
        self._pending: list[StoredRow] = []
        self._unsynced: list[Path] = []
        self._pending_since = 0.0
        self._read: tuple[tuple[int, ...], list[StoredRow]] | None = None
        self._parsed = False  # whether every row of `_read` was found to be what a trial writes

    @classmethod
    def create_or_open(cls, out: Path, plan: Plan) -> "Record":
        """The run of this plan; its folder is made, all or nothing, when absent."""
        folder = out / plan.name
        if not folder.exists():
            create_folder(folder, run_spec(plan))
        record = cls.open(folder)
        record._source_sha256 = plan.source.sha256
        return record

    @classmethod
    def open(cls, path: Path) -> "Record":
        """An existing run; IntegrityError when its study.json is damaged or newer."""
        return cls(path, read_run_spec(path))

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.resolve().name

    @property
    def complete(self) -> bool:
        """True when the run ended and was sealed."""
        manifest = read_manifest(self.path)
        return manifest.complete and manifest.sealed

    @property
    def sealed(self) -> bool:
        """True when nothing is being written, and nothing was when a process was killed."""
        return read_manifest(self.path).sealed

    @property
    def ended(self) -> bool:
        """True when the run came to its end, also while something is added to it."""
        return read_manifest(self.path).complete

    @contextmanager
    def lock(self) -> Iterator["Record"]:
        """Own the run for writing; what arrived is committed on the way out, whatever happens."""
        with run_lock(self.path):
            remove_partial(self.path)
            self._owned = True
            try:
                yield self
                self.flush()
            except BaseException:
                with suppress(AttnlabError):  # the first failure is the one to tell
                    self.flush()
                raise
            finally:
                self._owned = self._changing = False
                self._pending.clear()
                self._unsynced.clear()
                if self._writer is not None:
                    self._writer.close()
                    self._writer = None

    def finished_ids(self) -> set[str]:
        """Trials that must not run again."""
        return {row.id for row in self._rows() if row.state in FINISHED}

    def add(
        self,
        trial: Trial,
        state: State,
        outcome: Outcome | None = None,
        error: str = "",
        cost: Mapping[str, float] | None = None,
    ) -> None:
        """Store a trial that ended: its files now, its row with the next grouped commit."""
        self.begin()
        files = write_artefacts(self.path, trial.id, outcome) if outcome else {}
        self._unsynced += [self.path / ARTEFACTS / trial.id / name for name in files]
        if not self._pending:
            self._pending_since = time.monotonic()
        self._pending.append(stored_row(trial, state, outcome, files, cost or {}, error))
        self.flush_if_due()

    @property
    def pending(self) -> int:
        """Trials stored but not committed yet."""
        return len(self._pending)

    def flush_if_due(self) -> None:
        """Commit when 50 trials wait, or the first has waited 0.2 s."""
        waited = time.monotonic() - self._pending_since
        if len(self._pending) >= GROUP_TRIALS or (self._pending and waited >= GROUP_SECONDS):
            self.flush()

    def flush(self) -> None:
        """Commit what waits."""
        if self._pending:
            if self._writer is None:
                self._writer = StoreWriter(self.path / TRIALS)
            sync_artefacts(self.path, self._unsynced)
            self._read = None
            self._writer.put(self._pending)
            self._pending.clear()
            self._unsynced.clear()

    def table(self) -> Table:
        """All trials that ended, sorted by id; arrays and curves are checked when read."""
        spec, stored = self.spec, self._rows()
        rows = [checked_row(self.path, row, spec.study, spec.version) for row in stored]
        self._parsed = True
        return Table(rows)

    def digest(self) -> str:
        """SHA-256 over everything deterministic: not times, not machines, not figures."""
        return digest_of(self.spec, [row.sha256 for row in self._rows()])

    def verify(self) -> Verification:
        """Check every byte; see verify.py."""
        return verify_run(self.path)

    def sessions(self) -> list[dict[str, Any]]:
        """Where this run was computed: the entries of env.json."""
        found = read_signed(self.path / ENV).get("sessions")
        if not isinstance(found, list):
            raise IntegrityError(f"{self.path / ENV}: not what was written")
        return found

    def code_sha256(self) -> str | None:
        """Hash of the study's code that last wrote to this run; None where none was kept."""
        return self.sessions()[-1].get("source_sha256") or self.spec.source_sha256

    def begin(self, ended: bool = False) -> None:
        """Before the first change: everything must verify; then the manifest says 'open'.

        `ended`: only what is made from the trials is added (a report), so that a kill on the way
        does not make a complete run an unfinished one for ever.
        """
        if not self._owned:
            raise RuntimeError("a run is changed only inside `with record.lock():`")
        if self._changing:
            return
        # 100,000 rows take seconds: those that were read and parsed just now are not read again
        known = self._rows_just_read() if self._parsed else None
        found = verify_run(self.path, known)
        if not found.ok:
            raise IntegrityError(f"run {self.name} is damaged: {'; '.join(found.problems[:3])}")
        write_manifest(self.path, open_manifest(self.path, self.spec, ended))
        sessions = [*self.sessions(), session(self._device(), self._source_sha256)]
        write_signed(self.path / ENV, {"sessions": sessions})
        self._changing = True

    def write_file(self, name: str, data: bytes) -> None:
        """Add or replace one file of the run (a figure, the report); `seal` afterwards."""
        self.begin()
        write_bytes(self.path / name, data)

    def write_results(self, results: Mapping[str, Any]) -> None:
        """Store claims, audits, answer, discussion and the list of figures."""
        self.begin()
        write_json(self.path / RESULTS, dict(results))

    def read_results(self) -> dict[str, Any]:
        """What `write_results` stored, checked against the manifest of a sealed run."""
        entry = read_manifest(self.path).files.get(RESULTS)
        problem = check_entry(self.path / RESULTS, entry) if entry else ""
        if problem:
            raise IntegrityError(f"{self.path / RESULTS}: {problem}")
        found = read_json(self.path / RESULTS)
        if not isinstance(found, dict):
            raise IntegrityError(f"{self.path / RESULTS}: not what was written")
        return found

    def seal(self, complete: bool = True) -> None:
        """Last: hash every file into the manifest. `complete`: the run came to its end."""
        if not self._changing:
            manifest = read_manifest(self.path)
            if manifest.sealed and manifest.complete == complete:
                return
        self.begin()
        self.flush()
        self._drop_unnamed_artefacts()
        files = {name: entry_of(self.path / name) for name in files_of(self.path)}
        for row in self._rows():
            for file, entry in artefacts_of(row).items():
                if files.get(f"{ARTEFACTS}/{row.id}/{file}") != entry:
                    raise IntegrityError(f"{self.path / ARTEFACTS / row.id / file}: damaged")
        write_manifest(
            self.path,
            Manifest(format=FORMAT, run=self.spec.run, complete=complete, sealed=True, files=files),
        )
        self._changing = False

    def _device(self) -> str:
        asked = str(self.spec.settings.get("device", "cpu"))
        try:
            return resolve_device(asked)
        except UsageError:  # a figure may be added where the trials could not run
            return asked

    def _rows(self) -> list[StoredRow]:
        self.flush()
        known = self._rows_just_read()
        if known is None:
            state = _state_of(self.path / TRIALS)
            known = read_rows(self.path / TRIALS, self.spec.run)
            self._read, self._parsed = (state, known) if state else None, False
        return known

    def _rows_just_read(self) -> list[StoredRow] | None:
        """The rows of the last reading, if the file has not changed since."""
        if self._read is not None and self._read[0] == _state_of(self.path / TRIALS):
            return self._read[1]
        return None

    def _drop_unnamed_artefacts(self) -> None:
        """Files of a trial whose row was never committed; a rerun would have replaced them."""
        folder = self.path / ARTEFACTS
        named = {row.id for row in self._rows() if artefacts_of(row)}
        for found in folder.iterdir() if folder.is_dir() else ():
            if found.name not in named:
                remove_folder(found)


def _state_of(path: Path) -> tuple[int, ...]:
    """Changes with every write to the file; () when it may not, so soon after the last one."""
    try:
        found = path.stat()
    except OSError:
        return ()
    settled = time.time_ns() - found.st_mtime_ns > SETTLED_NS
    return (found.st_ino, found.st_size, found.st_mtime_ns) if settled else ()
