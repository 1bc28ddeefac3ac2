"""A run is what its events add up to. Nothing else holds state.

It holds counts, never histories: the journal is the history. An answer is a new allowance: what had run out
begins again at zero, else the same stop would follow at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.machine import FAILING, READ_ONLY_ROLES, Machine, State, parse
from flyball.core.settings import Settings

FREE = ("rate_limited", "plan_limit", "overloaded", "network", "auth", "billing", "context")  # cost no turn
FAILED = ("killed", "hung", "unknown", "refused", "cannot_start")  # a failed turn, tried again
WORKERS = ("coder", "worker", "author", "developer")
TREES_KEPT = 512
BY_A_PERSON = "a person stopped it"


class Todo(Struct, frozen=True):
    """The checkout must be brought to this tree before anything else."""

    tree: str
    why: str


class Proof(Struct, frozen=True):
    tree: str
    passed: bool
    failing: int | None = None
    summary: str = ""
    commands: tuple[e.ProofCommand, ...] = ()
    at: int = 0


class Run(Struct, frozen=True, kw_only=True):
    id: str
    machine: Machine
    settings: Settings
    began: e.RunBegan
    state: str
    status: str = "running"  # running | waiting | paused | blocked | ended
    end: str = ""
    stop: e.Stop | None = None
    question: e.Question | None = None
    until: int | None = None  # a wait ends by itself at this instant
    asked: str = ""  # pause | stop | cancel | interrupt: takes effect at the next boundary
    act: e.Act | None = None
    held: e.Held | None = None
    todo: Todo | None = None
    child: str = ""

    at: int = 0
    entered_at: int = 0
    previous: str = ""
    origin: str = ""  # task: the state that called the CTO or a human
    acts: int = 0
    questions: int = 0
    turn: int = 0
    below_turns: int = 0
    iteration: int = 0
    entries: dict[str, int] = {}

    prepared: bool = False
    sandbox: str = ""
    base_tree: str = ""
    tree: str = ""
    seen: tuple[str, ...] = ()
    moved_tree: bool = False  # the tree changed in some turn since the last progress
    changed: tuple[str, ...] = ()
    lines: int = 0
    baseline: int | None = None
    baselined: bool = False
    fewest: int | None = None
    proof: Proof | None = None
    ruling: e.Ruling | None = None
    waived: tuple[str, ...] = ()
    committed: e.CommitEnded | None = None
    certificate: str = ""

    retries: int = 0
    contexts: int = 0
    interruptions: int = 0
    no_progress: int = 0
    progressed: bool = False  # the last turn made progress
    error: str = ""
    error_count: int = 0
    error_before: tuple[str, int] = ("", 0)
    last_error: str = ""
    failures: dict[str, int] = {}
    cto_attempts: int = 0

    spent: e.Usage = e.Usage()
    spent_base: e.Usage = e.Usage()  # what was spent when the budget was last renewed
    turn_costs: tuple[int, ...] = ()
    turn_tokens: tuple[int, ...] = ()
    wall_us: int = 0
    wall_base: int = 0

    sessions: dict[str, str] = {}
    told: tuple[str, ...] = ()
    message: str = ""  # the last turn's final message
    plan: dict[str, Any] = {}
    findings: tuple[e.Finding, ...] = ()
    played: dict[str, int] = {}  # agent|role -> finished turns, of this run and its descendants

    @property
    def here(self) -> State:
        return self.machine.states[self.state]

    @property
    def owner(self) -> bool:
        return self.began.owner

    @property
    def turns(self) -> int:
        """Agent turns of the run and its descendants."""
        return self.turn + self.below_turns

    def most(self, key: str) -> int | None:
        """A limit: from the parent's table, else the configuration, else the machine's own."""
        given = self.began.options.get(key)
        if isinstance(given, int) and not isinstance(given, bool):
            return given
        return self.settings.limit(self.machine.name, key, self.machine.most.get(key))

    def option(self, key: str) -> Any:
        """`write`, `review` …: from the parent's table, else the settings."""
        return self.began.options.get(key, getattr(self.settings, key, None))


def begin(event: e.RunBegan) -> Run:
    machine = parse(event.table)
    start = event.start or machine.start
    counted = start == machine.iteration or (bool(machine.iteration) and start != machine.start)
    return Run(
        id=event.run,
        machine=machine,
        settings=event.settings,
        began=event,
        state=start,
        at=event.at,
        entered_at=event.at,
        iteration=int(counted),
        entries={start: 1},
        prepared=not event.owner,
        baselined=not event.owner,
        tree=event.tree,
        base_tree=event.base_tree,
        seen=(event.tree,) if event.tree else (),
        changed=tuple(event.options.get("changed", ())),
    )


def fold(run: Run | None, events: Iterable[e.AnyEvent]) -> Run:
    for event in events:
        run = begin(event) if isinstance(event, e.RunBegan) else apply(_some(run), event)
    return _some(run)


def _some(run: Run | None) -> Run:
    if run is None:
        raise ValueError("a history begins with RunBegan")
    return run


def apply(run: Run, event: e.AnyEvent) -> Run:
    """The run after one more fact."""
    return _APPLY[type(event)](run, event)


# ---- acts ------------------------------------------------------------------------------------------------


def _act_started(run: Run, event: e.ActStarted) -> Run:
    act = event.act
    role = act.do.partition(":")[2] if act.do.startswith("agent:") else ""
    return replace(
        run,
        at=event.at,
        act=act,
        acts=run.acts + 1,
        child=act.child,
        told=() if role else run.told,
        sessions={**run.sessions, role: act.session} if role and act.session else run.sessions,
        cto_attempts=run.cto_attempts + int(role == "cto"),
    )


def _act_finished(run: Run, event: e.ActFinished) -> Run:
    act = run.act
    after = replace(run, at=event.at, act=None, interruptions=0, wall_us=run.wall_us + event.took_us)
    match event.result:
        case e.TurnEnded() as turn:
            return _after_turn(after, act, turn)
        case e.ProofEnded() as proof:
            return _after_proof(after, act, proof)
        case e.Prepared() as made:
            tree = made.base_tree
            return replace(
                after,
                prepared=not made.error,
                sandbox=made.sandbox,
                base_tree=tree,
                tree=tree,
                seen=(tree,) if tree else (),
            )
        case e.Restored() as back:
            return replace(after, tree=back.tree, todo=None)
        case e.CommitEnded() as done:
            kept = done if done.outcome == "committed" else run.committed
            told = (
                run.told
                if done.outcome == "committed"
                else (*run.told, f"The commit was refused:\n{done.reason}")
            )
            return replace(after, committed=kept, certificate=done.certificate or run.certificate, told=told)
        case e.ChildEnded() as child:
            return replace(after, child="", tree=child.tree or run.tree)
        case e.CheckEnded():
            return after


def _after_turn(run: Run, act: e.Act | None, turn: e.TurnEnded) -> Run:
    role = act.do.partition(":")[2] if act else ""
    agent = act.agent if act else ""
    played = {**run.played, f"{agent}|{role}": run.played.get(f"{agent}|{role}", 0) + 1}
    run = replace(
        run,
        spent=run.spent.plus(turn.usage),
        played=played,
        sessions={**run.sessions, role: turn.session} if turn.session else run.sessions,
        message=turn.message or run.message,
        told=(*run.told, *turn.notes),
        last_error=turn.error or run.last_error,
        contexts=run.contexts + 1 if turn.verdict == "context" else 0,
        changed=_union(run.changed, turn.changed),
        lines=run.lines + turn.lines,
    )
    if turn.verdict in FREE:
        fresh = _without(run.sessions, role) if turn.verdict == "context" else run.sessions
        return replace(run, sessions=fresh, tree=turn.tree or run.tree)
    run = replace(
        run,
        turn=run.turn + 1,
        turn_costs=(*run.turn_costs[-99:], turn.usage.cost_uusd),
        turn_tokens=(*run.turn_tokens[-99:], turn.usage.tokens),
        retries=run.retries + 1 if turn.verdict in FAILED else 0,
        error_before=(run.error, run.error_count),
        **_counted_error(run.error, run.error_count, turn.fingerprint),
    )
    return _progress(run, role, turn)


def _progress(run: Run, role: str, turn: e.TurnEnded) -> Run:
    """A tree never seen in this run is progress; one seen before is not, and neither are words (CTO-11)."""
    if role in READ_ONLY_ROLES or not turn.tree or turn.claim.ask:
        return replace(run, tree=turn.tree or run.tree)
    fresh = turn.tree not in run.seen
    return replace(
        run,
        tree=turn.tree,
        seen=(*run.seen[-TREES_KEPT:], turn.tree) if fresh else run.seen,
        progressed=fresh,
        no_progress=0 if fresh else run.no_progress + 1,
        moved_tree=not fresh and (run.moved_tree or turn.tree != run.tree),
    )


def _after_proof(run: Run, act: e.Act | None, proof: e.ProofEnded) -> Run:
    known = Proof(proof.tree, proof.passed, proof.failing, proof.invalid or proof.summary, proof.commands, run.at)
    if act and act.why == "baseline":
        return replace(run, baselined=True, baseline=proof.failing, fewest=proof.failing, proof=known)
    fewer = proof.failing is not None and (run.fewest is None or proof.failing < run.fewest)
    run = replace(run, proof=known, fewest=proof.failing if fewer else run.fewest)
    if fewer:
        run = replace(run, progressed=True, no_progress=0, moved_tree=False)
    if proof.passed:
        return run
    before, count = run.error_before
    return replace(
        run,
        last_error=proof.summary or run.last_error,
        **_counted_error(before, count, proof.fingerprint),
    )


def _counted_error(last: str, count: int, now: str) -> dict[str, Any]:
    return {"error": now, "error_count": (count + 1 if now == last else 1) if now else 0}


def _act_interrupted(run: Run, event: e.ActInterrupted) -> Run:
    act = run.act
    note = f"Your last turn was interrupted ({event.reason}) and its changes were put back. Begin it again."
    put_back = act is not None and act.do.startswith("agent:")
    return replace(
        run,
        at=event.at,
        act=None,
        child="",
        interruptions=run.interruptions + int(event.reason != BY_A_PERSON),
        todo=Todo(act.tree, "putback") if act and put_back else run.todo,
        told=(*(act.told if act else ()), note) if put_back else run.told,
    )


# ---- transitions and stops -------------------------------------------------------------------------------


def _moved(run: Run, event: e.Moved) -> Run:
    run.machine.check(event.source, event.target)
    new_iteration = event.target == run.machine.iteration
    entries = {} if new_iteration else run.entries
    forwards = event.outcome not in (*FAILING, "third_failure", "error", "timeout")
    cleared = forwards or event.target in ("cto_intervention", "human_escalation")
    return replace(
        run,
        at=event.at,
        state=event.target,
        previous=event.source,
        origin=_origin(run, event),
        entered_at=event.at,
        held=None,
        iteration=run.iteration + int(new_iteration),
        entries={**entries, event.target: entries.get(event.target, 0) + 1},
        failures={**run.failures, event.source: 0} if cleared else run.failures,
    )


def _origin(run: Run, event: e.Moved) -> str:
    if event.target == "cto_intervention":
        return event.source
    return run.origin


def _held(run: Run, event: e.Held) -> Run:
    return replace(run, at=event.at, held=event)


def _stopped(run: Run, event: e.Stopped) -> Run:
    return replace(
        run,
        at=event.at,
        status=event.status,
        stop=event.stop,
        question=event.question,
        questions=run.questions + int(event.question is not None),
        until=event.until,
        asked="" if event.status == "paused" else run.asked,
    )


def _resumed(run: Run, event: e.Resumed) -> Run:
    return replace(run, at=event.at, status="running", stop=None, question=None, until=None, asked="")


def _answered(run: Run, event: e.Answered) -> Run:
    budget = run.stop is not None and run.stop.code.startswith("limit.budget")
    judged = run.held is not None and run.held.until in ("approval", "block")
    waived = run.ruling.diff if run.ruling and event.verb == "approve" and judged else ""
    return replace(
        run,
        at=event.at,
        status="running",
        stop=None,
        question=None,
        until=None,
        asked="",
        retries=0,
        contexts=0,
        interruptions=0,
        no_progress=0,
        moved_tree=False,
        error_count=0,
        spent_base=run.spent if budget else run.spent_base,
        waived=(*run.waived, waived) if waived else run.waived,
        failures={**run.failures, run.origin: 0} if run.state == "human_escalation" else run.failures,
        told=(*run.told, event.text) if event.text else run.told,
    )


def _ended(run: Run, event: e.Ended) -> Run:
    return replace(
        run,
        at=event.at,
        status="ended",
        end=event.end,
        stop=event.stop,
        question=None,
        until=None,
        act=None,
        held=None,
        certificate=event.certificate or run.certificate,
    )


def _child_stopped(run: Run, event: e.ChildStopped) -> Run:
    return replace(run, at=event.at, status=event.status, stop=event.stop, until=event.until, asked="")


def _child_went_on(run: Run, event: e.ChildWentOn) -> Run:
    budget = run.stop is not None and run.stop.code.startswith("limit.budget")
    base = run.spent if budget else run.spent_base
    return replace(run, at=event.at, status="running", stop=None, until=None, spent_base=base)


def _charged(run: Run, event: e.Charged) -> Run:
    key = f"{event.agent}|{event.role}"
    return replace(
        run,
        at=event.at,
        spent=run.spent.plus(event.usage),
        below_turns=run.below_turns + event.turns,
        wall_us=run.wall_us + event.took_us,
        changed=_union(run.changed, event.changed),
        played={**run.played, key: run.played.get(key, 0) + 1} if event.agent else run.played,
    )


def _ruled(run: Run, event: e.Ruled) -> Run:
    return replace(run, at=event.at, ruling=event.ruling)


def _failure_counted(run: Run, event: e.FailureCounted) -> Run:
    told = (*run.told, event.reason) if event.reason else run.told
    return replace(run, at=event.at, failures={**run.failures, event.state: event.count}, told=told)


def _dropped(run: Run, event: e.Dropped) -> Run:
    return replace(run, at=event.at, held=None)


def _restore_ordered(run: Run, event: e.RestoreOrdered) -> Run:
    return replace(run, at=event.at, todo=Todo(event.tree, event.why))


def _asked(run: Run, event: e.Asked) -> Run:
    return replace(run, at=event.at, asked=event.what)


def _told(run: Run, event: e.Told) -> Run:
    return replace(run, at=event.at, told=(*run.told, event.text))


def _noted(run: Run, event: e.AnyEvent) -> Run:
    return replace(run, at=event.at)


def _union(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new))) if new else old


def _without(sessions: dict[str, str], role: str) -> dict[str, str]:
    return {k: v for k, v in sessions.items() if k != role}


_APPLY: dict[type[Any], Callable[[Run, Any], Run]] = {
    e.ActStarted: _act_started,
    e.ActFinished: _act_finished,
    e.ActInterrupted: _act_interrupted,
    e.Ruled: _ruled,
    e.Held: _held,
    e.Moved: _moved,
    e.FailureCounted: _failure_counted,
    e.Skipped: _noted,
    e.Warned: _noted,
    e.Stopped: _stopped,
    e.Resumed: _resumed,
    e.Answered: _answered,
    e.Dropped: _dropped,
    e.RestoreOrdered: _restore_ordered,
    e.LetterRefused: _noted,
    e.Told: _told,
    e.Asked: _asked,
    e.Charged: _charged,
    e.ChildStopped: _child_stopped,
    e.ChildWentOn: _child_went_on,
    e.Ended: _ended,
    e.Landed: _noted,
}

_pack = msgspec.msgpack.Encoder()
_unpack = msgspec.msgpack.Decoder(Run)


def freeze(run: Run) -> bytes:
    """A snapshot of the fold."""
    return _pack.encode(run)


def thaw(body: bytes) -> Run:
    return _unpack.decode(body)
