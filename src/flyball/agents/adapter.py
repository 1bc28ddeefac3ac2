"""What every agent adapter provides: how its process starts, how its output is read, what its turn costs.

An adapter never decides. It reports what the agent said; exit 0 alone is never trusted.

Agents report what a whole session has used; a turn is charged the difference to what was known before (AGENT-4). The
file with these totals is outside the agent's reach. Each entry names its act, so that reading the same act again after
a crash gives the same difference. Tokens cost their list price if the agent does not report a cost; for an unknown
model the cost is unknown, which is not zero.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from functools import lru_cache
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, Protocol, runtime_checkable

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from flyball.agents.process import Exit
from flyball.config.plugins import load_plugin, plugins
from flyball.domain.events import Action, Claim, Usage
from flyball.domain.settings import show_duration
from flyball.errors import NotFound
from flyball.state_dir import write_whole


class TurnRequest(Struct, frozen=True, kw_only=True):
    """What a turn is asked for."""

    prompt: str
    prompt_file: Path
    role: str
    place: int = 0
    place_in_file: int = 0
    session: str = ""
    resume: bool = False
    so_far: str = ""  # what an agent that lost its session must know
    proof: tuple[str, ...] = ()  # the commands that will prove the tree
    wall_s: float | None = None  # how long the turn may take
    hooks: Path | None = None  # the folder of the hooks' configurations (hooks/cli_settings.py)
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
        """Why it cannot be used at all (not installed, unreadable script), as a sentence; "" if it can be used."""
        ...

    def launch(self, request: TurnRequest) -> Launch: ...

    def read(self, out: str, err: str, exit: Exit) -> AgentResult: ...  # noqa: A002

    def doing(self, line: str) -> Call | None:
        """A line of its stream as a tool call, for those who watch."""
        ...

    def spent(self) -> tuple[Usage, str]:
        """Tokens of the turn so far, as far as its stream reports them, and the model that used them."""
        ...


class Answer(Struct, frozen=True):
    """The guard's answer to a tool call that is asked about over the agent's protocol."""

    allowed: bool
    why: str = ""


Ask = Callable[[str, dict[str, Any], str], Answer]  # tool, input, the agent's name for the call


def refuse_all(tool: str, input_: dict[str, Any], call: str) -> Answer:
    return Answer(False, "Flyball cannot check this call.")


class Conversation(Protocol):
    """The driver's side of a protocol on the agent's standard input and output, a line at a time."""

    done: bool  # the turn has ended: standard input is to be closed

    def opening(self) -> list[dict[str, Any]]: ...

    def reply(self, line: str) -> list[dict[str, Any]]:
        """What to say to this line of the agent's."""
        ...

    def interrupt(self) -> list[dict[str, Any]]:
        """What ends the turn early in an orderly way."""
        ...


@runtime_checkable
class Talks(Protocol):
    """An adapter whose agent is talked to while it works."""

    def converse(self, request: TurnRequest, ask: Ask) -> Conversation: ...


def ended_badly(exit: Exit) -> str:  # noqa: A002
    """The verdict that the end of the process forces, whatever the agent said; "" if it forces none."""
    forced = {"wall": "timeout", "idle": "hung", "cannot_start": "cannot_start", "swarm": "killed"}.get(
        exit.reason, ""
    )
    if forced:
        return forced
    return "killed" if exit.signal is not None else ""


def cause_of(result: AgentResult, exit: Exit, idle_us: int) -> str:  # noqa: A002
    """Why a turn failed: how its process ended, and then the last thing that was said of it."""
    if result.verdict == "hung" and exit.reason == "idle":
        return f"no output for {show_duration(idle_us)}"
    ended = (
        f"ended by signal {exit.signal}" if exit.signal else f"exited with {exit.code}" if exit.code else ""
    )
    failed = exit.reason == "exit" and result.verdict in ("unknown", "killed")
    if not (ended and failed) or result.error.startswith(ended):
        return result.error
    return f"{ended}: {result.error}" if result.error else ended


def price_uusd(model: str, usage: Usage) -> int | None:
    """Micro-dollars; None if nobody knows."""
    prices = _prices() if model else None
    if prices is None:
        return None
    usage_ = prices.Usage(
        input_tokens=usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        return round(prices.calc_price(usage_, model_ref=model).total_price * 1_000_000)
    except (LookupError, ValueError):
        return None


@lru_cache(1)
def _prices() -> Any:
    """The package takes almost a second to import, and few turns need it."""
    try:
        return import_module("genai_prices")
    except ImportError:
        return None


ENTRIES_MOST = 3  # of a session: the last one of another act is enough
SESSIONS_MOST = 200
MODELS_MOST, NAME_MOST = 20, 100


class Entry(Struct, frozen=True, omit_defaults=True):
    act: str
    tokens: Usage | None = None
    uusd: int | None = None
    models: dict[str, Usage] = {}


def charged(file: Path, act: str, result: AgentResult) -> AgentResult:
    """The result with the usage and cost of this turn alone, priced where the agent named no cost."""
    if result.session and (result.total_tokens is not None or result.total_uusd is not None):
        charges = _read(file)
        entries = [entry for entry in charges.get(result.session, []) if entry.act != act]
        entry = Entry(act, result.total_tokens, result.total_uusd, result.models)
        result = _difference(result, entries[-1] if entries else Entry(""))
        entries.append(entry)
        charges.pop(result.session, None)
        charges[result.session] = entries[-ENTRIES_MOST:]
        newest = dict(list(charges.items())[-SESSIONS_MOST:])
        write_whole(file, msgspec.json.encode(newest), sync=False)
    result = result if result.priced else _priced(result)
    return replace(result, models=_by_model(result))


def _read(file: Path) -> dict[str, list[Entry]]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, list[Entry]])
    except (OSError, msgspec.MsgspecError):
        return {}


def _difference(result: AgentResult, before: Entry) -> AgentResult:
    used = result.usage
    if result.total_tokens is not None:
        used = replace(since(result.total_tokens, before.tokens or Usage()), cost_uusd=used.cost_uusd)
    if result.total_uusd is not None:
        used = replace(used, cost_uusd=_more(result.total_uusd, before.uusd or 0))
    models = {name: since(total, before.models.get(name, Usage())) for name, total in result.models.items()}
    return replace(result, usage=used, models=models)


def since(total: Usage, before: Usage) -> Usage:
    old, new = asdict(before), asdict(total)
    return Usage(**{name: _more(new[name], old[name]) for name in new})


def _more(total: int, before: int) -> int:
    """A total lower than the one before belongs to a new session."""
    return total - before if total >= before else total


def _by_model(result: AgentResult) -> dict[str, Usage]:
    """What each model used in this turn, where the agent names models."""
    models = result.models or ({result.model: result.usage} if result.model else {})
    return {name[:NAME_MOST]: used for name, used in list(models.items())[:MODELS_MOST] if used != Usage()}


def _priced(result: AgentResult) -> AgentResult:
    uusd = price_uusd(result.model, result.usage) if result.usage.tokens else None
    if uusd is None:
        return result
    return replace(result, usage=replace(result.usage, cost_uusd=uusd), priced="estimated")


def adapter(agent: str) -> Adapter:
    """The adapter for `script:FILE`, `command:COMMAND` …"""
    kind, _, rest = agent.partition(":")
    if kind == "script":
        from flyball.agents.script import ScriptAgent

        return ScriptAgent(rest)
    if kind == "command":
        from flyball.agents.command import CommandAgent

        return CommandAgent(rest)
    if agent == "mechanic":
        from flyball.agents.mechanic import MechanicAgent

        return MechanicAgent()
    if agent == "claude":
        from flyball.agents.claude import ClaudeAgent

        return ClaudeAgent()
    if agent == "codex":
        from flyball.agents.codex import CodexAgent

        return CodexAgent()
    if kind == "acp":
        from flyball.agents.acp import AcpAgent

        return AcpAgent(rest)
    if kind in plugins():
        adapter_: Adapter = load_plugin(kind)(rest)
        return adapter_
    raise NotFound(
        f"There is no agent '{agent}'. Agents: claude, codex, acp:…, command:…, script:FILE, mechanic."
    )


# ---- the names of agents -------------------------------------------------------------------------------

ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
NAMED = ("claude", "codex")  # agents whose name is their program's


def words_of(agent: str) -> list[str]:
    """The command line of an agent, as words; none for those without a program of their own."""
    kind, _, rest = agent.partition(":")
    if kind in NAMED:
        return [kind]
    if kind not in ("acp", "command"):
        return []
    try:
        return shlex.split(rest)
    except ValueError:
        return rest.split()


def program_of(agent: str) -> str:
    """The program that its command line starts; "" if it names none."""
    return next((word for word in words_of(agent) if not ASSIGNMENT.match(word)), "")


def name_of(agent: str) -> str:
    """The name by which `[agents.NAME]` means this agent: its program's, or its kind."""
    for word in words_of(agent):
        name = PurePath(word).name
        if not ASSIGNMENT.match(word) and name not in ("env", "exec", "npx", "uvx", "nice", "timeout"):
            return name
    return agent.partition(":")[0]
