"""Planted faults and clean models for the audits of a model.

Each entry of PLANTED is a small language model, ids (batch, pos) → logits, with one fault, beside
a twin that differs from it in one place and is sound. `caught_by` names the audits that must fail
on the fault; on the twin, and on every entry of CLEAN, none may. That the faults and the twins are
what they say is shown without any audit, by brute force in float64, in
test_faults_are_what_they_say.py.

    masks       the future let in by a mask: off by one, one layer, one head, one token id
    conditions  only with a mask given, only in training mode, only in long inputs
    strength    finite masks, at the start and after training; scores too large
    pooled      statistics over positions or over the batch
    mixing      convolution, FFT, block summaries, linear attention
    shifted     token shift, recurrence, embedding
    routing     experts and routers that look at other tokens
    cached      wrong through the cache only
    padding     padding that reaches real tokens
    blind       inputs that nothing reads
    hidden      leaks at one position, for one id, at one length, behind weights of zero
    memory      what is remembered, drawn now and then, lost on the way to a file, or NaN at times
    state       randomness in eval, ties lost, NaN, a flag unread
    clean, clean_mixers   sound models of many kinds

A model returns a tensor, a tuple that begins with it, or an object with `.logits`; some take
attention_mask (1 = real token), some of these by keyword only; some keep a cache (`cached` drives
it). `PLANTED_BY_NAME` and `CLEAN_BY_NAME` look an entry up.
"""

from tests.audit.faults import (
    blind,
    cached,
    clean,
    clean_mixers,
    conditions,
    hidden,
    masks,
    memory,
    mixing,
    padding,
    pooled,
    routing,
    shifted,
    state,
    strength,
)
from tests.audit.faults.base import Clean, Planted

PLANTED: tuple[Planted, ...] = (
    *masks.PLANTED,
    *conditions.PLANTED,
    *strength.PLANTED,
    *pooled.PLANTED,
    *mixing.PLANTED,
    *shifted.PLANTED,
    *routing.PLANTED,
    *cached.PLANTED,
    *padding.PLANTED,
    *blind.PLANTED,
    *state.PLANTED,
    *hidden.PLANTED,
    *memory.PLANTED,
)
CLEAN: tuple[Clean, ...] = (*clean.CLEAN, *clean_mixers.CLEAN)
PLANTED_BY_NAME = {entry.name: entry for entry in PLANTED}
CLEAN_BY_NAME = {entry.name: entry for entry in CLEAN}

__all__ = ["CLEAN", "CLEAN_BY_NAME", "PLANTED", "PLANTED_BY_NAME", "Clean", "Planted"]
