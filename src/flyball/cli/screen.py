"""Progress: on a terminal the lines go by above a panel that says what is being done now; in a pipe, lines alone.

A screen never stops a run: who no longer reads is no longer told.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Generator
from typing import IO, TYPE_CHECKING, Any, TextIO

from flyball.cli.runs import question_lines
from flyball.core import events as e
from flyball.core.durations import elapsed
from flyball.core.run import Run
from flyball.core.stops import dollars
from flyball.views.run_view import next_step
from flyball.views.text import clock, many, one_line
from flyball.views.timeline import Line, Teller

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.text import Text

TONES = {"good": "green", "bad": "red", "warn": "yellow", "dim": "dim"}
WHERE = 16
PANEL_ROWS = 8


class Scene:
    """What is going on: the runs as they are now, and what the agents were last seen doing."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.doing: dict[str, str] = {}
        self.since: dict[str, int] = {}  # when the act in flight began
        self.note = ""

    def roots(self) -> list[Run]:
        return [run for run in list(self.runs.values()) if not run.began.parent and run.status != "ended"]

    def leaf(self, run: Run) -> Run:
        """The run below that does the work."""
        while run.child and run.child in self.runs and self.runs[run.child].status != "ended":
            run = self.runs[run.child]
        return run

    def path(self, run: Run) -> str:
        names = [f"{run.machine.name} · {run.state}"]
        leaf = self.leaf(run)
        return names[0] if leaf is run else f"{names[0]} › {leaf.machine.name} · {leaf.state}"


def counts(run: Run, now: int) -> str:
    """Turn, iteration, elapsed, cost."""
    most = run.most("iterations")
    parts = [many(run.turns, "turn")]
    if run.iteration:
        parts.append(f"iteration {run.iteration}{f'/{most}' if most else ''}")
    parts += [elapsed(now - run.began.at), dollars(run.spent.cost_uusd)]
    return " · ".join(parts)


def now_doing(scene: Scene, run: Run, now: int) -> str:
    """One line: the act in flight, the countdown, or what a person is asked."""
    leaf = scene.leaf(run)
    if leaf.question:
        return f"asks: {one_line(leaf.question.text, 100)}  {next_step(leaf)}"
    if leaf.until is not None and leaf.status == "waiting":
        code = leaf.stop.code if leaf.stop else ""
        return f"{code}: goes on in {elapsed(leaf.until - now)}, at {clock(leaf.until)}"
    if leaf.status != "running" or leaf.act is None:
        return leaf.status
    doing = f": {one_line(scene.doing.get(leaf.id, ''), 120)}" if scene.doing.get(leaf.id) else ""
    what = leaf.act.do.removeprefix("agent:") + (f" ({leaf.act.why})" if leaf.act.why else "")
    by = f", {one_line(leaf.act.agent, 40)}" if leaf.act.agent else ""
    return f"{what}{by}, {elapsed(now - scene.since.get(leaf.id, leaf.at))}{doing}"


class Screen:
    """Says nothing; the others say it somewhere."""

    def __init__(self) -> None:
        self.scene, self.teller = Scene(), Teller()
        self.stays = False  # questions are shown as they come: the end, which shows them too, is far

    def meet(self, run: Run) -> None:
        self.scene.runs[run.id] = run
        self.scene.since.setdefault(run.id, run.at)
        self.teller.meet(run)

    def event(self, run: Run, event: e.AnyEvent) -> None:
        if not isinstance(event, e.RunBegan):
            self.teller.meet(self.scene.runs.get(run.id, run))
        self.scene.runs[run.id] = run
        if isinstance(event, e.ActStarted | e.ActFinished):
            self.scene.doing.pop(run.id, None)
            self.scene.since[run.id] = event.at
        self.line(self.teller.line(run.id, event))
        if self.stays and isinstance(event, e.Stopped) and event.question and run.question == event.question:
            self.say("\n".join(question_lines(run)))

    def doing(self, run_id: str, text: str) -> None:
        """Called from any thread."""
        self.scene.doing[run_id] = text

    def line(self, line: Line) -> None: ...

    def say(self, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    @contextlib.contextmanager
    def shown(self) -> Generator[None]:
        yield


def nobody_reads(out: IO[str]) -> None:
    """The reader has gone, or the disk is full. The run goes on; what is still buffered goes nowhere."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, out.fileno())
        os.close(nowhere)


class Plain(Screen):
    """A line each, at once."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self.out: TextIO | None = out

    def line(self, line: Line) -> None:
        if line.level > 0:
            self.say(f"{clock(line.at)}  {line.where:<{WHERE}}  {line.text}")

    def say(self, text: str) -> None:
        if self.out is None:
            return
        try:
            self.out.write(text + "\n")
            self.out.flush()
        except (OSError, ValueError):
            nobody_reads(self.out)
            self.out = None

    def warn(self, text: str) -> None:
        self.say(text)


class Terminal(Screen):
    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def line(self, line: Line) -> None:
        from rich.text import Text

        if line.level < 2:
            return
        text = Text(f"{clock(line.at)}  ", "dim")
        text.append(f"{line.where:<{WHERE}}  ", "cyan")
        text.append(line.text, TONES.get(line.tone, ""))
        self._print(text)

    def say(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str | Text) -> None:
        try:
            self.console.print(text, markup=False, highlight=False)
        except (OSError, ValueError):  # the terminal was closed
            nobody_reads(self.console.file)

    def warn(self, text: str) -> None:
        self.scene.note = text

    @contextlib.contextmanager
    def shown(self) -> Generator[None]:
        from rich.live import Live

        live = Live(
            get_renderable=self._panel,
            console=self.console,
            refresh_per_second=4,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        live.start()
        try:
            yield
        finally:
            with contextlib.suppress(OSError, ValueError):
                live.stop()

    def _panel(self) -> RenderableType:
        from rich.console import Group

        now = time.time_ns() // 1000
        rows: list[Any] = []
        for run in self.scene.roots()[:PANEL_ROWS]:
            rows += self._rows(run, now)
        if self.scene.note:
            rows.append(_row("", self.scene.note, "yellow"))
        return Group(*rows)

    def _rows(self, run: Run, now: int) -> list[Text]:
        turning = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"[now // 250_000 % 10] if run.status == "running" else "●"
        style = "yellow" if run.status != "running" else ""
        head = _row(turning, f"{run.id}  {self.scene.path(run)}  {counts(run, now)}", "bold")
        return [head, _row("", now_doing(self.scene, run, now), style)]


def _row(mark: str, text: str, style: str) -> Text:
    from rich.text import Text

    return Text.assemble((f"{mark:<2}", "cyan"), (text, style), no_wrap=True, overflow="ellipsis")


def is_terminal(stream: TextIO | None = None) -> bool:
    stream = stream or sys.stdout
    return stream is not None and stream.isatty() and os.environ.get("TERM", "") not in ("", "dumb")


def open_screen(as_json: bool = False) -> Screen:
    """Progress goes to stdout, or where that carries JSON, to stderr."""
    out = sys.stderr if as_json else sys.stdout
    if not is_terminal(out):
        return Plain(out)
    from rich.console import Console

    return Terminal(Console(file=out))
