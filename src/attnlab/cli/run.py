"""attnlab run STUDY: trials, claims, audits, figures, report."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import RUNS, JsonOption, OutOption, note, say, say_json, say_table


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(  # noqa: PLR0913  (each is one documented option)
    study: Annotated[str, typer.Argument(metavar="STUDY", help="A name, or a file: ./mine.py")],
    scale: Annotated[str, typer.Option(help="smoke, quick or full.")] = "quick",
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="One setting.")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="Settings from a TOML file.")] = None,
    seeds: Annotated[int | None, typer.Option(help="Independent instances.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes (default: cores).")] = None,
    engine: Annotated[str, typer.Option(help="local (ray: not yet).")] = "local",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")] = "auto",
    out: OutOption = RUNS,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would run.")] = False,
    json: JsonOption = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Answer a question: run what is missing of STUDY and write its report."""
    from attnlab.api import prepare
    from attnlab.api import run as execute
    from attnlab.cli.progress import progress_for

    made, source = prepare(study, scale, settings_from(config, set_, seeds, device))
    trials = made.trials()
    name = f"{made.name}-{made.run_id}"
    expected = made.expected.get(scale, "")
    if dry_run:
        _dry_run(name, trials, json)
        return
    if not quiet:
        note(made.question)
        about = f", {expected}" if expected else ""
        note(f"run {name}: {len(trials)} trials on {made.settings.device}{about}")
    done = execute(
        made, scale=scale, out=out, workers=workers, engine=engine,
        progress=progress_for(trials, quiet),
    )  # fmt: skip
    if json:
        say_json(done.as_json())
    else:
        print_results(done.results)
        say(f"{done.report}")
    if done.failed:
        _explain_failures(done)
        sys.exit(1)


def settings_from(
    config: Path | None, assignments: list[str] | None, seeds: int | None, device: str
) -> dict[str, Any]:
    """File, then --set, then --seeds and --device: later wins."""
    from attnlab.core.config import parse_assignment, read_toml
    from attnlab.core.devices import resolve_device

    chosen: dict[str, Any] = read_toml(config) if config else {}
    chosen.update(parse_assignment(text) for text in assignments or [])
    if seeds is not None:
        chosen["seeds"] = seeds
    if device != "auto" or "device" not in chosen:
        chosen["device"] = resolve_device(device)
    return chosen


def print_results(results: dict[str, Any]) -> None:
    """The answer, the claims and the audits."""
    from attnlab.audit.finding import AUDIT_MARKS
    from attnlab.lab.claim import MARKS
    from attnlab.report.text import number, with_interval

    say(results["answer"])
    rows = []
    for c in results["claims"]:
        reported = "" if c["reported"] is None else number(c["reported"])
        if c["comparable"] is False:
            reported = "not comparable"
        verdict = f"{MARKS[c['verdict']]} {c['verdict']}"
        ours = with_interval(c["effect"], c["interval"])
        rows.append([verdict, c["statement"], ours, str(c["n"]), reported])
    say_table(["verdict", "claim", "ours", "n", "reported"], rows)
    for a in results["audits"]:
        say(f"{AUDIT_MARKS[a['verdict']]} audit {a['name']}: {a['verdict']}: {a['why']}")


def _dry_run(name: str, trials: Any, as_json: bool) -> None:
    from collections import Counter

    from attnlab.cli.progress import stage_of

    parts = Counter(stage_of(t) for t in trials)
    if as_json:
        say_json({"run": name, "trials": len(trials), "parts": dict(parts)})
        return
    say(f"{name}: {len(trials)} trials")
    for part, count in parts.items():
        say(f"  {part}: {count}")


def _explain_failures(done: Any) -> None:
    for row in done.table:
        if row.state not in ("done", "diverged"):
            last = row.error.strip().splitlines()[-1] if row.error.strip() else ""
            note(f"trial {row.id} {row.state}: {last}")
    note("the same command runs only these again")
