"""Figures of the methods: accuracy against trained parameters, and cost."""

import numpy as np
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.report.plots import Series, draw_dots
from attnlab.report.prose import Drawn, with_words
from attnlab.report.style import PALETTE, house_style, panels
from attnlab.studies.adapting.adapters import COSTS, TASKS, Adapters
from attnlab.studies.adapting.evidence import AdaptArms
from attnlab.studies.adapting.plots import draw_curves

SHARE = (0.0, 1.0)
METHOD = Series("method", PALETTE[0])
OTHER_ENCODER = Series("other encoder", PALETTE[0], hollow=True)


def figures(study: Adapters, arms: AdaptArms) -> list[Figure]:
    """Costs are shown where they were measured."""
    tasks = [task for task in TASKS if arms.task(task).names()]
    kinds = [kind for kind in COSTS if any(kind in row.cost for row in arms.table)]
    methods: list[str] = list(study.settings.methods)
    drawn: dict[str, Drawn] = {
        "methods": (lambda: _methods(arms, tasks), arms.table.ids),
        "curves": (lambda: _curves(arms, "texts"), arms.task("texts").table.ids),
        "curves-pairs": (lambda: _curves(arms, "pairs"), arms.task("pairs").table.ids),
        "cost": (lambda: _cost(arms, methods, tasks, kinds), arms.table.ids if kinds else []),
    }
    return with_words(study, drawn)


def _methods(arms: AdaptArms, tasks: list[str]) -> Drawing:
    trained = {arm: arms.mean(arm, "trained") for arm in arms.names()}
    order = sorted(trained, key=lambda arm: -trained[arm])
    with house_style():
        drawing, axes = panels(1, len(tasks), height=1.0 + 0.4 * len(order), share_y=True)
        for ax, task in zip(axes, tasks, strict=True):
            here, lines = arms.task(task), {}
            for arm in order:
                accuracy = here.accuracy(arm)
                label = f"{arms.label(arm)}\n{trained[arm]:,.0f}"
                other = arm.startswith("full, ")
                lines[label] = [None, accuracy] if other else [accuracy, None]
            baseline = here.mean(here.names()[0], "majority")
            draw_dots(ax, lines, [METHOD, OTHER_ENCODER], limits=SHARE, baseline=baseline)
            ax.set_title(TASKS[task])
            ax.set_xlabel("test accuracy")
    return drawing


def _curves(arms: AdaptArms, task: str) -> Drawing:
    here = arms.task(task)
    return draw_curves(here, [arm for arm in here.names() if not arm.startswith("full, ")])


def _cost(arms: AdaptArms, methods: list[str], tasks: list[str], kinds: list[str]) -> Drawing:
    with house_style():
        drawing, axes = panels(1, len(kinds), height=0.9 + 0.42 * len(methods))
        for ax, kind in zip(axes, kinds, strict=True):
            for i, (task, color) in enumerate(zip(tasks, PALETTE, strict=False)):
                values = [arms.task(task).mean_cost(arm, kind) for arm in methods]
                lines = np.arange(len(methods)) + 0.36 * (i - (len(tasks) - 1) / 2)
                ax.barh(lines, values, height=0.32, color=color, label=TASKS[task])
            ax.set_yticks(range(len(methods)), [arms.label(arm) for arm in methods])
            ax.invert_yaxis()
            ax.set_xlabel(COSTS[kind])
        if len(tasks) > 1:
            axes[0].legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2)
    return drawing
