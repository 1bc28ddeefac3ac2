"""The backlog of a repository: work that waits for `flyball up`.

It is the mail of one mailbox. A message is a task, a trigger, or a change of one of them; a lane of `up` takes the
messages of a task together with its first event, so nothing is lost or done twice.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flyball.domain.messages import Start, decode
from flyball.domain.results import Trigger
from flyball.journal import Message

GATE = "gate:"  # how the names of gates begin
SAYS = ("hold", "release", "cancel", "edit", "start")  # kinds that are about other messages


class Ticket(Struct, frozen=True, kw_only=True):
    """One task that waits."""

    id: str
    trigger: Trigger
    at: int
    messages: tuple[int, ...]  # what it was made from


class Backlog(Struct, frozen=True, kw_only=True):
    tickets: tuple[Ticket, ...] = ()
    held: bool = False  # nothing is started until it is released
    gates: frozenset[str] = frozenset()  # that a person has opened
    spent: tuple[int, ...] = ()  # messages without effect

    def get(self, ticket: str) -> Ticket | None:
        return next((one for one in self.tickets if one.id == ticket), None)


def mailbox(repo: Path | str) -> str:
    """The name under which the work of a repository waits."""
    return f"up-{hashlib.sha256(str(repo).encode()).hexdigest()[:12]}"


def take_number(file: Path, used_names: Callable[[], Iterable[str]]) -> int:
    """The number of a new task. The file holds the last number given; without it, `used_names` returns the names
    in use.
    """
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # two people may add a task at the same time
        last = os.read(descriptor, 20).decode("ascii", "replace").strip()
        number = 1 + (int(last) if last.isdecimal() else _highest(used_names()))
        os.pwrite(descriptor, f"{number:<19}\n".encode(), 0)
        return number
    finally:
        os.close(descriptor)


def _highest(names: Iterable[str]) -> int:
    return max((int(name[1:]) for name in names if re.fullmatch(r"T[0-9]{1,18}", name)), default=0)


def backlog(messages: Iterable[Message]) -> Backlog:
    """The tasks that the messages add up to, in the order in which they were left."""
    tickets, marks, obsolete = dict[str, Ticket](), dict[str, list[int]](), list[int]()
    for message in messages:
        try:
            content = decode(message.body)
        except msgspec.MsgspecError:
            obsolete.append(message.id)
            continue
        if not isinstance(content, Start):
            obsolete.append(message.id)
            continue
        trigger, ticket = content.trigger, tickets.get(content.trigger.ticket)
        match trigger.kind:
            case (
                "hold" | "release"
            ):  # everything is open until it is held; a gate is closed until it is released
                obsolete += marks.pop(trigger.ticket, [])
                stays = (trigger.kind == "hold") == (trigger.ticket == "")
                (marks.setdefault(trigger.ticket, []) if stays else obsolete).append(message.id)
            case "cancel" if ticket:
                obsolete += [*ticket.messages, message.id]
                del tickets[ticket.id]
            case "edit" | "start" if ticket:
                tickets[ticket.id] = replace(
                    ticket, trigger=_changed(ticket.trigger, trigger), messages=(*ticket.messages, message.id)
                )
            case kind if kind in SAYS and trigger.ticket:
                obsolete.append(message.id)
            case _ if ticket:  # it waits already
                obsolete.append(message.id)
            case _:
                name = trigger.ticket or f"T{message.id}"
                tickets[name] = Ticket(
                    id=name, trigger=replace(trigger, ticket=name), at=message.at, messages=(message.id,)
                )
    ordered = sorted(tickets.values(), key=lambda one: (-one.trigger.priority, one.messages[0]))
    gates = frozenset(marks) - {""}
    return Backlog(tickets=tuple(ordered), held="" in marks, gates=gates, spent=tuple(obsolete))


def _changed(before: Trigger, now: Trigger) -> Trigger:
    """An edit replaces the whole task."""
    if now.kind == "start":
        return replace(before, later=False)
    return replace(before, text=now.text or before.text, priority=now.priority, after=now.after)


def missing(ticket: Ticket, outcomes: Mapping[str, str]) -> list[str]:
    """The tickets that must be done first and are not done yet."""
    return [name for name in ticket.trigger.after if not outcomes.get(name, "").startswith("done")]


def ready(queue: Backlog, outcomes: Mapping[str, str]) -> list[Ticket]:
    """The tickets that can be started now, the most urgent first."""
    if queue.held:
        return []
    return [one for one in queue.tickets if not one.trigger.later and not missing(one, outcomes)]


def circle(queue: Backlog, ticket: str, after: Iterable[str]) -> list[str]:
    """The cycle in which a ticket would wait for itself; empty if there is none."""
    waits = {one.id: one.trigger.after for one in queue.tickets} | {ticket: tuple(after)}
    way, visited = [ticket], set[str]()

    def walk(name: str) -> bool:
        for other in waits.get(name, ()):
            way.append(other)
            if other == ticket or (other not in visited and not visited.add(other) and walk(other)):
                return True
            way.pop()
        return False

    return way if walk(ticket) else []
