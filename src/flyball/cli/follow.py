"""Follow a run from outside: read its events from the journal as they come. Only a person's answer is sent."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click
import msgspec

from flyball.agents import process
from flyball.cli import RUN_OR_LAST, examples, is_terminal, open_app
from flyball.cli.keys import answer_keys
from flyball.cli.screen import Screen, closing, open_screen
from flyball.domain import events as e
from flyball.errors import UserError
from flyball.guard.secrets import redact
from flyball.journal import Entry
from flyball.journal.records import Records, asking, root_of
from flyball.runtime.app import App
from flyball.runtime.facts import current_call
from flyball.state.fold import fold
from flyball.state.run import Run
from flyball.views import reasons, run_view
from flyball.views.text import clean, fields, first_few, first_line

POLL_S = 0.2
START_S = 5.0  # a process in the background takes a moment to start


class Tail:
    """The new events of a run and its child runs."""

    def __init__(self, records: Records, root: str) -> None:
        self.records, self.root = records, root
        self.seqs: dict[str, int] = {}

    def skip(self) -> list[Run]:
        """Skip the events so far; return the runs as they are now."""
        runs: list[Run] = []
        for run_id in self._members():
            self.seqs[run_id] = self.records.journal.head(run_id)[0]
            runs.append(self.records.read(run_id))
        return runs

    def news(self) -> list[Entry]:
        entries: list[Entry] = []
        for run_id in self._members():
            after = self.seqs.get(run_id, 0)
            if self.records.journal.head(run_id)[0] > after:
                entries += self.records.journal.read(run_id, after)
                self.seqs[run_id] = max(entry.seq for entry in entries if entry.run == run_id)
        return sorted(entries, key=lambda entry: entry.at)

    def _members(self) -> list[str]:
        return [row.run for row in reversed(self.records.journal.rows(root=self.root))]


def as_json(entry: Entry) -> dict[str, Any]:
    """The event with its run and number; a child run that it is about is called `below`."""
    facts = msgspec.json.decode(entry.body, type=dict[str, Any])
    if facts.get("run", entry.run) != entry.run:
        facts["below"] = facts["run"]
    return {**facts, "run": entry.run, "seq": entry.seq}


def print_entry(entry: Entry) -> None:
    click.echo(json.dumps(as_json(entry)))


def watch_json(records: Records, root: str) -> Run:
    """Print every event, from the first on, until the run stops."""
    tail = Tail(records, root)

    def step() -> None:
        for entry in tail.news():
            print_entry(entry)

    return until_stopped(records, root, step, stay=False)


def watch_screen(app: App, root: str, screen: Screen, stay: bool) -> Run:
    """Show a run until it stops. With `stay` a person is there, who can answer its questions with keys."""
    tail, runs = Tail(app, root), dict[str, Run]()
    screen.stays = stay

    def step() -> None:
        for entry in tail.news():
            event = e.decode(entry.body)
            runs[entry.run] = fold(runs.get(entry.run), [event])
            screen.event(runs[entry.run], event)
        _show_current_calls(app, screen)

    def asker() -> Run | None:
        return asking(app, app.read(root))

    with contextlib.ExitStack() as stack:
        keys = (
            stack.enter_context(answer_keys(app, screen, lambda: [run] if (run := asker()) else []))
            if stay
            else None
        )
        for run in tail.skip():
            runs[run.id] = run
            screen.add(run)
        if runs[root].status != "ended":  # the summary comes next
            screen.close(runs[root], _status_lines(runs[root], app.driven(root)))
        question = asker()
        if question is not None and stay and app.driven(root):
            screen.show_question(question)
        stack.enter_context(screen.shown())
        return until_stopped(app, root, step, stay, keys.pause if keys else time.sleep)


def _status_lines(run: Run, driven: bool) -> list[str]:
    """What happened before somebody began to watch."""
    failing = reasons.failing_now(run)
    status = run.status
    if status == "running" and not driven:
        status = "not running" if run.checkout.base_tree else "starting"
    rows = [
        ("task", first_line(run.task, 100)),
        ("state", f"{run.machine.name} · {run.state}, {status}, {reasons.effort(run)}"),
        *(("last turns" if number == 0 else "", line) for number, line in enumerate(run.talk.recent[-3:])),
        ("failing", first_few(failing) if failing else ""),
    ]
    return [f"Run {run.id}", *fields([row for row in rows if row[1]])]


class Output:
    """What the processes of acts write, as they write it."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.sizes: dict[str, int] = {}  # of each stream when it was last read
        self.lines: dict[str, int] = {}  # … and how many of its lines were printed

    def news(self, runs: Iterable[Run]) -> Iterator[str]:
        for run in runs:
            if run.act is not None:
                yield from self.of(run.act.key, ended=False)

    def of(self, key: str, *, ended: bool) -> Iterator[str]:
        """New lines of an act, without secrets and control characters; the last one only if it is whole."""
        folder = self.records.dirs.act(key)
        for place in (folder, *sorted(path for path in folder.glob("*") if path.is_dir())):
            name = "" if place == folder else f"{place.name}/"
            for stream, data in (("out", process.read_out(place)), ("err", process.read_err(place))):
                for text in self._new(f"{place}/{stream}", data, ended):
                    yield f"    {name}{stream} | {text}"

    def _new(self, stream: str, data: bytes, ended: bool) -> list[str]:
        """A secret may run over several lines, so all of them are read again."""
        if self.sizes.get(stream) == len(data) and not ended:
            return []
        self.sizes[stream] = len(data)
        whole = data if ended else data[: data.rfind(b"\n") + 1]
        lines = clean(redact(whole.decode("utf-8", "replace"))).splitlines()
        before, self.lines[stream] = self.lines.get(stream, 0), len(lines)
        return lines[before:]


def until_stopped(
    records: Records,
    root: str,
    step: Callable[[], None],
    stay: bool,
    pause: Callable[[float], None] = time.sleep,
) -> Run:
    """Step until the run has ended or waits for a person (`stay`: who may answer meanwhile), or has no process."""
    running_at = time.monotonic()
    while True:
        head, driven = records.journal.head(root), records.driven(root)
        step()
        run = records.read(root)
        caught_up = records.journal.head(root) == head
        if caught_up and (run.status == "ended" or (_waits(records, run) and not (stay and driven))):
            return run
        running_at = time.monotonic() if driven else running_at
        dead = not driven and bool(records.journal.holder(root))
        if dead or time.monotonic() - running_at > START_S:
            raise UserError(f"Run {root} is not running. Continue with `flyball resume {root}`.")
        pause(POLL_S)


def _waits(records: Records, run: Run) -> bool:
    """It is stopped until a person does something."""
    return run.status != "running" and (run.until is None or asking(records, run) is not None)


def _show_current_calls(records: Records, screen: Screen) -> None:
    """Show what the agents do now, from the end of their output."""
    for run in screen.live.runs.values():
        call = current_call(records, run)
        if call:
            screen.show_call(run.id, call)


# ---- the command ------------------------------------------------------------------------------------------


@click.command(
    epilog=examples(
        "flyball watch               # the latest run of this repository",
        "flyball watch 9apx47xk",
        "flyball watch @last --json",
    )
)
@RUN_OR_LAST
@click.option("--json", "as_json", is_flag=True, help="Print every event as a JSON line.")
def watch(run_name: str, as_json: bool) -> int:
    """Follow a run until it stops. Ctrl+C leaves the run alone."""
    with open_app() as app:
        root = root_of(app, app.find(run_name))
        if as_json:
            return run_view.exit_code(watch_json(app, root))
        screen = open_screen()
        run = watch_screen(app, root, screen, stay=is_terminal())
        screen.finish(run, closing(app, run))
        return run_view.exit_code(run)
