"""Which adapter runs an agent: `script:FILE`, `command:COMMAND` and so on."""

from __future__ import annotations

from flyball.agents.adapter import Adapter
from flyball.errors import AgentMissing, NotFound


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
    if kind in ("claude", "codex", "acp"):
        raise AgentMissing(
            f"The agent '{kind}' cannot be used in this version. Use mechanic, script:FILE or command:COMMAND."
        )
    raise NotFound(
        f"There is no agent '{agent}'. Agents: claude, codex, acp:…, command:…, script:FILE, mechanic."
    )
