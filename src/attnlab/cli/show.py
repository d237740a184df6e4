"""attnlab list, attnlab show STUDY: which questions there are, and their settings."""

from typing import Annotated

import typer

from attnlab.cli.console import JsonOption, say, say_json, say_table


def register(app: typer.Typer) -> None:
    """Add both commands."""
    app.command("list")(list_studies)
    app.command("show")(show)


def list_studies(json: JsonOption = False) -> None:
    """The built-in studies and the question each answers."""
    from attnlab.lab.source import load_study_class
    from attnlab.studies import study_names

    found = [(name, load_study_class(name)) for name in study_names()]
    if json:
        say_json({"studies": [{"name": n, "question": k.question} for n, k in found]})
        return
    say_table(["study", "question"], [[n, k.question] for n, k in found])


def show(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A name, or a file: ./mine.py")],
    scale: Annotated[str, typer.Option(help="smoke, quick or full.")] = "quick",
    json: JsonOption = False,
) -> None:
    """A study's question, settings at a scale, and how long it should take."""
    from attnlab.lab.source import load_study_class

    made = load_study_class(study).at(scale)
    fields = type(made.settings).model_fields
    values = made.settings_json()
    if json:
        say_json(
            {"study": made.name, "question": made.question, "source": made.source, "scale": scale,
             "expected": made.expected.get(scale), "trials": len(made.trials()),
             "settings": values}
        )  # fmt: skip
        return
    say(made.question)
    say(f"source: {made.source}")
    expected = made.expected.get(scale, "not measured")
    say(f"{len(made.trials())} trials at scale {scale}; expected time: {expected}")
    rows = [[n, str(v), fields[n].description or ""] for n, v in values.items()]
    say_table(["setting", "value", "meaning"], rows)
