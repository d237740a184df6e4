"""Sharded training: of N processes each holds 1/N of the weights, gradients and optimizer (FSDP2).

A block's weights are gathered when it computes and let go afterwards; its gradients are added up
over the processes and each keeps its part. What a step computes is what `Together` computes: rows
shared out, gradients summed and divided once.
"""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.nn.utils import get_total_norm

from attnlab.core.errors import RankLostError, StorageError
from attnlab.train.atomic_folder import partial_path, remove_folder
from attnlab.train.batch import map_tensors, split_batch
from attnlab.train.checkpoint import Snapshot, checkpoint_path, save_checkpoint
from attnlab.train.ranks import ProcessGroup, translate_lost_peer
from attnlab.train.sharded_checkpoint import write_shards
from attnlab.train.tensors import is_sharded, local_tensor

ROOT_ATTRIBUTE = "_as_fsdp_sees_it"


class ShardedProcessGroup(ProcessGroup):
    """One of several processes that hold a model together."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.parts = self.size
        self._device = device
        # all processes, with their limit of waiting: a mesh of its own would wait for half an hour
        self._mesh = DeviceMesh.from_group(distributed.group.WORLD, device)  # pyright: ignore[reportArgumentType]

    def hold(self, model: nn.Module) -> None:
        """Cut every block, then what is outside of blocks, and let go of what others hold."""
        if ROOT_ATTRIBUTE in model.__dict__:
            return
        blocks = find_blocks(model)
        whole, shared = parameters_across_groups(model, blocks)
        for block in blocks:
            fully_shard(block, mesh=self._mesh, ignored_params=whole | shared)
        root = _FSDPRoot(model)
        fully_shard(root, mesh=self._mesh, ignored_params=whole)
        for module in root.modules():
            if isinstance(module, FSDPModule):  # added up, not averaged
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
        for parameter in whole:
            parameter.data = parameter.data.to(self._device)
        model.__dict__[ROOT_ATTRIBUTE] = (
            root  # not as a part of the model: it is what the model is part of
        )

    def run(self, model: nn.Module, work: Callable[[nn.Module], Any]) -> Any:
        """work(model) with the weights gathered when they are needed; all processes must do it."""
        root = model.__dict__[ROOT_ATTRIBUTE]
        found = root(work)
        if not torch.is_grad_enabled():
            root.reshard()  # no backward pass will
        return found

    def turns(self, batch: Any, number: int) -> Iterator[tuple[Any, bool]]:
        """As many pieces in every process: one that has fewer computes the first row, uncounted."""
        shares = [list(split_batch(rows, number)) for rows in split_batch(batch, self.size)]
        mine = shares[self.rank] if self.rank < len(shares) else []
        for piece in mine:
            yield piece, True
        for _ in range(max(map(len, shares)) - len(mine)):
            yield map_tensors(batch, lambda tensor: tensor[:1]), False

    def add(
        self, parameters: Sequence[nn.Parameter], numbers: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The gradients of what is cut were added in the backward pass; here, the rest."""
        return super().add([p for p in parameters if not is_sharded(p)], numbers)

    def norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """√ (Σ over processes of their parts' g² + Σ g² of what is whole everywhere)."""
        cut = get_total_norm([local_tensor(g) for g in gradients if is_sharded(g)])
        whole = get_total_norm([g for g in gradients if not is_sharded(g)])
        square = cut.to(self._device, torch.float64).square()
        self._add(square)
        return (square + whole.to(square).square()).sqrt()

    def agreed(self, flag: bool) -> bool:
        """The first process's answer: all must save, or none."""
        told = torch.tensor([flag], dtype=torch.uint8)
        with translate_lost_peer():
            distributed.broadcast(told, 0)
        return bool(told.item())

    def save_checkpoint(self, folder: Path, snapshot: Snapshot) -> None:
        """Each process writes its parts; when all have, the first gives the folder its name."""
        partial = partial_path(checkpoint_path(folder, snapshot.state.step))
        written, problem = dict[str, str](), ""
        try:
            place = self.rank, self.size
            written = write_shards(partial, snapshot.model, snapshot.optimizer, place)
        except StorageError as error:
            problem = f"process {self.rank}: {error}"
        told = [json.loads(text) for text in self._told(json.dumps([written, problem]))]
        for _, problem in told:
            if problem:
                with suppress(StorageError):  # the first refusal is the one to tell
                    if self.leads:
                        remove_folder(partial)
                raise StorageError(problem)
        if self.leads:
            save_checkpoint(
                folder, snapshot, {name: sha for files, _ in told for name, sha in files.items()}
            )

    @contextmanager
    def noticing(self) -> Iterator[None]:
        """Weights are gathered anywhere in a pass, so a lost process may show anywhere."""
        try:
            yield
        except RuntimeError as error:
            if not isinstance(error, distributed.DistError) and "gloo" not in str(error):
                raise
            said = (str(error).splitlines() or [""])[0][:160]
            raise RankLostError(f"another process of this training is gone: {said}") from None

    def _told(self, text: str) -> list[str]:
        """What every process says, in their order."""
        data = text.encode()
        length = torch.tensor([len(data)])
        with translate_lost_peer():
            distributed.all_reduce(length, distributed.ReduceOp.MAX)
            mine = torch.frombuffer(bytearray(data.ljust(int(length.item()))), dtype=torch.uint8)
            heard = [torch.empty_like(mine) for _ in range(self.size)]
            distributed.all_gather(heard, mine)
        return [bytes(each.tolist()).decode() for each in heard]


class _FSDPRoot(nn.Module):
    """The model as FSDP sees it: whatever is done with it is one forward pass."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[[nn.Module], Any]) -> Any:
        """work(model): a loss, an evaluation; by whichever of the model's methods."""
        return work(self.model)


def find_blocks(module: nn.Module) -> list[nn.Module]:
    """What a model does one after the other: the members of its outermost lists."""
    found: list[nn.Module] = []
    for child in module.children():
        if type(child) is nn.ModuleList:
            found += [member for member in child if any(True for _ in member.parameters())]
        else:
            found += find_blocks(child)
    return list(dict.fromkeys(found))


def parameters_across_groups(
    model: nn.Module, blocks: Sequence[nn.Module]
) -> tuple[set[nn.Parameter], set[nn.Parameter]]:
    """Parameters that stay whole in every process, and those blocks leave to the model.

    FSDP cuts a parameter within one group. One that several blocks own, or a block and the model
    in different modules, stays whole and tied; so does a single number, which cannot be cut.
    """
    groups: dict[nn.Parameter, set[int]] = {}
    owners: dict[nn.Parameter, set[nn.Module]] = {}
    outside = set(_modules_outside(model, set(blocks)))
    for number, modules in enumerate([outside, *(set(block.modules()) for block in blocks)]):
        for module in modules:
            for parameter in module.parameters(recurse=False):
                groups.setdefault(parameter, set()).add(number)
                owners.setdefault(parameter, set()).add(module)
    several = {p for p, found in groups.items() if len(found) > 1}
    shared = {p for p in several if owners[p] <= outside and p.ndim}
    return (several - shared) | {p for p in groups if not p.ndim}, shared


def _modules_outside(module: nn.Module, blocks: set[nn.Module]) -> Iterator[nn.Module]:
    """Every module that is reached without passing through a block."""
    yield module
    for child in module.children():
        if child not in blocks:
            yield from _modules_outside(child, blocks)
