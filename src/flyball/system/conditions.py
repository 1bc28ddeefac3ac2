"""What a task may wait for besides other tasks (CTO-8): a run, an issue or pull request, a gate that a person opens."""

from __future__ import annotations

import re
from collections.abc import Mapping

from flyball.runtime.app import App
from flyball.runtime.backlog import GATE, Backlog, Ticket
from flyball.system.forge_watch import ForgeState
from flyball.system.tasks import AT_WORK

NUMBER = re.compile(r"#[0-9]{1,9}")
NAMED_GATE = re.compile(GATE + r"[A-Za-z0-9_.-]{1,64}")


def met(app: App, backlog: Backlog, forge: ForgeState) -> dict[str, str]:
    """The conditions that are met, in the form of task outcomes: name -> "done", with the commit of a run."""
    names = _names(backlog)
    outcomes = {name: "done" for name in names if name in backlog.gates}
    outcomes |= {name: "done" for name in names if _number_state(name, forge) in ("closed", "merged")}
    return outcomes | {name: became for name in names if (became := _run_ended(app, name)).startswith("done")}


def never(app: App, one: Ticket, became: Mapping[str, str]) -> list[str]:
    """What a task waits for and what can no longer happen, as sentences. `became`: the results of started tasks."""
    ends = {name: _run_ended(app, name) or _task_ended(became, name) for name in one.trigger.after}
    return [
        f"{one.id} waits for {name}, which ended as {end}. Change it with `flyball task edit {one.id} --after …`, "
        f"or cancel it with `flyball task cancel {one.id}`."
        for name, end in ends.items()
        if end and not end.startswith("done")
    ]


def fault(app: App, name: str) -> str:
    """Why nothing can wait for this; "" if it can. Tasks are known to the caller."""
    if NUMBER.fullmatch(name) or NAMED_GATE.fullmatch(name) or app.journal.row(name):
        return ""
    return (
        f"There is no task or run {name} to wait for. `flyball task ls` shows all tasks; a task can also wait for an "
        f"issue or pull request (#12) or a gate (gate:NAME)."
    )


def _names(backlog: Backlog) -> set[str]:
    return {name for one in backlog.tickets for name in one.trigger.after}


def _number_state(name: str, forge: ForgeState) -> str:
    return forge.states.get(int(name[1:]), "") if NUMBER.fullmatch(name) else ""


def _task_ended(became: Mapping[str, str], name: str) -> str:
    end = became.get(name, "")
    return "" if end in AT_WORK else end


def _run_ended(app: App, name: str) -> str:
    """ "" if it is not a run, or the run continues."""
    row = app.journal.row(name)
    if row is None or row.status != "ended":
        return ""
    if row.end != "success":
        return row.code or row.end
    commit = app.read(name).checkout.commit
    return f"done {commit.commit}" if commit else "done"
