"""attnlab list and attnlab show STUDY: the studies, their questions and settings."""

from attnlab.cli.console import (
    JsonOption,
    ScaleOption,
    StudyArgument,
    guard_stdout,
    say,
    say_json,
    say_table,
)
from attnlab.core.plural import counted


def list_studies(json: JsonOption = False) -> None:
    """List the built-in studies and the question each answers."""
    from attnlab.lab.source import load_study_class
    from attnlab.studies import study_names

    studies = [(name, load_study_class(name)) for name in study_names()]
    if json:
        say_json({"studies": [{"name": n, "question": k.question} for n, k in studies]})
        return
    say_table(["study", "question"], [[n, k.question] for n, k in studies])


def show(
    study: StudyArgument,
    scale: ScaleOption = "quick",
    json: JsonOption = False,
) -> None:
    """Show a study's question, settings and expected time."""
    from attnlab.api.running import plan

    with guard_stdout():
        planned = plan(study, scale, {"device": "cpu"})  # no need to look for a GPU
    made, trials = planned.study, len(planned.trials)
    fields = type(made.settings).model_fields
    values = made.settings_json()
    if json:
        say_json(
            {
                "study": made.name,
                "question": made.question,
                "source": made.source,
                "scale": scale,
                "expected": made.expected.get(scale),
                "trials": trials,
                "settings": values,
            }
        )
        return
    say(made.question)
    if made.source:
        say(f"source: {made.source}")
    expected = made.expected.get(scale, "not measured")
    say(f"{counted(trials, 'trial')} at scale {scale}; expected time: {expected}")
    rows = [[n, _short(str(v)), fields[n].description or ""] for n, v in values.items()]
    say_table(["setting", "value", "meaning"], rows)


def _short(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"
