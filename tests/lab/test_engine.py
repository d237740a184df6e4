import os
import signal
import textwrap
from itertools import pairwise
from pathlib import Path

import pytest

from attnlab.core.errors import AttnlabError, UsageError
from attnlab.lab.engine import Result, engine_named
from attnlab.lab.engine.pool import default_workers
from attnlab.lab.engine.wire import Unpacker, pack, tail
from attnlab.lab.execute import Silent, execute, running
from attnlab.lab.plan import Plan
from attnlab.lab.source import Source, load_study_class, read_source, source_of
from attnlab.lab.trial import Trial

from .conftest import TINY, Processes, run_tiny, tiny

BAD = ["exception", "exit", "segfault", "vanish", "loop", "memory", "nan", "wrong"]
ENDS = ["failed", "failed", "crashed", "crashed", "timeout", "oom", "diverged", "failed"]


def test_one_of_every_misfortune_and_the_others_finish(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TINY_COUNTER", str(tmp_path / "counter"))
    record = run_tiny(tmp_path, workers=2, trials=5, bad=BAD, trial_seconds=2.0)
    rows = {row.config["kind"]: row for row in record.table() if row.config["kind"] != "ok"}
    assert {kind: rows[kind].state for kind in BAD} == dict(zip(BAD, ENDS, strict=True))
    assert len(record.table().done()) == 5
    assert "ValueError: on purpose" in rows["exception"].error
    assert "SIGSEGV, 3 of 3" in rows["segfault"].error and "in segfault" in rows["segfault"].error
    assert "exit code 7, 3 of 3" in rows["vanish"].error
    assert "a study may print" in rows["vanish"].error
    assert "after 2 s" in rows["loop"].error and rows["loop"].cost["seconds"] >= 2
    assert rows["nan"].metrics == {"loss": None, "steps": 3}
    assert rows["nan"].reasons == {"loss": "not finite: nan"}
    assert "must return an Outcome" in rows["wrong"].error
    assert str(TINY.parent) not in "".join(row.error for row in rows.values())
    executed = (tmp_path / "counter").read_text().split()
    tries = {kind: executed.count(rows[kind].id) for kind in BAD}
    assert tries == {kind: 3 if kind in ("segfault", "vanish") else 1 for kind in BAD}
    assert record.verify().ok

    again = run_tiny(tmp_path, workers=2, trials=5, bad=BAD, trial_seconds=2.0)
    assert again.digest() == record.digest()
    repeated = (tmp_path / "counter").read_text().split()[len(executed) :]
    assert set(repeated) == {rows[kind].id for kind in BAD if kind != "nan"}, "nan is an answer"


def test_killed_from_outside_near_its_limit_means_out_of_memory(tmp_path: Path) -> None:
    record = run_tiny(tmp_path, trials=1, bad=["killed", "oom-killed"], trial_memory_gb=1.0)
    states = {row.config["kind"]: row.state for row in record.table()}
    assert states == {"ok": "done", "killed": "crashed", "oom-killed": "oom"}
    assert all("SIGKILL" in row.error for row in record.table() if row.state != "done")


def test_the_number_of_workers_changes_nothing(tmp_path: Path) -> None:
    one = run_tiny(tmp_path / "one", workers=1, trials=6)
    two = run_tiny(tmp_path / "two", workers=2, trials=6)
    three = run_tiny(tmp_path / "three", workers=3, trials=6)
    assert one.digest() == two.digest() == three.digest()
    assert [r.arrays["values"].tolist() for r in one.table()] == [
        r.arrays["values"].tolist() for r in two.table()
    ]


def test_running_twice_does_nothing_new(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TINY_COUNTER", str(tmp_path / "counter"))
    record = run_tiny(tmp_path, trials=3)
    before = {p: p.read_bytes() for p in record.path.rglob("*") if p.is_file()}
    run_tiny(tmp_path, trials=3)
    after = {p: p.read_bytes() for p in record.path.rglob("*") if p.is_file()}
    assert before == after
    assert len((tmp_path / "counter").read_text().split()) == 3


def test_workers_have_one_thread_and_a_clean_path(tmp_path: Path) -> None:
    file = tmp_path / "where.py"
    file.write_text(
        STUDY.replace("self.trial(0)", "self.trial(0), self.trial(1)").format(
            body="""
            import os, sys, torch
            if trial.seed: torch.ones(1 << 42)
            return Outcome({"threads": torch.get_num_threads(), "here": "" in sys.path,
                            "session": os.getsid(0) == os.getpid(),
                            "hash": hash("x"), "device": context.device})
            """
        )
    )
    source = read_source(str(file))
    study = load_study_class(source).at()
    record = execute(Plan.of(study, source), out=tmp_path, workers=1)
    assert sorted(row.state for row in record.table()) == ["done", "oom"], "torch's own error"
    (row,) = record.table().done()
    assert row.metrics["threads"] == 1 and row.metrics["here"] is False
    assert row.metrics["session"] is True and row.metrics["device"] == "cpu"


def test_a_study_edited_while_it_runs_or_rests(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    file.write_text(STUDY.format(body='return Outcome({"x": 1.0})'))
    source = read_source(str(file))
    study = load_study_class(source).at()
    file.write_text(STUDY.format(body='return Outcome({"x": 2.0})'))
    record = execute(Plan.of(study, source), out=tmp_path, workers=1)
    assert record.table().rows[0].metrics == {"x": 1.0}, "the code read first is the code run"
    with pytest.raises(UsageError, match="--accept-edits"), running(plan_of(file), out=tmp_path):
        pass
    with running(plan_of(file), out=tmp_path, accept_edits=True) as same:
        assert same.digest() == record.digest(), "claims may be edited without a new trial"
        assert not same.complete, "conclusions are drawn again"
        same.seal()
    with running(plan_of(file), out=tmp_path) as same:
        assert same.complete, "accepted once is accepted"


def plan_of(file: Path) -> Plan:
    return Plan.of(load_study_class(str(file)).at(), str(file))


@pytest.mark.parametrize("helper", ["helper.py", "inner.py", "folder/__init__.py"])
def test_an_edited_helper_is_an_edited_study(tmp_path: Path, helper: str) -> None:
    (tmp_path / "folder").mkdir()
    for name, text in {
        "helper.py": "import inner\nX = 1.0\n",
        "inner.py": "from folder import Y\n",
        "folder/__init__.py": "Y = 1\n",
        "unrelated.py": "Z = 1\n",
    }.items():
        (tmp_path / name).write_text(text)
    file = tmp_path / "main.py"
    file.write_text(STUDY.format(body='import helper; return Outcome({"x": 1.0})'))
    before = read_source(str(file)).sha256
    (tmp_path / "unrelated.py").write_text("Z = 2\n")
    assert read_source(str(file)).sha256 == before
    (tmp_path / helper).write_text((tmp_path / helper).read_text() + "# edited\n")
    assert read_source(str(file)).sha256 != before


def test_a_built_in_study_has_a_hash_of_its_folder() -> None:
    one, other = read_source("counting"), read_source("phase-transition")
    assert one.sha256 == read_source("counting").sha256 != other.sha256
    assert one.as_json() == {"study": "counting", "sha256": one.sha256}


def test_trials_of_an_edited_file_are_not_mixed(tmp_path: Path) -> None:
    file = tmp_path / "mixed.py"
    text = STUDY.replace("self.trial(0)", "self.trial(0), self.trial(1)")
    file.write_text(text.format(body='return Outcome({"x": 1.0 / (1 - trial.seed)})'))
    out = tmp_path / "out"
    execute(Plan.of(load_study_class(str(file)).at(), str(file)), out=out, workers=1)
    file.write_text(text.format(body='return Outcome({"x": 2.0})'))
    with pytest.raises(UsageError, match="raise `version`"):
        study = load_study_class(str(file)).at()
        execute(Plan.of(study, str(file)), out=out, workers=1)


STUDY = textwrap.dedent("""
    from attnlab.lab.study import Study
    from attnlab.lab.trial import Outcome

    class Mine(Study):
        name = "mine"
        question = "?"

        def trials(self):
            return [self.trial(0)]

        def run(self, trial, context):
            {body}

        def claims(self, table):
            return []
""")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1", "defines no subclass of Study"),
        ("def (", "SyntaxError"),
        ("raise RuntimeError('no')", "RuntimeError: no"),
        (STUDY.format(body="pass") + "\nclass Second(Mine): pass", "defines 2 studies"),
        (STUDY.format(body="pass").replace('"mine"', '"../mine"'), "`name` must match"),
    ],
)
def test_a_file_that_is_no_study(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "odd.py"
    file.write_text(text)
    with pytest.raises(UsageError, match=words):
        load_study_class(str(file))


def test_sources(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did you mean 'phase-transition'"):
        read_source("phase-transitoin")
    with pytest.raises(UsageError, match="No such file"):
        read_source(str(tmp_path / "absent.py"))
    (tmp_path / "latin.py").write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not a Python file"):
        read_source(str(tmp_path / "latin.py"))
    source = read_source(str(TINY))
    found = source.as_json()
    assert isinstance(found, dict) and found["file"] == "tiny_study.py"
    assert source_of(load_study_class(source).at()) == source
    assert Source("phase-transition").as_json()["study"] == "phase-transition"


def test_engines_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="belongs to engine 'ray'"):
        engine_named("local", address="auto")
    with pytest.raises(UsageError, match="did you mean 'local'"):
        execute(Plan.of(tiny(), str(TINY)), out=tmp_path, engine="locl")
    assert not list(tmp_path.iterdir()), "refused before anything was written"
    with pytest.raises(UsageError, match="workers"):
        run_tiny(tmp_path, workers=0)
    assert default_workers("cuda") == 1 and default_workers("cpu") >= 1


def test_study_with_doubled_or_foreign_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = tiny(trials=2)
    for trials, words in [
        ([], "no trials"),
        ([study.trial(1), study.trial(1)], "1 trials twice"),
        ([Trial("other", 1, {}, 0)], "a trial of 'other'"),
        ([study.trial(1 << 63)], "64 bits"),
    ]:
        monkeypatch.setattr(study, "trials", lambda trials=trials: trials)
        with pytest.raises(UsageError, match=words):
            execute(Plan.of(study, str(TINY)), out=tmp_path)


def test_a_sink_that_raises_leaves_no_worker(tmp_path: Path, processes: Processes) -> None:
    class Broken(Silent):
        def advance(self, trial: Trial, state: str) -> None:
            raise AttnlabError("the screen is gone")

    os.environ["TINY_MARK"] = processes.mark
    try:
        with pytest.raises(AttnlabError, match="screen"):
            execute(Plan.of(tiny(trials=60), str(TINY)), out=tmp_path, progress=Broken())
    finally:
        del os.environ["TINY_MARK"]
    assert processes.all_gone()
    assert not list(next(tmp_path.glob("tiny-*")).glob(".partial-*"))


def test_frames_survive_any_cut() -> None:
    frames = [({"a": 1}, b""), ({"b": "ü"}, bytes(range(256))), ({}, b"x" * 1000)]
    data = b"".join(pack(message, blob) for message, blob in frames)
    for size in (1, 3, 7, 100, len(data)):
        unpacker = Unpacker()
        heard = []
        for start in range(0, len(data), size):
            heard += unpacker.feed(data[start : start + size])
        assert heard == frames


def test_tail_keeps_the_end_without_folders() -> None:
    text = "\n".join(f"line {n}" for n in range(100)) + '\n  File "/home/me/x/y.py", line 3'
    assert tail(text).endswith('line 99\n  File "x/y.py", line 3') and len(tail(text)) < 400
    assert Result(Trial("s", 1, {}, 0), "done").outcome is None
    assert signal.SIGKILL == 9


TURNS = """
import os, time
from itertools import pairwise
from pathlib import Path
from attnlab.lab.study import Study
from attnlab.lab.trial import Outcome

class Turns(Study):
    name = "turns"
    question = "Who holds the accelerator?"
    shares_accelerator = SHARES
    def trials(self):
        return [self.trial(i, device="cuda" if i % 2 else "cpu") for i in range(17)]
    def run(self, trial, context):
        start = time.monotonic()
        time.sleep(0.2)  # so many that no worker ends before the others have begun
        return Outcome({"pid": os.getpid()}, cost={"start": start, "end": time.monotonic()})
    def claims(self, table):
        return []
"""


@pytest.mark.parametrize("shares", [False, True])
def test_an_accelerator_holds_one_trial_at_a_time_unless_shared(
    tmp_path: Path, shares: bool
) -> None:
    file = tmp_path / "turns.py"
    file.write_text(TURNS.replace("SHARES", str(shares)))
    study = load_study_class(str(file)).at()
    record = execute(Plan.of(study, str(file)), out=tmp_path / "runs", workers=3)
    spans = sorted(
        (row.cost["start"], row.cost["end"], row.config["device"]) for row in record.table()
    )
    assert len(spans) == 17
    assert overlaps(spans), "three workers, and nothing ran beside anything else"
    assert overlaps([span for span in spans if span[2] == "cuda"]) == shares


def overlaps(spans: list[tuple[float, float, str]]) -> bool:
    return any(second[0] < first[1] for first, second in pairwise(spans))
