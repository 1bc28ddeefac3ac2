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
from flyball.core.machine import FAILING, Machine, State, parse
from flyball.core.old_tables import as_it_was
from flyball.core.settings import Settings
from flyball.core.tally import FAILED as FAILED
from flyball.core.tally import (
    FRESH,
    Proof,
    after_child,
    after_commit,
    after_prepare,
    after_proof,
    after_restore,
    after_turn,
    disproved,
    land_ordered,
    landed,
    played_key,
    union,
)
from flyball.errors import FlyballError

WORKERS = ("coder", "worker", "author", "developer")
INSTEAD = ("wait.escalation", "blocked.table.")  # codes whose rule may be the code of what ran out
BY_A_PERSON = "a person stopped it"


class Todo(Struct, frozen=True):
    """The checkout must be brought to this tree before anything else."""

    tree: str
    why: str
    since: str = ""


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
    below: e.Stop | None = None  # why the last child failed

    at: int
    entered_at: int
    previous: str = ""
    origin: str = ""  # task: the state that called the CTO or a human
    answered_by: str = ""
    acts: int = 0
    questions: int = 0
    turn: int = 0
    below_turns: int = 0
    barren: int = 0  # children that ended without a turn
    turns_base: int = 0  # turns when their limit was last renewed
    iteration: int
    iteration_base: int = 0
    entries: dict[str, int] = {}

    prepared: bool
    sandbox: str = ""
    base_tree: str = ""
    tree: str = ""
    seen: tuple[str, ...] = ()
    moved_tree: bool = False  # the tree changed in some turn since the last progress
    changed: tuple[str, ...] = ()
    lines: int = 0
    deleted: int = 0
    excused: tuple[str, ...] = ()  # what a person let stand: the radius begins anew after it
    excused_lines: int = 0
    baseline: int | None = None
    baselined: bool
    fewest: int | None = None
    proof: Proof | None = None
    done_tree: str = ""  # the tree of which the author last said DONE
    ruling: e.Ruling | None = None
    waived: tuple[str, ...] = ()
    granted: tuple[str, ...] = ()  # calls that a person allowed, by fingerprint; `once:` is for the next turn
    committed: e.CommitEnded | None = None
    landing: e.LandOrdered | None = None  # what a person ordered after the end, until it is done
    landings: dict[str, str] = {}  # branch of the user's -> the commit of this run that it took last
    certificate: str = ""

    retries: int = 0
    contexts: int = 0
    limits: int = 0  # turns in a row that a limit ended, as far as two
    limited: dict[str, int] = {}  # agent -> until when a limit holds it, where others stand in
    interruptions: int = 0
    cut: str = ""  # why the last act was interrupted
    gone: bool = False  # for want of something that no act can do without
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
    window: e.WindowSeen | None = None  # what all runs spent in the last day and week
    window_from: int = 0  # when that budget was last renewed: what was spent before counts no more
    plan_percent: int = 0  # of the plan's own window, as last reported
    plan_reset_at: int = 0
    turn_costs: tuple[int, ...] = ()
    turn_tokens: tuple[int, ...] = ()
    wall_us: int = 0
    wall_base: int = 0

    sessions: dict[str, str] = {}  # agent|role -> session
    told: tuple[str, ...] = ()
    message: str = ""  # the last turn's final message
    exit_signal: bool = False  # whether the last turn claimed to be done …
    indicators: tuple[str, ...] = ()  # … and by which indicators
    lately: tuple[str, ...] = ()  # the last turns, a line each, for questions and fresh sessions
    plan: dict[str, Any] = {}
    findings: tuple[e.Finding, ...] = ()
    disputes: dict[str, int] = {}  # finding -> how often it was disputed since a person last said
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
    machine = as_it_was(machine) if event.rules == "1" else machine
    start = event.start or machine.start
    if start not in machine.states:
        raise FlyballError(f"'{machine.name}' has no state '{start}', so run {event.run} cannot be in it.")
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
        sessions=event.sessions,
        sandbox=event.sandbox,
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
    heard = act.do.startswith(("agent:", "run:"))  # what was told is delivered, once
    key = played_key(act)
    return replace(
        run,
        at=event.at,
        act=act,
        acts=run.acts + 1,
        child=act.child,
        told=() if heard else run.told,
        sessions={**run.sessions, key: act.session} if act.session else run.sessions,
    )


def _act_finished(run: Run, event: e.ActFinished) -> Run:
    act = run.act
    in_a_row = run.interruptions if isinstance(event.result, e.Restored) else 0
    wall_us = run.wall_us + event.took_us
    after = replace(run, at=event.at, act=None, landing=None, interruptions=in_a_row, wall_us=wall_us)
    match event.result:
        case e.TurnEnded() as turn:
            return after_turn(after, act, turn)
        case e.ProofEnded() as proof:
            return after_proof(after, act, proof)
        case e.Prepared() as made:
            return after_prepare(after, made)
        case e.Restored() as back:
            return after_restore(after, act, back)
        case e.CommitEnded() as done:
            return after_commit(after, done)
        case e.ChildEnded() as child:
            return after_child(after, child)
        case e.CheckEnded():
            return after


def _act_interrupted(run: Run, event: e.ActInterrupted) -> Run:
    act = run.act
    note = f"Your last turn was interrupted ({event.reason}) and its changes were put back. Begin it again."
    put_back = act is not None and act.do.startswith("agent:")
    return replace(
        run,
        at=event.at,
        act=None,
        landing=None,
        child="",
        interruptions=run.interruptions + int(event.reason != BY_A_PERSON),
        gone=event.gone,
        cut=event.reason,
        todo=Todo(act.tree, "putback") if act and put_back else run.todo,
        told=(*(act.told if act else ()), *run.told, note) if put_back else run.told,
    )


# ---- transitions and stops -------------------------------------------------------------------------------


def _moved(run: Run, event: e.Moved) -> Run:
    run.machine.check(event.source, event.target)
    target = run.machine.states[event.target]
    if event.outcome == "exhausted":  # it leads to an end, or to somebody who can let it go on
        run = _renewed_limit(run, event.reason)
    if event.outcome == "stalled" and target.act != "ask":
        run = replace(run, no_progress=0, moved_tree=False, error_count=0)
    new_iteration = event.target == run.machine.iteration
    entries = {} if new_iteration else run.entries
    forwards = event.outcome not in (*FAILING, "error", "timeout")  # the third failure begins a new count
    cleared = forwards or target.do == "agent:cto"
    return replace(
        run,
        at=event.at,
        state=event.target,
        previous=event.source,
        origin=_origin(run, event),
        entered_at=event.at,
        held=None,
        retries=0,
        cto_attempts=_cto_attempts(run),
        iteration=run.iteration + int(new_iteration),
        entries={**entries, event.target: entries.get(event.target, 0) + 1},
        failures={**run.failures, event.source: 0} if cleared else run.failures,
    )


def _origin(run: Run, event: e.Moved) -> str:
    return event.source if run.machine.states[event.target].do == "agent:cto" else run.origin


def _cto_attempts(run: Run) -> int:
    """An attempt is used when the CTO's state is left; passing on for want of one uses none."""
    return min(run.cto_attempts + 1, cto_most(run)) if run.here.do == "agent:cto" else run.cto_attempts


def cto_most(run: Run) -> int:
    most = run.most("cto")
    return 2 if most is None else most


def _stopped(run: Run, event: e.Stopped) -> Run:
    return replace(
        run,
        at=event.at,
        status=event.status,
        stop=event.stop,
        question=event.question,
        questions=run.questions + int(event.question is not None),
        until=event.until,
        asked=_still_asked(run) if event.status == "paused" else run.asked,
    )


def _still_asked(run: Run) -> str:
    """A stop, an answer or a resume settles a pause; it never unsays a cancel."""
    return "cancel" if run.asked == "cancel" else ""


def _resumed(run: Run, event: e.Resumed) -> Run:
    asked = _still_asked(run)
    return replace(run, at=event.at, status="running", stop=None, question=None, until=None, asked=asked)


def _answered(run: Run, event: e.Answered) -> Run:
    judged = run.held is not None and run.held.until in ("approval", "block")
    waived = run.ruling.diff if run.ruling and event.verb == "approve" and judged else ""
    run = _renewed(replace(run, at=event.at))
    return replace(
        run,
        at=event.at,
        status="running",
        stop=None,
        question=None,
        until=None,
        asked=_still_asked(run),
        answered_by=event.who,
        granted=(*run.granted, *run.stop.grants(event.verb)) if run.stop else run.granted,
        waived=(*run.waived, waived) if waived else run.waived,
        failures=_forgiven(run),
        disputes={},
        proof=None if _proved_anew(run, event.verb) else run.proof,
        told=(*run.told, event.text) if event.text else run.told,
    )


def _proved_anew(run: Run, verb: str) -> bool:
    """Where a person says "again", the same proof of the same tree would lead straight back to the same stop."""
    return run.here.act in ("commit", "wait") or (run.here.act == "ask" and verb == "retry")


def _forgiven(run: Run) -> dict[str, int]:
    """TASK-2: an answer to a third failure begins that state's count anew; calling the CTO has done so already."""
    third = run.stop is not None and run.stop.rule == "third_failure"
    return {**run.failures, run.state: 0} if third else run.failures


def _renewed(run: Run) -> Run:
    """What had run out begins again at zero."""
    code = run.stop.code if run.stop else ""
    if run.stop and run.stop.rule.startswith(("budget.day", "budget.week")):
        return replace(run, window=None, window_from=run.at, turn_costs=(), turn_tokens=())
    if code.startswith("limit.budget"):
        return replace(run, spent_base=run.spent, turn_costs=(), turn_tokens=())
    run = replace(
        run,
        retries=0,
        contexts=0,
        interruptions=0,
        gone=False,
        no_progress=0,
        moved_tree=False,
        error_count=0,
    )
    return _renewed_limit(run, run.stop.rule if run.stop and code.startswith(INSTEAD) else "")


def _renewed_limit(run: Run, code: str) -> Run:
    match code:
        case "limit.turns" | "limit.fix_attempts" | "limit.iterations" | "failed.tests":
            used = run.turns + run.barren
            return replace(run, turns_base=used, iteration_base=run.iteration, entries={})
        case "limit.time":
            return replace(run, wall_base=run.wall_us)
        case _:
            return run


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
    return replace(
        run, at=event.at, status=event.status, stop=event.stop, until=event.until, asked=_still_asked(run)
    )


def _child_went_on(run: Run, event: e.ChildWentOn) -> Run:
    budget = run.stop is not None and run.stop.code.startswith("limit.budget")
    run = _renewed(replace(run, at=event.at)) if budget else run
    return replace(run, at=event.at, status="running", stop=None, until=None)


def _charged(run: Run, event: e.Charged) -> Run:
    key = f"{event.agent}|{event.role}"
    return replace(
        run,
        at=event.at,
        spent=run.spent.plus(event.usage),
        below_turns=run.below_turns + event.turns,
        wall_us=run.wall_us + event.took_us,
        changed=union(run.changed, event.changed),
        played={**run.played, key: run.played.get(key, 0) + 1} if event.agent else run.played,
    )


def _failure_counted(run: Run, event: e.FailureCounted) -> Run:
    told = (*run.told, event.reason) if event.reason else run.told
    return replace(run, at=event.at, failures={**run.failures, event.state: event.count}, told=told)


def _dropped(run: Run, event: e.Dropped) -> Run:
    """`@back` begins the act anew: its retries too, and after a stall the turns without progress."""
    run = replace(run, at=event.at, held=None)
    if event.why == "@back stalled":
        run = replace(run, no_progress=0, moved_tree=False, error_count=0)
    return replace(run, retries=0) if event.why.startswith("@back") else run


def _restore_ordered(run: Run, event: e.RestoreOrdered) -> Run:
    return replace(run, at=event.at, todo=Todo(event.tree, event.why, event.since))


def _asked(run: Run, event: e.Asked) -> Run:
    return replace(run, at=event.at, asked=event.what)


def _told(run: Run, event: e.Told) -> Run:
    """A newer account of what was done replaces the older one."""
    run = disproved(run, event.fingerprint, "") if event.fingerprint else run
    afresh = event.text.startswith(FRESH)
    told = tuple(text for text in run.told if not (afresh and text.startswith(FRESH)))
    return replace(run, at=event.at, told=(*told, event.text))


def _limited(run: Run, event: e.Limited) -> Run:
    return replace(run, at=event.at, limited={**run.limited, event.agent: event.until})


def _noted(run: Run, event: e.AnyEvent) -> Run:
    return replace(run, at=event.at)


_APPLY: dict[type[Any], Callable[[Run, Any], Run]] = {
    e.ActStarted: _act_started,
    e.ActFinished: _act_finished,
    e.ActInterrupted: _act_interrupted,
    e.Ruled: lambda run, event: replace(run, at=event.at, ruling=event.ruling),
    e.Held: lambda run, event: replace(run, at=event.at, held=event),
    e.Moved: _moved,
    e.FailureCounted: _failure_counted,
    e.Skipped: _noted,
    e.Warned: _noted,
    e.Limited: _limited,
    e.Stopped: _stopped,
    e.Resumed: _resumed,
    e.Answered: _answered,
    e.Dropped: _dropped,
    e.RestoreOrdered: _restore_ordered,
    e.LetterRefused: _noted,
    e.Told: _told,
    e.Asked: _asked,
    e.Charged: _charged,
    e.WindowSeen: lambda run, event: replace(run, at=event.at, window=event),
    e.ChildStopped: _child_stopped,
    e.ChildWentOn: _child_went_on,
    e.Ended: _ended,
    e.LandOrdered: land_ordered,
    e.Landed: landed,
}

_pack = msgspec.msgpack.Encoder()
_unpack = msgspec.msgpack.Decoder(Run)


def freeze(run: Run) -> bytes:
    """A snapshot of the fold."""
    return _pack.encode(run)


def thaw(body: bytes) -> Run:
    return _unpack.decode(body)
