"""Accuracy against what learns, and what it costs."""

import numpy as np
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.report.style import LINEAR, NEUTRAL, POSITIONAL, SEMANTIC, house_style, panels
from attnlab.studies.adapting.adapter_claims import COSTS, LABELS, TASKS, mean_cost
from attnlab.studies.adapting.evidence import Runs
from attnlab.studies.adapting.looks import as_share, dot, majority
from attnlab.studies.adapting.settings import AdapterSettings

COLOURS = {
    "full": POSITIONAL,
    "head": NEUTRAL,
    "prefix": LINEAR,
    "prefix-layers": LINEAR,
    "lora": SEMANTIC,
}


def figures(runs: Runs, s: AdapterSettings) -> list[Figure]:
    """Nothing where nothing ended."""
    tasks = [task for task in TASKS if runs.rows(task=task)]
    if not tasks:
        return []
    ids = tuple(runs.table.ids)
    found = [
        Figure(
            "methods",
            "Accuracy against the numbers that learn",
            "Test accuracy, once a seed, of the rate that dev chose. Bars: 95 % intervals over seeds "
            "and test rows. Under each name, the numbers that learn. Hollow: the same architecture "
            "from random weights, or another encoder. Dotted: the most frequent answer.",
            "A dot with an interval for each method, a panel for each task.",
            lambda: _methods(runs, s, tasks),
            ids,
        )
    ]
    kinds = [kind for kind in COSTS if any(kind in row.cost for row in runs.table)]
    if kinds:
        found.append(
            Figure(
                "cost",
                "What a method costs",
                "Mean over seeds of the chosen training, dev evaluations included; several trials may "
                "have shared the machine, so compare within a panel only.",
                "A bar for each method and task.",
                lambda: _cost(runs, s, tasks, kinds),
                ids,
            )
        )
    return found


def _methods(runs: Runs, s: AdapterSettings, tasks: list[str]) -> Drawing:
    arms = {arm: (LABELS[arm], COLOURS[arm]) for arm in s.methods}
    arms |= {f"full, {name}": (f"all of it, {name}", NEUTRAL) for name in s.encoders}
    trained = {arm: runs.mean("trained", arm=arm) for arm in arms if runs.rows(arm=arm)}
    order = sorted(trained, key=lambda arm: trained[arm])
    with house_style():
        drawing, axes = panels(1, len(tasks), height=1.0 + 0.4 * len(order), share_y=True)
        for ax, task in zip(axes, tasks, strict=True):
            for line, arm in enumerate(order):
                if runs.rows(task=task, arm=arm):
                    e = runs.accuracy(task=task, arm=arm)
                    dot(ax, line, e, arms[arm][1], hollow=arm.startswith("full, "))
            majority(ax, runs.mean("majority", task=task), "x")
            as_share(ax, "x")
            ax.set_title(TASKS[task])
            ax.set_xlabel("test accuracy")
        words = [f"{arms[arm][0]}\n{trained[arm]:,.0f}" for arm in order]
        axes[0].set_yticks(range(len(order)), words)
        axes[0].set_ylim(-0.6, len(order) - 0.4)
    return drawing


def _cost(runs: Runs, s: AdapterSettings, tasks: list[str], kinds: list[str]) -> Drawing:
    arms = list(s.methods)
    with house_style():
        drawing, axes = panels(1, len(kinds), height=0.9 + 0.42 * len(arms))
        for ax, kind in zip(axes, kinds, strict=True):
            for place, (task, colour) in enumerate(zip(tasks, (POSITIONAL, LINEAR), strict=False)):
                values = [mean_cost(runs.rows(task=task, arm=arm), kind) for arm in arms]
                lines = np.arange(len(arms)) + 0.36 * (place - (len(tasks) - 1) / 2)
                ax.barh(lines, values, height=0.32, color=colour, label=TASKS[task])
            ax.set_yticks(range(len(arms)), [LABELS[arm] for arm in arms])
            ax.invert_yaxis()
            ax.set_xlabel(COSTS[kind])
        if len(tasks) > 1:
            axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    return drawing
