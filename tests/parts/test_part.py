"""What a part is: filed under its name, frozen settings, refusals with the nearest word."""

import ast
import importlib
from collections.abc import Iterator
from dataclasses import FrozenInstanceError, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from jaxtyping import TypeCheckError

import attnlab.parts
from attnlab.core.errors import UsageError
from attnlab.core.seeds import Seed
from attnlab.parts.mask import Both, Causal, Mask, Window
from attnlab.parts.merge import Reweight
from attnlab.parts.part import Dims, Part, PositionIds
from attnlab.parts.position import Alibi, Learned, Position, Rotary, Sinusoidal
from attnlab.parts.project import LowRank, Mlp, Tied
from tests.parts.cases import DIMS, GROUPED, SEAMS
from tests.reference import variants as reference

FOLDER = Path(attnlab.parts.__file__).parent


@pytest.fixture
def tables() -> Iterator[None]:
    """Variants made here leave with the test."""
    before = {seam: dict(seam.variants) for seam in SEAMS}
    yield
    for seam, variants in before.items():
        seam.variants.clear()
        seam.variants.update(variants)


def variant_classes(path: Path) -> list[str]:
    """Classes with name=… at the top of a file: the variants it defines."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and any(k.arg == "name" for k in node.keywords)
    ]


@pytest.mark.parametrize("seam", SEAMS, ids=lambda seam: seam.seam)
def test_files_on_disk_are_what_the_seam_exports(seam: type[Part]) -> None:
    files = sorted((FOLDER / seam.seam).glob("*.py"))
    found = {path.stem: variant_classes(path) for path in files}
    assert found.pop("__init__") == []
    assert found.pop("base") == []
    assert all(len(classes) == 1 for classes in found.values()), "one file, one variant"
    module = importlib.import_module(f"attnlab.parts.{seam.seam}")
    classes = {classes[0] for classes in found.values()}
    exported = {name for name, made in vars(module).items() if isinstance(made, type)}
    assert exported == classes | {seam.__name__}, "one line in the seam's __init__ for each file"
    assert {variant.__name__ for variant in seam.variants.values()} == classes


HOUSE = {
    "project": {"linear", "mlp", "tied", "low-rank"},
    "position": {"none", "learned", "sinusoidal", "rotary", "rotary-llama", "alibi"},
    "mask": {"causal", "full", "prefix", "window", "self", "and", "or"},
    "normalise": {"softmax", "argmax", "straight-through"},
    "merge": {"concat", "shuffle", "shift", "reweight", "reweight-causal"},
    "norm": {"layer", "rms"},
    "mlp": {"gelu", "swiglu"},
}


@pytest.mark.parametrize("seam", SEAMS, ids=lambda seam: seam.seam)
def test_the_house_has_these_variants_each_with_its_formula(seam: type[Part]) -> None:
    assert HOUSE[seam.seam] <= set(seam.variants)
    for table in reference.TABLES[seam.seam]:  # a new variant may do without
        assert HOUSE[seam.seam] <= set(table) <= set(seam.variants)


@pytest.mark.usefixtures("tables")
def test_a_name_is_taken_once() -> None:
    with pytest.raises(TypeError, match="needs a name of its own"):
        type("Second", (Position,), {}, name="alibi")
    with pytest.raises(TypeError, match="needs a name of its own"):
        type("Nameless", (Position,), {})


@pytest.mark.usefixtures("tables")
def test_a_config_that_can_change_is_refused() -> None:
    class Loose:
        base: float = 1.0

    with pytest.raises(TypeError, match="frozen, keyword-only"):
        type("Wild", (Position,), {"Config": Loose}, name="wild")
    undecorated = type("Config", (Position.Config,), {"__annotations__": {"base": float}})
    with pytest.raises(TypeError, match="frozen, keyword-only"):
        type("Wild", (Position,), {"Config": undecorated}, name="wild")

    @dataclass(frozen=True)
    class Positional(Position.Config):
        base: float = 1.0

    with pytest.raises(TypeError, match="frozen, keyword-only"):
        type("Wild", (Position,), {"Config": Positional}, name="wild")
    assert "wild" not in Position.variants


def test_configs_are_frozen_and_keyword_only() -> None:
    config = Alibi.Config(base=4.0)
    with pytest.raises(FrozenInstanceError):
        config.base = 3.0  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        Alibi.Config(4.0)  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("variant", "values"),
    [
        (Alibi, {"base": 0.0}),
        (Alibi, {"base": float("nan")}),
        (Alibi, {"base": "8"}),
        (Sinusoidal, {"exponent": "repeated"}),
        (Window, {"size": 0}),
        (Window, {"size": True}),
        (Mlp, {"depth": 0}),
        (Both, {"sides": []}),
        (Both, {"sides": [{"name": "causal"}]}),
    ],
)
def test_wrong_values_are_refused(variant: Any, values: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"setting '{variant.name}"):
        variant.config_from_json({"name": variant.name, **values})
    # in Python too, where the shape checks of the tests may speak first
    with pytest.raises((UsageError, TypeCheckError)):
        variant.Config(**values)


def test_a_whole_number_for_a_real_one_is_the_same_config() -> None:
    whole = Position.config_from_json({"name": "alibi", "base": 4})
    assert repr(whole) == repr(Alibi.Config(base=4.0))


@pytest.mark.parametrize(
    ("seam", "values", "message"),
    [
        (Position, {"name": "rotery"}, "unknown position 'rotery': did you mean 'rotary'"),
        (
            Position,
            {"name": "alibi", "bass": 1},
            "alibi has no setting 'bass': did you mean 'base'",
        ),
        (Position, {"base": 1.0}, "unknown position None"),
        (Position, {"name": 3}, "unknown position 3"),
        (Mask, {"name": "window"}, "size"),
        (Mask, {"name": "window", "size": 2.5}, "window.size"),
        (Mask, {"name": "and", "sides": [{"name": "causal"}, {"name": "casual"}]}, "'casual'"),
        (Mask, {"name": "and", "sides": "causal"}, "and.sides"),
    ],
)
def test_json_that_is_no_config_says_why(
    seam: type[Part], values: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        seam.config_from_json(values)


def test_masks_are_joined_by_operators() -> None:
    joined = (Causal.Config() & Window.Config(size=3)) | Causal.Config()
    assert joined.to_json() == {
        "name": "or",
        "sides": [
            {"name": "and", "sides": [{"name": "causal"}, {"name": "window", "size": 3}]},
            {"name": "causal"},
        ],
    }
    assert Mask.config_from_json(joined.to_json()) == joined


def test_sizes_that_do_not_fit_are_refused() -> None:
    generator = Seed(1).torch_generator()
    with pytest.raises(UsageError, match="cannot be divided among 5 heads"):
        Dims.of(48, 5, 128)
    with pytest.raises(UsageError, match="block must be at least 1"):
        Dims.of(48, 3, 0)
    with pytest.raises(UsageError, match="even d_head, got 3"):
        Rotary.Config().build(Dims.of(9, 3, 5), generator)
    with pytest.raises(UsageError, match="rank 8 is above"):
        LowRank.Config(rank=8).build(DIMS, generator)
    with pytest.raises(UsageError, match="3 heads cannot share 2 kv_heads evenly"):
        replace(DIMS, kv_heads=2)
    for config in (Tied.Config(), Mlp.Config(depth=1)):
        with pytest.raises(UsageError, match="needs as many kv_heads as heads"):
            config.build(GROUPED, generator)
    assert Dims.of(48, 3, 128) == Dims(48, 3, 16, 128, bias=True, kv_heads=3, d_mlp=192)


def test_the_reason_of_a_leak_stands_beside_the_class() -> None:
    leaking = {
        variant.name for seam in SEAMS for variant in seam.variants.values() if variant.leaks
    }
    assert leaking == {Reweight.name}


def test_places_after_padding() -> None:
    padding = torch.tensor([[True, True, False, False], [False, False, False, True]])
    assert PositionIds.after(padding).query.tolist() == [[-1, -1, 0, 1], [0, 1, 2, 2]]
    table = Learned.Config().build(DIMS, Seed(1).torch_generator())
    x = torch.zeros(2, 4, DIMS.d_model)
    added = table.on_embeddings(x, PositionIds.after(padding).query)
    assert torch.equal(added[0, 2:], added[1, :2])


def test_a_start_has_the_size_it_says() -> None:
    dims, generator = Dims.of(120, 3, 500), Seed(7).torch_generator()
    table = Learned.Config().build(dims, generator).get_parameter("table")
    assert abs(table.std().item() / 0.02 - 1) < 5 / (2 * table.numel()) ** 0.5
    low = LowRank.Config(rank=40).build(dims, generator)
    product = low.get_parameter("up_query.weight") @ low.get_parameter("down.weight")[:40]
    assert abs(product.std().item() / 0.02 - 1) < 0.1  # 3,000 independent numbers or more
