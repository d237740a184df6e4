import math
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from attnlab.core.errors import IntegrityError, RunInUseError, UsageError
from attnlab.training.atomic_folder import lock_folder
from attnlab.training.checkpoint import CheckpointWarning, best_checkpoint, latest_checkpoint
from attnlab.training.determinism import environment
from attnlab.training.log import MetricLog, parse_log
from attnlab.training.loop import train
from attnlab.training.result import Hooks, Progress, TrainResult
from attnlab.training.schedule import learning_rate

from .tiny import IGNORE, Endless, Tiny, dev_loss, digest, settings


def stopping(after: int) -> Hooks:
    asked = iter([False] * after + [True])
    return Hooks(evaluate=dev_loss, stop=lambda: next(asked))


def run(folder: Path | None, hooks: Hooks | None = None, **values: Any) -> TrainResult:
    wanted = hooks or Hooks(evaluate=dev_loss)
    return train(Tiny(), Endless(), settings(**values), checkpoints=folder, hooks=wanted)


def steps_in(folder: Path) -> list[int]:
    return sorted(int(path.name.removeprefix("step-")) for path in folder.glob("step-*"))


def test_it_learns_and_says_how() -> None:
    told: list[Progress] = []
    hooks = Hooks(evaluate=dev_loss, progress=told.append)
    model = Tiny()
    wanted = settings(steps=60, learning_rate=0.03, evaluate_every=25)
    found = train(model, Endless(), wanted, hooks=hooks)
    assert found.ending == "done" and found.steps == 60 and found.problem == ""
    assert sum(found.losses[-5:]) < 0.6 * sum(found.losses[:5])
    assert [line["step"] for line in found.log] == list(range(1, 61))
    assert [line["step"] for line in found.log if "value" in line] == [25, 50, 60]
    scored = [(Endless().batch(step).targets != IGNORE).sum().item() for step in range(60)]
    assert [line["tokens"] for line in found.log] == [sum(scored[: n + 1]) for n in range(60)]
    for step, line in enumerate(found.log):
        assert line["learning_rate"] == learning_rate(step, wanted)
    assert found.best_value == min(line["value"] for line in found.log if "value" in line)
    assert [p.step for p in told] == list(range(1, 61)) and {p.steps for p in told} == {60}
    assert [p.loss for p in told] == list(found.losses)
    assert told[0].tokens_per_second is None and (told[-1].tokens_per_second or 0) > 0
    assert not model.training, "left ready for use"


@pytest.mark.parametrize("at", range(12))
def test_stopped_at_any_step_and_run_again_is_the_same(in_memory: Path, at: int) -> None:
    whole = run(in_memory / "whole")
    assert run(in_memory / "own", stopping(at)).ending == "stopped"
    again = run(in_memory / "own")
    assert again.log == whole.log and (again.best_step, again.best_value) == (
        whole.best_step,
        whole.best_value,
    )
    assert digest(in_memory / "own") == digest(in_memory / "whole")


@pytest.mark.parametrize(
    "choice",
    [
        {"optimizer": "sgd", "momentum": 0.9},
        {"optimizer": "sgd"},
        {"optimizer": "adagrad"},
        {"accumulate": 3, "precision": "bfloat16"},
    ],
    ids=["momentum", "sgd", "adagrad", "pieces"],
)
def test_every_optimizer_resumes(in_memory: Path, choice: dict[str, Any]) -> None:
    run(in_memory / "whole", **choice)
    for after in (4, 3):
        assert run(in_memory / "own", stopping(after), **choice).ending == "stopped"
    run(in_memory / "own", **choice)
    assert digest(in_memory / "own") == digest(in_memory / "whole")


def test_a_lost_buffer_would_be_seen(in_memory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: the counting buffer is not stored, and the bits differ."""
    run(in_memory / "whole")
    run(in_memory / "own", stopping(5))
    real = Tiny.forward

    def forgetful(self: Tiny, ids: torch.Tensor) -> torch.Tensor:
        self.calls.zero_()
        return real(self, ids)

    monkeypatch.setattr(Tiny, "forward", forgetful)
    run(in_memory / "own")
    assert digest(in_memory / "own") != digest(in_memory / "whole")


def test_a_finished_training_does_nothing_new(in_memory: Path) -> None:
    first = run(in_memory / "own")
    before = {path: path.stat().st_mtime_ns for path in (in_memory / "own").rglob("step-*")}
    second = run(in_memory / "own", Hooks(evaluate=lambda model: pytest.fail("evaluated again")))
    assert second == first
    assert before == {path: path.stat().st_mtime_ns for path in (in_memory / "own").rglob("step-*")}


def test_the_best_checkpoint_is_kept_beside_the_newest(in_memory: Path) -> None:
    values = iter([3.0, 1.0, math.nan, 2.0, 5.0, 1.0])
    seen: list[dict[str, torch.Tensor]] = []

    def evaluate(model: nn.Module) -> dict[str, float]:
        seen.append({name: p.clone() for name, p in model.state_dict().items()})
        return {"value": next(values), "accuracy": 0.25}

    found = run(in_memory, Hooks(evaluate=evaluate), evaluate_every=2, checkpoint_every=5)
    assert (found.best_step, found.best_value) == (4, 1.0), "of equals the first, never a NaN"
    assert steps_in(in_memory) == [4, 10, 12]
    logged = [(line["step"], line["value"]) for line in found.log if "value" in line]
    assert logged == [(2, 3.0), (4, 1.0), (6, None), (8, 2.0), (10, 5.0), (12, 1.0)]
    assert found.log[3]["accuracy"] == 0.25
    model = Tiny(seed=77)
    best_checkpoint(in_memory).load_model(model)
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, seen[1][name]), name


@pytest.mark.parametrize("found", [{"accuracy": 1.0}, {"value": 1.0, "loss": 2.0}])
def test_an_evaluation_that_would_confuse_the_log(found: dict[str, float]) -> None:
    with pytest.raises(UsageError, match=r"evaluate: needs a 'value', and no .*loss"):
        run(None, Hooks(evaluate=lambda model: found))


def test_a_checkpoint_that_may_be_gone_back_to_keeps_its_best(in_memory: Path) -> None:
    """The best step of checkpoint 9 is 2: a new best at 10 must not delete 2 while 9 is kept."""
    values = iter([1.0, 4.0, 3.0, 2.0, 0.5, 9.0])
    hooks = Hooks(evaluate=lambda model: next(values), stop=iter([False] * 10 + [True]).__next__)
    run(in_memory, hooks, evaluate_every=2, checkpoint_every=3)
    assert steps_in(in_memory) == [2, 9, 10]
    (in_memory / "step-00000010" / "model.safetensors").write_bytes(b"")
    with pytest.warns(CheckpointWarning, match=r"step-00000010/model\.safetensors"):
        assert best_checkpoint(in_memory).state.step == 2


def test_without_evaluation_the_last_is_the_best(in_memory: Path) -> None:
    found = run(in_memory, Hooks(), checkpoint_every=0)
    assert found.best_step is None and steps_in(in_memory) == [12]
    assert best_checkpoint(in_memory).state.step == 12


def test_nothing_global_moves_and_nothing_global_matters() -> None:
    model, before = Tiny(), torch.default_generator.get_state()
    one = train(model, Endless(), settings(), hooks=Hooks(evaluate=dev_loss))
    assert torch.equal(torch.default_generator.get_state(), before)
    torch.rand(5)
    other = run(None)
    assert one.losses == other.losses
    assert run(None, seed=1).losses != one.losses, "dropout draws from the seed of the settings"
    assert not torch.are_deterministic_algorithms_enabled()
    assert run(None, deterministic=True).losses == one.losses
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize(
    "change", [{"learning_rate": 2e-3}, {"steps": 13}, {"accumulate": 2}, {"seed": 5}]
)
def test_another_training_needs_another_folder(in_memory: Path, change: dict[str, Any]) -> None:
    run(in_memory, stopping(5))
    (name,) = change
    with pytest.raises(UsageError, match=f"trained with {name} = "):
        run(in_memory, **change)
    found = run(in_memory, stopping(2), checkpoint_every=1, keep=3)
    assert found.steps == 7, "how often it is stored may change"


def test_other_data_and_another_model_are_refused(in_memory: Path) -> None:
    run(in_memory, stopping(5))
    with pytest.raises(UsageError, match="other data"):
        train(Tiny(), Endless(seed=1), settings(), checkpoints=in_memory)
    for name, change in [("'mix.bias'", {"bias": False}), ("float64", {"dtype": torch.float64})]:
        model = Tiny()
        model.mix = nn.Linear(7, 7, **change)
        with pytest.raises(UsageError, match=f"another model: .*{name}"):
            train(model, Endless(), settings(), checkpoints=in_memory)
    assert run(in_memory).ending == "done"


def test_other_threads_are_said_and_remembered(
    in_memory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(in_memory, stopping(3)).bit_comparable
    monkeypatch.setattr(torch, "get_num_threads", lambda: 97)
    with pytest.warns(CheckpointWarning, match=r"threads \d+ -> 97.*not bit-comparable"):
        assert not run(in_memory, stopping(3)).bit_comparable
    monkeypatch.undo()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not run(in_memory).bit_comparable


def test_diverged_leaves_the_checkpoints_alone(in_memory: Path) -> None:
    """The learning rate is far too large: the run ends at the first number that is not finite."""
    choice = {"optimizer": "sgd", "learning_rate": 1e30, "clip": 0.0, "warmup_fraction": 0.0}
    found = run(in_memory, Hooks(), checkpoint_every=1, **choice)
    assert found.ending == "diverged" and f"step {found.steps + 1}: " in found.problem
    assert 1 <= found.steps < 12 and steps_in(in_memory)[-1] == found.steps
    before = {path: path.read_bytes() for path in in_memory.rglob("*") if path.is_file()}
    assert run(in_memory, Hooks(), checkpoint_every=1, **choice) == found
    assert before == {path: path.read_bytes() for path in in_memory.rglob("*") if path.is_file()}


def test_one_process_at_a_time(in_memory: Path) -> None:
    with lock_folder(in_memory), pytest.raises(RunInUseError, match="another process"):
        run(in_memory)
    assert run(in_memory).ending == "done"


def test_the_log_beside_the_checkpoints_is_put_right(in_memory: Path) -> None:
    run(in_memory / "whole")
    run(in_memory / "own", stopping(5))
    live = in_memory / "own" / "log.jsonl"
    live.write_bytes(live.read_bytes() + b'{"step": 6, "los')  # killed while it wrote a line
    run(in_memory / "own")
    assert live.read_bytes() == (in_memory / "whole" / "log.jsonl").read_bytes()
    live.unlink()
    run(in_memory / "own")
    assert live.read_bytes() == (in_memory / "whole" / "log.jsonl").read_bytes()


def test_a_log_with_a_hole_is_refused() -> None:
    log = MetricLog()
    for step in (1, 2, 3):
        log.add({"step": step, "loss": 0.1})
    assert [line["step"] for line in parse_log(log.data)] == [1, 2, 3]
    log.add({"step": 3, "loss": 0.1})
    for data in (log.data, b'{"step": 2}\n', b"[]\n", b"{", b'{"loss": 1}\n'):
        with pytest.raises(IntegrityError, match="log"):
            parse_log(data)


def test_it_trains_in_training_mode() -> None:
    resting = Tiny().eval()
    found = train(resting, Endless(), settings(), hooks=Hooks(evaluate=dev_loss))
    assert found.losses == run(None).losses, "dropout is on, whatever mode it came in"


def test_batches_are_made_once_each_and_in_order(in_memory: Path) -> None:
    class Counted(Endless):
        asked: list[int] = []  # noqa: RUF012

        def batch(self, step: int) -> Any:
            self.asked.append(step)
            return super().batch(step)

    train(Tiny(), Counted(), settings(), checkpoints=in_memory)
    assert Counted.asked == list(range(12))


def test_the_state_is_what_the_loop_says(in_memory: Path) -> None:
    found = run(in_memory)
    newest = latest_checkpoint(in_memory)
    assert newest is not None
    state = newest.state
    assert (state.step, state.tokens, state.best_step) == (12, found.tokens, found.best_step)
    assert state.settings == settings().identity() and "keep" not in state.settings
    assert [dict(e) for e in state.environments] == [environment(torch.device("cpu"))]
