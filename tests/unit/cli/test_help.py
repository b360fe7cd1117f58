"""The help page of every command: an imperative first line, options that say what they take, examples at the end."""

import re
from collections.abc import Iterator

import click
import pytest

from rlctl.cli.help import HelpCommand
from rlctl.cli.main import COMMANDS, root

# Verbs that begin a help line, so that "What ..." or "The ..." is noticed.
VERBS = {
    *("Apply", "Break", "Build", "Change", "Check", "Compare", "Compute", "Export", "Give", "Import", "Let", "List"),
    *("Load", "Make", "Measure", "Move", "Operate", "Predict", "Print", "Put", "Raise", "Rehearse", "Remove", "Run"),
    *("Show", "Stop", "Write"),
}
# A description and its options fit beside the names of the commands in a terminal of 80 columns.
LONGEST_LINE = 62


def commands(command: click.Command, words: tuple[str, ...] = ("rlctl",)) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(words), command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            yield from commands(child, (*words, name))


def help_page(words: str, command: click.Command, width: int = 80) -> str:
    with click.Context(command, info_name=words, max_content_width=width, terminal_width=width) as context:
        return command.get_help(context)


ALL = dict(commands(root))


def test_the_tree_is_walked() -> None:
    assert len(ALL) > 60
    assert {f"rlctl {name}" for name in COMMANDS} < set(ALL)


@pytest.mark.parametrize(("words", "command"), ALL.items(), ids=ALL)
def test_the_first_line_is_one_imperative_sentence(words: str, command: click.Command) -> None:
    first, _, rest = (command.help or "").partition("\n")
    assert first.split()[0].strip(",") in VERBS
    assert first.endswith(".")
    assert len(first) <= LONGEST_LINE, f"{words}: {len(first)} characters"
    assert not rest or rest.startswith("\n")


@pytest.mark.parametrize(("words", "command"), ALL.items(), ids=ALL)
@pytest.mark.parametrize("width", [60, 80])
def test_the_page_ends_with_examples_of_the_command(words: str, command: click.Command, width: int) -> None:
    assert isinstance(command, HelpCommand)
    page, _, examples = help_page(words, command, width).partition("\nExamples:\n")
    assert "Examples:" not in page
    lines = examples.splitlines()
    assert lines
    assert all(line.startswith("  ") for line in lines)
    assert all(len(line) <= 80 for line in lines)
    assert any(re.search(rf"\b{words}\b", line) for line in lines)


@pytest.mark.parametrize(("words", "command"), ALL.items(), ids=ALL)
def test_every_option_says_what_its_value_is(words: str, command: click.Command) -> None:
    options = [option for option in command.params if isinstance(option, click.Option)]
    silent = [option.name for option in options if not option.help]
    assert silent == [], words
    assert [option.help for option in options if option.help and not re.fullmatch(r".*\w.*\.", option.help)] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_the_list_of_commands_has_their_first_lines(name: str) -> None:
    _module, line = COMMANDS[name]
    assert line == (ALL[f"rlctl {name}"].help or "").splitlines()[0]
