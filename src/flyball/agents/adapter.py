"""One door to every agent: how its process is started, and how what it left is read.

An adapter never decides. It says what the agent said; exit 0 alone is never trusted.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from msgspec import Struct

from flyball.agents.process import Exit
from flyball.domain.events import Action, Claim, Usage


class TurnRequest(Struct, frozen=True, kw_only=True):
    """What a turn is asked for."""

    prompt: str
    prompt_file: Path
    role: str
    place: int = 0
    place_in_file: int = 0
    session: str = ""
    resume: bool = False
    so_far: str = ""  # what an agent must know that lost its session
    proof: tuple[str, ...] = ()  # the commands that will prove the tree
    wall_s: float | None = None  # how long the turn may take
    hooks: Path | None = None  # where the hooks' configurations stand (hooks/cli_settings.py)
    hook_options: tuple[str, ...] = ()  # the same for Codex, which takes them on its command line
    server: tuple[str, ...] = ()  # how the MCP server of this act is started
    key: str = ""  # of the act: no other turn has it
    cwd: str = ""  # the checkout, as the agent sees it
    confined: bool = False  # Flyball's own sandbox is around it
    read_only: bool = False


class Launch(Struct, frozen=True, kw_only=True):
    """How to start it."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    stdin_file: str | None = None
    reads: tuple[str, ...] = ()  # files outside the checkout that it must see
    talks: bool = False  # its protocol speaks on its standard input, which the driver holds (see Talks)


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
    @property
    def hooked(self) -> bool:
        """It asks the guard about its tool calls; a turn in which it never did has failed."""
        ...

    def missing(self) -> str:
        """Why it cannot be used at all (not installed, unreadable script), as a sentence; "" if it can."""
        ...

    def launch(self, request: TurnRequest) -> Launch: ...

    def read(self, out: str, err: str, exit: Exit) -> AgentResult: ...  # noqa: A002

    def doing(self, line: str) -> Call | None:
        """A line of its stream as a tool call, for those who watch."""
        ...

    def spent(self) -> tuple[Usage, str]:
        """Tokens of the turn so far, as far as its stream tells, and the model that used them."""
        ...


class Answer(Struct, frozen=True):
    """The guard's word on a tool call that is asked about over the agent's protocol."""

    allowed: bool
    why: str = ""


Ask = Callable[[str, dict[str, Any], str], Answer]  # tool, input, the agent's name for the call


def refuse_all(tool: str, given: dict[str, Any], call: str) -> Answer:
    return Answer(False, "Flyball cannot check this call.")


class Conversation(Protocol):
    """The driver's side of a protocol on the agent's standard input and output, a line at a time."""

    done: bool  # the turn has ended: standard input is to be closed

    def opening(self) -> list[dict[str, Any]]: ...

    def reply(self, line: str) -> list[dict[str, Any]]:
        """What to say to this line of the agent's."""
        ...

    def interrupt(self) -> list[dict[str, Any]]:
        """What ends the turn early, in an orderly way."""
        ...


@runtime_checkable
class Talks(Protocol):
    """An adapter whose agent is spoken with while it works."""

    def converse(self, request: TurnRequest, ask: Ask) -> Conversation: ...


def ended_badly(exit: Exit) -> str:  # noqa: A002
    """The verdict that the process's own end forces, whatever was said; "" if it forces none."""
    forced = {"wall": "timeout", "idle": "hung", "cannot_start": "cannot_start", "swarm": "killed"}.get(
        exit.reason, ""
    )
    if forced:
        return forced
    return "killed" if exit.signal is not None else ""
