"""distillation-identity: is a student that equals its teacher at the bottom of the loss?

Runs: the loss in float32 on student logits equal to the teacher's, soft and peaked ones, and its
gradient; then on other students. Number: the larger of |loss| and the largest gradient at equality.
Fails above 1e-6 (a hidden cross-entropy, a swapped argument, another temperature on one side),
when the loss is negative anywhere, or when it is 0 for every student. A loss on the teacher's
samples (sequence level) is then the teacher's own NLL, not 0, and is exempt.
"""

import math
from typing import Any, Literal

import torch

from attnlab.audit.checks.loss_mask import Loss, loss_and_gradient
from attnlab.audit.finding import Finding, NotApplicable, audit
from attnlab.core.seeds import Seed

NAME = "distillation-identity"
LIMIT = 1e-6
SHAPE = (3, 5, 101)  # rows, positions, vocabulary
SCALES = (1.0, 10.0)  # of the logits: an untrained teacher, a certain one
OTHERS = 7


@audit(NAME, threshold=LIMIT)
def distillation_identity(
    loss: Loss, *, level: Literal["logits", "sequence"] = "logits"
) -> Finding:
    """Judge `loss(student_logits, teacher_logits)`, logits of (batch, pos, vocab)."""
    if level == "sequence":
        raise NotApplicable("on the teacher's own samples the loss is the teacher's NLL, not 0")
    generator = Seed(0).child(NAME).torch_generator()
    number, evidence = 0.0, dict[str, Any]()
    for scale in SCALES:
        teacher = scale * torch.randn(SHAPE, generator=generator)
        value, gradient = loss_and_gradient(loss, teacher, teacher)
        slope = float(gradient.abs().max())
        evidence[f"logits of size {scale:g}"] = {"loss": value, "largest_gradient": slope}
        if not (math.isfinite(value) and math.isfinite(slope)):
            why = f"for equal logits of size {scale:g} the loss is {value}, its gradient {slope}"
            return Finding(NAME, "fail", math.inf, LIMIT, why, evidence)
        number = max(number, abs(value), slope)
    teacher, *students = (torch.randn(SHAPE, generator=generator) for _ in range(1 + OTHERS))
    others = [float(loss(student, teacher).detach()) for student in students]
    pair = [torch.randn(SHAPE, generator=generator) for _ in range(2)]
    once = float(loss(*pair).detach())
    twice = float(loss(*(torch.cat([x, x]) for x in pair)).detach())
    # 1 for a mean, 2 for a sum
    evidence |= {"other_students": others, "doubled_batch": twice / once if once else None}
    problem = ""
    if number > LIMIT:
        problem = (
            f"a student equal to its teacher has |loss| or gradient {number:.3g}: "
            "the loss pulls it away from the teacher"
        )
    elif min(others) < -LIMIT:
        problem = f"the loss is negative ({min(others):.3g}) for a student unlike its teacher"
    elif max(others) <= LIMIT:
        problem = "the loss is 0 for every student: nothing is taught"
    why = "a student equal to its teacher has loss 0 and gradient 0, any other more"
    return Finding.judged(NAME, problem, why, number, LIMIT, evidence)
