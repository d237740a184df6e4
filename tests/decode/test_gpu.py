"""On a GPU: the same texts as on the CPU, since the numbers of the draws are the CPU's."""

import pytest
import torch

from attnlab.decode.generate import generate
from attnlab.decode.strategy import parse_strategy
from tests.decode.test_stepper import PROMPTS, hub
from tests.models.variants import gpt, small

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "strategy",
    [
        "greedy",
        "sample",
        "top-p:p=0.8,temperature=1.3",
        "typical:p=0.5",
        "beam:width=3",
        "greedy:repetition=1.3",
    ],
)
@pytest.mark.parametrize("name", ["ours", "llama", "gpt2"])
def test_the_same_texts_as_on_the_cpu(name: str, strategy: str) -> None:
    """Float32; 37 tokens go beyond the context of ours and of gpt2 (31)."""
    found = []
    for device in ("cpu", "cuda"):
        model = gpt(small(), torch.float32).to(device) if name == "ours" else hub(name)
        if name != "ours":
            model.library.to(device)
        texts = generate(model, PROMPTS, parse_strategy(strategy), max_new_tokens=37, seed=2)
        found.append([text.ids for text in texts])
    assert found[0] == found[1]
