"""What one run did, counted from its events: turns, calls, time, money, transitions, repeats and recoveries.

`measure` folds the run beside the counts, so that "same error" and "fewer failing tests" mean what the rules mean.
Each run counts its own work only; sums over a family of runs count nothing twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import pairwise

from msgspec import Struct, field

from flyball.domain import events as e
from flyball.state.fold import apply, begin
from flyball.state.run import Run
from flyball.views.run_view import WRITERS

SIMPLE = "simple retry"  # TASK-3: the machine's own


class Measures(Struct):
    """The counts of one run since an instant; times are microseconds."""

    run: str
    root: str
    parent: str
    owner: bool
    machine: str
    task: str
    began_at: int
    standing: bool = False  # a lane of `up`
    agents: set[str] = field(default_factory=set[str])
    updated_at: int = 0
    state: str = ""
    status: str = ""
    end: str = ""
    code: str = ""
    landed: bool = False
    asks: bool = False
    turns: int = 0
    calls: int = 0
    usage: e.Usage = e.Usage()
    acts: Counter[str] = field(default_factory=Counter[str])  # kind of act -> how many
    act_us: Counter[str] = field(default_factory=Counter[str])
    moves: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    state_us: Counter[str] = field(default_factory=Counter[str])
    verdicts: Counter[str] = field(default_factory=Counter[str])  # of the guard
    same_results: int = 0  # turns that ended like the turn before: same role, tree and final message
    same_errors: int = 0  # turns with the error of the turn before
    same_calls: int = 0  # tool calls that repeat the call before, with the same result
    milestones: int = 0
    failures: int = 0
    questions: int = 0
    recoveries: list[str] = field(default_factory=list[str])

    @property
    def work_us(self) -> int:
        return self.act_us.total()


def measure(events: Iterable[e.AnyEvent], now: int, since: int = 0) -> Measures | None:
    """The counts of a run from its events, oldest first; None if there are none."""
    meter: _Meter | None = None
    for event in events:
        if isinstance(event, e.RunBegan):
            meter = _Meter(event)
        elif meter:
            meter.take(event, event.at >= since, since)
    return meter.reading(now, since) if meter else None


class _Meter:
    """Follows one run event by event."""

    def __init__(self, began: e.RunBegan) -> None:
        self.run: Run = begin(began)
        self.counts = Measures(
            run=began.run,
            root=began.root or began.run,
            parent=began.parent,
            owner=began.owner,
            machine=self.run.machine.name,
            task=began.task,
            began_at=began.at,
            standing=self.run.machine.standing,
        )
        self.entered_at = began.at
        self.ended_at = 0  # landing adds events after the end
        self.result: tuple[str, str, str] | None = None  # of the last turn of a writing role
        self.recoveries: list[tuple[str, bool]] = []  # and whether it is inside the period

    def take(self, event: e.AnyEvent, counts: bool, since: int) -> None:
        before, act = self.run, self.run.act
        self.run = apply(before, event)
        if isinstance(event, e.Ended):
            self.ended_at = event.at
        if isinstance(event, e.Moved):
            self._leave(event.source, event.at, since)
        self._recover(event, counts)
        if not counts:
            return
        match event:
            case e.ActFinished() if act is not None:
                self._finish(event, act, before)
            case e.Ruled(ruling=ruling) if not ruling.unchanged:
                self.counts.verdicts[ruling.verdict] += 1
            case e.Moved():
                self.counts.moves[event.source, event.target] += 1
                self.counts.milestones += int(_is_forward(before, event))
            case e.FailureCounted():
                self.counts.failures += 1
            case e.Stopped(question=question) if question is not None:
                self.counts.questions += 1
            case e.Landed():
                self.counts.landed = True
            case _:
                pass

    def _leave(self, state: str, at: int, since: int) -> None:
        self.counts.state_us[state] += max(0, at - max(self.entered_at, since))
        self.entered_at = at

    def _finish(self, event: e.ActFinished, act: e.Act, before: Run) -> None:
        counts, kind = self.counts, act.do.partition(":")[0]
        counts.acts[kind] += 1
        counts.act_us[kind] += event.took_us
        evidence = before.evidence.fewest, self.run.evidence.fewest
        if act.why != "baseline" and evidence[0] is not None and evidence[1] is not None:
            counts.milestones += int(evidence[1] < evidence[0])
        if isinstance(event.result, e.ChildEnded) and before.machine.standing:
            counts.milestones += int(event.result.end == "success")
        if isinstance(event.result, e.TurnEnded):
            self._turn(event.result, act)
        errors = before.progress.errors, self.run.progress.errors
        counts.same_errors += int(errors[1] > max(errors[0], 1))

    def _turn(self, turn: e.TurnEnded, act: e.Act) -> None:
        counts, role = self.counts, act.role
        counts.turns += 1
        counts.agents.add(act.agent)
        counts.calls += turn.calls or len(turn.actions)
        counts.usage = counts.usage.plus(turn.usage)
        same = (before for before, after in pairwise(turn.actions) if before == after)
        counts.same_calls += sum(1 for _ in same)
        if role in WRITERS:
            result = (role, turn.tree or self.run.tree, turn.said)
            counts.same_results += int(result == self.result)
            self.result = result

    def _recover(self, event: e.AnyEvent, counts: bool) -> None:
        """TASK-3. A failure is a simple retry, unless it is what calls the cto role."""
        match event:
            case e.FailureCounted():
                self.recoveries.append((SIMPLE, counts))
            case e.Moved():
                source, target = (self.run.machine.states[name] for name in (event.source, event.target))
                if target.of == "cto" and event.outcome == "third_failure" and self.recoveries:
                    self.recoveries.pop()
                if source.of == "cto":
                    kind = "guided retry" if event.outcome == "retry" else event.outcome
                    self.recoveries.append((kind, counts))
                elif source.act == "ask" and event.actor.startswith("human"):
                    self.recoveries.append((f"human {event.outcome}", counts))
            case _:
                pass

    def reading(self, now: int, since: int) -> Measures:
        run, counts = self.run, self.counts
        self._leave(run.state, self.ended_at or max(now, run.at), since)
        counts.updated_at = self.ended_at or run.at
        counts.state, counts.status, counts.end = run.state, run.status, run.end
        counts.code, counts.asks = run.stop.code if run.stop else "", run.question is not None
        counts.recoveries = [kind for kind, inside in self.recoveries if inside]
        return counts


def _is_forward(run: Run, moved: e.Moved) -> bool:
    """A task state left forwards: by the first outcome of its line in a machine that counts failures by state."""
    first = next(iter(run.machine.states[moved.source].on), "")
    return "failures" in run.machine.most and moved.outcome == first and moved.source != moved.target
