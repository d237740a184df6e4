"""Several processes as one: each computes some rows of every batch, then all add up the results.

gradient = Σ over processes of the gradients of their rows, so a step is the step of one process but
for the order of additions. Every process makes the whole batch and takes its rows: the order of the
data does not depend on how many there are. A process that is gone is noticed at the next addition.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.nn.utils import get_total_norm

from attnlab.core.errors import RankLostError, UsageError
from attnlab.train.batch import split_batch
from attnlab.train.checkpoint import Snapshot, save_checkpoint

TIMEOUT_SECONDS = 45.0  # the longest wait for a process in the middle of a training
START_TIMEOUT = timedelta(days=1)  # for one that has not begun to train: it may be writing a report


class Ranks:
    """This process alone: nothing to wait for, nothing to add."""

    size, rank = 1, 0
    parts = 1  # in how many the weights, gradients and optimizer are cut

    @property
    def leads(self) -> bool:
        """The first process writes; the others compute."""
        return self.rank == 0

    def rows(self, batch: Any) -> Any:
        """This process's rows of a batch; None when there are fewer rows than processes."""
        return batch

    def turns(self, batch: Any, number: int) -> Iterator[tuple[Any, bool]]:
        """This process's rows in at most `number` pieces, and whether each of them counts."""
        mine = self.rows(batch)
        for piece in () if mine is None else split_batch(mine, number):
            yield piece, True

    def hold(self, model: nn.Module) -> None:
        """Keep of the model what this process is to hold; called before there is an optimizer."""

    def run(self, model: nn.Module, work: Callable[[nn.Module], Any]) -> Any:
        """work(model), wherever its weights lie."""
        return work(model)

    def add(
        self, parameters: Sequence[nn.Parameter], numbers: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Sums over all processes: the gradients in place, two numbers as the answer."""
        return numbers

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """√ Σ g² over the gradients, all of them."""
        return get_total_norm(gradients)

    def any(self, flag: bool) -> bool:
        """Whether it is true for any process."""
        return flag

    def agreed(self, flag: bool) -> bool:
        """The same answer for all who will act on it."""
        return flag

    def begin(self, step: int) -> None:
        """Wait until all have come to a training, and check that they start from the same step."""

    def level(self, model: nn.Module) -> None:
        """Everyone's buffers become the first process's: those a checkpoint would hold."""

    def save_checkpoint(self, folder: Path, snapshot: Snapshot) -> None:
        """Commit a checkpoint: the first process holds all there is to store."""
        if self.leads:
            save_checkpoint(folder, snapshot)

    def noticing(self) -> AbstractContextManager[None]:
        """Inside, a process that is gone is told by RankLostError."""
        return nullcontext()


class ProcessGroup(Ranks):
    """One of several processes of torch.distributed."""

    def __init__(self) -> None:
        self.size, self.rank = distributed.get_world_size(), distributed.get_rank()
        self._patient = distributed.new_group(backend="gloo", timeout=START_TIMEOUT)

    def rows(self, batch: Any) -> Any:
        """The rank-th of as many pieces as there are processes."""
        parts = list(split_batch(batch, self.size))
        return parts[self.rank] if self.rank < len(parts) else None

    def add(
        self, parameters: Sequence[nn.Parameter], numbers: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """One addition for the numbers and for who has which gradient, one for each number type.

        What no process has a gradient of keeps none: an optimizer must leave it alone.
        """
        device = numbers[0].device
        told = [*(float(n) for n in numbers), *(float(p.grad is not None) for p in parameters)]
        sums = torch.tensor(told, dtype=torch.float64, device=device)
        self._add(sums)
        moved = [p for p, count in zip(parameters, sums[2:].tolist(), strict=True) if count]
        for dtype in sorted({p.dtype for p in moved}, key=str):
            some = [p for p in moved if p.dtype == dtype]
            flat = torch.cat([_gradient(p).flatten() for p in some])
            self._add(flat)
            for p, part in zip(some, flat.split([p.numel() for p in some]), strict=True):
                p.grad = part.view_as(p)
        return sums[0], sums[1]

    def any(self, flag: bool) -> bool:
        """Whether it is true for any process."""
        sums = torch.tensor([float(flag)])
        self._add(sums)
        return bool(sums.item())

    def begin(self, step: int) -> None:
        """Sum of steps and of their squares: n Σs² = (Σs)² only if all are equal."""
        sums = torch.tensor([step, step * step], dtype=torch.int64)
        self._add(sums, self._patient)
        total, squares = sums.tolist()
        if self.size * squares != total * total:
            raise UsageError(
                f"process {self.rank} would start from step {step}, another from elsewhere: "
                "all must see the same checkpoints"
            )

    def level(self, model: nn.Module) -> None:
        """Everyone's buffers become the first process's."""
        for buffer in model.buffers():
            with translate_lost_peer():
                distributed.broadcast(buffer, 0)

    def _add(self, tensor: Tensor, group: Any = None) -> None:
        with translate_lost_peer():
            distributed.all_reduce(tensor, group=group)


def current_ranks() -> Ranks:
    """All processes of this training if it was started with several, else this one alone."""
    return _current[0] if _current else Ranks()


_current: list[ProcessGroup] = []


@contextmanager
def join_process_group(device: str, sharded: bool = False) -> Iterator[Ranks]:
    """Meet the others as RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say, as torchrun does.

    Sharded: each process holds a part of the weights, gradients and optimizer.
    """
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        if sharded:
            raise UsageError("sharded: needs several processes (--processes N, or torchrun)")
        yield Ranks()
        return
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    with translate_lost_peer():
        distributed.init_process_group(
            "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
            store=_rendezvous_store(),
            rank=int(os.environ["RANK"]),
            world_size=int(os.environ["WORLD_SIZE"]),
            timeout=timedelta(seconds=TIMEOUT_SECONDS),
        )
        _current.append(_create_group(device, sharded))
    try:
        yield _current[0]
    finally:
        _current.clear()
        distributed.destroy_process_group()


def _create_group(device: str, sharded: bool) -> ProcessGroup:
    if not sharded:
        return ProcessGroup()
    from attnlab.train.fsdp import ShardedProcessGroup  # half a second of imports

    return ShardedProcessGroup(device)


def _rendezvous_store() -> Any:
    """Where the processes find each other.

    torchrun keeps its store when it starts them again, and torch 2.13 would find the addresses of
    the dead in it: every attempt has a shelf of its own.
    """
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "False") == "True"
    store = distributed.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=os.environ["RANK"] == "0" and not by_agent,
        timeout=timedelta(seconds=TIMEOUT_SECONDS),
    )
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    shelf = f"attnlab-{attempt}"
    return distributed.PrefixStore(shelf, store)  # pyright: ignore[reportPrivateImportUsage]


@contextmanager
def translate_lost_peer() -> Iterator[None]:
    """torch tells of a peer that is gone by whatever its transport said."""
    try:
        yield
    except RuntimeError as error:
        said = (str(error).splitlines() or [""])[0][:160]
        raise RankLostError(f"another process of this training is gone: {said}") from None


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
