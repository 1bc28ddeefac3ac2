"""`--help`: every command is listed under its purpose, fits 80 columns, and has examples that can be run."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from flyball.cli import COMMANDS, SECTIONS, cli


def commands(group: click.Group, *above: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield " ".join((*above, name)), command
        if isinstance(command, click.Group):
            yield from commands(command, *above, name)


ALL = dict(commands(cli))
WIDTH = {"COLUMNS": "80", "TERMINAL_WIDTH": "80"}


def help_of(*words: str) -> str:
    result = CliRunner(env={**os.environ, **WIDTH}).invoke(cli, [*words, "--help"], prog_name="flyball")
    assert result.exit_code == 0
    return result.output


def examples(name: str) -> list[list[str]]:
    """The words of each call of flyball below "Example:"."""
    text = ALL[name].epilog or ""
    return [shlex.split(call) for call in re.findall(r"flyball [^|><#&\n]*", text)]


def test_every_command_is_in_one_section() -> None:
    names = [name for section in SECTIONS.values() for name in section]
    assert sorted(names) == sorted(COMMANDS) and len(set(names)) == len(names)
    assert list(SECTIONS) == ["Start", "Backlog", "Look", "Answer", "Results", "Set up", "Advanced"]


def test_the_list_of_commands_is_whole_sentences_on_80_columns() -> None:
    text = help_of()
    assert max(len(line) for line in text.splitlines()) <= 80 and "..." not in text.split("Options:")[1]
    for section, names in SECTIONS.items():
        rows = text.split(f"\n{section}:\n")[1].split("\n\n")[0]
        assert [row.split()[0] for row in rows.splitlines()] == list(names)
        assert all(row.endswith(".") for row in rows.splitlines())


def test_every_command_explains_itself_and_its_options() -> None:
    for name, command in ALL.items():
        text = help_of(*name.split())
        assert "Example" in text and max(len(line) for line in text.splitlines()) <= 100, name
        options = [param for param in command.params if isinstance(param, click.Option)]
        assert all(option.help and option.help.endswith((".", ")")) for option in options), name


def test_the_examples_of_a_command_are_calls_that_it_takes() -> None:
    """Every option and argument of an example is one that the command knows. Nothing is run."""
    for name in ALL.keys() - {"completion"}:
        calls = examples(name)
        assert any(call[1 : 1 + len(name.split())] == name.split() for call in calls), (name, calls)
        for _, *words in calls:
            _taken(name, words)


def _taken(name: str, words: list[str]) -> None:
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        command = command.get_command(click.Context(command), words.pop(0)) or pytest.fail(f"{name}: {words}")
    command.make_context("flyball", words)


@pytest.mark.parametrize(("typed", "meant"), [("shwo", "show"), ("status", "ls"), ("merge", "land")])
def test_a_mistyped_command_names_the_one_that_was_meant(typed: str, meant: str) -> None:
    result = CliRunner().invoke(cli, [typed])
    assert result.exit_code == 2 and f"flyball {meant}" in result.output


@pytest.mark.parametrize(
    ("words", "same"),
    [
        (["help"], ["--help"]),
        (["help", "run"], ["run", "--help"]),
        (["help", "task", "add"], ["task", "add", "--help"]),
        (["version"], ["--version"]),
    ],
)
def test_help_and_version_are_commands_too(words: list[str], same: list[str]) -> None:
    results = [CliRunner().invoke(cli, w, prog_name="flyball") for w in (words, same)]
    assert results[0].output == results[1].output and [r.exit_code for r in results] == [0, 0]
