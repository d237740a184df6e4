"""attention-matters: would the model say the same without attention?

Runs: the same text with attention's output set to zero, and with its weights made uniform over what
is visible; in float64 where the model allows. Number: the smaller of the two movements of the
logits. Fails when it is no larger than ten times the noise: attention is there and does nothing
(dead), or its queries and keys decide nothing (it averages whatever it sees).
"""

from attnlab.audit.finding import Finding
from attnlab.audit.probing.ablation import AblateAttention
from attnlab.audit.probing.noise import movement, noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.subject import Subject
from attnlab.audit.registry import NotApplicable, audit

NAME = "attention-matters"
WORDS = {
    "zero": "attention does nothing: with its output set to zero the predictions are the same",
    "uniform": "queries and keys decide nothing: with every visible token weighed alike the "
    "predictions are the same",
}


@audit(NAME, question="Would it say the same without attention?")
def attention_matters(subject: Subject, probe: Probe) -> Finding:
    """Judge any model whose attention can be replaced."""
    fine = subject.finest()
    noise = noise_of(fine, probe)
    length = probe.short(fine)
    rows = probe.rows(fine, length)
    plain = fine.logits(rows)
    found, calls = dict[str, float](), 0
    for how in WORDS:
        with AblateAttention(length, how) as ablated:
            found[how] = float(movement(plain, fine.logits(rows)).max())
        calls = ablated.calls
        if not calls:
            why = "no softmax over positions was seen: no attention that could be taken away"
            raise NotApplicable(why, threshold=noise.threshold)
    least = min(found, key=lambda how: found[how])
    evidence = {**noise.evidence(), "movements": found, "attentions": calls}
    if found[least] > noise.threshold:
        why = (
            f"without attention the logits move by {found['zero']:.2g}, "
            f"with equal weights by {found['uniform']:.2g}"
        )
        return Finding(NAME, "pass", found[least], noise.threshold, why, evidence)
    zero = _zero_weights(fine)
    if zero and found[least] == 0:
        why = f"`{zero}` is exactly zero, as some start their training: there is nothing to see yet"
        raise NotApplicable(why, threshold=noise.threshold, evidence=evidence)
    return Finding(NAME, "fail", found[least], noise.threshold, WORDS[least], evidence)


def _zero_weights(subject: Subject) -> str | None:
    """The first matrix of the model that holds nothing but zeros."""
    named = [] if subject.module is None else subject.module.named_parameters()
    return next((name for name, p in named if p.ndim > 1 and not bool(p.any())), None)
