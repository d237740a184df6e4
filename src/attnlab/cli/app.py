"""The list of commands, and the one place where errors become a line and an exit code."""

import os
import sys
from typing import Annotated

import typer
from typer.core import TyperGroup

from attnlab import __version__
from attnlab.cli import report, run, runs, show, simulate, table, theory, verify
from attnlab.cli.console import say_error
from attnlab.core.errors import AttnlabError, exit_code_of

app = typer.Typer(
    name="attnlab",
    help="A laboratory for attention: ask a question, get an answer you can trust.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    cls=TyperGroup,
)
for command in (run, show, runs, table, report, verify, theory, simulate):
    command.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"attnlab {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """A laboratory for attention: ask a question, get an answer you can trust."""


def main() -> None:
    """Run the command; an expected failure is one line on stderr and its documented exit code."""
    try:
        app()
    except AttnlabError as error:
        say_error(str(error))
        sys.exit(exit_code_of(error))
    except KeyboardInterrupt:
        say_error("stopped")
        sys.exit(130)
    except BrokenPipeError:
        # the reader left (`| head`): not an error; keep Python from complaining at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        say_error(f"{error.filename or 'I/O'}: {error.strerror or error}")
        sys.exit(4)
