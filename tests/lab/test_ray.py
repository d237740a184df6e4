"""The Ray engine: its own rules with a stand-in for Ray, then the proof on a cluster that dies."""

import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from attnlab.core.errors import AttnlabError, MissingError, UsageError
from attnlab.lab.engine import Job, Result, engine_named, ray_task
from attnlab.lab.engine import ray as engine
from attnlab.lab.engine.pool import Terms
from attnlab.lab.engine.ray_cluster import check_address
from attnlab.lab.engine.ray_task import run_group, terms_bytes
from attnlab.lab.engine.wire import Unpacker, pack
from attnlab.lab.record import Record
from attnlab.lab.source import read_source
from attnlab.lab.trial import Trial

from .conftest import HERE, TINY, run_tiny, tiny

needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed: pip install 'attnlab[cluster]'",
)


class Errors:
    class RayError(Exception): ...

    class RayTaskError(RayError): ...

    class OutOfMemoryError(RayError): ...


class StandIn:
    """What the engine uses of Ray, each task answered by `answer(number, trials)` when asked for.

    An answer is the indices of the trials that ended, bytes, or an exception to raise.
    """

    exceptions = Errors

    def __init__(self, answer: Callable[[int, list[Any]], Any], **resources: float) -> None:
        self.answer, self.resources = answer, resources or {"CPU": 2.0}
        self.sent: list[list[Any]] = []
        self.options_seen: list[dict[str, Any]] = []
        self.cancelled: list[int] = []

    def put(self, value: bytes) -> bytes:
        return value

    def cluster_resources(self) -> dict[str, float]:
        return self.resources

    def remote(self, function: Any) -> Any:
        def options(**chosen: Any) -> Any:
            def send(common: bytes, asked: bytes) -> int:
                self.options_seen.append(chosen)
                self.sent.append(json.loads(asked))
                return len(self.sent) - 1

            return SimpleNamespace(remote=send)

        return SimpleNamespace(options=options)

    def wait(self, tasks: list[int], num_returns: int, timeout: float) -> Any:
        return tasks[:num_returns], tasks[num_returns:]

    def get(self, task: int, timeout: float) -> bytes:
        found = self.answer(task, self.sent[task])
        if isinstance(found, Exception):
            raise found
        if isinstance(found, bytes):
            return found
        done = {"state": "done", "cost": {"seconds": 0.01}, "metrics": {}, "reasons": {}}
        done |= {"curves": {}, "samples": [], "documents": {}}
        return b"".join(pack({**done, "index": place}) for place in found)

    def cancel(self, task: int, force: bool) -> None:
        self.cancelled.append(task)


class Kept:
    """A sink that keeps."""

    stopping = False

    def __init__(self) -> None:
        self.results: list[Result] = []

    def accept(self, result: Result) -> None:
        self.results.append(result)

    def step(self, trial: Trial, done: int, of: int, words: str) -> None: ...

    def tick(self) -> None: ...


def job_of(folder: Path, device: str = "cpu", workers: int | None = None, **settings: Any) -> Job:
    study = tiny(**settings)
    return Job(
        source=read_source(str(TINY)),
        study=study,
        trials=study.trials(),
        device=device,
        scratch=folder / "scratch",
        checkpoints=folder / "checkpoints",
        workers=workers,
    )


def swept(stand_in: StandIn, job: Job, exactly: bool = False) -> Kept:
    sink = Kept()
    sweep = engine._Sweep(stand_in, job, sink, exactly)  # pyright: ignore[reportPrivateUsage]
    try:
        sweep.work()
    finally:
        sweep.cancel()
    return sink


def every(number: int, trials: list[Any]) -> range:
    return range(len(trials))


def test_all_trials_once_in_groups_that_grow(tmp_path: Path) -> None:
    stand_in = StandIn(every)
    sink = swept(stand_in, job_of(tmp_path, trials=211))
    ids = [result.trial.id for result in sink.results]
    assert len(ids) == len(set(ids)) == 211
    sizes = [len(sent) for sent in stand_in.sent]
    assert sizes[0] == 1 and max(sizes) > 5, "from one trial to a second's worth"
    assert {o["max_retries"] for o in stand_in.options_seen} == {0}, "the driver alone tries again"
    assert {o["num_gpus"] for o in stand_in.options_seen} == {0}


def test_what_a_lost_task_had_not_told_runs_again(tmp_path: Path) -> None:
    def answer(number: int, trials: list[Any]) -> Any:
        if number % 3 == 0:
            return Errors.RayError("the node died")
        return range(len(trials) - len(trials) // 2)  # the second is over before the rest

    sink = swept(StandIn(answer), job_of(tmp_path, trials=101))
    assert sorted(r.trial.seed for r in sink.results) == list(range(101))
    assert {r.state for r in sink.results} == {"done"}


@pytest.mark.parametrize(
    ("error", "state", "times"),
    [(Errors.RayError("gone"), "crashed", 20), (Errors.OutOfMemoryError("full"), "oom", 3)],
)
def test_a_trial_that_is_always_lost_ends(
    tmp_path: Path, error: Exception, state: str, times: int
) -> None:
    stand_in = StandIn(lambda number, trials: error)
    (result,) = swept(stand_in, job_of(tmp_path, trials=1)).results
    assert (result.state, len(stand_in.sent)) == (state, times)
    assert f"lost {times} times, at last: {type(error).__name__}: {error}" in result.error


def test_a_sick_node_costs_an_attempt_and_an_unfit_study_the_sweep(tmp_path: Path) -> None:
    def sick_once(number: int, trials: list[Any]) -> Any:
        return every(number, trials) if number else pack({"sick": "its disk is full"})

    assert len(swept(StandIn(sick_once), job_of(tmp_path, trials=7)).results) == 7
    unfit = StandIn(lambda number, trials: pack({"unfit": "torch differs"}))
    with pytest.raises(UsageError, match="torch differs"):
        swept(unfit, job_of(tmp_path, trials=7))
    assert unfit.cancelled, "what still ran was cancelled"
    failing = StandIn(lambda number, trials: Errors.RayTaskError("x\nModuleNotFoundError: attnlab"))
    with pytest.raises(AttnlabError, match="ModuleNotFoundError: attnlab\nevery node needs"):
        swept(failing, job_of(tmp_path, trials=2))


def test_the_trial_asks_for_its_gpu(tmp_path: Path) -> None:
    job = job_of(tmp_path, device="cuda", trials=3)
    here = [job.study.trial(9, kind="ok", device="cpu")]
    stand_in = StandIn(every, CPU=4.0, GPU=2.0)
    sink = swept(stand_in, replace(job, trials=[*job.trials, *here]))
    assert sorted(o["num_gpus"] for o in stand_in.options_seen) == [0, 1, 1, 1]
    assert len(sink.results) == 4
    with pytest.raises(UsageError, match="no node of the Ray cluster has one"):
        swept(StandIn(every), job)


def test_workers_bound_what_is_in_flight(tmp_path: Path) -> None:
    seen: list[int] = []

    class Counting(StandIn):
        def wait(self, tasks: list[int], num_returns: int, timeout: float) -> Any:
            seen.append(len(tasks))
            return super().wait(tasks[:1], 1, timeout)

    swept(Counting(every, CPU=64.0), job_of(tmp_path, trials=50, workers=3), exactly=True)
    assert max(seen) == 3
    seen.clear()
    swept(Counting(every, CPU=3.0), job_of(tmp_path, trials=50))
    assert max(seen) == 6, "the second of each core waits there"


def common_of(job: Job, mark: str = "mark") -> bytes:
    return terms_bytes(Terms.of(job), job.study.name, job.study.version, mark)


def frames(data: bytes) -> list[dict[str, Any]]:
    return [message for message, _ in Unpacker().feed(data)]


@pytest.fixture
def no_pool_left() -> Any:
    yield
    kept: dict[str, Any] = ray_task._kept  # pyright: ignore[reportPrivateUsage]
    for pool in kept.values():
        pool.close()
    kept.clear()


def test_a_task_keeps_its_worker_and_stops_after_a_second(
    tmp_path: Path, no_pool_left: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    job = job_of(tmp_path, trials=11, bad=("vanish",), sleep=0.01)
    asked = json.dumps([[dict(t.config), t.seed] for t in job.trials]).encode()
    monkeypatch.setattr(ray_task, "TASK_SECONDS", 60.0)  # on a busy machine a second is short
    told = frames(run_group(common_of(job), asked))
    assert [m["index"] for m in told] == list(range(12))
    assert [m["state"] for m in told] == ["done"] * 11 + ["crashed"]
    (kept,) = ray_task._kept.values()  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setattr(ray_task, "TASK_SECONDS", 0.0)
    assert [m["index"] for m in frames(run_group(common_of(job), asked))] == [0]
    assert kept.queue == deque()
    assert [*ray_task._kept.values()] == [kept]  # pyright: ignore[reportPrivateUsage]
    monkeypatch.setenv(ray_task.GPUS, "1")
    run_group(common_of(job), asked)
    assert [*ray_task._kept.values()] != [kept]  # pyright: ignore[reportPrivateUsage]


def test_another_version_on_a_node_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    common = common_of(job_of(tmp_path))
    monkeypatch.setattr(ray_task, "versions", lambda: {"attnlab": "0.0.7"})
    (told,) = frames(run_group(common, b"[]"))
    assert "a node has attnlab 0.0.7" in told["unfit"]


def test_checkpoints_lie_in_the_run_where_the_node_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    job = job_of(tmp_path)
    told = json.loads(common_of(job))
    here = ray_task._terms_on_this_node  # pyright: ignore[reportPrivateUsage]
    alone = here(told)
    assert Path(alone.introduction["checkpoints"]).is_relative_to(alone.introduction["scratch"])
    job.scratch.mkdir()
    (job.scratch / "mark").touch()
    shared = here(told)
    assert shared.introduction["checkpoints"] == str(job.checkpoints.resolve())
    assert shared.introduction["scratch"] != alone.introduction["scratch"]


def test_without_ray_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnlab.core.extras.find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"^engine 'ray' needs ray: .*'attnlab\[cluster\]'$"):
        engine_named("ray")
    monkeypatch.setattr("attnlab.core.extras.find_spec", lambda name: name)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.53.1")
    with pytest.raises(UsageError, match=r"this is 2\.53\.1"):
        engine_named("ray")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.54.0rc1")
    assert engine_named("ray").elsewhere


@pytest.mark.parametrize("address", ["", ":", "x", "x:y", "ray://x:1", "x:0", "x:70001"])
def test_an_address_is_host_and_port(address: str) -> None:
    with pytest.raises(UsageError, match="host:port"):
        check_address(address)


def test_nobody_at_the_address() -> None:
    with pytest.raises(MissingError, match=r"no Ray cluster at 127\.0\.0\.1:1: "):
        check_address("127.0.0.1:1")
    check_address("auto")
    check_address(None)


@needs_ray
@pytest.mark.slow
def test_a_cluster_that_dies_loses_nothing(tmp_path: Path) -> None:
    """300 trials; 5 nodes, 20 workers and the driver killed: 300 stored, none twice, same bits."""
    settings = {"trials": 300, "sleep": 0.2}
    words = [sys.executable, str(HERE / "ray_chaos.py"), str(tmp_path / "ray")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["killed"] == {"node": 5, "worker": 20, "driver": 1}
    assert (found["code"], found["twice"]) == (0, 0)
    (path,) = (tmp_path / "ray").glob("tiny-*")
    record = Record.open(path)
    assert record.verify().ok and len(record.table().done()) == 300
    here = run_tiny(tmp_path / "local", workers=2, **settings)
    assert found["digest"] == record.digest() == here.digest()


@needs_ray
@pytest.mark.slow
def test_the_command_with_a_cluster_of_its_own(tmp_path: Path) -> None:
    """Every misfortune has the state it has here, and a second call runs nothing."""
    bad = ["exception", "segfault", "vanish", "loop", "memory", "nan"]
    settings = [f"--set=bad={json.dumps(bad)}", "--set=trial_seconds=2.0"]
    words = [sys.executable, "-m", "attnlab", "run", str(TINY), "--device", "cpu", *settings]
    documents = {}
    for name, chosen in {"local": [], "ray": ["--engine", "ray"]}.items():
        out = ["--out", str(tmp_path / name), "--json", "--workers", "2"]
        done = subprocess.run(
            [*words, *chosen, *out], capture_output=True, text=True, timeout=300, check=False
        )
        assert done.returncode == 1, done.stderr  # some trials failed, as they should
        documents[name] = json.loads(done.stdout)["trials"]
    assert documents["ray"] == documents["local"]
    digests = {n: Record.open(next((tmp_path / n).iterdir())).digest() for n in ("local", "ray")}
    assert digests["ray"] == digests["local"]
    assert not [p for p in os.listdir(tmp_path / "ray") if p.startswith(".partial")]
