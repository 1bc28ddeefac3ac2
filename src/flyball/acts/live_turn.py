"""An agent's turn while it runs: its stream, its protocol on standard input, and its questions through hooks.

What the agent does is shown as it comes, its protocol is answered through its keeper, and a turn that repeats itself
(CTO-9) or exceeds its budget (GUARD-4) is ended. An agent that asks through hooks gets a brief before it starts and is
answered while it works; what it asked is added to the result of the turn.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import threading
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from flyball.acts.run_files import RunFiles
from flyball.agents import process
from flyball.agents.adapter import Adapter, AgentResult, Ask, Call, Conversation, price_uusd
from flyball.agents.hooks import action_log, cli_settings, turn_brief
from flyball.agents.hooks.turn_brief import Brief
from flyball.agents.mcp import reports
from flyball.agents.session_records import SessionRecord
from flyball.core.stops import call_limits
from flyball.domain import events as e
from flyball.domain.events import Usage
from flyball.domain.machine import READ_ONLY_ROLES
from flyball.reading import calls as watching
from flyball.reading.terminal import whole
from flyball.state.run import Run
from flyball.workspace import Workspace

LEAVE_S = 3.0  # so long may an agent take to end after its turn has; Gemini never ends by itself
SHOWN_CALL = 200  # characters of a call that a watching person sees
INTERRUPT_S = 5.0  # and so long to end its turn when it is asked to


class Dialogue:
    def __init__(self, folder: Path, talk: Conversation) -> None:
        self.folder, self.talk = folder, talk
        self.timers: list[threading.Timer] = []
        self.closed = False

    def open(self) -> None:
        self._say(self.talk.opening())

    def receive(self, line: str) -> None:
        self._say(self.talk.reply(line))
        if self.talk.done and not self.closed:
            self.closed = True
            self._send(None)
            self._later(LEAVE_S, stop=None)

    def interrupt(self, stop: process.Stop) -> None:
        """Ask the agent to end its turn; it is ended if it does not."""
        self._say(self.talk.interrupt())
        self._later(INTERRUPT_S, stop)

    def close(self) -> None:
        for timer in self.timers:
            timer.cancel()

    def _later(self, seconds: float, stop: process.Stop | None) -> None:
        end = (lambda: stop.set(now=True)) if stop else (lambda: process.end(self.folder))
        timer = threading.Timer(seconds, end)
        timer.daemon = True
        self.timers.append(timer)
        timer.start()

    def _say(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            self._send(json.dumps(message) + "\n")

    def _send(self, text: str | None) -> None:
        with contextlib.suppress(OSError), process.Line(self.folder) as line:  # it may have ended meanwhile
            line.say(text)


LINE_MOST = 8 << 20  # a call may carry a large file, and who asks about it must get an answer
OUT_MOST = 64 << 20  # the keeper keeps no more of it


class Live:
    def __init__(
        self,
        agent: Adapter,
        run: Run,
        stop: process.Stop,
        show: Callable[[str], None],
        record: SessionRecord | None = None,
    ) -> None:
        self.agent, self.run, self.stop, self.show, self.record = agent, run, stop, show, record
        self.limits = call_limits(run)
        self.dialogue: Dialogue | None = None
        self.rest, self.watch = b"", watching.CallWatch()
        self.fired: watching.FiredRule | None = None
        self.spent = Usage()
        self.over_budget = ""
        self.size, self.unreadable = 0, ""  # why its protocol cannot be followed any more

    def __call__(self, data: bytes) -> None:
        *lines, rest = data.split(b"\n")
        if lines:
            lines[0], self.rest = self.rest + lines[0], b""
        self.rest = (self.rest + rest)[: LINE_MOST + 1]
        self.size += len(data)
        for line in lines:
            self.take(line.decode("utf-8", "replace"))
        if self.dialogue and not self.dialogue.closed and not self.ending:
            self.check_size()

    def check_size(self) -> None:
        """A question that cannot be read gets no answer, and the agent would wait for it until it times out."""
        if len(self.rest) > LINE_MOST:
            self.unreadable = f"The agent wrote a line of more than {LINE_MOST >> 20} MB."
        elif self.size >= OUT_MOST:
            self.unreadable = f"The agent wrote more than {OUT_MOST >> 20} MB in one turn."
        if self.unreadable:
            self.stop.set(now=True)

    def take(self, line: str) -> None:
        call = self.agent.doing(line)
        if call:
            self.observe(call)
        self.count()
        if self.dialogue:
            self.dialogue.receive(line)

    def observe(self, call: Call) -> None:
        self.show(whole(action_log.shortened(f"{call.tool} {call.input}", SHOWN_CALL)))
        call_ = watching.Call(
            tool=call.tool, input=call.input, result=call.result, error=call.error, writes=call.writes
        )
        self.watch = watching.observe(self.watch, call_)
        fired = watching.fired(self.watch, self.limits)
        if fired is not None and fired.level == "halt" and not self.ending:
            self.fired = fired
            self.end_turn()

    def count(self) -> None:
        """If the agent reports its use while it works, a turn ends when the budget does."""
        used, model = self.agent.spent()
        if self.record and used == Usage():
            used, model = self.record.used(), self.record.model
        if used == self.spent or self.ending:
            return
        self.spent = used
        self.over_budget = _over(self.run, used, model)
        if self.over_budget:
            self.end_turn()

    @property
    def ending(self) -> bool:
        return bool(self.fired or self.over_budget or self.unreadable)

    def end_turn(self) -> None:
        if self.dialogue:
            self.dialogue.interrupt(self.stop)
        else:
            self.stop.set(now=True)


def _over(run: Run, used: Usage, model: str) -> str:
    """The budget that this turn has used up, in words; "" if none."""
    budget, spent = run.settings.budget, run.spent
    base = run.spending.base
    if budget.tokens is not None and spent.tokens - base.tokens + used.tokens > budget.tokens:
        return f"the budget of {budget.tokens} tokens is used up"
    if budget.uusd is None:
        return ""
    cost = price_uusd(model, used)
    over = cost is not None and spent.cost_uusd - base.cost_uusd + cost > budget.uusd
    return f"the budget of ${budget.uusd / 1_000_000:.2f} is used up" if over else ""


PINNED = "hooks.sha256"
HOOKS_SILENT = (
    "Its hooks never ran, so its tool calls were not checked. "
    "Check that the agent reads the configuration it is given and trusts its hooks."
)


def brief(
    run_files: RunFiles, run: Run, act: e.Act, work: Workspace, home: Path, folder: Path
) -> tuple[Path, tuple[str, ...]]:
    """Write down what the hooks of this act need, and how its MCP server is started.

    Returns the folder, to be shown to the agent read-only, and the options that tell Codex about both.
    """
    place = folder / turn_brief.FOLDER
    place.mkdir(mode=0o700, exist_ok=True)
    mounted = run_files.mounted(run)  # in bubblewrap, which has a PID namespace too
    brief_ = Brief(
        workspace=str(work.repo_root if mounted else work.checkout),
        home=str(home),
        policy=run_files.policy(run),
        state_dirs=(str(run_files.state_dir),),
        network="all" if run.settings.network_agent == "model" else run.settings.network_agent,
        read_only=act.role in READ_ONLY_ROLES,
        confined=mounted,
        sandbox=run_files.sandbox_of(run).kind,
        defers=act.agent == "claude",
        late=str(home / f".flyball-late-{folder.name}.jsonl"),
        imports=turn_brief.imports(),
    )
    sha256 = turn_brief.write(place, brief_)
    server = cli_settings.server_line(place, reports.issue_token(folder), mounted)
    cli_settings.write(place, place / turn_brief.NAME, sha256, server)
    (folder / PINNED).write_text(_digest(place))
    hooks = cli_settings.codex_options(place / cli_settings.PROGRAM.name, place / turn_brief.NAME, sha256)
    return place, (*hooks, *cli_settings.codex_server(server))


def server_line(folder: Path, confined: bool) -> tuple[str, ...]:
    """How an agent with hooks starts its MCP server; nothing before its brief is written."""
    token = reports.token(folder)
    return cli_settings.server_line(folder / turn_brief.FOLDER, token, confined) if token else ()


def tampered(folder: Path) -> str:
    """GUARD-5: which of the hooks' files is no longer as this act got it, in words; "" if none."""
    pinned = folder / PINNED
    touched = pinned.exists() and pinned.read_text() != _digest(folder / turn_brief.FOLDER)
    return "the hooks' configuration" if touched else ""


def _digest(place: Path) -> str:
    """Of every file there except the socket, which comes and goes."""
    digest = hashlib.sha256()
    for path in sorted(p for p in place.rglob("*") if p.is_file()):
        data = path.read_bytes()
        digest.update(f"{path.relative_to(place)}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
    return digest.hexdigest()


@contextlib.contextmanager
def attended(
    folder: Path, run: Run, role: str, work: Workspace, show: Callable[[str], None], alarm: Callable[[], None]
) -> Generator[Ask | None]:
    """While this is open, the act's hooks and its MCP server have a driver. An act without hooks needs none.

    The value answers calls that an agent asks about over its protocol.
    """
    place = folder / turn_brief.FOLDER
    if not (place / turn_brief.NAME).exists():
        yield None
        return
    from flyball.agents.hooks.server import HookServer

    record, report = action_log.Record(folder), reports.Reports(folder, run, role, show).reply
    with HookServer(place, record, work.checkout, run.evidence.grants, show, alarm, report) as server:
        yield server.ask


def alarming(folder: Path) -> e.Action | None:
    """CTO-7: the call after which nothing more should be tried, from the record; none in an act without hooks."""
    brief_ = _brief_of(folder)
    return (
        action_log.read(folder, brief_.late).refused_by(brief_.policy.commands.critical) if brief_ else None
    )


def witnessed(result: AgentResult, folder: Path, agent: str) -> AgentResult:
    """The result, with what the hooks recorded and what the agent reported with its tools. If no hook of a hooked
    agent was ever called, the turn has failed.

    Over ACP it is the protocol itself that asks, and an agent that changes nothing asks nothing.
    """
    brief_ = _brief_of(folder)
    if brief_ is None:
        return result
    log = action_log.read(folder, brief_.late)
    result = replace(result, actions=log.actions, model=result.model or log.model)
    if not log.spoke and result.verdict == "ok" and not agent.startswith("acp:"):
        return replace(result, verdict="unknown", error=HOOKS_SILENT)
    if log.wanted and result.verdict in ("ok", "needs_approval"):
        fingerprint, question = (str(log.wanted.get(name, "")) for name in ("fingerprint", "question"))
        return replace(result, verdict="needs_approval", error=question, wanted=fingerprint)
    claim, approval = reports.claim(folder)
    if approval and result.verdict == "ok":
        return replace(result, verdict="needs_approval", error=approval)
    return replace(result, claim=claim) if claim != e.Claim() else result


def _brief_of(folder: Path) -> Brief | None:
    """The brief of the act's hooks; None in an act without hooks."""
    place = folder / turn_brief.FOLDER / turn_brief.NAME
    return turn_brief.parse(place.read_bytes()) if place.exists() else None
