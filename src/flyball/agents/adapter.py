"""One door to every agent: how its process is started, and how what it left is read.

An adapter never decides. It says what the agent said; exit 0 alone is never trusted.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from msgspec import Struct

from flyball.agents.process import Exit
from flyball.core.events import Action, Claim, Usage


class TurnRequest(Struct, frozen=True, kw_only=True):
    """What a turn is asked for."""

    prompt: str
    prompt_file: Path
    role: str
    place: int = 0
    place_in_file: int = 0
    session: str = ""
    resume: bool = False
    proof: tuple[str, ...] = ()  # the commands that will prove the tree
    wall_s: float | None = None  # how long the turn may take
    hooks: Path | None = None  # where the hooks' configurations will stand (hook/settings.py)


class Launch(Struct, frozen=True, kw_only=True):
    """How to start it."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    stdin_file: str | None = None
    reads: tuple[str, ...] = ()  # files outside the checkout that it must see
    hooked: bool = False  # it was told to ask the guard through hooks; one that never does has failed


class Call(Struct, frozen=True, kw_only=True):
    """One tool call, as observed."""

    tool: str
    input: str = ""
    result: str = ""
    error: bool = False
    writes: bool = False


class AgentResult(Struct, frozen=True, kw_only=True):
    """What an agent left behind, in the one shape that all share (AGENT-2)."""

    verdict: str
    message: str = ""
    session: str = ""
    usage: Usage = Usage()
    claim: Claim = Claim()
    reset_in_us: int | None = None
    reset_at: int | None = None
    plan_percent: int | None = None  # how much of the plan's window is used up
    plan_reset_in_us: int | None = None
    plan_reset_at: int | None = None
    priced: str = ""  # reported | estimated | "" if nobody knows what it cost
    total_tokens: Usage | None = None  # of the whole session, where the agent reports running totals
    total_uusd: int | None = None
    models: dict[str, Usage] = {}
    model: str = ""
    lost_session: bool = False  # the session that was to be resumed is gone
    error: str = ""
    calls: tuple[Call, ...] = ()
    actions: tuple[Action, ...] = ()  # those that the guard was asked about
    wanted: str = ""  # the fingerprint of the one that needs a permission


class Adapter(Protocol):
    def missing(self) -> str:
        """Why it cannot be used at all (not installed, unreadable script), as a sentence; "" if it can."""
        ...

    def launch(self, request: TurnRequest) -> Launch: ...

    def read(self, out: str, err: str, exit: Exit) -> AgentResult: ...  # noqa: A002

    def doing(self, line: str) -> Call | None:
        """A line of its stream as a tool call, for those who watch."""
        ...


def ended_badly(exit: Exit) -> str:  # noqa: A002
    """The verdict that the process's own end forces, whatever was said; "" if it forces none."""
    forced = {"wall": "timeout", "idle": "hung", "cannot_start": "cannot_start", "swarm": "killed"}.get(
        exit.reason, ""
    )
    if forced:
        return forced
    return "killed" if exit.signal is not None else ""
