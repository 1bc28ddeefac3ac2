"""The command line: which commands there are, how one is started, and what several of them share.

A command's module is imported only when the command is used.
"""

from __future__ import annotations

import contextlib
import gc
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from copy import copy
from importlib import import_module
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec

from flyball import __version__
from flyball.errors import FlyballError, UserError

if TYPE_CHECKING:
    from flyball.journal.records import Records
    from flyball.runtime.app import App

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
        "serve": "serve",
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
    *("up", "down", "trigger", "hold", "release", "serve"),
)
TRUSTED = "trusted"  # the option with which any other command speaks for a person too


class Lazy(click.Group):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """`flyball help COMMAND` is `flyball COMMAND --help`, and `flyball version` is `flyball --version`."""
        match args:
            case ["help", *words]:
                args = [*words, "--help"]
            case ["version"]:
                args = ["--version"]
            case _:
                pass
        return super().parse_args(ctx, args)

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

    Such a command needs to know whose `@last` it is: outside of a repository it takes no run of some other one.

    The check comes after the arguments are read: `--help` passes, and a value that looks like it (`--repo -h`)
    does not help to get around it."""
    callback = command.callback
    if callback is None or not (name in PERSONAL or any(param.name == TRUSTED for param in command.params)):
        return command

    def checked(*args: Any, **options: Any) -> Any:
        if name in PERSONAL or options.get(TRUSTED):
            from flyball.runtime.app import App

            App().require_person(name)
        named = (str(value) for key, value in options.items() if key in ("run_name", "question"))
        if name in PERSONAL and any(value.partition(".")[0] == "@last" for value in named) and not _here():
            raise UserError(
                f"{Path.cwd()} is not in a git repository. Name the run; `flyball ls` lists them."
            )
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
    name, colon, rest = fitted(f"flyball: {message}", sys.stderr).partition(":")
    click.echo(click.style(name + colon, fg="red", bold=True) + rest, err=True)
    sys.exit(code)


def _system_problem(error: OSError) -> str:
    """An error of the system: a full disk, a read-only folder, too many open files."""
    where = f"{error.filename}: " if error.filename else ""
    return f"{where}{error.strerror or error}. Fix this and try again; nothing that was saved is lost."


def _usage_problem(error: click.ClickException) -> str:
    """What click complains about, and where the command is explained."""
    if isinstance(error, click.NoSuchOption) and error.possibilities:
        del error.possibilities[1:]  # the nearest one
    message = f"{' '.join(error.format_message().split()).rstrip('. ')}."
    message = message.replace(" , ", ", ").replace("a valid integer range", "a whole number")
    message = message.replace("a valid integer", "a whole number")
    message = message.replace("?.", "?").replace("?).", "?)")
    message = re.sub(r"Invalid value for '{.*?}': |(?<=Missing argument) '{.*?}'", "", message)
    if message.startswith("Got unexpected extra argument"):
        message = f"Unexpected {message[15:].rstrip('.')}. Put text with spaces in quotes."
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context and message.startswith("No such command") and isinstance(context.command, click.Group):
        typed, names = message.split("'")[1], ", ".join(context.command.list_commands(context))
        message = f"There is no command '{typed}'. `{context.command_path}` has: {names}."
    if (
        context
        and isinstance(error, click.NoSuchOption)
        and any(p.name == "line" for p in context.command.params)
    ):
        message += " Put the command in quotes."
    if isinstance(error, click.MissingParameter) and error.param and error.param.name == "run_name":
        message = "RUN is missing: the id of a run, or @last for the latest of this repository."
    return f"{message} See `{context.command_path} --help`." if context else message


# ---- what several commands share ------------------------------------------------------------------------

JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
JSON_LINES = click.option("--json", "as_json", is_flag=True, help="JSON lines. This is the only format.")
RUN = click.argument("run_name", metavar="RUN")
RUN_OR_LAST = click.argument("run_name", metavar="[RUN]", default="@last")
REPO = click.option(
    "--repo",
    type=click.Path(path_type=Path),
    default=Path(),
    metavar="DIR",
    help="The repository (default: .).",
)
SET = click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="Override a setting, e.g. limits.turns=20."
)
WAIT = click.option(
    "--wait/--no-wait", default=None, help="Keep running while a question is open (default: on a terminal)."
)
TRUST = click.option(
    "--trust", "trusted", is_flag=True, help="Trust this repository's configuration for this run."
)


def examples(*lines: str) -> str:
    """The examples below a command's help."""
    title = "Example" if len(lines) == 1 else "Examples"
    return "\n".join(("\b", f"{title}:", *(f"  {line}" for line in lines)))


def group_of(
    name: str, about: str, example: str, default: click.Command, *others: click.Command
) -> click.Group:
    """A group of commands; without one, the default command runs."""

    @click.group(name, invoke_without_command=True, help=about, epilog=examples(example))
    @click.pass_context
    def group(ctx: click.Context) -> None:
        if ctx.invoked_subcommand is None:
            ctx.invoke(default)

    for command in (default, *others):
        group.add_command(command)
    return group


# ---- places ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_app() -> Generator[App]:
    """Everything a command needs to read, write to and drive runs."""
    from flyball.runtime.app import App

    app = App(here=_here)
    with _closing(app):
        yield app


@contextlib.contextmanager
def open_records() -> Generator[Records]:
    """The journal alone, for commands that only read: there is much less to import."""
    from flyball.journal.records import Records
    from flyball.state_dir import environment, paths

    records = Records(paths(environment()).state_dir, _here)
    with _closing(records):
        yield records


@contextlib.contextmanager
def _closing(records: Records) -> Generator[None]:
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="replace")  # a narrow encoding must not make a command fail
    try:
        yield
    finally:
        with contextlib.suppress(FlyballError):
            records.close()


def _here() -> str:
    return str(repository_of(Path.cwd()) or "")


def repository_of(folder: Path) -> Path | None:
    """The top folder of the git repository that a folder is in, found without starting git."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Name a folder in a git repository.")
    top = folder.resolve()
    return next((place for place in (top, *top.parents) if (place / ".git").exists()), None)


def require_repository(folder: Path) -> Path:
    root = repository_of(folder)
    if root is None:
        raise UserError(f"{folder.absolute()} is not in a git repository. Use --repo DIR to name one.")
    return root


# ---- output ----------------------------------------------------------------------------------------------

# tone of a line -> symbol and colour
MARKS = {
    "good": ("✓", "green"),
    "bad": ("✗", "red"),
    "warn": ("●", "yellow"),
    "wait": ("⏸", "yellow"),
    "ask": ("?", "yellow"),
    "run": ("●", "cyan"),
    "dim": (" ", "dim"),
    "": ("●", ""),
}


def is_terminal(stream: TextIO | None = None) -> bool:
    stream = stream or sys.stdout
    return stream is not None and stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def is_fancy(stream: TextIO | None = None) -> bool:
    """Whether to print symbols and colours: on a terminal, unless NO_COLOR is set."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def paint(tone: str, text: str, bold: bool | None = None) -> str:
    """Text in the colour of its tone. `click.echo` removes the colour where the output is plain."""
    colour = MARKS[tone][1]
    return click.style(text, dim=True) if colour == "dim" else click.style(text, fg=colour or None, bold=bold)


def headline(tone: str, text: str) -> str:
    """A line with a symbol and in colour; only the text where the output is plain."""
    return paint(tone, fitted(f"{MARKS[tone][0]} {text}"), bold=True) if is_fancy() else fitted(text)


def say(text: str = "", *, err: bool = False) -> None:
    """Print text for a person: wrapped at words on a terminal, as it is in a pipe."""
    click.echo(fitted(text, sys.stderr if err else sys.stdout), err=err)


def fitted(text: str, stream: TextIO | None = None) -> str:
    """Lines that are too long for the terminal, wrapped at words."""
    from flyball.views.text import wrapped

    width = terminal_width(stream)
    if not width or "\x1b" in text:  # coloured text was fitted before it was coloured
        return text
    return "\n".join(part for line in text.split("\n") for part in wrapped(line, width))


def print_json(facts: Any) -> None:
    """Indented on a terminal, on one line in a pipe."""
    data = msgspec.json.encode(facts)
    click.echo(msgspec.json.format(data, indent=2) if sys.stdout.isatty() else data)


def print_table(rows: Sequence[Sequence[str]], optional: Sequence[str] = ()) -> None:
    """`optional`: the columns that a narrow terminal is not shown, in this order. Then longer lines are cut."""
    from flyball.views.text import columns, fitting

    width = columns_of_terminal() if optional and is_terminal() else 0
    for line in fitting(rows, optional, width) if width else columns(rows[0], rows[1:]):
        click.echo(line)


def terminal_width(stream: TextIO | None = None) -> int:
    """The width of the terminal, between 60 and 140; 0 in a pipe, where nothing is wrapped."""
    return min(max(columns_of_terminal(), 60), 140) if (stream or sys.stdout).isatty() else 0


def columns_of_terminal() -> int:
    from shutil import get_terminal_size  # imports compression libraries, which most commands never need

    return get_terminal_size((100, 24)).columns


def write_new(file: Path, data: bytes) -> None:
    """Write a file that must not exist yet. Only its owner may read it."""
    try:
        with file.open("xb") as handle:
            file.chmod(0o600)
            handle.write(data)
    except FileExistsError:
        raise UserError(f"{file} already exists. Choose another name.") from None
    except OSError as problem:
        raise UserError(f"Cannot write {file}: {problem.strerror}.") from None


# ---- JSON lines ------------------------------------------------------------------------------------------


def answer_lines(
    answer: Callable[[dict[str, Any]], dict[str, Any]], refuse: Callable[[Any, str], dict[str, Any]]
) -> None:
    """Answer each JSON line of standard input with one line. Exit code 2 if one could not be read."""
    exit_code = 0
    for number, row in _json_lines(sys.stdin.buffer):
        try:
            if isinstance(row, str):
                raise ValueError(row)
            reply = answer(row)
        except (
            msgspec.MsgspecError,
            FlyballError,
            LookupError,
            TypeError,
            ValueError,
            OverflowError,
        ) as error:
            reason = f"{error} is missing" if isinstance(error, KeyError) else str(error).rstrip(".")
            problem, exit_code = f"Cannot read line {number}: {reason}.", 2
            click.echo(f"flyball: {problem}", err=True)
            reply = refuse(row.get("id") if isinstance(row, dict) else None, problem)
        click.echo(msgspec.json.encode(reply))
    sys.exit(exit_code)


def _json_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """The number and object of each line that is not empty; for a bad line, what is wrong with it."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                yield number, msgspec.json.decode(line, type=dict[str, Any])
            except (msgspec.MsgspecError, ValueError, RecursionError) as error:
                yield number, f"it is not a JSON object ({error})"
