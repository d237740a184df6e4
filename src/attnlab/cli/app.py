"""The list of commands, and the one place where errors become a line and an exit code."""

import os
import sys
import traceback
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from attnlab import __version__
from attnlab.cli.answers import answers
from attnlab.cli.assets import assets
from attnlab.cli.console import discard_stdout, open_streams, say_error
from attnlab.cli.construct import construct
from attnlab.cli.generate import generate
from attnlab.cli.models import attend, audit, compare, export, perplexity
from attnlab.cli.rouge import rouge
from attnlab.cli.run import list_studies, run, show
from attnlab.cli.runs import report, runs, table, verify
from attnlab.cli.solvable import simulate, theory
from attnlab.cli.training import finetune, predict, train
from attnlab.core.errors import AttnlabError, exit_code_of


class Commands(TyperGroup):
    """All commands. A closed pipe (`| head`) is not an error, as it would be for typer."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was typed; a closed pipe ends it with exit code 0."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            discard_stdout()
            raise typer.Exit from None


class Command(TyperCommand):
    """A command whose usage line shows a required argument as RUN; typer would write {RUN}."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The words of the usage line after the command's name."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]


app = typer.Typer(
    name="attnlab",
    cls=Commands,
    help="A laboratory for attention: ask a question, get an answer you can trust.",
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
COMMANDS = (
    run,
    list_studies,
    show,
    answers,
    runs,
    table,
    report,
    verify,
    theory,
    simulate,
    train,
    finetune,
    predict,
    generate,
    audit,
    attend,
    perplexity,
    compare,
    export,
    construct,
    rouge,
    assets,
)
for command in COMMANDS:
    if isinstance(command, typer.Typer):
        app.add_typer(command, name=command.info.name)
    else:
        app.command("list" if command is list_studies else command.__name__)(command)
for group in (app, construct, assets):
    for registered in group.registered_commands:
        registered.cls = Command
TRACEBACK = "ATTNLAB_TRACEBACK"  # set to anything: an internal error prints its traceback


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attnlab {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A laboratory for attention: ask a question, get an answer you can trust."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(2)


def main() -> None:
    """Run the command; an expected failure is one line on stderr and its documented exit code."""
    open_streams()
    code = None
    try:
        # a number only when the command left by typer.Exit
        code = app(prog_name="attnlab", standalone_mode=False)
        sys.stdout.flush()
        if code == 130:  # what typer returns after Ctrl-C
            raise KeyboardInterrupt
    except KeyboardInterrupt:
        say_error("stopped")
        code = 130
    except Exception as error:
        code = _explain(error) or code  # a closed pipe does not hide a failure
    sys.exit(code or 0)


def _explain(error: Exception) -> int:
    """Print the error in one to three lines and return the exit code."""
    if isinstance(error, AttnlabError):
        say_error(str(error))
        return exit_code_of(error)
    if isinstance(error, typer.BadParameter.__bases__):  # any wrong use of the command line
        context = getattr(error, "ctx", None)
        path = context.command_path if context else "attnlab"
        what = getattr(error, "format_message", lambda: str(error))()
        say_error(f"{what}{_known_commands(what, context)}\n`{path} --help` lists the options")
        return 2
    if isinstance(error, OSError):
        discard_stdout()  # if stdout failed, Python would flush it again at exit and complain
        if isinstance(error, BrokenPipeError):
            return 0  # a closed pipe (`| head`) is not an error
        say_error(f"{error.filename or 'output'}: {error.strerror or error}")
        return 4
    if isinstance(error, MemoryError) or "allocate memory" in str(error):
        say_error("not enough memory: choose smaller settings or fewer workers")
        return 1
    return _internal(error)


def _known_commands(text: str, context: Any) -> str:
    """The list of all commands, for a typed one that resembles none of them; else nothing."""
    if not text.startswith("No such command") or "Did you mean" in text:
        return ""
    return f" Known commands: {', '.join(context.command.list_commands(context))}."


def _internal(error: Exception) -> int:
    if os.environ.get(TRACEBACK):
        traceback.print_exception(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    say_error(
        f"internal error, {type(error).__name__}: {error} "
        f"({Path(last.filename).name}, line {last.lineno})\n"
        f"this is a bug in attnlab; set {TRACEBACK}=1 to see the traceback"
    )
    return 1
