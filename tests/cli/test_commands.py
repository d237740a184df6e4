"""The list of commands and options: it grows only when this test is changed with it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer

import attnlab as package
from attnlab.cli.app import app

COMMANDS = {
    "run": "--accept-edits --address --config --device --dry-run --engine --help --json --out "
    "--quiet --scale --seeds --set --workers STUDY",
    "show": "--help --json --scale STUDY",
    "list": "--help --json",
    "answers": "--help --json --out DOCUMENT QUESTION",
    "runs": "--help --json --out --remove",
    "verify": "--help --json --out RUN",
    "table": "--cost --csv --help --json --out RUN",
    "report": "--help --out --pdf RUN",
    "theory": "--alpha --branch --critical --help --json --omega --points --ridge --sigma",
    "simulate": "--alpha --data --device --dim --help --json --omega --save --seed --set --start",
    "train": "--device --help --json --out --position --processes --prompt --quiet --seed --set "
    "--sharded --size --steps --text --threads --tokenizer",
    "finetune": "--data --device --epochs --help --json --label --method --model --out --quiet "
    "--second --seed --set --text --threads",
    "predict": "--device --help --json --out --second --text RUN",
    "attend": "--device --head --help --html --json --layer --out --picture --text TARGET",
    "perplexity": "--device --help --json --lines --out --stop --stride --text FILE TARGET",
    "audit": "--device --help --json --length --only --out --quiet --revision --seed --skip "
    "--trust-remote-code TARGET",
    "generate": "--device --help --json --max-new-tokens --n --out --prompt --prompt-file --seed "
    "--strategy TARGET",
    "compare": "--device --file --help --json --out --text A B",
    "export": "--help --json --out DIR TARGET",
    "construct select": "--help --json --keys --scale --target --values --weight",
    "construct identity": "--help --json --keys --scale --values --weight",
    "construct apply": "--hard --help --json --keys --query --scale --values",
    "construct average": "--help --json --keys --scale --targets --values --weight",
    "construct match": "--help --json --keys --scale --values --weights",
    "construct replace-key": "--goal --help --index --json --keys --query --scale --unit-norm "
    "--values --weight",
    "construct design": "--after --before --free --help --json --keys --scale --unit-norm --values "
    "--weight",
    "construct average-scale": "--help --json --keys --scale --targets --tolerance --values",
    "construct extract": "--basis-a --basis-b --columns --help --json",
    "rouge": "--help --json --no-stemmer --predictions --references --splitter --tokenizer",
    "assets list": "--help --json",
    "assets get": "--help --json --path --revision --source NAME",
    "assets verify": "--help --json NAME",
    "assets remove": "--help --json NAME",
}
GLOBAL = "--help --install-completion --show-completion --version"


def parameters(command: Any) -> str:
    """Every option and argument of a command as a person types it."""
    context = command.context_class(command)
    names = [
        name if name.startswith("--") else (parameter.metavar or name)
        for parameter in command.get_params(context)
        for name in parameter.opts
    ]
    return " ".join(sorted(names))


def test_commands_and_options_are_these() -> None:
    group: Any = typer.main.get_command(app)
    assert {name: parameters(command) for name, command in flat(group)} == COMMANDS
    assert parameters(group) == GLOBAL


def flat(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command by what a person types for it."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from flat(command, f"{before}{name} ")
        else:
            yield before + name, command


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(attnlab: Any, command: str) -> None:
    said = attnlab(*command.split(), "--help")
    assert said.code == 0 and said.err == ""
    assert said.out.startswith(f"Usage: attnlab {command}")
    assert all(option in said.out for option in COMMANDS[command].split())
    assert "\x1b" not in said.out


@pytest.mark.parametrize("group", ["", "construct", "assets"])
def test_a_summary_fits_on_one_line_of_80_columns(
    attnlab: Any, monkeypatch: pytest.MonkeyPatch, group: str
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    _, summaries = attnlab(*group.split(), "--help").out.split("Commands:\n")
    names = {name.removeprefix(group).split()[0] for name in COMMANDS if name.startswith(group)}
    assert {line.split()[0] for line in summaries.splitlines()} == names
    assert "..." not in summaries


def test_a_required_argument_is_not_shown_as_a_choice(attnlab: Any) -> None:
    assert attnlab("export", "--help").out.startswith("Usage: attnlab export [OPTIONS] TARGET DIR")
    assert "[OPTIONS] [NAME]" in attnlab("assets", "verify", "--help").out


def test_help_version_and_no_command(attnlab: Any) -> None:
    assert all(name.split()[0] in attnlab("--help").out for name in COMMANDS)
    assert attnlab("--version").out == f"attnlab {package.__version__}\n"
    nothing = attnlab()
    assert (nothing.code, nothing.out) == (2, "")
    assert "Usage: attnlab" in nothing.err


def test_completion_is_typers_own(attnlab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_ATTNLAB_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "attnlab ver")
    monkeypatch.setenv("COMP_CWORD", "1")
    assert attnlab().out.split() == ["verify"]


def test_list_and_show(attnlab: Any, here: Any) -> None:
    assert "phase-transition" in attnlab("list").out
    listed = json.loads(attnlab("list", "--json").out)
    assert {study["name"] for study in listed["studies"]} >= {"phase-transition"}
    shown = attnlab("show", "./pebbles.py")
    assert shown.out.startswith("Are pebbles round?\n3 trials at scale quick")
    document = json.loads(attnlab("show", "./pebbles.py", "--scale", "smoke", "--json").out)
    assert document["settings"]["size"] == 5 and document["trials"] == 3
    smoke = json.loads(attnlab("show", "phase-transition", "--scale", "smoke", "--json").out)
    assert smoke["settings"]["map_seeds"] == 1 and smoke["expected"]
