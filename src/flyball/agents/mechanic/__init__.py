"""mechanic: a built-in agent that needs no model. It repairs small Python bugs by test-guided search.

It finds suspicious lines from what failing and passing tests run, tries small edits there until every test passes, and
says so when none does. It reports in the script agent's rows, so it is read like one.
"""

from __future__ import annotations

import sys

from flyball.agents.adapter import Launch, TurnRequest
from flyball.agents.script import ScriptAgent

SECONDS = 300.0
OF_ITS_TIME = 0.8  # of the turn's own limit: what it has to say must come before the end


class MechanicAgent(ScriptAgent):
    def __init__(self) -> None:
        super().__init__("")

    def missing(self) -> str:
        return ""

    def launch(self, request: TurnRequest) -> Launch:
        seconds = min(SECONDS, OF_ITS_TIME * request.wall_s) if request.wall_s else SECONDS
        proofs = [word for command in request.proof for word in ("--proof", command)]
        own = (sys.executable, "-P", "-m", __name__, "--role", request.role, "--seconds", f"{seconds:g}")
        return Launch(argv=(*own, *proofs))
