"""Small programs that try to show that a result is not what it seems.

from attnlab.audit import check, assert_causal

check(model)              every audit that applies, with a sentence each
assert_causal(model)      one of them, for a test of your own
"""

from attnlab.audit.catalogue import (
    assert_audit,
    assert_batch_independent,
    assert_cache_parity,
    assert_causal,
    assert_covers,
    assert_deterministic,
    assert_finite,
    assert_pad_invariant,
    check,
)
from attnlab.audit.finding import Finding, Verdicts

__all__ = [
    "Finding",
    "Verdicts",
    "assert_audit",
    "assert_batch_independent",
    "assert_cache_parity",
    "assert_causal",
    "assert_covers",
    "assert_deterministic",
    "assert_finite",
    "assert_pad_invariant",
    "check",
]
