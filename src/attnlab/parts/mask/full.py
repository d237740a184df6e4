"""Every query may look at every key (an encoder; not a language model)."""

import torch

from attnlab.parts.mask.base import Allowed, KeyPositions, Mask, QueryPositions


class Full(Mask, name="full"):
    """No restriction."""

    def forward(self, query: QueryPositions, key: KeyPositions) -> Allowed:
        """True."""
        return torch.ones_like(query + key, dtype=torch.bool)
