"""attnlab list, show and run: list the studies, describe one, and run it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import (
    RUNS,
    DeviceOption,
    JsonOption,
    OutOption,
    QuietOption,
    ScaleOption,
    StudyArgument,
    guard_stdout,
    note,
    say,
    say_json,
    say_table,
    set_option,
)
from attnlab.core.plural import counted, shorten

MOST_LINES = 20
SHOWN = 60  # characters of a setting


def list_studies(json: JsonOption = False) -> None:
    """List the built-in studies and the question each answers."""
    from attnlab.lab.source import load_study_class
    from attnlab.studies import study_names

    studies = [(name, load_study_class(name)) for name in study_names()]
    if json:
        say_json({"studies": [{"name": n, "question": k.question} for n, k in studies]})
        return
    say_table(["study", "question"], [[n, k.question] for n, k in studies])


def show(study: StudyArgument, scale: ScaleOption = "quick", json: JsonOption = False) -> None:
    """Show a study's question, settings and expected time."""
    from attnlab.api.running import plan

    with guard_stdout():
        planned = plan(study, scale, {"device": "cpu"})  # no need to look for a GPU
    made, trials = planned.study, len(planned.trials)
    fields = type(made.settings).model_fields
    values = made.settings_json()
    if json:
        about = {"study": made.name, "question": made.question, "source": made.source}
        about |= {"scale": scale, "expected": made.expected.get(scale), "trials": trials}
        say_json({**about, "settings": values})
        return
    say(made.question)
    if made.source:
        say(f"source: {made.source}")
    expected = made.expected.get(scale, "not measured")
    say(f"{counted(trials, 'trial')} at scale {scale}; expected time: {expected}")
    rows = [[n, shorten(str(v), SHOWN), fields[n].description or ""] for n, v in values.items()]
    say_table(["setting", "value", "meaning"], rows)


def run(  # noqa: PLR0913  (each is one documented option)
    study: StudyArgument,
    scale: ScaleOption = "quick",
    set_: Annotated[
        list[str] | None, set_option("`attnlab show STUDY` lists all settings.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Read settings from a TOML file.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of random seeds.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; default: one per core.")
    ] = None,
    engine: Annotated[str, typer.Option(help="Where trials run: local or ray.")] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="Ray cluster: host:port or auto; default: start one on this machine."),
    ] = None,
    device: DeviceOption = "auto",
    out: OutOption = RUNS,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Count the trials and run none.")
    ] = False,
    accept_edits: Annotated[
        bool,
        typer.Option(
            "--accept-edits",
            help="Keep stored trials although the study was edited; they must compute the same.",
        ),
    ] = False,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Run a study and write its report.

    Trials that are already stored are not run again, so the same command continues a stopped run.
    Exit code 1: a trial or an audit failed.
    """
    from attnlab.api.progress import resolve_progress
    from attnlab.api.running import plan
    from attnlab.api.running import run as execute
    from attnlab.core.config import parse_assignments, read_toml
    from attnlab.lab.engine import engine_named

    chosen = engine_named(engine, address)
    # a later one overrides an earlier one: the file, --set, then --seeds and --device
    settings = {**(read_toml(config) if config else {}), **parse_assignments(set_)}
    settings |= {} if seeds is None else {"seeds": seeds}
    if device != "auto" or settings.get("device", "auto") == "auto":
        settings["device"] = device if chosen.elsewhere else _on_this_machine(device)
    with guard_stdout():
        planned = plan(study, scale, settings)
    name, trials, made = planned.name, planned.trials, planned.study
    if dry_run:
        _dry_run(name, trials, json)
        return
    if not quiet:
        expected = made.expected.get(scale)
        note(made.question)
        about = f", {expected}" if expected else ""
        count = counted(len(trials), "trial")
        note(f"run {name}: {count} on {made.settings.device}{about}")
    progress: Any = resolve_progress(not quiet, trials)
    with guard_stdout():
        done = execute(
            planned,
            out=out,
            workers=workers,
            engine=chosen,
            progress=progress,
            accept_edits=accept_edits,
        )
    if progress and not progress.started:
        note("all trials are already stored: nothing was run again")
    _explain_failures(done)  # first, so that the last line is the path of the report
    if json:
        say_json(done.as_json())
    else:
        print_results(done.results)
        say(f"{done.report}")
    if done.failed or done.failed_audits:
        raise typer.Exit(1)


def _on_this_machine(device: str) -> str:
    """The device, which must exist here; auto is resolved with the plan, after its settings."""
    from attnlab.core.devices import resolve_device

    return device if device == "auto" else resolve_device(device)


def print_results(results: Mapping[str, Any]) -> None:
    """Print the answer, a table of the findings, and a line per check and audit."""
    from attnlab.audit.finding import AUDIT_MARKS
    from attnlab.lab.claim import MARKS
    from attnlab.report.text import number, with_interval

    say(results["answer"])
    checks = [c for c in results["claims"] if c.get("kind") == "check"]
    rows = []
    for c in results["claims"]:
        if c in checks:
            continue
        reported = "" if c["reported"] is None else number(c["reported"])
        if c["comparable"] is False:
            reported = f"{reported} (not comparable)".lstrip()
        verdict = f"{MARKS[c['verdict']]} {c['verdict']}"
        ours = with_interval(c["effect"], c["interval"])
        n = "exact" if c.get("exact") else str(c["n"])
        rows.append([verdict, c["statement"], ours, n, reported])
    if rows:
        say_table(["verdict", "claim", "ours", "n", "reported"], rows)
    for c in checks:
        say(f"{MARKS[c['verdict']]} check {c['name']}: {c['verdict']}: {c['statement']}")
    for a in results["audits"]:
        say(f"{AUDIT_MARKS[a['verdict']]} audit {a['name']}: {a['verdict']}: {a['why']}")


def _dry_run(name: str, trials: Any, as_json: bool) -> None:
    from collections import Counter

    from attnlab.api.progress import stage_of

    parts = Counter(stage_of(t) for t in trials)
    if as_json:
        say_json({"run": name, "trials": len(trials), "parts": dict(parts)})
        return
    say(f"{name}: {counted(len(trials), 'trial')}")
    for part, count in parts.items():
        say(f"  {part}: {count}")


def _explain_failures(done: Any) -> None:
    """Name the trials without a result and the failed audits on stderr; a long list is cut."""
    bad = [row for row in done.table if row.state not in ("done", "diverged")]
    for row in bad[:MOST_LINES]:
        last = row.error.strip().splitlines()[-1] if row.error.strip() else ""
        note(f"trial {row.id} {row.state}: {last}")
    if len(bad) > MOST_LINES:
        note(f"and {len(bad) - MOST_LINES} more: see `attnlab table {done.path}`")
    if bad:
        note("the same command runs only these trials again")
    if done.failed_audits:
        note(f"audits failed: {', '.join(done.failed_audits)}")
