"""Random streams by name: independent of each other and of the order in which they are used.

    Seed(3).child("teacher", "instance", 7).torch_generator()

A child's number is SHA-256(parent, names), so adding a new consumer never shifts an old one,
and nothing reads the global generators of torch or numpy.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Seed:
    """A 63-bit number and the streams derived from it."""

    number: int

    def child(self, *names: str | int) -> "Seed":
        """The stream named by `names` below this one."""
        text = json.dumps([self.number, *names])  # unlike a join, no name can imitate two
        return Seed(int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1)

    def numpy_generator(self) -> np.random.Generator:
        """A fresh numpy generator at the start of this stream."""
        return np.random.default_rng(self.number)

    def torch_generator(self, device: str = "cpu") -> "torch.Generator":
        """A fresh torch generator at the start of this stream, on `device`."""
        import torch

        generator = torch.Generator(device=device)
        generator.manual_seed(self.number)
        return generator
