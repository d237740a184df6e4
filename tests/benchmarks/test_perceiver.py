"""The Perceiver's benchmark measures both ways at a small length, with the formula beside it."""

import math
import sys
from dataclasses import replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import perceiver as benchmark


def test_rows_hold_time_and_memory_of_both_ways() -> None:
    plan = replace(benchmark.CPU, latents=7, rounds=1)
    rows = benchmark.rows_of(41, plan, "cpu")
    assert [(row.name.split(",")[0], row.unit) for row in rows] == [
        ("block", "ms"),
        ("block", "MiB"),
        ("block+local", "ms"),
        ("block+local", "MiB"),
    ]
    assert all(row.ours > 0 and row.theirs and row.ratio for row in rows)
    assert all(math.isclose((row.theirs or 0) / row.ours, row.ratio or 0) for row in rows)
    assert "formula" in rows[0].note and not rows[1].note


def test_memory_counts_what_backward_needs_once() -> None:
    weight = torch.ones(1000, 1000, requires_grad=True)
    kept = benchmark.memory(lambda: (weight * weight).exp().sum(), "cpu")
    assert math.isclose(kept, 2 * 4e6 / benchmark.MIB, rel_tol=1e-6)  # the weight, and its exp
