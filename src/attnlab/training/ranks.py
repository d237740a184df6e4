"""Data-parallel training: each process computes some rows of a batch; gradients are summed.

gradient = Σ over processes of the gradients of their rows, so a step equals the step of a single
process up to the order of additions. Every process builds the whole batch and takes its rows: the
order of the data does not depend on the number of processes. A process that dies is noticed at the
next collective operation.
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
from attnlab.training.batch import split_batch
from attnlab.training.checkpoint import Snapshot, save_checkpoint

TIMEOUT_SECONDS = 45.0  # the longest wait for another process during a training
START_TIMEOUT = timedelta(days=1)  # before a training: the other may still be writing a report


class Ranks:
    """A single process: every collective operation is the identity."""

    size, rank = 1, 0
    shards = 1  # number of shards of weights, gradients and optimizer state

    @property
    def is_main(self) -> bool:
        """True in the process of rank 0, the only one that writes files."""
        return self.rank == 0

    def local_rows(self, batch: Any) -> Any:
        """Return this process's rows of a batch; None if there are fewer rows than processes."""
        return batch

    def micro_batches(self, batch: Any, number: int) -> Iterator[tuple[Any, bool]]:
        """Split this process's rows into at most `number` micro-batches: (rows, whether counted).

        A micro-batch that is not counted is computed, but its loss and gradient are dropped.
        """
        rows = self.local_rows(batch)
        for micro_batch in () if rows is None else split_batch(rows, number):
            yield micro_batch, True

    def prepare_model(self, model: nn.Module) -> None:
        """Shard the model if this training is sharded; call it before building the optimizer."""

    def run(self, model: nn.Module, function: Callable[[nn.Module], Any]) -> Any:
        """Return function(model), with sharded weights gathered while it runs."""
        return function(model)

    def all_reduce(
        self, parameters: Sequence[nn.Parameter], totals: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Sum over all processes: gradients in place, the two totals as the return value."""
        return totals

    def gradient_norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """√ Σ g² over the gradients of all parameters."""
        return get_total_norm(gradients)

    def any_rank(self, flag: bool) -> bool:
        """Tell whether the flag is true in any process."""
        return flag

    def decide(self, flag: bool) -> bool:
        """Return one answer for all processes that must act together: that of the main process."""
        return flag

    def check_same_start(self, step: int) -> None:
        """Wait until all processes are ready, and check that they start from the same step."""

    def broadcast_buffers(self, model: nn.Module) -> None:
        """Copy the buffers of the main process, which checkpoints store, to all processes."""

    def save_checkpoint(self, folder: Path, snapshot: Snapshot) -> None:
        """Write a checkpoint; unless the training is sharded, the main process holds it all."""
        if self.is_main:
            save_checkpoint(folder, snapshot)

    def translate_errors(self) -> AbstractContextManager[None]:
        """Inside this context, the loss of another process raises RankLostError."""
        return nullcontext()


class ProcessGroup(Ranks):
    """One of several processes connected by torch.distributed, each with the whole model."""

    def __init__(self) -> None:
        self.size, self.rank = distributed.get_world_size(), distributed.get_rank()
        self._start_group = distributed.new_group(backend="gloo", timeout=START_TIMEOUT)

    def local_rows(self, batch: Any) -> Any:
        """Split the batch into one part per process and return the part of this rank."""
        parts = list(split_batch(batch, self.size))
        return parts[self.rank] if self.rank < len(parts) else None

    def all_reduce(
        self, parameters: Sequence[nn.Parameter], totals: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Use one all-reduce for the totals and for who has which gradient, then one per dtype.

        A parameter without a gradient in any process keeps None, so that the optimizer skips it.
        """
        device = totals[0].device
        values = [*(float(n) for n in totals), *(float(p.grad is not None) for p in parameters)]
        sums = torch.tensor(values, dtype=torch.float64, device=device)
        self._all_reduce(sums)
        used = [p for p, count in zip(parameters, sums[2:].tolist(), strict=True) if count]
        for dtype in sorted({p.dtype for p in used}, key=str):
            group = [p for p in used if p.dtype == dtype]
            gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in group]
            flat = torch.cat([gradient.flatten() for gradient in gradients])
            self._all_reduce(flat)
            for p, part in zip(group, flat.split([p.numel() for p in group]), strict=True):
                p.grad = part.view_as(p)
        return sums[0], sums[1]

    def any_rank(self, flag: bool) -> bool:
        """Sum the flags over all processes and tell whether the sum is positive."""
        sums = torch.tensor([float(flag)])
        self._all_reduce(sums)
        return bool(sums.item())

    def check_same_start(self, step: int) -> None:
        """Sum the steps and their squares: n Σs² = (Σs)² only if all steps are equal."""
        sums = torch.tensor([step, step * step], dtype=torch.int64)
        self._all_reduce(sums, self._start_group)
        total, squares = sums.tolist()
        if self.size * squares != total * total:
            raise UsageError(
                f"process {self.rank} would start from step {step}, another from elsewhere: "
                "all must see the same checkpoints"
            )

    def broadcast_buffers(self, model: nn.Module) -> None:
        """Broadcast every buffer from rank 0."""
        for buffer in model.buffers():
            with translate_lost_peer():
                distributed.broadcast(buffer, 0)

    def _all_reduce(self, tensor: Tensor, group: Any = None) -> None:
        with translate_lost_peer():
            distributed.all_reduce(tensor, group=group)


_current: list[ProcessGroup] = []  # the group that this process has joined, if any


def current_ranks() -> Ranks:
    """Return the group that this process has joined, or `Ranks()` if it trains alone."""
    return _current[0] if _current else Ranks()


@contextmanager
def join_process_group(device: str, sharded: bool = False) -> Iterator[Ranks]:
    """Join the group that torchrun's RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT describe.

    If `sharded`, each process holds a shard of the weights, gradients and optimizer state.
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
        if sharded:
            from attnlab.training.fsdp import ShardedProcessGroup  # half a second of imports

            _current.append(ShardedProcessGroup(device))
        else:
            _current.append(ProcessGroup())
    try:
        yield _current[0]
    finally:
        _current.clear()
        distributed.destroy_process_group()


def _rendezvous_store() -> Any:
    """Return the key-value store through which the processes find each other.

    torchrun keeps its store when it restarts the processes, and torch 2.13 would read the addresses
    of the dead ones from it: so every attempt uses its own key prefix.
    """
    by_agent = os.environ.get("TORCHELASTIC_USE_AGENT_STORE", "False") == "True"
    store = distributed.TCPStore(
        os.environ["MASTER_ADDR"],
        int(os.environ["MASTER_PORT"]),
        is_master=os.environ["RANK"] == "0" and not by_agent,
        timeout=timedelta(seconds=TIMEOUT_SECONDS),
    )
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return distributed.PrefixStore(f"attnlab-{attempt}", store)


@contextmanager
def translate_lost_peer() -> Iterator[None]:
    """Turn the RuntimeError of a collective operation, whatever its text, into RankLostError."""
    try:
        yield
    except RuntimeError as error:
        raise lost_peer_error(error) from None


def lost_peer_error(error: RuntimeError) -> RankLostError:
    """Make the error for a lost process, with the first line of torch's message."""
    reason = (str(error).splitlines() or [""])[0][:160]
    return RankLostError(f"another process of this training is gone: {reason}")
