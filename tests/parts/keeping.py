"""Shared checks of what must be kept: settings, state, types, devices, seeds."""

import json

import torch
from safetensors.torch import load, save

from attnlab.core.config import canonical_json
from attnlab.core.errors import UsageError
from attnlab.parts.part import PositionIds
from tests.parts.cases import BATCH, LENGTH, SEAMS, Case, place, plain, rows, run, twin
from tests.parts.registry import check, outputs

EPS32 = torch.finfo(torch.float32).eps


@check
def json_round_trip(case: Case) -> None:
    """Config -> JSON -> Config is the identity, and unknown words are refused."""
    seam = next(seam for seam in SEAMS if seam.seam == case.config.part.seam)
    text = canonical_json(case.config.to_json())
    again = seam.config_from_json(json.loads(text))
    assert again == case.config
    assert type(again) is type(case.config)
    assert hash(again) == hash(case.config)
    try:
        seam.config_from_json({**case.config.to_json(), "sizes": 1})
    except UsageError:
        return
    raise AssertionError("an unknown setting was accepted")


@check
def state(case: Case) -> None:
    """The state, through the bytes of a file, makes another layer the same function."""
    first, second, x = case.attention(3), case.attention(19), rows()
    twin(first)(x)
    first(x)  # a part that counts its calls carries the count along
    for a, b in ((first.position, second.position), (first, second)):
        b.load_state_dict(load(save({k: v.contiguous() for k, v in a.state_dict().items()})))
    assert torch.equal(place(first, x), place(second, x))
    for ours, theirs in zip(outputs(first, x), outputs(second, x), strict=True):
        assert torch.equal(ours, theirs)


@check
def dtype(case: Case) -> None:
    """Everything is in the type of the parameters, and fp32 is fp64 up to its rounding."""
    exact = case.attention()
    x = place(exact, rows())
    expected = run(exact, x)
    for kind in (torch.float32, torch.bfloat16):
        attention = case.attention(dtype=kind)
        made = place(attention, rows().to(kind))
        assert made.dtype == kind
        forward, steps = run(attention, made)
        for name, value in {"forward": forward, **vars(steps)}.items():
            assert value.dtype == kind, f"{name} is {value.dtype} in a layer of {kind}"
            assert torch.isfinite(value).all(), name
        if kind == torch.float32:
            # a sum of some hundred terms, each rounded once
            room = 256 * EPS32 * steps.v.abs().max().item() * case.dims.d_model
            for ours, theirs in ((forward, expected[0]), (steps.out, expected[1].out)):
                torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=room)


@check
def autocast(case: Case) -> None:
    """bf16 autocast runs both ways and gives finite numbers near the fp32 ones."""
    attention = case.attention(dtype=torch.float32)
    x = place(attention, rows().float())
    with torch.autocast("cpu", dtype=torch.bfloat16):
        forward, steps = run(attention, x)
    assert torch.isfinite(forward).all()
    assert torch.isfinite(steps.out).all()


@check
def device(case: Case) -> None:
    """No tensor stays behind on the CPU: the layer runs without storage, on the meta device."""
    attention = twin(case.attention(dtype=torch.float32)).to("meta")
    attention.position.to("meta")
    x = rows().float().to("meta")
    padding = torch.zeros(BATCH, LENGTH, dtype=torch.bool, device="meta")
    position_ids = PositionIds(plain().to("meta"), plain().to("meta"))
    try:
        y = place(attention, x, position_ids.query)
        found = [
            y,
            attention(y),
            attention(y, position_ids),
            *vars(attention.steps(y, y, None, padding)).values(),
        ]
    except (RuntimeError, NotImplementedError) as error:
        raise AssertionError(f"a tensor stayed behind: {error}") from error
    assert {tensor.device.type for tensor in found} == {"meta"}


@check
def loading(case: Case) -> None:
    """A layer can be made without storage and filled from a state afterwards."""
    filled = case.attention()
    with torch.device("meta"):
        empty = case.fresh().double()
        empty.position.double()
    for a, b in ((filled.position, empty.position), (filled, empty)):
        b.load_state_dict(a.state_dict(), assign=True)
    x = rows()
    assert torch.equal(place(filled, x), place(empty, x))
    for ours, theirs in zip(outputs(filled, x), outputs(empty, x), strict=True):
        assert torch.equal(ours, theirs)


@check
def seed(case: Case) -> None:
    """Built from its generator alone: same seed, same layer; torch's global state is not read."""
    before = torch.get_rng_state()
    first, again = case.fresh(3), case.fresh(3)
    x = rows().float()
    outputs(first, x)
    assert torch.equal(before, torch.get_rng_state()), "the global generator was used"
    for a, b in ((first.position, again.position), (first, again)):
        states = zip(a.state_dict().items(), b.state_dict().items(), strict=True)
        assert all(k == j and torch.equal(v, w) for (k, v), (j, w) in states)
