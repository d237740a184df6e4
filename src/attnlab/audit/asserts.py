"""The audits for people's own tests: each raises AssertionError with the sentence of its finding.

    from attnlab.audit import assert_causal

    def test_my_model():
        assert_causal(MyModel())

An audit that does not apply, or inside which the model raises an error, could not be judged and
raises too: a test that tested nothing must not pass.
"""

from functools import partial
from typing import Any

from attnlab.audit.catalogue import load_audit, run_audit


def assert_audit(model: Any, name: str, *, seed: int = 0, length: int | None = None) -> None:
    """Any audit of a model by its name."""
    __tracebackhide__ = True  # pytest shows the line of the test, not this one
    from attnlab.audit.probing.probe import Probe
    from attnlab.audit.probing.wrap import subject_of

    finding = run_audit(load_audit(name), subject_of(model), Probe(seed, length))
    if finding.verdict == "fail":
        raise AssertionError(f"{name}: fail: {finding.why}")
    if finding.verdict != "pass":
        raise AssertionError(f"{name}: could not be judged: {finding.why}")


# No prediction changes when only later tokens change.
assert_causal = partial(assert_audit, name="causality")
# No row's answer depends on the rows beside it.
assert_batch_independent = partial(assert_audit, name="batch-independence")
# Padding changes nothing about real tokens.
assert_pad_invariant = partial(assert_audit, name="padding")
# Every token is read by later predictions.
assert_covers = partial(assert_audit, name="coverage")
# Asked twice, it answers the same.
assert_deterministic = partial(assert_audit, name="eval-determinism")
# Decoding with the cache gives the logits of one forward pass over the whole text.
assert_cache_parity = partial(assert_audit, name="cache-parity")
# No prediction is NaN or infinite.
assert_finite = partial(assert_audit, name="non-finite")
