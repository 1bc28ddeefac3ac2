"""An agent that asks through hooks, seen from its turn: briefed before it begins, attended while it works, and what
it asked added to what is known of the turn."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Generator
from pathlib import Path

from msgspec.structs import replace

from flyball.acts.run_files import RunFiles
from flyball.agents.adapter import AgentResult, Ask
from flyball.agents.hooks import action_log, brief as briefs, cli_settings
from flyball.agents.hooks.brief import Brief
from flyball.agents.mcp import reports
from flyball.core.run import Run
from flyball.domain import events as e
from flyball.domain.machine import READ_ONLY_ROLES
from flyball.workspace import Workspace

PINNED = "hooks.sha256"
UNHEARD = (
    "Its hooks were never heard of, so nothing guarded its tool calls. "
    "Check that the agent reads the configuration it is given and trusts its hooks."
)


def brief(
    run_files: RunFiles, run: Run, act: e.Act, work: Workspace, home: Path, folder: Path
) -> tuple[Path, tuple[str, ...]]:
    """Write down what the hooks of this act go by, and how its MCP server is started.

    The folder, to be shown to the agent read-only, and the options that tell Codex of both."""
    place = folder / briefs.FOLDER
    place.mkdir(mode=0o700, exist_ok=True)
    mounted = run_files.mounted(run)  # in bubblewrap, which has a PID namespace too
    told = Brief(
        workspace=str(work.repo_root if mounted else work.checkout),
        home=str(home),
        policy=run_files.policy(run),
        state_dirs=(str(run_files.state_dir),),
        network="all" if run.settings.network_agent == "model" else run.settings.network_agent,
        read_only=act.do.partition(":")[2] in READ_ONLY_ROLES,
        confined=mounted,
        sandbox=run_files.sandbox_of(run).kind,
        defers=act.agent == "claude",
        late=str(home / f".flyball-late-{folder.name}.jsonl"),
        imports=briefs.imports(),
    )
    sha256 = briefs.write(place, told)
    server = cli_settings.server_line(place, reports.issue_token(folder), mounted)
    cli_settings.write(place, place / briefs.NAME, sha256, server)
    (folder / PINNED).write_text(_digest(place))
    hooks = cli_settings.codex_options(place / cli_settings.PROGRAM.name, place / briefs.NAME, sha256)
    return place, (*hooks, *cli_settings.codex_server(server))


def server_line(folder: Path, confined: bool) -> tuple[str, ...]:
    """How the agent starts its MCP server; nothing before it is briefed."""
    token = reports.token(folder)
    return cli_settings.server_line(folder / briefs.FOLDER, token, confined) if token else ()


def tampered(folder: Path) -> str:
    """GUARD-5: which of the hooks' files is not as this act was given it, in words; "" if all are."""
    pinned = folder / PINNED
    touched = pinned.exists() and pinned.read_text() != _digest(folder / briefs.FOLDER)
    return "the hooks' configuration" if touched else ""


def _digest(place: Path) -> str:
    """Of every file there but the socket, which comes and goes."""
    found = hashlib.sha256()
    for path in sorted(p for p in place.rglob("*") if p.is_file()):
        data = path.read_bytes()
        found.update(f"{path.relative_to(place)}\0{len(data)}\0".encode("utf-8", "surrogateescape") + data)
    return found.hexdigest()


@contextlib.contextmanager
def attended(
    folder: Path, run: Run, role: str, work: Workspace, show: Callable[[str], None], alarm: Callable[[], None]
) -> Generator[Ask | None]:
    """While this is open, the act's hooks and its MCP server have a driver. An act without hooks needs none.

    What is given asks the same driver about calls that an agent asks about over its protocol."""
    place = folder / briefs.FOLDER
    if not (place / briefs.NAME).exists():
        yield None
        return
    from flyball.agents.hooks.server import HookServer

    record, report = action_log.Record(folder), reports.Reports(folder, run, role, show).reply
    with HookServer(place, record, work.checkout, run.evidence.grants, show, alarm, report) as server:
        yield server.ask


def alarming(folder: Path) -> e.Action | None:
    """CTO-7: the call after which nothing more should be tried, from the record; none in an act without hooks."""
    told = _told(folder)
    return action_log.read(folder, told.late).refused_by(told.policy.commands.critical) if told else None


def witnessed(heard: AgentResult, folder: Path, agent: str) -> AgentResult:
    """What the agent left, what its hooks saw, and what it reported with its tools. A hooked agent of which no hook was heard has failed.

    Over ACP it is the protocol itself that asks, and an agent that changes nothing asks nothing."""
    told = _told(folder)
    if told is None:
        return heard
    seen = action_log.read(folder, told.late)
    heard = replace(heard, actions=seen.actions, model=heard.model or seen.model)
    if not seen.spoke and heard.verdict == "ok" and not agent.startswith("acp:"):
        return replace(heard, verdict="unknown", error=UNHEARD)
    if seen.wanted and heard.verdict in ("ok", "needs_approval"):
        wanted, asked = (str(seen.wanted.get(name, "")) for name in ("fingerprint", "question"))
        return replace(heard, verdict="needs_approval", error=asked, wanted=wanted)
    said, approval = reports.claim(folder)
    if approval and heard.verdict == "ok":
        return replace(heard, verdict="needs_approval", error=approval)
    return replace(heard, claim=said) if said != e.Claim() else heard


def _told(folder: Path) -> Brief | None:
    """What the act's hooks go by; None in an act without hooks."""
    place = folder / briefs.FOLDER / briefs.NAME
    return briefs.parse(place.read_bytes()) if place.exists() else None
