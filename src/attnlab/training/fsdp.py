"""Sharded training with FSDP2: each of N processes holds 1/N of weights, gradients and optimizer.

The weights of a block are gathered while it computes and freed afterwards; its gradients are summed
over the processes, and each process keeps its shard. A step computes what `ProcessGroup` computes:
each process takes some rows, gradients are summed and divided once.
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

from attnlab.core.errors import StorageError
from attnlab.training.atomic_folder import partial_path, remove_folder
from attnlab.training.batch import map_tensors, split_batch
from attnlab.training.checkpoint import Snapshot, checkpoint_path, save_checkpoint
from attnlab.training.ranks import ProcessGroup, lost_peer_error, translate_lost_peer
from attnlab.training.sharded_checkpoint import write_shards
from attnlab.training.tensors import is_sharded, local_tensor

ROOT_ATTRIBUTE = "_fsdp_root"


class ShardedProcessGroup(ProcessGroup):
    """One of several processes, each of which holds a shard of the model."""

    def __init__(self, device: str) -> None:
        super().__init__()
        self.shards = self.size
        self._device = device
        # the default group has our timeout; a mesh with a group of its own would wait half an hour
        self._mesh = DeviceMesh.from_group(distributed.group.WORLD, device)  # pyright: ignore[reportArgumentType]

    def prepare_model(self, model: nn.Module) -> None:
        """Shard every block, then the rest of the model, and free what other processes hold."""
        if ROOT_ATTRIBUTE in model.__dict__:
            return
        blocks = find_blocks(model)
        whole, in_root = parameters_across_groups(model, blocks)
        for block in blocks:
            fully_shard(block, mesh=self._mesh, ignored_params=whole | in_root)
        root = _FSDPRoot(model)
        fully_shard(root, mesh=self._mesh, ignored_params=whole)
        for module in root.modules():
            if isinstance(module, FSDPModule):  # gradients are summed, not averaged
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
        for parameter in whole:
            parameter.data = parameter.data.to(self._device)
        # through __dict__, so that the root, which contains the model, does not become its child
        model.__dict__[ROOT_ATTRIBUTE] = root

    def run(self, model: nn.Module, function: Callable[[nn.Module], Any]) -> Any:
        """Return function(model), gathering weights as needed; all processes must call it."""
        root = model.__dict__[ROOT_ATTRIBUTE]
        output = root(function)
        if not torch.is_grad_enabled():
            root.reshard()  # with gradients, the backward pass reshards
        return output

    def micro_batches(self, batch: Any, number: int) -> Iterator[tuple[Any, bool]]:
        """Give every process the same number of micro-batches, because all gather together.

        A process that has fewer computes the first row again, not counted.
        """
        per_rank = [list(split_batch(rows, number)) for rows in split_batch(batch, self.size)]
        mine = per_rank[self.rank] if self.rank < len(per_rank) else []
        for micro_batch in mine:
            yield micro_batch, True
        for _ in range(max(map(len, per_rank)) - len(mine)):
            yield map_tensors(batch, lambda tensor: tensor[:1]), False

    def all_reduce(
        self, parameters: Sequence[nn.Parameter], totals: tuple[Tensor, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Sum the gradients of unsharded parameters; the backward pass summed the sharded ones."""
        return super().all_reduce([p for p in parameters if not is_sharded(p)], totals)

    def gradient_norm(self, gradients: Sequence[Tensor]) -> Tensor:
        """√ (Σ over processes of g² in their shards + Σ g² of the unsharded gradients)."""
        sharded = get_total_norm([local_tensor(g) for g in gradients if is_sharded(g)])
        whole = get_total_norm([g for g in gradients if not is_sharded(g)])
        square = sharded.to(self._device, torch.float64).square()
        self._all_reduce(square)
        return (square + whole.to(square).square()).sqrt()

    def decide(self, flag: bool) -> bool:
        """Broadcast the flag of rank 0: either all processes save a checkpoint, or none."""
        answer = torch.tensor([flag], dtype=torch.uint8)
        with translate_lost_peer():
            distributed.broadcast(answer, 0)
        return bool(answer.item())

    def save_checkpoint(self, folder: Path, snapshot: Snapshot) -> None:
        """Write this process's shards; when all have succeeded, rank 0 commits the folder."""
        partial = partial_path(checkpoint_path(folder, snapshot.state.step))
        written, problem = dict[str, str](), ""
        try:
            place = self.rank, self.size
            written = write_shards(partial, snapshot.model, snapshot.optimizer, place)
        except StorageError as error:
            problem = f"process {self.rank}: {error}"
        reports = [json.loads(text) for text in self._all_gather(json.dumps([written, problem]))]
        for _, problem in reports:
            if problem:
                with suppress(StorageError):  # report the first error, not one of the clean-up
                    if self.is_main:
                        remove_folder(partial)
                raise StorageError(problem)
        if self.is_main:
            hashes = {name: sha256 for files, _ in reports for name, sha256 in files.items()}
            save_checkpoint(folder, snapshot, hashes)

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Translate errors of gathering weights, which may occur anywhere in a forward pass."""
        try:
            yield
        except RuntimeError as error:
            if not isinstance(error, distributed.DistError) and "gloo" not in str(error):
                raise
            raise lost_peer_error(error) from None

    def _all_gather(self, text: str) -> list[str]:
        """Return the texts of all processes in the order of their ranks."""
        data = text.encode()
        length = torch.tensor([len(data)])
        with translate_lost_peer():
            distributed.all_reduce(length, distributed.ReduceOp.MAX)
            padded = torch.frombuffer(bytearray(data.ljust(int(length.item()))), dtype=torch.uint8)
            gathered = [torch.empty_like(padded) for _ in range(self.size)]
            distributed.all_gather(gathered, padded)
        return [bytes(tensor.tolist()).decode() for tensor in gathered]


class _FSDPRoot(nn.Module):
    """The root module of FSDP: its forward pass calls any function of the model.

    FSDP gathers weights only in `forward`, while our losses call other methods of a model.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, function: Callable[[nn.Module], Any]) -> Any:
        """Return function(model), for example a loss or an evaluation."""
        return function(self.model)


def find_blocks(module: nn.Module) -> list[nn.Module]:
    """List the members of the outermost ModuleLists that have parameters, such as layers."""
    blocks: list[nn.Module] = []
    for child in module.children():
        if type(child) is nn.ModuleList:
            blocks += [member for member in child if any(True for _ in member.parameters())]
        else:
            blocks += find_blocks(child)
    return list(dict.fromkeys(blocks))


def parameters_across_groups(
    model: nn.Module, blocks: Sequence[nn.Module]
) -> tuple[set[nn.Parameter], set[nn.Parameter]]:
    """Return the parameters that stay whole in every process, and those that only the root shards.

    The groups are the blocks and the rest of the model; FSDP shards a parameter within one group.
    A parameter of several groups can be sharded with the root if every module that owns it also
    lies outside the blocks. Otherwise it stays whole and tied; so does a scalar.
    """
    groups: dict[nn.Parameter, set[int]] = {}
    owners: dict[nn.Parameter, set[nn.Module]] = {}
    outside = set(_modules_outside(model, set(blocks)))
    for number, modules in enumerate([outside, *(set(block.modules()) for block in blocks)]):
        for module in modules:
            for parameter in module.parameters(recurse=False):
                groups.setdefault(parameter, set()).add(number)
                owners.setdefault(parameter, set()).add(module)
    several = {p for p, numbers in groups.items() if len(numbers) > 1}
    in_root = {p for p in several if owners[p] <= outside and p.ndim}
    return (several - in_root) | {p for p in groups if not p.ndim}, in_root


def _modules_outside(module: nn.Module, blocks: set[nn.Module]) -> Iterator[nn.Module]:
    """Yield every module that can be reached without passing through a block."""
    yield module
    for child in module.children():
        if child not in blocks:
            yield from _modules_outside(child, blocks)
