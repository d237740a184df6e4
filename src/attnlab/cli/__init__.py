"""The command line: a file for each family of commands; parse, call, print. No logic lives here."""

from attnlab.cli.app import main as main
