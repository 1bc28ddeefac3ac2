"""The command line: thin. A command's module is imported only when the command is used."""

from __future__ import annotations

import os
import sys
from copy import copy
from importlib import import_module
from typing import Any

import click

from flyball import __version__
from flyball.errors import FlyballError

# command -> the module of this package that has it; the command is the function of the same name, "-" as "_"
COMMANDS: dict[str, str] = {
    "init": "setup",
    "demo": "demo",
    "run": "drive",
    "resume": "drive",
    "watch": "drive",
    "ls": "look",
    "show": "look",
    "why": "look",
    "log": "look",
    "inbox": "answers",
    "answer": "answers",
    "approve": "answers",
    "reject": "answers",
    "tell": "answers",
    "pause": "answers",
    "stop": "answers",
    "cancel": "answers",
    "take-over": "again",
    "hand-back": "again",
    "rollback": "again",
    "retry": "again",
    "replay": "again",
    "diff": "results",
    "verify": "results",
    "land": "results",
    "check": "check",
    "export": "export",
    "machines": "machines",
    "guard": "guard",
    "hook": "hook",
    "prove": "prove",
    "simulate": "simulate",
    "selftest": "selftest",
    "agents": "agents",
    "config": "setup",
    "trust": "setup",
    "completion": "setup",
}


# What speaks for a person, and is refused from inside an agent's process (HUMAN-4).
PERSONAL = (
    *("init", "trust", "answer", "approve", "reject", "tell", "pause", "stop", "cancel", "resume", "retry"),
    *("take-over", "hand-back", "rollback", "land"),
)
TRUSTED = "trusted"  # the option by which any other command does so too


class Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        found: click.Command = getattr(import_module(f"flyball.cli.{module}"), cmd_name.replace("-", "_"))
        return _behind_the_door(cmd_name, found)


def _behind_the_door(name: str, command: click.Command) -> click.Command:
    """One door for every verb that speaks for a person: in front of what it does, behind how its words are read.

    So asking how it is used passes, and a word that only looks like asking (`--repo -h`) does not.
    """
    does = command.callback
    if does is None or not (name in PERSONAL or any(param.name == TRUSTED for param in command.params)):
        return command

    def for_a_person(*args: Any, **given: Any) -> Any:
        if name in PERSONAL or given.get(TRUSTED):
            from flyball.runtime.app import App

            App().require_person(name)
        return does(*args, **given)

    kept = copy(command)
    kept.callback = for_a_person
    return kept


@click.command(cls=Lazy, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="flyball %(version)s")
def cli() -> None:
    """Runs coding agents on real work, unattended, and can be trusted to."""


def main() -> None:
    """The exit code is the command's own, also where nobody is left to read what it says."""
    try:
        _told()
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _told() -> None:
    """One clear sentence for whatever is wrong with the input, and exit code 2."""
    try:
        code = cli.main(prog_name="flyball", standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except FlyballError as error:
        click.echo(f"flyball: {error}", err=True)
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        click.echo(f"flyball: {_sentence(error)}", err=True)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        click.echo(f"flyball: {_of_system(error)}", err=True)
        sys.exit(2)


def _of_system(error: OSError) -> str:
    """What the system refused: a full disk, a folder that may not be written, too many open files."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}. Put that right, then try again; what was done before is kept."


def _sentence(error: click.ClickException) -> str:
    """What click complains about, and where the command is explained."""
    told = error.format_message().replace("\n", " ")
    where = error.ctx if isinstance(error, click.UsageError) else None
    return f"{told} See `{where.command_path} --help`." if where else told
