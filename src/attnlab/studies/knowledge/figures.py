"""Pictures: accuracy by arm, memorised against asked, confidence of the four kinds, schedules."""

import numpy as np
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.measure.calibration import selective_accuracy
from attnlab.report.labels import write
from attnlab.report.plots import Series, draw_dots
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import NEUTRAL, PALETTE, errorbars, house_style, panels
from attnlab.studies.knowledge.arms import KnowledgeArms
from attnlab.studies.knowledge.checks import rates
from attnlab.studies.knowledge.study import Knowledge

ROW = 0.36  # inches a line of a dot plot
KINDS = {
    "read": ("read of", PALETTE[1]),
    "taught": ("taught", PALETTE[2]),
    "unread": ("real, not read of", PALETTE[0]),
    "invented": ("invented", NEUTRAL),
}
SHOWN = ("pretrained", "rotary", "perceiver-local", "none")


def figures(study: Knowledge, arms: KnowledgeArms) -> list[Figure]:
    """Everything the report shows; a figure without trials is left out."""
    names = arms.names()
    if not names:
        return []
    arm = next((a for a in SHOWN if a in names), names[0])
    course = "course-schedule" in study.settings.arms
    drawn: dict[str, Drawn] = {
        "accuracy": (lambda: _by_arm(arms), arms.ids()),
        "confidence": (lambda: _confidence(arms, arm), arms.ids(arm)),
        "schedule": (_schedules, arms.ids("course-schedule") if course else []),
    }
    return with_words(study, drawn, label=arms.label(arm))


def _by_arm(arms: KnowledgeArms) -> Drawing:
    names = arms.names()
    with house_style():
        drawing, (ax,) = panels(1, 1, height=1.0 + ROW * len(names))
        lines = {arms.label(a): [arms.share(a, "read"), arms.share(a, "recalled")] for a in names}
        series = [Series("read", PALETTE[1]), Series("recalled", PALETTE[0], hollow=True)]
        draw_dots(ax, lines, series)
        for metric, style in (("majority", ":"), ("ceiling", "--")):
            ax.axvline(arms.mean(names[0], metric), color=NEUTRAL, linestyle=style, linewidth=1.0)
        ax.set(xlim=(-0.02, 1.02), xlabel="share right")
    return drawing


def _confidence(arms: KnowledgeArms, arm: str) -> Drawing:
    """A thin line for each seed; the calibration of all seeds with intervals."""
    with house_style():
        drawing, (left, middle, right) = panels(1, 3, height=2.7)
        for height, (kind, (words, colour)) in enumerate(KINDS.items()):
            seeds = arms.arrays(arm, f"{kind}_confidence")
            for values in map(np.sort, seeds):
                shares = np.arange(1, values.size + 1) / values.size
                left.plot(values, shares, color=colour, linewidth=0.8)
            if seeds:
                write(left, 0.03, 0.97 - 0.1 * height, words, colour)
        left.set(xlabel="confidence", ylabel="share of people below")
        middle.plot([0, 1], [0, 1], color=NEUTRAL, linestyle=":", linewidth=1.0)
        bins = arms.calibration(arm)
        at = [b.confidence for b in bins]
        errorbars(middle, at, [b.accuracy for b in bins], PALETTE[1], marker="o")
        middle.set(xlabel="confidence", ylabel="accuracy")
        for judged in arms.judged(arm):
            kept = selective_accuracy(*judged)
            right.step(kept.coverage, kept.accuracy, where="post", color=PALETTE[1], linewidth=0.8)
        right.set(xlabel="share answered", ylabel="accuracy of the answered")
        for ax in (middle, right):
            ax.set(xlim=(0, 1.02), ylim=(0, 1.02))
    return drawing


def _schedules() -> Drawing:
    with house_style():
        drawing, axes = panels(1, 2, height=2.4, share_y=True)
        phases = {"reading": "reading", "asked": "being asked"}
        for ax, (phase, words) in zip(axes, phases.items(), strict=True):
            for name, colour in (("course", PALETTE[2]), ("fixed", PALETTE[0])):
                values = rates(name, phase)
                ax.plot(np.linspace(0, 1, len(values)), values, color=colour, label=name)
            ax.set_xlabel(f"share of the steps, {words}")
        axes[0].set_ylabel("learning rate / its peak")
        axes[0].legend(frameon=False, fontsize=8)
    return drawing
