"""Following a run from outside: its events are read from the journal as they come. Nothing is written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import click
import msgspec

from flyball.agents import process
from flyball.agents.registry import adapter
from flyball.cli.runs import asking
from flyball.cli.screen import Screen
from flyball.core import events as e
from flyball.core.run import Run, fold
from flyball.errors import FlyballError, UserError
from flyball.journal import Entry
from flyball.runtime.app import App

POLL_S = 0.2
NOBODY_S = 5.0  # a driver in the background takes a moment to come
TAIL_MOST = 1 << 16


class Tail:
    """The events of a run and of everything below it, as far as they were not given yet."""

    def __init__(self, app: App, root: str) -> None:
        self.app, self.root = app, root
        self.seqs: dict[str, int] = {}

    def skip(self) -> list[Run]:
        """All so far counts as given; the runs as they are now."""
        runs: list[Run] = []
        for run_id in self._members():
            self.seqs[run_id] = self.app.journal.head(run_id)[0]
            runs.append(self.app.read(run_id))
        return runs

    def news(self) -> list[Entry]:
        found: list[Entry] = []
        for run_id in self._members():
            after = self.seqs.get(run_id, 0)
            if self.app.journal.head(run_id)[0] > after:
                found += self.app.journal.read(run_id, after)
                self.seqs[run_id] = max(entry.seq for entry in found if entry.run == run_id)
        return sorted(found, key=lambda entry: entry.at)

    def _members(self) -> list[str]:
        return [row.run for row in reversed(self.app.journal.rows(root=self.root))]


def as_json(entry: Entry) -> dict[str, Any]:
    """The event, with its run and place; another run that it tells of is called `below`."""
    told = msgspec.json.decode(entry.body, type=dict[str, Any])
    if told.get("run", entry.run) != entry.run:
        told["below"] = told["run"]
    return {**told, "run": entry.run, "seq": entry.seq}


def print_entry(entry: Entry) -> None:
    click.echo(json.dumps(as_json(entry)))


def watch_json(app: App, root: str) -> Run:
    """Every event from the first on, until the run stops."""
    tail = Tail(app, root)

    def step() -> None:
        for entry in tail.news():
            print_entry(entry)

    return until_stopped(app, root, step, stay=False)


def watch_screen(app: App, root: str, screen: Screen, stay: bool) -> Run:
    tail, runs = Tail(app, root), dict[str, Run]()
    screen.stays = stay
    for run in tail.skip():
        runs[run.id] = run
        screen.meet(run)

    def step() -> None:
        for entry in tail.news():
            event = e.decode(entry.body)
            runs[entry.run] = fold(runs.get(entry.run), [event])
            screen.event(runs[entry.run], event)
        _look_at_agents(app, screen)

    with screen.shown():
        return until_stopped(app, root, step, stay)


def until_stopped(app: App, root: str, step: Callable[[], None], stay: bool) -> Run:
    """Step until the run has ended or waits for a person (who may sit here: `stay`) or nobody drives it."""
    seen_at = time.monotonic()
    while True:
        head, driven = app.journal.head(root), app.driven(root)
        step()
        run = app.read(root)
        still = app.journal.head(root) == head  # else it has moved meanwhile: step once more
        if still and (run.status == "ended" or (_waits(app, run) and not (stay and driven))):
            return run
        seen_at = time.monotonic() if driven else seen_at
        dead = not driven and bool(app.journal.holder(root))
        if dead or time.monotonic() - seen_at > NOBODY_S:
            raise UserError(f"Nothing drives run {root} now. `flyball resume {root}` goes on.")
        time.sleep(POLL_S)


def _waits(app: App, run: Run) -> bool:
    """It stands still until a person says something."""
    return run.status != "running" and (run.until is None or asking(app, run) is not None)


def _look_at_agents(app: App, screen: Screen) -> None:
    """What the agents do now, from the end of what they wrote."""
    for run in screen.scene.runs.values():
        act = run.act
        if act is not None and act.do.startswith("agent:") and run.status == "running":
            said = process.read_out(app.dirs.act(act.key), TAIL_MOST)
            doing = _last_call(act.agent, said)
            if doing:
                screen.doing(run.id, doing)


def _last_call(agent: str, said: bytes) -> str:
    try:
        reader = adapter(agent)
    except FlyballError:
        return ""
    for line in reversed(said.decode("utf-8", "replace").splitlines()):
        call = reader.doing(line)
        if call:
            return f"{call.tool} {call.input}"[:200]
    return ""
