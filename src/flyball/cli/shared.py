"""What several commands share: options, examples, the repository, the journal, JSON and tables."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click
import msgspec

from flyball.errors import FlyballError, UserError

if TYPE_CHECKING:
    from flyball.journal.records import Records
    from flyball.runtime.app import App

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


def print_table(rows: Sequence[Sequence[str]]) -> None:
    from flyball.views.text import columns

    for line in columns(rows[0], rows[1:]):
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
