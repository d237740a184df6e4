"""Pictures: a pair token by token, a word merge by merge, bits against data, order and ids."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from attnlab.lab.study import Figure
from attnlab.measure.intervals import mean_interval
from attnlab.report.style import (
    LINEAR,
    NEUTRAL,
    POSITIONAL,
    SEMANTIC,
    errorbars,
    house_style,
    log_axis,
    panels,
)
from attnlab.studies.concepts.evidence import Found
from attnlab.studies.concepts.settings import NAMES, ConceptsSettings

WAYS = {
    "continued": ("goes on from news", SEMANTIC),
    "borrowed": ("news' tokenizer, fresh", LINEAR),
    "own": ("own tokenizer, fresh", POSITIONAL),
}
PER_LINE = 8  # tokens of a pair in one row of cells
BARS = "Bars: 95 % t intervals over seeds."


def figures(found: Found, s: ConceptsSettings) -> list[Figure]:
    """Everything the report shows; a figure without trials is left out."""
    shown: list[Figure] = []
    if (pair := found.document("pair", "pair.json")) is not None:
        shown.append(
            Figure(
                "pair",
                "A question and its passage as BERT reads them",
                "One cell a token, its id below. Blue: segment 0, pink: segment 1, grey: padding, "
                "which the mask hides.",
                "Cells with tokens and ids, coloured by segment: " + " ".join(pair["tokens"]),
                lambda: _pair(pair),
                tuple(found.ids("pair")),
            )
        )
    if (merges := found.document("merges", "merges.json")) is not None:
        shown.append(
            Figure(
                "merges",
                f"How byte-pair encoding cuts “{merges['word'].lstrip('Ġ')}”",
                "From the top: single bytes (Ġ is the space before the word), then the earliest learnt "
                "merge that fits, one a line, until none fits.",
                "Lines of cells; in each line two neighbours of the line above are one cell.",
                lambda: _merges(merges["steps"]),
                tuple(found.ids("merges")),
            )
        )
    if targets := [t for t in s.targets if found.rows("anew", target=t)]:
        ids = tuple(found.ids("anew"))
        shown += [
            Figure(
                "bits",
                "New tokenizer, new weights, or going on: bits per byte",
                "Lower is better. Test bits per byte against the bytes of the target that were "
                f"read, at the evaluation where dev is lowest; the same steps everywhere. {BARS}",
                "A panel a target; three marks at every size: going on, fresh, fresh and own.",
                lambda: _bits(found, s, targets),
                ids,
            ),
            Figure(
                "units",
                "The same models by perplexity per token, and by bits per byte",
                "Fresh weights, the largest size. By perplexity per token one would choose the "
                "tokenizer whose short tokens are easier each; bits per byte have the same "
                f"denominator for both, and are the fair comparison. {BARS}",
                "Two panels: perplexity and bits per byte of both tokenizers for every target.",
                lambda: _units(found, s, targets),
                ids,
            ),
        ]
    if found.rows("ids") or targets:
        shown.append(
            Figure(
                "ids",
                "Right ids and another tokenizer's ids",
                "Perplexity per token of the same text (log axis). Filled: the model's own ids; "
                f"hollow: the other's; dotted: guessing all tokens alike. {BARS}",
                "Two dots a model, the hollow one far to the right.",
                lambda: _ids(found, targets),
                tuple(found.ids("ids")),
            )
        )
    if found.rows("order"):
        shown.append(
            Figure(
                "order",
                "The same sentences, shuffled or sorted by class",
                f"Accuracy on other sentences after every epoch. Dotted: the commoner class. {BARS}",
                "Two series of points, shuffled above sorted.",
                lambda: _order(found),
                tuple(found.ids("order")),
            )
        )
    return shown


def _cell(ax: Axes, x: float, y: float, width: float, text: str, colour: str) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((x, y), width - 0.06, 0.86, facecolor=colour, edgecolor="white"))
    ax.text(x + width / 2 - 0.03, y + 0.43, text, ha="center", va="center", fontsize=8)


def _bare(ax: Axes, width: float, height: float) -> None:
    ax.set_xlim(-0.1, width)
    ax.set_ylim(-height, 0.2)
    ax.grid(False)
    ax.set_axis_off()


def _pair(pair: dict[str, Any]) -> Drawing:
    lines = -(-len(pair["tokens"]) // PER_LINE)
    with house_style():
        drawing, (ax,) = panels(1, 1, height=0.75 * lines + 0.2)
        cells = zip(pair["tokens"], pair["ids"], pair["segments"], pair["mask"], strict=True)
        for place, (token, number, segment, mask) in enumerate(cells):
            line, column = divmod(place, PER_LINE)
            colour = "#E4E4E4" if not mask else ("#F6CBDD" if segment else "#CFE0F8")
            _cell(ax, column, -2 * line - 1, 1, token, colour)
            ax.text(
                column + 0.47,
                -2 * line - 1.3,
                str(number),
                ha="center",
                va="center",
                fontsize=8,
                color=NEUTRAL,
            )
        _bare(ax, PER_LINE, 2 * lines)
    return drawing


def _merges(steps: list[Any]) -> Drawing:
    width = len(steps[0][1])
    with house_style():
        drawing, (ax,) = panels(1, 1, height=0.3 * len(steps) + 0.2)
        for line, (pair, pieces) in enumerate(steps):
            x = 0
            for piece in pieces:
                new = bool(pair) and piece == pair[0] + pair[1]
                _cell(ax, x, -line - 1, len(piece), piece, "#F6CBDD" if new else "#EFEFEF")
                x += len(piece)
            said = f"{pair[0]} + {pair[1]}" if pair else "bytes"
            ax.text(width + 0.3, -line - 0.57, said, va="center", fontsize=8, color=NEUTRAL)
        _bare(ax, width + 2.5, len(steps))
    return drawing


def _bits(found: Found, s: ConceptsSettings, targets: list[str]) -> Drawing:
    with house_style():
        drawing, axes = panels(1, len(targets), height=2.8)
        for ax, target in zip(axes, targets, strict=True):
            for shift, (way, (words, colour)) in enumerate(WAYS.items()):
                cells = [found.estimate("anew", f"{way}_{n}_bits", target=target) for n in s.sizes]
                places = np.array(s.sizes) * 1.06 ** (shift - 1)
                errorbars(ax, places, cells, colour, label=words)
                ax.plot(places, [c.value for c in cells], color=colour, linewidth=0.8)
            ax.set_xscale("log")
            ax.set_xticks(s.sizes, [f"{n / 1000:g} kB" for n in s.sizes])
            ax.set_xticks([], minor=True)
            ax.set_title(NAMES[target])
            ax.set_xlabel("bytes read")
        axes[0].set_ylabel("bits per byte of other texts")
        axes[-1].legend()
    return drawing


def _units(found: Found, s: ConceptsSettings, targets: list[str]) -> Drawing:
    with house_style():
        drawing, axes = panels(1, 2, height=0.9 + 0.5 * len(targets))
        for ax, unit in zip(axes, ("perplexity", "bits"), strict=True):
            for line, target in enumerate(targets):
                for way, height in (("borrowed", -0.12), ("own", 0.12)):
                    words, colour = WAYS[way]
                    e = found.estimate("anew", f"{way}_{s.sizes[-1]}_{unit}", target=target)
                    ax.plot([e.low, e.high], [line + height] * 2, color=colour, linewidth=1.2)
                    ax.plot(
                        e.value,
                        line + height,
                        "o",
                        color=colour,
                        markersize=5,
                        label=words if not line else None,
                    )
            ax.set_yticks(range(len(targets)), [NAMES[t] for t in targets])
            ax.set_ylim(len(targets) - 0.4, -0.6)
            ax.set_xlabel("perplexity per token" if unit == "perplexity" else "bits per byte")
        axes[0].legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1)
        axes[1].set_yticklabels([])
    return drawing


def _ids(found: Found, targets: list[str]) -> Drawing:
    real = found.rows("ids")
    lines = [f"our GPT, {NAMES[t]}" for t in targets]
    lines += [str(real[0]["reader"])] if real else []
    with house_style():
        drawing, (ax,) = panels(1, 1, height=0.8 + 0.4 * len(lines))
        for line in range(len(lines)):
            here: dict[str, Any] = {"target": targets[line]} if line < len(targets) else {}
            part = "anew" if here else "ids"
            metrics = (
                ("own_right", "own_wrong") if here else ("own_perplexity", "foreign_perplexity")
            )
            for metric, face in zip(metrics, (POSITIONAL, "white"), strict=True):
                e = mean_interval(np.log(found.values(part, metric, **here)))
                low, value, high = np.exp([e.low, e.value, e.high])
                ax.plot([low, high], [line, line], color=POSITIONAL, linewidth=1.2)
                ax.plot(value, line, "o", color=POSITIONAL, markerfacecolor=face, markersize=6)
            guess = found.mean(part, "vocabulary", **here)
            ax.plot([guess] * 2, [line - 0.3, line + 0.3], color=NEUTRAL, linestyle=":")
        log_axis(ax, "x")
        ax.set_yticks(range(len(lines)), lines)
        ax.set_ylim(len(lines) - 0.4, -0.6)
        ax.set_xlabel("perplexity per token")
    return drawing


def _order(found: Found) -> Drawing:
    rows = found.rows("order")
    with house_style():
        drawing, (ax,) = panels(1, 1, height=2.4)
        epochs = np.arange(1, len(rows[0].curves["shuffled"]) + 1)
        for shift, (name, colour) in enumerate((("shuffled", POSITIONAL), ("sorted", LINEAR))):
            curves = np.array([r.curves[name] for r in rows])
            cells = [mean_interval(column) for column in curves.T]
            errorbars(ax, epochs + 0.06 * shift, cells, colour, label=name)
        ax.axhline(found.mean("order", "majority"), color=NEUTRAL, linestyle=":")
        ax.set_xticks(epochs)
        ax.set_xlabel("epochs")
        ax.set_ylabel("accuracy")
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    return drawing
