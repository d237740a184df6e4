"""Small programs that try to show that a result is not what it seems. One file an audit.

from attnlab.audit import check, assert_causal

check(model)              every audit that applies, with a sentence each
assert_causal(model)      one of them, for a test of your own
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attnlab.audit.asserts import (
        assert_audit,
        assert_batch_independent,
        assert_cache_parity,
        assert_causal,
        assert_covers,
        assert_deterministic,
        assert_finite,
        assert_pad_invariant,
    )
    from attnlab.audit.catalogue import Verdicts, check

__all__ = [
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


def __getattr__(name: str) -> Any:
    """Opened when asked for: a study's verdicts need no torch."""
    import importlib

    if name in __all__:
        room = "asserts" if name.startswith("assert_") else "catalogue"
        return getattr(importlib.import_module(f"attnlab.audit.{room}"), name)
    raise AttributeError(f"module 'attnlab.audit' has no attribute {name!r}")
