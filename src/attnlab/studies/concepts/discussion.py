"""The answer, and every concept as a student would ask it, written from what was measured."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from attnlab.lab.claim import Claim
from attnlab.lab.study import Section
from attnlab.measure.intervals import Estimate
from attnlab.studies.concepts.evidence import Found
from attnlab.studies.concepts.settings import NAMES, ConceptsSettings

PAYS = {
    "pretraining-pays-": "with few bytes of {} going on from pretraining pays",
    "anew-pays-": "with many of {} starting anew pays",
}


def answer(claims: Sequence[Claim]) -> str:
    """How many facts hold; then what pretraining and tokenizer are worth."""
    held = sum(c.verdict == "holds" for c in claims)
    first = f"{held} of {len(claims)} statements hold"
    paid, told, settled = [c for c in claims if c.name.startswith(tuple(PAYS))], [], 0
    for prefix, words in PAYS.items():
        names = [_target(c) for c in paid if c.name.startswith(prefix) and c.verdict == "holds"]
        told += [words.format(" and of ".join(names))] if names else []
        settled += len(names)
    if left := len(paid) - settled:
        told.append(f"going on against starting anew: {left} of {len(paid)} not settled or not so")
    return "; ".join([first, *told]) + "."


def _target(claim: Claim) -> str:
    return NAMES[claim.name.rpartition("-")[2]]


def discussion(found: Found, claims: Sequence[Claim], s: ConceptsSettings) -> list[Section]:
    """One section a concept that was run."""
    by_name = {c.name: c for c in claims}
    sections = [
        Section("How does BERT want a pair of sentences?", _pair(found)),
        Section("What do padding, truncation and the mask do?", _padding(found, s)),
        Section("What do zero_grad, train, eval and no_grad do?", _loop(found)),
        Section("Why are training data shuffled?", _order(found)),
        Section("How does BPE learn and apply merges?", _merges(found)),
        Section("What are the labels of a masked language model?", _masking(found)),
        Section("When does a new tokenizer pay?", _tokenizer(found, s)),
        Section("When does pretraining anew pay?", _anew(found, s, by_name)),
        Section("Why must tokenizer and model come from one checkpoint?", _ids(found, s)),
    ]
    return [section for section in sections if section.paragraphs]


def _interval(e: Estimate, digits: int = 3) -> str:
    if not math.isfinite(e.value):
        return "not measured"
    if not e.has_interval:
        return f"{e.value:.{digits}f}"
    return f"{e.value:.{digits}f} [{e.low:.{digits}f}, {e.high:.{digits}f}]"


def _pair(found: Found) -> tuple[str, ...]:
    pair = found.document("pair", "pair.json")
    if pair is None:
        return ()
    cells = (
        f"{t} ({i}, {k})"
        for t, i, k, m in zip(
            pair["tokens"], pair["ids"], pair["segments"], pair["mask"], strict=True
        )
        if m
    )
    return (
        f"Question “{pair['texts'][0]}”, passage “{pair['texts'][1]}”. Token (id, segment): "
        + ", ".join(cells)
        + ".",
        "RoBERTa's form of the same pair has no segments and two markers between the texts: "
        + " ".join(pair["roberta"])
        + " (made with GPT-2's merges, which are RoBERTa's).",
        "With all segments 0 the vector of a pair moves by 1 − cos = "
        f"{_interval(found.estimate('pair', 'no_segments'))}; read as one text, without the marker "
        f"between, by {_interval(found.estimate('pair', 'one_text'))} (means over pairs, interval "
        "over seeds).",
    )


def _padding(found: Found, s: ConceptsSettings) -> tuple[str, ...]:
    rows = found.rows("pair")
    if not rows:
        return ()
    first = rows[0]
    return (
        f"Ids, mask and segments have one shape, rows × places: here {first['rows']} × "
        f"{first['places']}, {100 * first['padding_share']:.0f} % of it padding. max_length is "
        f"{s.longest}: {first['cut_rows']} of {first['pairs']} pairs were longer and lost "
        f"{first['cut_tokens']} tokens, the longer text of a pair first.",
        f"Padded by 16 places with the mask, the vector moves by at most "
        f"{max(found.values('pair', 'masked_most')):.1e}, rounding; without the mask by "
        f"{_interval(found.estimate('pair', 'unmasked'))}.",
    )


def _loop(found: Found) -> tuple[str, ...]:
    rows = found.rows("loop")
    if not rows:
        return ()
    r = rows[0]
    return (
        f"Gradients add up: a second backward without zero_grad gives {r['not_zeroed']:.3f} times "
        f"the gradient, after zero_grad {r['zeroed']:.3f} times. A step is zero_grad, forward, "
        "backward, step, in this order.",
        f"In train mode the same row gives another output when it is read again (dropout: up to "
        f"{r['dropout_train']:.2f}) and with other neighbours (batch norm: "
        f"{r['neighbours_train']:.2f}); in eval mode {r['dropout_eval']:.2f} and "
        f"{r['neighbours_eval']:.2f}.",
        f"eval() is not no_grad(): in eval mode {r['kept_eval']:,} bytes are kept for a backward "
        f"pass (train: {r['kept_train']:,}), under no_grad {r['kept_no_grad']:,}.",
    )


def _order(found: Found) -> tuple[str, ...]:
    if not found.rows("order"):
        return ()
    return (
        f"Accuracy on other sentences: shuffled "
        f"{_interval(found.estimate('order', 'shuffled_accuracy'))}, one class after the other "
        f"{_interval(found.estimate('order', 'sorted_accuracy'))}; always the commoner class "
        f"{found.mean('order', 'majority'):.3f}.",
        "Sorted, the second half of an epoch shows one class only: the last steps teach that "
        "every sentence is of this class, whatever it says.",
    )


def _merges(found: Found) -> tuple[str, ...]:
    rows, told = found.rows("merges"), found.document("merges", "merges.json")
    if told is None:
        return ()
    first = ", ".join(f"{a}+{b}" for a, b in told["first"])
    same, of = (sum(int(r[name]) for r in rows) for name in ("merges_same", "merges_learnt"))
    right, words = (sum(int(r[name]) for r in rows) for name in ("words_same", "words_applied"))
    return (
        "Learn: cut words into bytes, join the commonest pair of neighbours everywhere, count "
        f"again. On Shakespeare the first merges are {first} (Ġ: the space before a word).",
        "Apply: to a new word the earliest learnt merge that fits, again and again: "
        + " → ".join(" ".join(pieces) for _, pieces in told["steps"])
        + ".",
        f"A program of forty lines and the library agree on {same} of {of} merges and on the "
        f"pieces of {right:,} of {words:,} words of other plays; the merges of unseen words are "
        "never learnt, only applied, so nothing is unknown.",
    )


def _masking(found: Found) -> tuple[str, ...]:
    told = found.document("masking", "masked.json")
    if told is None:
        return ()
    shares = {
        name: found.share("masking", name, of)
        for name, of in (
            ("chosen", "words"),
            ("mask", "chosen"),
            ("random", "chosen"),
            ("kept", "chosen"),
        )
    }
    return (
        f"Text: {' '.join(told['text'])}. Input: {' '.join(told['input'])}. Label: "
        f"{' '.join(told['label'])} (· is −100: not scored).",
        "Of all words are chosen {chosen}; of these become [MASK] {mask}, another word {random}, "
        "stay {kept}.".format(**{name: _interval(e) for name, e in shares.items()})
        + " Words that stay are scored too: a model that trusts what it sees would never be asked "
        "about it otherwise, and [MASK] never occurs when the model is used.",
    )


def _tokenizer(found: Found, s: ConceptsSettings) -> tuple[str, ...]:
    lines = []
    for target in s.targets:
        if not found.rows("anew", target=target):
            continue
        here: dict[str, Any] = {"target": target}
        size = s.sizes[-1]

        def of(metric: str, here: dict[str, Any] = here, digits: int = 2) -> str:
            return _interval(found.estimate("anew", metric, **here), digits)

        lines.append(
            f"{NAMES[target]}: tokens a word (fertility) own {of('own_fertility')}, the news' "
            f"{of('borrowed_fertility')}, GPT-2's of 50,257 {of('gpt2_fertility')}. Fresh weights, "
            f"{size:,} bytes: own tokenizer {of(f'own_{size}_bits', digits=3)} bits per byte, "
            f"perplexity {of(f'own_{size}_perplexity', digits=0)}; the news' "
            f"{of(f'borrowed_{size}_bits', digits=3)} and "
            f"{of(f'borrowed_{size}_perplexity', digits=0)}."
        )
    why = (
        "Perplexity is per token. A tokenizer with longer tokens has fewer and harder ones, so its "
        "perplexity may be higher where it is better; bits per byte have the same denominator for "
        "both. Compare perplexities only between models that share a tokenizer."
    )
    return (*lines, why) if lines else ()


def _anew(found: Found, s: ConceptsSettings, claims: Mapping[str, Claim]) -> tuple[str, ...]:
    lines = []
    for target in s.targets:
        if not found.rows("anew", target=target):
            continue
        cells = "; ".join(
            f"{size:,} bytes: going on "
            f"{_interval(found.estimate('anew', f'continued_{size}_bits', target=target))}, anew "
            f"{_interval(found.estimate('anew', f'own_{size}_bits', target=target))}"
            for size in s.sizes
        )
        lines.append(
            f"{NAMES[target]}, bits per byte: untouched after the news "
            f"{found.mean('anew', 'untouched_bits', target=target):.3f}; {cells}."
        )
        lines += [
            f"{c.statement}: {c.verdict} ({c.why})."
            for name, c in claims.items()
            if name in (f"pretraining-pays-{target}", f"anew-pays-{target}")
        ]
    return tuple(lines)


def _ids(found: Found, s: ConceptsSettings) -> tuple[str, ...]:
    lines = [
        f"Our GPT on {NAMES[t]}, own ids: perplexity "
        f"{found.mean('anew', 'own_right', target=t):,.0f}; the other tokenizer's ids, as many: "
        f"{found.mean('anew', 'own_wrong', target=t):,.0f}."
        for t in s.targets
        if found.rows("anew", target=t)
    ]
    rows = found.rows("ids")
    if rows:
        r = rows[0]
        lines += [
            f"{r['reader']} on news: own ids {found.mean('ids', 'own_perplexity'):,.0f}, GPT-2's "
            f"ids {found.mean('ids', 'foreign_perplexity'):,.0f}; guessing all {r['vocabulary']:,} "
            "tokens alike would be that number. Nothing fails, unless an id is beyond the "
            f"vocabulary ({sum(int(x['refused']) for x in rows)} texts were left out for that). "
            f"What the model reads then begins: “{rows[0].samples[0][:120]}”.",
            "Segment ids are no safer: a GPT-2 looks them up in its table of words and adds them, "
            f"exactly (difference {max(found.values('ids', 'segment_gap')):.1e}).",
        ]
    if lines:
        lines.append(
            "An id is a row number in one checkpoint's table. Another tokenizer's number 500 is "
            "another word, and no program can see that it is."
        )
    return tuple(lines)
