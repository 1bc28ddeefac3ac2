"""What is happening right now, for the live lines of a terminal: the step, the tool call, time, cost and turn."""

from __future__ import annotations

import re

from flyball.core.run import Run
from flyball.domain.durations import SECOND, rough
from flyball.domain.money import dollars
from flyball.views.reasons import happened
from flyball.views.run_view import cost_usd
from flyball.views.text import UNKNOWN, agent_name, clock, one_line

# What a tool call is about, in the JSON that agents write: the file, else the command, else what is looked for.
_SUBJECT = re.compile(r'"(?:file_path|path|command|pattern|query|url)"\s*:\s*"((?:[^"\\]|\\.)*)')


class Live:
    """The runs as they are now, and the last tool call of each agent."""

    def __init__(self) -> None:
        self.runs: dict[str, Run] = {}
        self.calls: dict[str, str] = {}
        self.since: dict[str, int] = {}  # when the current step started

    def active(self) -> list[Run]:
        """The top-level runs that have not ended."""
        return [run for run in list(self.runs.values()) if not run.began.parent and run.status != "ended"]

    def working(self, run: Run) -> Run:
        """The run that does the work: the run itself or its innermost child run."""
        while run.child and run.child in self.runs and self.runs[run.child].status != "ended":
            run = self.runs[run.child]
        return run

    def place(self, run: Run) -> str:
        """`build · write`, and the same of the child run that works."""
        inner = self.working(run)
        outer = f"{run.machine.name} · {run.state}"
        return outer if inner is run else f"{outer} › {inner.machine.name} · {inner.state}"

    def counters(self, run: Run, now: int) -> str:
        """Turn of the limit, time since the start, cost."""
        limit = run.most("turns")
        turn = f"turn {run.turns + self._in_turn(run)}{f' of {limit}' if limit is not None else ''}"
        money = dollars(run.spent.cost_uusd) if cost_usd(run) is not None else f"cost {UNKNOWN}"
        iterations = run.most("iterations")
        of = f" of {iterations}" if iterations is not None else ""
        iteration = [f"iteration {run.iteration}{of}"] if run.iteration else []
        return " · ".join([turn, *iteration, rough(now - run.began.at), money])

    def _in_turn(self, run: Run) -> bool:
        """A turn that is under way is not counted by the run yet."""
        act = self.working(run).act
        return act is not None and act.do.startswith("agent:")

    def _step(self, run: Run, kind: str) -> str:
        if kind != "proof":
            return STEPS.get(kind, kind)
        commands = run.settings.proof
        return f"running {one_line(commands[0], 60)}" if len(commands) == 1 else "running the proof commands"

    def now(self, run: Run, now: int) -> str:
        """One line: the tool call or step under way, the time until a limit is reset, or the open question."""
        inner = self.working(run)
        if inner.question:
            return f"waiting for your answer to {inner.question.id}"
        if inner.until is not None and inner.status == "waiting" and inner.stop:
            reason = happened(inner.stop, inner.state)
            return f"{reason}; continues in {rough(inner.until - now + SECOND)}, at {clock(inner.until)}"
        if inner.status != "running" or inner.act is None:
            return inner.status
        kind, _, name = inner.act.do.partition(":")
        agent = f" ({agent_name(inner.act.agent)})" if inner.act.agent else ""
        step = f"{name}{agent}" if kind == "agent" else self._step(inner, kind)
        call = self.calls.get(inner.id, "")
        took = rough(now - self.since.get(inner.id, inner.at))
        return f"{step} {took}: {call_text(call)}" if call else f"{step} {took}"


STEPS = {"prepare": "preparing the checkout", "restore": "restoring the checkout", "commit": "committing"}


def call_text(call: str) -> str:
    """A tool call without the JSON around it: `Edit src/slug.py`."""
    tool, _, arguments = call.partition(" ")
    subject = _SUBJECT.search(arguments)
    return one_line(f"{tool} {subject.group(1)}" if subject else call, 120)
