"""The audits for people's own tests: each raises AssertionError with the sentence of its finding.

    from attnlab.audit import assert_causal

    def test_my_model():
        assert_causal(MyModel())

An audit that does not apply raises too: a test that tested nothing must not pass.
"""

from typing import Any

from attnlab.audit.catalogue import load_audit


def assert_audit(model: Any, name: str, *, seed: int = 0, length: int | None = None) -> None:
    """Any audit of a model by its name."""
    from attnlab.audit.probing.probe import Probe
    from attnlab.audit.probing.wrap import subject_of

    finding = load_audit(name).run(subject_of(model), Probe(seed, length))
    if finding.verdict != "pass":
        raise AssertionError(f"{name}: {finding.verdict}: {finding.why}")


def assert_causal(model: Any, *, seed: int = 0, length: int | None = None) -> None:
    """No prediction changes when only later tokens change."""
    assert_audit(model, "causality", seed=seed, length=length)


def assert_batch_independent(model: Any, *, seed: int = 0, length: int | None = None) -> None:
    """No row's answer depends on the rows beside it."""
    assert_audit(model, "batch-independence", seed=seed, length=length)


def assert_pad_invariant(model: Any, *, seed: int = 0, length: int | None = None) -> None:
    """Pads change nothing about real tokens."""
    assert_audit(model, "padding", seed=seed, length=length)


def assert_covers(model: Any, *, seed: int = 0, length: int | None = None) -> None:
    """Every token is read by later predictions."""
    assert_audit(model, "coverage", seed=seed, length=length)


def assert_deterministic(model: Any, *, seed: int = 0, length: int | None = None) -> None:
    """Asked twice, it answers the same."""
    assert_audit(model, "eval-determinism", seed=seed, length=length)


def assert_cache_parity(model: Any, *, seed: int = 0, length: int | None = None) -> None:
    """Decoding with the cache gives the logits of one forward pass over the whole text."""
    assert_audit(model, "cache-parity", seed=seed, length=length)


def assert_finite(model: Any, *, seed: int = 0, length: int | None = None) -> None:
    """No prediction is NaN or infinite."""
    assert_audit(model, "non-finite", seed=seed, length=length)
