"""A Ray task: a few trials in a worker process of ours, on whatever node it was sent to.

The process is the one the local engine uses (one thread, its time and memory limits, its log), so
a trial has the same bits and the same states on a cluster. It is kept for the next task of the
same sweep, and ends when the process Ray gave us ends, however that ends.
"""

import hashlib
import json
import os
import shutil
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from attnlab.core.errors import AttnlabError, UsageError
from attnlab.lab.engine.pool import Pool, Terms, default_workers
from attnlab.lab.engine.ray_cluster import own_folder
from attnlab.lab.engine.wire import pack
from attnlab.lab.environment import versions
from attnlab.lab.trial import FINISHED, Trial

TASK_SECONDS = 1.0  # after this a task begins no further trial
GPUS = "CUDA_VISIBLE_DEVICES"
SCRATCH = "attnlab-task-"
_kept: dict[str, Pool] = {}  # at most one: that of the last task


def terms_bytes(terms: Terms, study: str, version: int, mark: str) -> bytes:
    """All that tasks of one sweep have in common; `mark`: a file in the driver's scratch folder."""
    common = {"terms": asdict(terms), "study": study, "version": version, "mark": mark}
    return json.dumps({**common, "versions": versions()}, sort_keys=True).encode()


def run_group(common: bytes, asked: bytes) -> bytes:
    """Run the trials `[[config, seed], …]` until a second is over; a frame for each that ended.

    The driver sends those without a frame again. `unfit`: no node can do this; `sick`: this one
    cannot.
    """
    told = json.loads(common)
    frames: list[bytes] = []
    try:
        _refuse_other_versions(told["versions"])
        study = told["study"], told["version"]
        trials = [Trial(*study, config, seed) for config, seed in json.loads(asked)]
        _run(_pool(told, common), trials, frames)
    except UsageError as error:
        frames.append(pack({"unfit": str(error)}))
    except AttnlabError as error:
        frames.append(pack({"sick": str(error)}))
    return b"".join(frames)


def _run(pool: Pool, trials: list[Trial], frames: list[bytes]) -> None:
    indices = {trial.id: index for index, trial in enumerate(trials)}
    until = time.monotonic() + TASK_SECONDS

    def deliver(trial: Trial, message: dict[str, Any], blob: bytes) -> None:
        frames.append(pack({**message, "index": indices[trial.id]}, blob))
        if message["state"] in FINISHED:
            _drop_checkpoints(pool.terms, trial)
        if time.monotonic() > until:
            pool.queue.clear()

    pool.deliver = deliver
    pool.queue.extend(trials)
    try:
        pool.work()
    except BaseException:
        _kept.clear()
        pool.close()
        raise


def _pool(told: dict[str, Any], common: bytes) -> Pool:
    """The pool of the last task if it was of this sweep and on the same GPU, else a new one."""
    key = hashlib.sha256(common + os.environ.get(GPUS, "all").encode()).hexdigest()
    if key not in _kept:
        for pool in _kept.values():
            pool.close()
        _kept.clear()
        _kept[key] = Pool(_terms_on_this_node(told), 1, lambda *_: None, lambda: None)
        _kept[key].beside = default_workers("cpu")
    return _kept[key]


def _terms_on_this_node(told: dict[str, Any]) -> Terms:
    """The driver's terms with this node's folders.

    Checkpoints lie in the run's folder where this node sees it, so that another node can go on
    from them; elsewhere they are lost with the node, and the trial starts again.
    """
    terms = Terms(**told["terms"])
    shared = Path(terms.introduction["scratch"], told["mark"]).is_file()
    scratch = own_folder(SCRATCH)
    introduction = {**terms.introduction, "scratch": scratch}
    if not shared:
        introduction["checkpoints"] = str(Path(scratch, "checkpoints"))
    return replace(terms, introduction=introduction)


def _drop_checkpoints(terms: Terms, trial: Trial) -> None:
    """Those in the run's folder are the driver's to remove, once the trial is committed."""
    folder = Path(terms.introduction["checkpoints"])
    if folder.is_relative_to(terms.introduction["scratch"]):
        shutil.rmtree(folder / trial.id, ignore_errors=True)


def _refuse_other_versions(wanted: dict[str, Any]) -> None:
    """Other versions give other bits: a sweep runs on one of each."""
    found = versions()
    for name, value in wanted.items():
        if found.get(name) != value:
            raise UsageError(
                f"a node has {name} {found.get(name)}, the driver {value}: install the same"
            )
