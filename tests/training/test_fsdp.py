"""Sharded training computes the same steps as a single process."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.training.checkpoint import (
    MANIFEST,
    SHARD_NAME,
    CheckpointWarning,
    latest_checkpoint,
    manifest_text,
    open_checkpoint,
    prune_checkpoints,
)
from attnlab.training.determinism import environment
from attnlab.training.fsdp import ShardedProcessGroup, find_blocks, parameters_across_groups
from attnlab.training.ranks import Ranks, join_process_group

from .sharded_teams import STEPS
from .stack import Stack
from .test_checkpoint import DAMAGE
from .tiny import ROWS, Endless

SCRIPT = Path(__file__).with_name("sharded_teams.py")
# float64, sums of at most 40 terms taken in another order, AdamW's division by √v: measured 1e-16
CLOSE = 1e-10
Lines = list[dict[str, Any]]


def said(folder: Path, *scenes: str, script: Path = SCRIPT) -> Lines:
    """The lines that sharded_teams.py prints; a traceback anywhere is a failure."""
    done = subprocess.run(
        [sys.executable, str(script), str(folder), *scenes],
        capture_output=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr[-4000:]
    found = done.stdout.splitlines()
    return [json.loads(line) for line in found if line.startswith("{")]  # torch 2.10 speaks too


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Lines:
    """Run all scenes that need no separate folder in one process, so that torch is loaded once."""
    scenes = ("equal", "averaged", "held", "moved", "faults", "frozen", "stored")
    return said(tmp_path_factory.getbasetemp() / "parts", *scenes)


def named(lines: Lines, scene: str, name: str) -> Lines:
    return [line for line in lines if (line["scene"], line["name"]) == (scene, name)]


def test_the_steps_of_one_whatever_their_number(lines: Lines) -> None:
    assert [line["size"] for line in named(lines, "equal", "equal")] == [2, 3, 5]
    for line in named(lines, "equal", "distance"):
        assert line["far"] <= CLOSE and line["same"], "the same data in the same order"


def test_averaged_gradients_would_be_seen(lines: Lines) -> None:
    summed, averaged = named(lines, "averaged", "distance")
    assert summed["far"] <= CLOSE and averaged["far"] > 1e-3


def test_each_holds_its_part_and_no_more(lines: Lines) -> None:
    """A process holds at most 1/N of the sharded parameters, rounded up to rows, and the rest."""
    (whole,) = named(lines, "held", "whole")
    assert whole["told"]["weights"] == sum(p.numel() for p in Stack().parameters())
    apart = Stack.uncut()
    for line in named(lines, "held", "held"):
        most = apart + sum(
            -(-p.shape[0] // line["size"]) * (p.numel() // p.shape[0]) for p in Stack.cut()
        )
        parts = [told["found"] for told in line["told"]]
        for part in parts:
            assert part["weights"] == part["gradients"] == part["after"] <= most
            assert part["optimizer"] == 2 * part["weights"] and part["tied"]
        held = sum(part["weights"] - apart for part in parts)
        assert held == whole["told"]["weights"] - apart, "nothing twice"
    (plain,) = named(lines, "held", "together")
    assert {told["found"]["weights"] for told in plain["told"]} == {whole["told"]["weights"]}


def test_a_checkpoint_goes_on_in_any_number_and_either_way(lines: Lines) -> None:
    steps = [{told["found"] for told in line["told"]} for line in named(lines, "moved", "moved")]
    assert steps == [{2}, {7}, {9}, {STEPS}]
    (alone,) = named(lines, "moved", "alone")
    assert alone["steps"] == 5 and not alone["same"], "bits need not repeat, and that is said"
    assert named(lines, "moved", "distance")[0]["far"] <= CLOSE


def test_what_goes_wrong_in_one_is_told_by_all(lines: Lines) -> None:
    (refused,) = named(lines, "faults", "refused")
    assert {told["error"] for told in refused["told"]} == {"StorageError: process 1: no space left"}
    assert named(lines, "faults", "left")[0]["names"] == [
        ".lock",
        "log.jsonl",
        "step-00000005",
        "step-00000006",
    ]
    alone, several = named(lines, "faults", "problem")
    assert "the gradient of norm.bias is not finite" in alone["told"]
    assert [told["found"] for told in several["told"]] == [alone["told"]] * 2
    (compiled,) = named(lines, "faults", "compile")
    assert all("UsageError: compile" in told["error"] for told in compiled["told"])


def test_frozen_weights_and_every_optimizer(lines: Lines) -> None:
    found = named(lines, "frozen", "distance")
    assert len(found) == 2 and all(line["far"] <= CLOSE for line in found)


@pytest.fixture(scope="module")
def stored(lines: Lines) -> tuple[Path, str]:
    """A folder with checkpoints of steps 6 and 9 by two processes, and the final digest."""
    (line,) = named(lines, "stored", "content")
    return Path(line["folder"]), line["told"]


PICKLE = b"cos\n_exit\n(I97\ntR."  # loaded, it would end this process
SHARD_DAMAGE: dict[str, Callable[[bytes], bytes]] = {**DAMAGE, "pickle": lambda data: PICKLE}


def shards_in(step: Path) -> list[Path]:
    return sorted(path for path in step.iterdir() if SHARD_NAME.fullmatch(path.name))


def test_each_damaged_or_missing_shard_is_found(stored: tuple[Path, str], in_memory: Path) -> None:
    own = shutil.copytree(stored[0] / "before", in_memory / "own")
    newest = own / "step-00000009"
    assert len(shards_in(newest)) == 4, "weights and optimizer of two processes"
    assert open_checkpoint(newest).state.step == 9
    for path in shards_in(newest):
        data = path.read_bytes()
        for damage in SHARD_DAMAGE.values():
            path.write_bytes(damage(data))
            with pytest.warns(CheckpointWarning, match=rf"{path.name}: SHA-256"):
                found = latest_checkpoint(own)
            assert found is not None and found.state.step == 6
        path.unlink()
        with pytest.warns(CheckpointWarning, match=rf"{path.name}: missing"):
            assert latest_checkpoint(own) is not None
        path.write_bytes(data)
    assert latest_checkpoint(own) is not None


def test_nothing_is_a_pickle_and_nothing_more_is_read(
    stored: tuple[Path, str], in_memory: Path
) -> None:
    own = shutil.copytree(stored[0] / "before", in_memory / "own")
    newest = own / "step-00000009"
    names = {path.name for path in newest.iterdir()}
    assert names == {*(p.name for p in shards_in(newest)), "log.jsonl", "state.json", MANIFEST}
    found, model = open_checkpoint(newest), Stack(noisy=False, dtype=torch.float64)
    found.load_model(model)
    assert model.head.weight is model.embedding.weight
    shutil.copy(shards_in(newest)[0], newest / "shard-00009-model-00001-of-00002.safetensors")
    with pytest.raises(IntegrityError, match=r"shard-00009.* not a file of this checkpoint"):
        found.load_model(model)
    (newest / "shard-00009-model-00001-of-00002.safetensors").unlink()
    with pytest.raises(UsageError, match="another model"):
        found.load_model(Stack(dtype=torch.float32))
    with pytest.raises(UsageError, match="another model"):
        found.load_model(nn.Linear(3, 5))
    prune_checkpoints(own, 2, 9)
    assert latest_checkpoint(own) is not None


def test_a_manifest_that_leaves_a_shard_out_is_found(
    stored: tuple[Path, str], in_memory: Path
) -> None:
    """Even if its hashes are right: the shards must cover the tensors."""
    own = shutil.copytree(stored[0] / "before", in_memory / "own")
    newest = own / "step-00000009"
    gone = shards_in(newest)[0]
    gone.unlink()
    files = json.loads((newest / MANIFEST).read_text())["files"]
    files.pop(gone.name)
    (newest / MANIFEST).write_text(manifest_text(9, files))
    with pytest.raises(IntegrityError, match=r"shards of .* are missing"):
        open_checkpoint(newest).load_model(Stack(dtype=torch.float64))
    for name in ("../x.safetensors", "shard-1.safetensors", "model.safetensors"):
        (newest / MANIFEST).write_text(manifest_text(9, {**files, name: "0" * 64}))
        with pytest.raises(IntegrityError, match="not what was written"):
            open_checkpoint(newest)


def test_damage_costs_steps_not_bits(stored: tuple[Path, str], in_memory: Path) -> None:
    before, wanted = stored[0] / "before", stored[1]
    for number, name in enumerate(("flip", "pickle", "missing")):
        own = shutil.copytree(before, in_memory / "resumed" / name)
        path = shards_in(own / "step-00000009")[number]
        if name == "missing":
            path.unlink()
        else:
            path.write_bytes(SHARD_DAMAGE[name](path.read_bytes()))
    found = named(said(in_memory, "resumed"), "resumed", "content")
    assert [line["told"] for line in found] == [wanted] * 3


class Some(ShardedProcessGroup):
    """One rank of a group, without the other processes."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.size = rank, size


@pytest.mark.parametrize(("size", "number"), [(2, 1), (3, 2), (3, 3), (5, 1), (7, 3), (11, 2)])
def test_every_process_has_as_many_turns_and_each_row_counts_once(size: int, number: int) -> None:
    batch = Endless().batch(7)
    turns = [list(Some(rank, size).micro_batches(batch, number)) for rank in range(size)]
    assert len({len(turn) for turn in turns}) == 1, "they wait for each other in every turn"
    counted = [piece for turn in turns for piece, counts in turn if counts]
    assert torch.equal(torch.cat([piece.ids for piece in counted]), batch.ids)
    spare = [piece for turn in turns for piece, counts in turn if not counts]
    assert all(torch.equal(piece.ids, batch.ids[:1]) for piece in spare)
    assert len(batch.ids) == ROWS


def test_blocks_and_what_cannot_be_cut() -> None:
    model = Stack()
    whole, shared = parameters_across_groups(model, find_blocks(model))
    assert find_blocks(model) == list(model.blocks)
    assert whole == {model.scale, model.blocks[0].turn}
    assert shared == set(model.bend.parameters())
    assert find_blocks(nn.Sequential(nn.Linear(2, 3))) == []


def test_one_process_has_nothing_to_share() -> None:
    with (
        pytest.raises(UsageError, match="needs several processes"),
        join_process_group("cpu", sharded=True),
    ):
        pass
    assert Ranks.shards == 1 and "parts" not in environment(torch.device("cpu"))
    assert environment(torch.device("cpu"), 3, 3)["parts"] == 3
