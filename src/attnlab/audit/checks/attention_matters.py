"""attention-matters: would the predictions be the same without attention?

Runs: the same text with attention's output set to zero, and with its weights made uniform over what
is visible; in float64 where the model allows. Number: the smaller of the two movements of the
logits. Fails when it is no larger than ten times the noise: attention is there and does nothing
(dead), or its queries and keys decide nothing (it averages whatever it sees).
"""

from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.audit.probing.attention_scores import AblateAttention
from attnlab.audit.probing.noise import largest_movement, noise_of
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import repeatable
from attnlab.audit.probing.subject import Subject

NAME = "attention-matters"
WORDS = {
    "zero": "attention does nothing: with its output set to zero the predictions are the same",
    "uniform": "queries and keys decide nothing: with equal weights on all visible tokens the "
    "predictions are the same",
}


@audit(NAME, question="Does its output stay the same without attention?", needs=(repeatable,))
def attention_matters(subject: Subject, probe: Probe) -> Finding:
    """Judge any model whose attention can be ablated."""
    fine = subject.finest()
    noise = noise_of(fine, probe)
    length = probe.short_length(fine)
    rows = probe.rows(fine)
    plain = fine.logits(rows)
    movements, calls = dict[str, float](), 0
    for how in WORDS:
        with AblateAttention(length, how) as ablated:
            movements[how] = largest_movement(plain, fine.logits(rows))
        calls = ablated.calls
        if not calls:
            why = "no softmax over positions was seen, so there is no attention to ablate"
            raise NotApplicable(why, threshold=noise.threshold)
    least = min(movements, key=lambda how: movements[how])
    evidence = {**noise.evidence(), "movements": movements, "attentions": calls}
    if movements[least] > noise.threshold:
        why = (
            f"without attention the logits move by {movements['zero']:.2g}, "
            f"with equal weights by {movements['uniform']:.2g}"
        )
        return Finding(NAME, "pass", movements[least], noise.threshold, why, evidence)
    named = [] if fine.module is None else fine.module.named_parameters()
    zero = next((name for name, p in named if p.ndim > 1 and not bool(p.any())), None)
    if zero and movements[least] == 0:
        why = f"`{zero}` is exactly zero, as some start their training: nothing can be seen yet"
        raise NotApplicable(why, threshold=noise.threshold, evidence=evidence)
    return Finding(NAME, "fail", movements[least], noise.threshold, WORDS[least], evidence)
