"""An agent's stream as it comes: what the agent does is shown, its protocol is answered, and a turn that goes in
circles (CTO-9) or over its budget (GUARD-4) is ended."""

from __future__ import annotations

from collections.abc import Callable

from flyball.acts.dialogue import Dialogue
from flyball.agents import process
from flyball.agents.adapter import Adapter, Call
from flyball.agents.prices import price_uusd
from flyball.core.run import Run
from flyball.core.turns import call_limits
from flyball.domain.events import Usage
from flyball.reading import calls as watching
from flyball.reading.terminal import whole

LINE_MOST = 8 << 20  # a call may carry a large file, and who asks about it must get an answer
OUT_MOST = 64 << 20  # the keeper keeps no more of it


class Live:
    def __init__(self, agent: Adapter, run: Run, stop: process.Stop, show: Callable[[str], None]) -> None:
        self.agent, self.run, self.stop, self.show = agent, run, stop, show
        self.limits = call_limits(run)
        self.dialogue: Dialogue | None = None
        self.rest, self.watch = b"", watching.CallWatch()
        self.fired: watching.Fired | None = None
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
        """A question that cannot be read gets no answer, and the agent would wait for it until it is taken for hung."""
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
            self.dialogue.hear(line)

    def observe(self, call: Call) -> None:
        self.show(whole(f"{call.tool} {call.input}"[:200]))
        seen = watching.Call(
            tool=call.tool, input=call.input, result=call.result, error=call.error, writes=call.writes
        )
        self.watch = watching.observe(self.watch, seen)
        fired = watching.fired(self.watch, self.limits)
        if fired is not None and fired.level == "halt" and not self.ending:
            self.fired = fired
            self.end_turn()

    def count(self) -> None:
        """Where the agent tells as it goes what it uses, a turn ends when the budget does."""
        used, model = self.agent.spent()
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
