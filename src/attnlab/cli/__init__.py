"""The command line: one file a command; parse, call, print. No logic lives here."""

from attnlab.cli.app import main as main
