"""Encoders with a linear head: pooling, padding, pairs, and what may be opened."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from attnlab.core.errors import IntegrityError, UsageError
from attnlab.core.seeds import Seed
from attnlab.models.encoder import Classifier, open_encoder, pool
from tests.models.tiny_encoder import POSITIONS, SHAPE, bert_folder, roberta_folder

# float32: sums of some 30 terms of size 1 in another order
LOOSE = 30 * torch.finfo(torch.float32).eps * 10


@pytest.fixture(scope="module", params=[bert_folder, roberta_folder])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return request.param(tmp_path_factory.mktemp("encoder") / request.param.__name__)


def made(folder: Path, pooling: str = "mean") -> Classifier:
    generator = Seed(3).torch_generator()
    return Classifier(open_encoder(folder), 3, generator, pooling).eval()  # pyright: ignore[reportArgumentType]


def texts(width: int = 7) -> tuple[Tensor, Tensor]:
    ids = torch.randint(4, 40, (2, width), generator=Seed(7).torch_generator())
    return ids, torch.zeros(2, width, dtype=torch.bool)


def test_an_encoder_is_opened_without_its_head(folder: Path) -> None:
    encoder = open_encoder(folder)
    assert (encoder.width, encoder.layers, encoder.context) == (12, 2, POSITIONS)
    assert encoder.library.pooler is None and len(encoder.sha256) == 64
    assert open_encoder(folder).sha256 == encoder.sha256


@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_padding_changes_nothing(folder: Path, pooling: str) -> None:
    model, (ids, mask) = made(folder, pooling), texts()
    longer = torch.cat([ids, torch.full((2, 5), SHAPE["pad_token_id"])], dim=1)
    more = torch.cat([mask, torch.ones(2, 5, dtype=torch.bool)], dim=1)
    with torch.no_grad():
        assert torch.allclose(model(ids, mask), model(longer, more), atol=LOOSE, rtol=0)
        assert torch.allclose(model(ids, mask)[:1], model(ids[:1], mask[:1]), atol=LOOSE)


def test_pooling_is_what_it_says() -> None:
    states = torch.arange(24.0).view(2, 4, 3)
    mask = torch.tensor([[False, False, True, True], [True, False, False, False]])
    assert torch.equal(pool(states, mask, "mean")[0], states[0, :2].mean(dim=0))
    assert torch.equal(pool(states, mask, "mean")[1], states[1, 1:].mean(dim=0))
    assert torch.equal(pool(states, mask, "first"), torch.stack([states[0, 0], states[1, 1]]))


def test_segments_are_read_where_the_encoder_has_them(tmp_path: Path) -> None:
    ids, mask = texts()
    kinds = torch.tensor([[0, 0, 0, 1, 1, 1, 1]] * 2)
    with torch.no_grad():
        bert = made(bert_folder(tmp_path / "bert"))
        assert not torch.allclose(bert(ids, mask, kinds), bert(ids, mask))
        assert torch.equal(bert(ids, mask, kinds * 0), bert(ids, mask))


def test_what_is_no_encoder_is_refused(tmp_path: Path, folder: Path) -> None:
    with pytest.raises(UsageError, match="no such folder, asset"):
        open_encoder("not there")
    with pytest.raises(UsageError, match=r"no config.json"):
        open_encoder(tmp_path)
    broken = bert_folder(tmp_path / "broken")
    (broken / "model.safetensors").write_bytes(b"nothing")
    with pytest.raises(IntegrityError, match="cannot be opened"):
        open_encoder(broken)
    with pytest.raises(UsageError, match="two classes"):
        Classifier(open_encoder(folder), 1, torch.Generator())
