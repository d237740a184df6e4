"""variant-is-live: fires on a dead flag, a dead parameter, an unread key; all our arms pass."""

from collections.abc import Mapping
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from attnlab.audit.variant_is_live import NAME, Recorded, every_key_read, variant_is_live
from attnlab.core.seeds import Seed
from attnlab.models.config import GPTConfig
from attnlab.models.gpt import GPT
from attnlab.studies.mini_gpt.arms import MERGING, POSITIONS, depth_arm
from attnlab.studies.mini_gpt.work import build

VOCAB, BLOCK = 23, 17
IDS = torch.randint(VOCAB, (3, 13), generator=Seed(3).torch_generator())


def probe(model: nn.Module) -> Tensor:
    return model(IDS)


def gpt(parts: Mapping[str, Any], seed: int = 5) -> GPT:
    config = {"size": "nano", "block": BLOCK, "parts": parts}
    return build(config, VOCAB, Seed(seed).torch_generator())


ARMS = {
    **{f"positions: {name}": (arm, "learned", POSITIONS) for name, arm in POSITIONS.items()},
    **{f"merging: {name}": (arm, "concatenate", MERGING) for name, arm in MERGING.items()},
}


@pytest.mark.parametrize("name", ARMS)
def test_our_own_arms_are_live(name: str) -> None:
    arm, base, family = ARMS[name]
    found = variant_is_live(gpt(family[base]), gpt(arm, seed=7), probe)
    if name.endswith(base):
        assert (found.name, found.verdict) == (NAME, "fail")
    else:
        assert found.verdict == "pass", found.why


def test_our_own_depth_arm_is_live() -> None:
    assert variant_is_live(gpt({}), gpt(depth_arm(2, "preserving")), probe).verdict == "pass"


class Net(nn.Module):
    """With a flag that is wired, one that nothing reads, or one that adds what nothing uses."""

    def __init__(self, flag: str = "", seed: int = 3) -> None:
        super().__init__()
        g = Seed(seed).torch_generator()
        self.flag = flag
        self.embedding = nn.Parameter(torch.randn(VOCAB, 7, generator=g))
        self.out = nn.Parameter(torch.randn(7, VOCAB, generator=g))
        if flag in ("gate", "unused"):
            self.extra = nn.Parameter(torch.zeros(7))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embedding[ids]
        if self.flag == "mix":
            x = x.cumsum(1)
        if self.flag == "gate":
            x = x + self.extra * x.cumsum(1)
        if self.flag == "noise":
            x = x + torch.randn(x.shape, dtype=x.dtype)
        return x @ self.out


def test_the_clean_twin_passes() -> None:
    found = variant_is_live(Net(), Net("mix"), probe)
    assert found.verdict == "pass" and found.number is not None and found.number > 0.1


def test_a_flag_that_does_nothing_is_caught() -> None:
    found = variant_is_live(Net(), Net("synthesizer"), probe)
    assert found.verdict == "fail" and "a dead setting" in found.why


def test_another_seed_does_not_hide_it() -> None:
    found = variant_is_live(Net(), Net("synthesizer", seed=11), probe)
    assert (found.verdict, found.number) == ("fail", 0)


def test_a_parameter_that_nothing_uses_is_caught() -> None:
    found = variant_is_live(Net(), Net("unused"), probe)
    assert found.verdict == "fail" and "though it has extra" in found.why


def test_a_gate_that_starts_at_zero_is_live() -> None:
    found = variant_is_live(Net(), Net("gate"), probe)
    assert found.verdict == "pass" and "extra would learn" in found.why


def test_the_models_are_left_alone() -> None:
    base, variant = Net(), Net("mix", seed=11)
    before = variant.out.detach().clone()
    variant_is_live(base, variant, probe)
    assert torch.equal(variant.out, before) and variant.out.dtype == torch.float32


def test_a_probe_that_draws_cannot_tell() -> None:
    assert variant_is_live(Net("noise"), Net(), probe).verdict == "not-applicable"


CONFIG = {"synthesizer": True, "layers": 2, "train": {"rate": 0.1, "decay": 0.0}}


def test_every_key_read_passes() -> None:
    def use(c: Any) -> None:
        assert c["layers"] + c.get("synthesizer") and c.train.rate >= c["train"]["decay"]

    assert every_key_read(use, CONFIG).verdict == "pass"


def test_a_stale_flag_is_caught_and_named() -> None:
    """The model still asks for the starter's flag, `additive`."""

    def use(c: Any) -> None:
        assert not c.get("additive", False) and c["layers"] and c["train"]["rate"]

    found = every_key_read(use, CONFIG)
    assert (found.verdict, found.number) == ("fail", 2)
    assert "'synthesizer' is never read; 'additive' is asked for instead" in found.why
    assert found.evidence["unread"] == ["synthesizer", "train.decay"]


def test_a_group_that_is_never_read_counts_once() -> None:
    found = every_key_read(lambda c: (c["layers"], c["synthesizer"]), CONFIG)
    assert found.evidence["unread"] == ["train"]


def test_our_own_config_reads_every_key() -> None:
    plain = GPTConfig.named("nano", vocab=VOCAB, block=BLOCK).to_json()
    assert every_key_read(GPTConfig.from_json, plain).verdict == "pass"


def test_a_recorded_config_is_a_mapping() -> None:
    recorded = Recorded(CONFIG)
    assert len(recorded) == 3 and set(recorded) == set(CONFIG) and "layers" in recorded
    with pytest.raises(AttributeError, match="no 'width'"):
        _ = recorded.width
    assert recorded.missed() == ["width"]


def test_not_applicable() -> None:
    assert every_key_read(lambda c: None, {}).verdict == "not-applicable"
