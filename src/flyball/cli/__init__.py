"""The command line. A command's module is imported only when the command is used."""

from __future__ import annotations

import gc
import os
import re
import sys
from copy import copy
from importlib import import_module
from typing import Any

import click

from flyball import __version__
from flyball.errors import FlyballError

# Section of `flyball --help` -> command -> the module of this package that has it. The command is the function of
# the same name, with "_" for "-".
SECTIONS: dict[str, dict[str, str]] = {
    "Start": {
        "init": "init",
        "demo": "demo",
        "run": "drive",
        "resume": "drive",
        "retry": "again",
        "doctor": "doctor",
    },
    "Backlog": {
        "up": "up",
        "down": "up",
        **dict.fromkeys(("task", "trigger", "hold", "release"), "task"),
    },
    "Look": {
        "ls": "look",
        "show": "look",
        "why": "look",
        "log": "look",
        "watch": "follow",
        "stats": "stats",
        "brief": "brief",
    },
    "Answer": {
        **dict.fromkeys(
            ("inbox", "answer", "approve", "reject", "tell", "allow", "pause", "stop", "cancel"), "answers"
        ),
        "take-over": "again",
        "hand-back": "again",
    },
    "Results": {"diff": "deliver", "verify": "deliver", "land": "deliver", "export": "export"},
    "Set up": {
        "machines": "machines",
        "guard": "guard",
        "agents": "agents",
        "config": "setup",
        "trust": "setup",
    },
    "Advanced": {
        **dict.fromkeys(("du", "prune", "rm"), "space"),
        "uninstall": "uninstall",
        "rollback": "again",
        "replay": "again",
        "check": "check",
        "prove": "prove",
        "simulate": "simulate",
        "selftest": "selftest",
        "mcp": "mcp",
        "hook": "hook",
        "completion": "setup",
    },
}
COMMANDS = {name: module for section in SECTIONS.values() for name, module in section.items()}
# What other programs call these commands.
OTHER_NAMES = {
    **dict.fromkeys(("list", "status", "ps"), "ls"),
    **dict.fromkeys(("start", "new", "exec"), "run"),
    **dict.fromkeys(("continue", "restart"), "resume"),
    "logs": "log",
    "merge": "land",
    "help": "--help",
}

# Commands that speak for a person. They are refused inside an agent's process (HUMAN-4).
PERSONAL = (
    *(
        "init",
        "trust",
        "answer",
        "approve",
        "reject",
        "tell",
        "allow",
        "pause",
        "stop",
        "cancel",
        "resume",
        "retry",
    ),
    *("take-over", "hand-back", "rollback", "land", "rm", "uninstall"),
    *("up", "down", "trigger", "hold", "release"),
)
TRUSTED = "trusted"  # the option with which any other command speaks for a person too


class Lazy(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        module = COMMANDS.get(cmd_name)
        if module is None:
            return None
        gc.disable()  # what is imported stays: looking through it for garbage takes a tenth of a short command
        command: click.Command = getattr(import_module(f"flyball.cli.{module}"), cmd_name.replace("-", "_"))
        gc.enable()
        return _with_person_check(cmd_name, command)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            close = OTHER_NAMES.get(name) or next(iter(get_close_matches(name, COMMANDS, 1)), "")
            hint = f" Did you mean `flyball {close}`?" if close else ""
            raise click.UsageError(f"There is no command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            rows = [(name, command.get_short_help_str(200)) for name, command in commands if command]
            with formatter.section(title):
                formatter.write_dl(rows)


def _with_person_check(name: str, command: click.Command) -> click.Command:
    """The command, refused inside an agent's process if it speaks for a person.

    The check comes after the arguments are read: `--help` passes, and a value that looks like it (`--repo -h`)
    does not help to get around it."""
    callback = command.callback
    if callback is None or not (name in PERSONAL or any(param.name == TRUSTED for param in command.params)):
        return command

    def checked(*args: Any, **options: Any) -> Any:
        if name in PERSONAL or options.get(TRUSTED):
            from flyball.runtime.app import App

            App().require_person(name)
        return callback(*args, **options)

    wrapped = copy(command)
    wrapped.callback = checked
    return wrapped


@click.command(
    cls=Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog='Start with `flyball demo`, or in your repository with `flyball init` and `flyball run "Fix the bug"`. '
    "`flyball COMMAND --help` shows examples.",
)
@click.version_option(__version__, message="flyball %(version)s")
def cli() -> None:
    """Run coding agents unattended: with limits, checks and a tested result."""


def main() -> None:
    """Run a command. Its exit code is kept even if nobody reads its output any more."""
    try:
        _run()
    finally:
        gc.freeze()  # the process ends: nothing has to be freed piece by piece
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _run() -> None:
    """A problem with the input is one message on standard error and exit code 2."""
    try:
        colour = False if os.environ.get("NO_COLOR") else None
        code = cli.main(prog_name="flyball", standalone_mode=False, color=colour)
        sys.exit(code if isinstance(code, int) else 0)
    except FlyballError as error:
        _fail(str(error), error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(2)
    except click.ClickException as error:
        _fail(_usage_problem(error))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except BrokenPipeError:
        sys.exit(0)
    except OSError as error:
        _fail(_system_problem(error))


def _fail(message: str, code: int = 2) -> None:
    from flyball.cli.shared import fitted

    name, colon, rest = fitted(f"flyball: {message}", sys.stderr).partition(":")
    click.echo(click.style(name + colon, fg="red", bold=True) + rest, err=True)
    sys.exit(code)


def _system_problem(error: OSError) -> str:
    """An error of the system: a full disk, a read-only folder, too many open files."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}. Fix this and try again; nothing that was saved is lost."


def _usage_problem(error: click.ClickException) -> str:
    """What click complains about, and where the command is explained."""
    message = f"{' '.join(error.format_message().split()).rstrip('. ')}."
    message = message.replace(" , ", ", ").replace("a valid integer range", "a whole number")
    message = message.replace("a valid integer", "a whole number").replace(
        "No such command", "There is no command"
    )
    message = message.replace("?.", "?").replace("?).", "?)")
    message = re.sub(r"Invalid value for '{.*?}': |(?<=Missing argument) '{.*?}'", "", message)
    if message.startswith("Got unexpected extra argument"):
        message = f"Unexpected {message[15:].rstrip('.')}. Put text with spaces in quotes."
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{message} See `{context.command_path} --help`." if context else message
