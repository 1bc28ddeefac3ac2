"""Common to all agents that write a stream of JSON lines: how it is read, while it is written and at its end."""

from __future__ import annotations

import contextlib
import os
import shutil

from flyball.agents.adapter import AgentResult, Call, program_of
from flyball.agents.outcome import call_of, read_result
from flyball.agents.process import Exit
from flyball.domain.events import Usage
from flyball.reading.streams import Transcript


def local_zone() -> str:
    """The zone in which a program here writes a clock time."""
    name = os.environ.get("TZ", "").lstrip(":")
    if not name:
        with contextlib.suppress(OSError):
            name = os.readlink("/etc/localtime").rpartition("zoneinfo/")[2]  # noqa: PTH115
    return name or "UTC"


class StreamAgent:
    """`name` is the program's, for words that only it uses; `agent` is what `--agent` was given."""

    name = ""
    may_be_silent = False

    def __init__(self, agent: str = "") -> None:
        self.agent = agent or self.name
        self.transcript = Transcript()

    def missing(self) -> str:
        program = program_of(self.agent)
        if not program:
            return f"The agent '{self.agent}' names no program. Write for example command:'aider --message {{prompt}}'."
        if shutil.which(program):
            return ""
        return f"The program '{program}' of the agent '{self.agent}' is not installed. Install it, or use another agent."

    def doing(self, line: str) -> Call | None:
        call = self.transcript.take(line)
        return call_of(call) if call else None

    def spent(self) -> tuple[Usage, str]:
        """Tokens of this turn so far, and the model that used them; nothing once the turn has ended."""
        facts = self.transcript.facts
        return (Usage(), "") if facts.end else (facts.usage, facts.model)

    def read(self, out: str, err: str, exit: Exit) -> AgentResult:  # noqa: A002
        return read_result(self.name, out, err, exit, zone=local_zone(), may_be_silent=self.may_be_silent)
