"""How heads become one output: concatenated, shuffled, shifted, re-weighted; which of it leaks."""

import math
from collections.abc import Mapping, Sequence
from typing import ClassVar

from attnlab.lab.claim import Claim, Reported, judge
from attnlab.lab.study import Figure
from attnlab.lab.table import Table
from attnlab.measure.intervals import mean_interval
from attnlab.studies.mini_gpt.arms import MERGING, Arm
from attnlab.studies.mini_gpt.evidence import Arms, exponential, geometric, ratio_claim
from attnlab.studies.mini_gpt.study import COURSE, MiniStudy, said

BATCH, HEADS, CAUSAL = "re-weight by batch", "re-weight by heads", "re-weight causal"
PLAIN = "concatenate"


def _reported(dev: float) -> Reported:
    return Reported(dev / 381, COURSE, comparable=False, note=f"{dev:g} / 381; only ratios compare")


class HeadMerging(MiniStudy):
    """Reported dev perplexities: concatenate 381, shuffle 384, shift 382, re-weight 346."""

    name = "head-merging"
    question = "Does re-weighting the heads by their norms beat concatenating them?"
    source = "A course report on a 3-layer GPT: concat 381, shuffle 384, shift 382, re-weight 346"
    expected: ClassVar = {
        "smoke": "about 40 seconds on two cores",
        "quick": "about 11 minutes on two cores",
        "full": "not measured",
    }

    declared: ClassVar = {
        BATCH: ("causality", "batch-independence", "padding"),
        HEADS: ("causality", "padding"),
        "shuffle each time": ("eval-determinism",),
    }

    def arms(self) -> Mapping[str, Arm]:
        """One way of merging each; the last has no attention."""
        return MERGING

    def claims(self, table: Table) -> list[Claim]:
        """The reported gain, then what exposes it, then the permutations."""
        a = Arms(table)
        return [
            ratio_claim(
                a,
                "looks-better",
                "In batches, re-weighting as reported has the lower perplexity",
                (BATCH, PLAIN),
                below=1.0,
                metric="dev_sentence_mean",
                reported=_reported(346),
            ),
            _alone(
                a,
                BATCH,
                "breaks-alone",
                "Alone a sentence costs it twice that in batches",
                above=2.0,
            ),
            _alone(
                a,
                PLAIN,
                "plain-alone",
                "Concatenation does not care about the batch (±0.1 %)",
                above=0.999,
                below=1.001,
            ),
            _moved(a, BATCH, "batch-leaks", "past_moved", "re-weighting as reported"),
            _moved(a, HEADS, "heads-leaks", "past_moved", "re-weighting by heads"),
            _still(a, CAUSAL, "causal-does-not-leak"),
            _moved(
                a,
                BATCH,
                "neighbours-leak",
                "neighbour_moved",
                "re-weighting as reported",
                "Changing the other sentences of a batch changes this one's predictions under",
            ),
            ratio_claim(
                a,
                "causal-is-no-gain",
                "Causal re-weighting matches concatenation (±3 %)",
                (CAUSAL, PLAIN),
                above=0.97,
                below=1.03,
            ),
            ratio_claim(
                a,
                "shift-is-nothing",
                "Shifting the heads by one changes nothing (±2 %)",
                ("shift", PLAIN),
                above=0.98,
                below=1.02,
                reported=_reported(382),
            ),
            _theorem(a),
            ratio_claim(
                a,
                "shuffle-costs",
                "A new order of heads in every forward does harm",
                ("shuffle each time", PLAIN),
                above=1.0,
                metric="dev_sentence_mean",
                reported=_reported(384),
            ),
            ratio_claim(
                a,
                "attention-helps",
                "Attention is worth something: switched off is worse",
                ("attention off", PLAIN),
                above=1.0,
            ),
        ]

    def figures(self, table: Table) -> list[Figure]:
        """The artefact first."""
        from attnlab.studies.mini_gpt.figures import artefact_figure

        return [artefact_figure(Arms(table)), *super().figures(table)]

    def answer(self, claims: Sequence[Claim]) -> str:
        """What the batch shows, and what a single sentence shows."""
        found = {c.name: c for c in claims}
        better, alone, leak = found["looks-better"], found["breaks-alone"], found["batch-leaks"]
        seen = {
            "holds": "looks better in batches",
            "fails": "does not even look better in batches",
            "undecided": "is not clearly better in batches",
        }[better.verdict]
        if alone.verdict == "holds" and leak.verdict == "holds":
            return (
                f"No: it {seen} ({better.estimate.value:.3f} times the perplexity), but it reads "
                "the future and its neighbours; one sentence alone costs "
                f"{alone.estimate.value:,.0f} times as much."
            )
        return f"Not settled: it {seen}; alone {alone.verdict}, leak {leak.verdict}."

    def meaning(self, arms: Arms, found: Mapping[str, Claim]) -> list[str]:
        """The artefact, the honest version, the theorem."""
        off = arms.estimate(BATCH, "off_dev_perplexity")
        return [
            "Re-weighting multiplies each head by the norm of its output over the whole sentence, "
            "divided by the sum of that over the batch. The norm of a whole sentence includes "
            "words that are still to be predicted, and the sum includes other sentences. In "
            f"batches of {self.settings.batch}: {said(found['looks-better'])}. One sentence at a "
            f"time every weight is 1, {self.settings.batch} times the training scale or so: "
            f"{said(found['breaks-alone'])}.",
            "The probe: change words after position t, and the predictions up to t must not move. "
            f"As reported: {said(found['batch-leaks'])}. Normalised over heads instead of the "
            f"batch it still reads the row's own future: {said(found['heads-leaks'])}. With norms "
            f"over positions up to t only: {said(found['causal-does-not-leak'])}, and its "
            f"perplexity against concatenation: {said(found['causal-is-no-gain'])}.",
            "Switched off at inference (every weight replaced by the mean of training), the dev "
            f"perplexity of the same models is {off.value:,.1f}; with the weights it is "
            f"{arms.estimate(BATCH, 'dev_perplexity').value:,.1f} in batches and "
            f"{arms.estimate(BATCH, 'alone_perplexity').value:,.0f} one by one.",
            "Shifting the heads, or shuffling them once, permutes the columns of the output map; "
            "a model with its columns permuted back computes the same function: "
            f"{said(found['permutation-theorem'])}. So a reported difference of 382 to 381 is the "
            f"noise of seeds; here the ratio is {found['shift-is-nothing'].estimate.value:.4f}.",
        ]


def _alone(
    a: Arms, arm: str, name: str, statement: str, *, above: float, below: float = math.inf
) -> Claim:
    """Perplexity of the same dev sentences one by one over that in a batch."""
    rows = a.rows(arm)
    logs = [float(v) for v in rows.column("log_alone_over_batched")]
    return judge(
        name,
        statement,
        exponential(mean_interval(logs)),
        above=above,
        below=below,
        quantity="perplexity alone / in a batch",
        trials=rows.ids,
    )


def _moved(
    a: Arms,
    arm: str,
    name: str,
    metric: str,
    words: str,
    start: str = "Changing later words changes earlier predictions under",
) -> Claim:
    rows = a.rows(arm)
    found = geometric(list(rows.column(metric)))
    return judge(
        name,
        f"{start} {words} (> 0.001)",
        found,
        above=1e-3,
        quantity="largest change of a log-probability",
        trials=rows.ids,
    )


def _still(a: Arms, arm: str, name: str) -> Claim:
    rows = a.rows(arm)
    found = mean_interval(rows.column("past_moved"))
    return judge(
        name,
        "Causal re-weighting: earlier predictions do not move",
        found,
        above=-1e-5,
        below=1e-5,
        quantity="largest change of a log-probability",
        trials=rows.ids,
    )


def _theorem(a: Arms) -> Claim:
    rows = Table([*a.rows("shift"), *a.rows("shuffle once")])
    gaps = rows.column("twin_gap")
    return judge(
        "permutation-theorem",
        "Shift and one shuffle are concatenation with permuted columns",
        mean_interval(gaps),
        above=-1e-3,
        below=1e-3,
        quantity="largest logit gap to the twin",
        trials=rows.ids,
    )
