"""Figures: ROUGE by arm, losses while training, what line breaks do to Lsum."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure as Drawing
from matplotlib.ticker import MaxNLocator

from attnlab.lab.study import Figure
from attnlab.measure.intervals import Estimate
from attnlab.report.plots import Curve, Series, draw_curve, draw_dots, legend_above
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import NEUTRAL, PALETTE, direct_label, house_style, panels
from attnlab.studies.distillation.claims import REPORTED
from attnlab.studies.distillation.evidence import KINDS, TRAINED, ScoredArms, mean_of
from attnlab.studies.distillation.study import Distillation

ROW = 0.34  # inches per line of a dot plot
COLOURS = dict(zip(TRAINED, PALETTE, strict=False))
LOSSES = {"text": "NLL, teacher's texts", "human": "NLL, people's", "logits": "divergence, logits"}
BY_ARM = (
    Series("model", PALETTE[0]),
    Series("no model", PALETTE[2], "^"),
    Series("reported", NEUTRAL, hollow=True),
)
LSUMS = {
    "rougeL": Series("L", NEUTRAL),
    "newline": Series("Lsum split at newlines", PALETTE[2], "^"),
    "rougeLsum": Series("Lsum split into sentences", PALETTE[0], "s"),
}
CASES = {
    "one_line": "four, on one line",
    "lines": "four, one per line",
    "longer": "four on one line, people's as written",
    "shorter": "three, one per line, people's as written",
    "longer_sentence": "four, split into sentences",
    "shorter_sentence": "three, split into sentences",
}


def figures(study: Distillation, arms: ScoredArms) -> list[Figure]:
    """In the order of the report; a figure without trials is left out."""
    names, batch = arms.names(), study.settings.batch
    trained = [arm for arm in names if arm in TRAINED]
    lines = arms.ids("lines") if names else []
    drawn: dict[str, Drawn] = {
        "rouge": (lambda: _rouge(arms, names), arms.ids()),
        "training": (
            lambda: _training(arms, trained, batch),
            arms.ids(*trained) if trained else [],
        ),
        "line-ends": (lambda: _line_breaks(arms, names), [*arms.ids(), *lines] if lines else []),
    }
    return with_words(study, drawn)


def _rouge(arms: ScoredArms, names: Sequence[str]) -> Drawing:
    with house_style():
        drawing, axes = panels(1, len(KINDS), height=0.9 + ROW * len(names), share_y=True)
        for ax, (kind, title) in zip(axes, KINDS.items(), strict=True):
            lines = {}
            for arm in names:
                score, reported = arms.score(arm, kind), REPORTED.get(arm)
                lines[arms.label(arm)] = [
                    None if arm == "lead" else score,
                    score if arm == "lead" else None,
                    Estimate(reported[kind]) if reported else None,
                ]
            draw_dots(ax, lines, BY_ARM)
            ax.set_title(title)
            ax.set_xlim(left=-0.02 * ax.get_xlim()[1])  # room for a mark at 0
            ax.xaxis.set_major_locator(MaxNLocator(3))
        drawing.supxlabel("F score on the test summaries (hollow: reported)", fontsize=8.5)
    return drawing


def _training(arms: ScoredArms, trained: Sequence[str], batch: int) -> Drawing:
    with house_style():
        drawing, (left, right) = panels(1, 2, height=2.9)
        last = 0.0
        for arm in trained:
            label, colour = arms.label(arm), COLOURS[arm]
            curve = Curve(label, colour, *arms.curve(arm, "dev_step", "dev_nll"))
            draw_curve(left, curve)
            last = max(last, *curve.x)
            curve = Curve("", colour, *arms.curve(arm, "step", "train_loss"))
            draw_curve(right, curve, label=False)
            right.plot([], [], color=colour, label=LOSSES[arm])
        right.legend(loc="best")  # the curves meet at their ends
        for arm in ("teacher", "untuned"):
            value = arms.mean(arm, "dev_nll")
            if np.isfinite(value):
                left.plot([0, last], [value, value], "--", color=NEUTRAL, linewidth=1.0)
                direct_label(left, last, value, arms.label(arm), NEUTRAL)
        left.set_ylabel("dev loss, people's summaries\n(nats per token)")
        right.set_ylabel("training loss (nats per token)")
        for ax in (left, right):
            ax.set_xlabel(f"step (batches of {batch})")
        low, high = left.get_xlim()
        left.set_xlim(low, high + 0.6 * (high - low))  # room for the labels
    return drawing


def _line_breaks(arms: ScoredArms, names: Sequence[str]) -> Drawing:
    row, series = arms.rows("lines")[0], list(LSUMS.values())
    cases = {}
    for case, words in CASES.items():
        values = np.asarray(row.arrays[f"{case}_rougeLsum"])
        estimate = mean_of(values[None], False, f"figure {case}")
        split = case.endswith("sentence")
        cases[words] = [None if split else estimate, estimate if split else None]
    with house_style():
        drawing, (above, below) = panels(2, 1, height=0.9 + ROW * max(len(names), len(CASES)))
        lines = {arms.label(arm): [arms.score(arm, column) for column in LSUMS] for arm in names}
        draw_dots(above, lines, series)
        legend_above(above, series)
        above.set_xlabel("F score on the test summaries")
        draw_dots(below, cases, series[1:])
        below.set_xlabel(f"Lsum of leads, {row['cases']:,} cases")
        below.set_title("No model: line breaks alone", fontsize=8)
    return drawing
