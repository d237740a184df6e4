"""tying-and-save: is the model on disk the model in memory?

Runs: the model is saved and loaded; logits are compared on the same ids; weights that shared a
tensor must share one after loading. Number: the largest difference of a logit. Fails when it is not
0, when a tie is lost, or when the config announces a tie that is not there.
"""

from collections import defaultdict

from torch import nn

from attnlab.audit.finding import Finding, NotApplicable, audit, describe_error
from attnlab.audit.probing.noise import largest_movement
from attnlab.audit.probing.probe import Probe
from attnlab.audit.probing.requirements import module, repeatable
from attnlab.audit.probing.subject import Subject

NAME = "tying-and-save"


@audit(
    NAME,
    question="Is the model on disk the one in memory?",
    needs=(module, repeatable),
    threshold=0.0,
)
def tying_and_save(subject: Subject, probe: Probe) -> Finding:
    """Judge a module that can be saved and loaded."""
    assert subject.module is not None
    announced = getattr(getattr(subject.module, "config", None), "tie_word_embeddings", None)
    ties = tied_parameters(subject.module)
    if announced is True and _has_untied_head(subject.module):
        why = "its config says that embedding and output are tied, but they are two tensors"
        return Finding(NAME, "fail", None, 0.0, why, {"ties": ties})
    if subject.save_load is None:
        why = f": {subject.unsaved}" if subject.unsaved else ""
        raise NotApplicable(f"it cannot be saved and loaded again{why}")
    try:
        loaded = subject.save_load()
    except Exception as error:  # anyone's files
        why = f"saving and loading raised {describe_error(error)}"
        return Finding(NAME, "fail", None, 0.0, why)
    rows = probe.rows(subject)
    size = largest_movement(subject.logits(rows), loaded.logits(rows))
    assert loaded.module is not None
    lost = [tie for tie in ties if tie not in tied_parameters(loaded.module)]
    problem = ""
    if lost:
        problem = f"{' and '.join(lost[0])} were one tensor, and are two after loading"
    elif size != 0:
        problem = (
            f"after saving and loading its logits differ by {size:.2g}: "
            "something it needs is not among its saved weights"
        )
    why = "saved and loaded it is the same model" + (", tied weights included" if ties else "")
    return Finding.judged(NAME, problem, why, size, 0.0, {"ties": ties, "lost": lost})


def tied_parameters(module: nn.Module) -> list[list[str]]:
    """Names of parameters that share their memory."""
    places: dict[tuple[int, tuple[int, ...]], list[str]] = defaultdict(list)
    for name, parameter in module.named_parameters(remove_duplicate=False):
        if parameter.numel():
            places[(parameter.data_ptr(), tuple(parameter.shape))].append(name)
    return sorted(sorted(names) for names in places.values() if len(names) > 1)


def _has_untied_head(module: nn.Module) -> bool:
    """Input and output embeddings of the same shape that are two tensors."""
    ends = [getattr(module, f"get_{end}_embeddings", None) for end in ("input", "output")]
    if not all(callable(end) for end in ends):
        return False
    try:
        one, two = (getattr(end(), "weight", None) for end in ends)  # pyright: ignore[reportOptionalCall]
    except NotImplementedError:
        return False
    if one is None or two is None or one.shape != two.shape:
        return False
    return one.data_ptr() != two.data_ptr()
