"""Teams of processes that shard a model; each member is a fork of this process.

    python sharded_teams.py FOLDER NAME …   prints one JSON line per team: what each member returned

torch is loaded once, so a team costs a second or less.
"""

import json
import os
import socket
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import torch
from stack import Stack, content
from tiny import ROWS, Endless, Tiny, dev_loss, one_thread, settings
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from attnlab.core.errors import AttnlabError, StorageError
from attnlab.training import fsdp
from attnlab.training.checkpoint import latest_checkpoint
from attnlab.training.fsdp import ShardedProcessGroup
from attnlab.training.loop import train
from attnlab.training.optimizer import build_optimizer, optimizer_tensors
from attnlab.training.ranks import Ranks, join_process_group
from attnlab.training.result import Hooks, TrainResult
from attnlab.training.sharded_checkpoint import write_shards
from attnlab.training.tensors import local_tensor, model_tensors
from attnlab.training.update import Updater, nll

Work = Callable[[Ranks], Any]
STEPS = 12


scene = ""


def say(**line: Any) -> None:
    print(json.dumps({"scene": scene, **line}), flush=True)


def team(name: str, size: int, work: Work, cut: bool = True) -> list[Any]:
    """Run `work` in `size` forks; return {"found": …} or {"error": …} of each, by rank."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    shared |= {"GLOO_SOCKET_IFNAME": "lo"} if sys.platform == "linux" else {}
    pipes = []
    for rank in range(size):
        read, write = os.pipe()
        if os.fork() == 0:
            os.environ |= {**shared, "RANK": str(rank)}
            member(write, work, cut)
        os.close(write)
        pipes.append(read)
    told = []
    for pipe in pipes:
        with os.fdopen(pipe) as stream:
            told.append(json.loads(stream.read() or '{"error": "silent"}'))
    for _ in range(size):
        os.wait()
    say(name=name, size=size, told=told)
    return told


def member(write: int, work: Work, cut: bool) -> None:
    try:
        with join_process_group("cpu", cut) as ranks:
            said = {"found": work(ranks)}
    except AttnlabError as error:
        said = {"error": f"{type(error).__name__}: {error}"}
    except BaseException:
        traceback.print_exc()
        said = {"error": "crash"}
    os.write(write, json.dumps(said).encode())
    sys.stderr.flush()
    os._exit(0)


def training(folder: Path | None, ranks: Ranks, until: int = STEPS, **more: Any) -> TrainResult:
    """Train in float64; the process stops after `until` steps."""
    left = iter([False] * until + [True] * 2)
    model = more.pop("model", None) or Stack(noisy=False, dtype=torch.float64)
    loss = more.pop("loss", nll)
    hooks = Hooks(evaluate=dev_loss, stop=lambda: next(left))
    asked = settings(**({"steps": STEPS, "accumulate": 3} | more))
    return train(model, Endless(), asked, loss=loss, checkpoints=folder, hooks=hooks, ranks=ranks)


def distance(folder: Path, other: Path, dtype: torch.dtype = torch.float64) -> float:
    """||ours - theirs|| / ||theirs|| over all weights of the newest checkpoints."""
    ours, theirs = flat(folder, dtype), flat(other, dtype)
    return float((ours - theirs).norm() / theirs.norm())


def flat(folder: Path, dtype: torch.dtype) -> Tensor:
    found, model = latest_checkpoint(folder), Stack(noisy=False, dtype=dtype)
    assert found is not None
    found.load_model(model)
    return torch.cat([t.detach().double().flatten() for t in model_tensors(model).values()])


def equal(folder: Path) -> None:
    """2, 3 and 5 processes of 8 rows: the last of five has none."""
    training(folder / "one", Ranks())
    for size in (2, 3, 5):
        own = folder / f"of-{size}"
        team("equal", size, lambda ranks, own=own: bool(training(own, ranks)))
        one, several = latest_checkpoint(folder / "one"), latest_checkpoint(own)
        assert one is not None and several is not None
        same = (one.state.data, one.state.tokens) == (several.state.data, several.state.tokens)
        say(name="distance", far=distance(own, folder / "one"), same=same)


def averaged(folder: Path) -> None:
    """The planted fault: gradients are averaged, which is the default of FSDP."""
    asked = {"optimizer": "sgd", "learning_rate": 0.1, "clip": 0.0}
    training(folder / "one", Ranks(), **asked)

    class Averaging(ShardedProcessGroup):
        def prepare_model(self, model: nn.Module) -> None:
            super().prepare_model(model)
            for module in model.__dict__[fsdp.ROOT_ATTRIBUTE].modules():
                if isinstance(module, FSDPModule):
                    module.set_gradient_divide_factor(float(self.size))

    for name, kind in (("sum", ShardedProcessGroup), ("average", Averaging)):
        own = folder / name
        team(name, 2, lambda _, own=own, kind=kind: bool(training(own, kind("cpu"), **asked)))
        say(name="distance", far=distance(own, folder / "one"))


def held(folder: Path) -> None:
    """Count the weights, gradients and optimizer values that each process holds."""

    def count(ranks: Ranks) -> dict[str, int]:
        model = Stack(dtype=torch.float64)
        ranks.prepare_model(model)
        updater = Updater(model, build_optimizer(model, settings()), nll, settings(), ranks)
        updater.start(Endless().batch(0))
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        counts = {"weights": numbers(model.parameters()), "gradients": numbers(gradients)}
        updater.finish(0, 1e-3)
        memory = optimizer_tensors(model, updater.optimizer)
        counts["optimizer"] = numbers(t for n, t in memory.items() if not n.endswith(".step"))
        ranks.run(model, lambda m: m.eval())
        with torch.no_grad():
            ranks.run(model, dev_loss)
        counts["after"] = numbers(model.parameters())
        counts["tied"] = int(model.head.weight is model.embedding.weight)
        return counts

    say(name="whole", told=count(Ranks()))
    for size in (2, 3):
        team("held", size, count)
    team("together", 2, count, cut=False)


def numbers(tensors: Any) -> int:
    return sum(local_tensor(t.detach()).numel() for t in tensors)


def moved(folder: Path) -> None:
    """3 sharded, one alone, 2 sharded, 2 with whole models, 2 sharded: each from the last's."""
    training(folder / "one", Ranks())
    own = folder / "moved"
    team("moved", 3, lambda ranks: training(own, ranks, 2).steps)
    alone = training(own, Ranks(), 3)
    say(name="alone", steps=alone.steps, same=alone.bit_comparable)
    team("moved", 2, lambda ranks: training(own, ranks, 2).steps)
    team("moved", 2, lambda ranks: training(own, ranks, 2).steps, cut=False)
    team("moved", 2, lambda ranks: training(own, ranks).steps)
    say(name="distance", far=distance(own, folder / "one"))


def faults(folder: Path) -> None:
    """One process cannot write to the disk; the gradient of one process is not finite."""
    own = folder / "refused"

    def refused(ranks: Ranks) -> Any:
        real = write_shards

        def refusing(partial: Path, *args: Any) -> Any:
            if ranks.rank == 1 and partial.name.endswith("9"):
                raise StorageError("no space left")
            return real(partial, *args)

        setattr(fsdp, "write_shards", refusing)  # noqa: B010
        return training(own, ranks).steps

    team("refused", 2, refused)
    say(name="left", names=sorted(os.listdir(own)))

    def spoilt(ranks: Ranks) -> str:
        def loss(model: nn.Module, batch: Any) -> tuple[Tensor, Tensor]:
            assert isinstance(model, Tiny)
            total, scored = nll(model, batch)
            if ranks.rank == ranks.size - 1:
                total = total + (model.norm.bias[-1:] * 0).sum().sqrt()  # slope 0 · ∞
            return total, scored

        return training(None, ranks, loss=loss).problem

    say(name="problem", told=spoilt(Ranks()))
    team("problem", 2, spoilt)
    team("compile", 2, lambda ranks: training(None, ranks, compile=True).steps)


def frozen(folder: Path) -> None:
    """Frozen weights, and the optimizers without a fused version for sharded tensors."""

    def fixed() -> Stack:
        model = Stack(noisy=False, dtype=torch.float64)
        model.mix.requires_grad_(False)
        model.blocks[0].requires_grad_(False)
        return model

    for kind in ("sgd", "adagrad"):
        one, own = folder / f"{kind}-one", folder / kind
        training(one, Ranks(), model=fixed(), optimizer=kind)
        team("frozen", 2, lambda r, k=kind, o=own: bool(training(o, r, model=fixed(), optimizer=k)))
        say(name="distance", far=distance(own, one))


def stored(folder: Path) -> None:
    """Save checkpoints of two processes, and print the digest of the finished training."""
    team("stored", 2, lambda ranks: training(folder / "before", ranks, 9).steps)
    team("stored", 2, lambda ranks: training(folder / "whole", ranks).steps)
    say(name="content", told=content(folder / "whole", torch.float64), folder=str(folder))


def resumed(folder: Path) -> None:
    """Resume the training in each of these folders."""
    for own in sorted(folder.iterdir()):
        team("resumed", 2, lambda ranks, own=own: training(own, ranks).steps)
        say(name="content", told=content(own, torch.float64))


def main() -> None:
    one_thread()
    assert ROWS == 8
    build_optimizer(Stack(), settings())  # loads what torch loads late, before the forks
    scenes: dict[str, Callable[[Path], None]] = {
        f.__name__: f for f in (equal, averaged, held, moved, faults, frozen, stored, resumed)
    }
    folder = Path(sys.argv[1])
    global scene
    for scene in sys.argv[2:]:
        scenes[scene](folder / scene)


if __name__ == "__main__":
    main()
