"""Every query may look at every key (an encoder; not a language model)."""

import torch

from attnlab.parts.mask.base import Allowed, KeyPlaces, Mask, QueryPlaces


class Full(Mask, name="full"):
    """No restriction."""

    def forward(self, query: QueryPlaces, key: KeyPlaces) -> Allowed:
        """True."""
        return torch.ones_like(query + key, dtype=torch.bool)
