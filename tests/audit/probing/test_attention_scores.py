"""Attention is seen whoever computes it: nn.MultiheadAttention and torch's encoder layer too."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from attnlab.audit.catalogue import check

AUDITS = ["causality", "mask-strength", "score-scale", "attention-matters"]


class Multihead(nn.Module):
    """Causal attention by nn.MultiheadAttention; `masked` is the score of later positions."""

    def __init__(self, *, weights: bool, masked: float = -torch.inf, size: float = 1.0) -> None:
        super().__init__()
        self.weights, self.masked = weights, masked
        self.table = nn.Embedding(53, 12)
        self.attention = nn.MultiheadAttention(12, 3, batch_first=True)
        self.out = nn.Linear(12, 53)
        draws = torch.Generator().manual_seed(5)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5, generator=draws)
        with torch.no_grad():
            self.attention.in_proj_weight[:24] *= size
            self.attention.in_proj_bias[:24] *= size

    def forward(self, ids: Tensor) -> Tensor:
        x, n = self.table(ids), ids.shape[1]
        mask = torch.full((n, n), self.masked, dtype=x.dtype).triu(1)
        mixed, _ = self.attention(x, x, x, attn_mask=mask, need_weights=self.weights)
        return self.out(x + mixed)


class Layers(nn.Module):
    """Two of torch's own encoder layers, which have a fast path in evaluation mode."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(53, 12)
        layer = nn.TransformerEncoderLayer(12, 3, 24, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.out = nn.Linear(12, 53)
        draws = torch.Generator().manual_seed(5)
        for parameter in self.parameters():
            nn.init.normal_(parameter, std=0.5, generator=draws)

    def forward(self, ids: Tensor) -> Tensor:
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).triu(1)
        return self.out(self.layers(self.table(ids), mask=mask))


def verdicts(model: nn.Module) -> dict[str, str]:
    before = functional.softmax, functional.scaled_dot_product_attention
    found = check(model.eval(), only=AUDITS, length=23)
    assert before == (functional.softmax, functional.scaled_dot_product_attention)
    return {f.name: f.verdict for f in found}


@pytest.mark.parametrize("weights", [True, False])
def test_multihead_attention_is_seen(weights: bool) -> None:
    assert verdicts(Multihead(weights=weights)) == dict.fromkeys(AUDITS, "pass")


@pytest.mark.parametrize("weights", [True, False])
def test_its_faults_are_found(weights: bool) -> None:
    weak = verdicts(Multihead(weights=weights, masked=-10.0))
    assert weak["mask-strength"] == weak["causality"] == "fail"
    assert verdicts(Multihead(weights=weights, size=40))["score-scale"] == "fail"
    assert verdicts(Multihead(weights=weights, size=1e-9))["attention-matters"] == "fail"


def test_the_fast_path_of_an_encoder_layer_is_seen() -> None:
    found = verdicts(Layers())
    assert found == dict.fromkeys(AUDITS, "pass")
