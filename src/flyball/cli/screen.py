"""What is printed about runs: summaries and questions, and progress while they work.

Progress is lines above a live status on a terminal, and plain lines in a pipe and with NO_COLOR.

Output never stops a run: if nobody reads it any more, it is dropped.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Generator
from typing import IO, TYPE_CHECKING, TextIO

from msgspec.structs import replace

from flyball.cli import MARKS, is_fancy
from flyball.domain import events as e
from flyball.journal.records import asking
from flyball.runtime.facts import why
from flyball.runtime.listing import tone_of
from flyball.state.run import Run
from flyball.views import reasons
from flyball.views.choices import choices
from flyball.views.run_view import Line, Live, Timeline
from flyball.views.text import clean, clock, fields, first_few, plural

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live as Region
    from rich.text import Text

    from flyball.journal.records import Records

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
LIVE_RUNS = 8
RUN_WIDTH = 10  # of a run's id in front of a line


# ---- output ----------------------------------------------------------------------------------------------


def question_lines(run: Run, keys: dict[str, str] | None = None) -> list[str]:
    """The open question of a run: the text and how to answer, with `keys` (key -> verb) or with a command."""
    question = run.question
    if question is None:
        return []
    text = clean(question.text).strip().splitlines() or [""]
    default = reasons.by_default(question)
    rows = [*choices(question, keys), *([("default", clean(default))] if default else [])]
    if not keys:
        rows = [*_change(run, question), *rows, ("to answer", reasons.how_to_answer(question))]
    return [f"Question {question.id} ({question.kind}):", *(f"  {line}" for line in text), *fields(rows)]


def _change(run: Run, question: e.Question) -> list[tuple[str, str]]:
    about_change = question.kind in ("approval", "block", "evidence")
    return [("change", f"flyball diff {run.began.root or run.id}")] if about_change else []


def closing(records: Records, run: Run) -> list[str]:
    """What is printed when `run` or `watch` is done: why it stopped, the question, where the result is."""
    happened, evidence, next_step = why(records, run)
    asker = asking(records, run)
    rows = _places(run)
    if asker:  # the question says why
        return [happened, f"{reasons.used(run)}.", "", *question_lines(asker), "", *fields(rows)]
    steps = reasons.next_steps(run)
    following = [] if steps else [next_step]
    return [happened, evidence, *following, "", *fields([*rows, *_steps(steps)])]


def _places(run: Run) -> list[tuple[str, str]]:
    changed = (
        f"{plural(len(run.checkout.changed), 'file')}: {first_few(run.checkout.changed)}"
        if run.checkout.changed
        else ""
    )
    rows = [
        ("changed", changed),
        ("branch", f"flyball/{run.id}" if run.owner and run.checkout.changed else ""),
        ("details", f"flyball show {run.id}"),
    ]
    return [(name, value) for name, value in rows if value]


def _steps(steps: list[tuple[str, str]]) -> list[tuple[str, str]]:
    width = max((len(command) for command, _ in steps), default=0)
    lines = [f"{command:<{width}}  # {purpose}" for command, purpose in steps]
    return [("next" if number == 0 else "", line) for number, line in enumerate(lines)]


# ---- progress ----------------------------------------------------------------------------------------------


class Screen:
    """Prints nothing; the subclasses do."""

    def __init__(self) -> None:
        self.live, self.timeline = Live(), Timeline(above_question=True)
        self.letters: Callable[[Run], dict[str, str]] = (
            lambda run: {}
        )  # the key of each verb, where keys answer
        self.hint: Callable[[Run], list[str]] = lambda run: []  # further lines below a question
        self.sums_up = False  # the summary of a run takes the place of the line that says how it stopped
        self.names_runs = False  # several runs are shown, so each line begins with its run
        self.stays = False  # questions are printed as they come, since the summary comes much later
        self._last: tuple[str, Line] | None = (
            None  # how a run stopped, until it is known that no summary says it
        )

    def add(self, run: Run) -> None:
        """A run that started before this process did."""
        self.live.runs[run.id] = run
        self.live.since.setdefault(run.id, run.at)
        self.timeline.add(run)

    def event(self, run: Run, event: e.AnyEvent) -> None:
        if not isinstance(event, e.RunBegan):
            self.timeline.add(self.live.runs.get(run.id, run))
        self.live.runs[run.id] = run
        if isinstance(event, e.ActStarted | e.ActFinished):
            self.live.calls.pop(run.id, None)
            self.live.since[run.id] = event.at
        self._flush()
        line = self.timeline.line(run.id, event)
        if self.names_runs:
            line = replace(line, where=f"{run.began.root or run.id}  {line.where}")
        question = event.question if isinstance(event, e.Stopped) and self.stays else None
        if self.sums_up and not question and self._is_over(run, event):
            self._last = (run.id, line)
            return
        self.line(line)
        if question and run.question == question:
            self.show_question(run)

    @property
    def place_width(self) -> int:
        return self.timeline.width + (RUN_WIDTH if self.names_runs else 0)

    def _is_over(self, run: Run, event: e.AnyEvent) -> bool:
        """Whether a top-level run is over with this event, as far as this process goes."""
        if run.began.parent or (self.stays and self.live.working(run).question):
            return False
        return isinstance(event, e.Ended) or (isinstance(event, e.Stopped) and event.until is None)

    def show_question(self, run: Run) -> None:
        self.ask([*question_lines(run, self.letters(run)), *self.hint(run)])

    def _flush(self) -> None:
        last, self._last = self._last, None
        if last is not None:
            self.line(last[1])

    def finish(self, run: Run, lines: list[str]) -> None:
        """Print the summary of a run. It says how the run stopped, so the line about that is not printed."""
        if self._last is not None and self._last[0] == run.id:
            self._last = None
        self._flush()
        self.close(run, lines)

    def show_call(self, run_id: str, call: str) -> None:
        """What an agent does now. May be called from any thread."""
        self.live.calls[run_id] = call

    def line(self, line: Line) -> None: ...

    def say(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def alert(self, text: str) -> None:
        """Something that a person must not miss."""
        self.say(text)

    def ask(self, lines: list[str]) -> None:
        """Print a question."""
        self.say("\n".join(lines))

    def close(self, run: Run, lines: list[str]) -> None:
        """Print lines about a run; the first is a headline."""
        self.say("\n".join(("", *lines)))

    @contextlib.contextmanager
    def shown(self) -> Generator[None]:
        yield


def discard(out: IO[str]) -> None:
    """Nobody reads this stream any more, or the disk is full. Throw away what is still buffered."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)


class Plain(Screen):
    """One line for each event."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self.out: TextIO | None = out

    def line(self, line: Line) -> None:
        if line.level > 0:
            self.say(f"{clock(line.at)}  {line.where:<{self.place_width}}  {line.text}")

    def say(self, text: str) -> None:
        if self.out is None:
            return
        try:
            self.out.write(text + "\n")
            self.out.flush()
        except (OSError, ValueError):
            discard(self.out)
            self.out = None

    def warn(self, text: str) -> None:
        self.say(text)

    def ask(self, lines: list[str]) -> None:
        self.say("\n".join(("", *lines, "")))


class Terminal(Screen):
    """Lines with symbols and colours, and below them what each run is doing now."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console, self.warning, self.place, self.sums_up = console, "", "", True
        self.region: Region | None = None

    def line(self, line: Line) -> None:
        if line.level == 2:
            mark, style = MARKS[line.tone]
            place = line.where if line.where != self.place else ""  # the same place is not said twice
            self.place = line.where
            self._print(
                self._hanging([(mark, style), (f"{place:<{self.place_width}}", "cyan"), (line.text, style)])
            )

    def say(self, text: str) -> None:
        self._print(text)

    def alert(self, text: str) -> None:
        self._print(self._hanging([("●", "yellow"), (text, "bold yellow")]))

    def ask(self, lines: list[str]) -> None:
        self._block("ask", ["", *lines, ""])

    def close(self, run: Run, lines: list[str]) -> None:
        self._block(tone_of(run.status, run.end, run.question is not None), ["", *lines])

    def _block(self, tone: str, lines: list[str]) -> None:
        """The first line with a symbol and in colour, the rest indented; rows with a dim name."""
        mark, style = MARKS[tone]
        for number, line in enumerate(lines):
            name, value = line[2:15].strip(), line[15:]
            is_row = line.startswith("  ") and line[13:15] == "  " and bool(value)
            is_key = name[1:2] == " "  # `a approve`
            if number == 1:
                cells = [(mark, style), (line, f"bold {style}".strip())]
            else:
                cells = [
                    (" ", ""),
                    *(
                        [(f"{name:<12}", "bold" if is_key else "dim"), (value, "")]
                        if is_row
                        else [(line.strip(), "")]
                    ),
                ]
            self._print(self._hanging(cells) if line else "")

    def _hanging(self, cells: list[tuple[str, str]]) -> RenderableType:
        """Columns of which the last one wraps under itself."""
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1, 0, 0))
        for _ in cells[:-1]:
            grid.add_column(no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row(*(Text(text, style) for text, style in cells))
        return grid

    def _print(self, content: RenderableType) -> None:
        try:
            self.console.print(content, markup=False, highlight=False)
        except (OSError, ValueError):  # the terminal was closed
            discard(self.console.file)

    def warn(self, text: str) -> None:
        self.warning = text

    @contextlib.contextmanager
    def shown(self) -> Generator[None]:
        self._open_region()
        try:
            yield
        finally:
            self._close_region()

    def _open_region(self) -> None:
        """A new one each time: one that is started again erases the lines printed meanwhile."""
        from rich.live import Live as Region

        self.region = Region(
            get_renderable=self._status,
            console=self.console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self.region.start()

    def _close_region(self) -> None:
        region, self.region = self.region, None
        with contextlib.suppress(OSError, ValueError):
            if region:
                region.stop()

    @contextlib.contextmanager
    def aside(self) -> Generator[None]:
        """The terminal for somebody else: no live status meanwhile."""
        was_open = self.region is not None
        self._close_region()
        try:
            yield
        finally:
            if was_open:
                self._open_region()

    def _status(self) -> RenderableType:
        from rich.console import Group

        now = time.time_ns() // 1000
        rows = [row for run in self.live.active()[:LIVE_RUNS] for row in self._rows(run, now)]
        return Group(*rows, *([_row("", self.warning, "yellow")] if self.warning else []))

    def _rows(self, run: Run, now: int) -> list[Text]:
        mark, style = MARKS[tone_of(run.status, run.end, self.live.working(run).question is not None)]
        if run.status == "running":
            mark = SPINNER[now // 250_000 % len(SPINNER)]
        head = f"{self.live.place(run)} · {self.live.counters(run, now)}"
        return [
            _row(mark, head, "bold"),
            _row("", self.live.now(run, now), style if style == "yellow" else "dim"),
        ]


def _row(mark: str, text: str, style: str) -> Text:
    from rich.text import Text

    return Text.assemble((f"{mark:<2}", "cyan"), (text, style), no_wrap=True, overflow="ellipsis")


def open_screen(as_json: bool = False) -> Screen:
    """Progress goes to stdout, or to stderr if stdout carries JSON."""
    out = sys.stderr if as_json else sys.stdout
    if not is_fancy(out):
        return Plain(out)
    from rich.console import Console

    return Terminal(Console(file=out))
