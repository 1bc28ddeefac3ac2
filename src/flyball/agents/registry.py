"""Which adapter runs an agent: `script:FILE`, `command:COMMAND` and so on."""

from __future__ import annotations

from flyball.agents.adapter import Adapter
from flyball.config.plugins import load_plugin, plugins
from flyball.errors import NotFound


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
        made: Adapter = load_plugin(kind)(rest)
        return made
    raise NotFound(
        f"There is no agent '{agent}'. Agents: claude, codex, acp:…, command:…, script:FILE, mechanic."
    )
