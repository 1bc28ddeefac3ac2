"""What each event does to a run. A run is what its events add up to; nothing else holds state.

An answer is a new allowance: the counters that had reached a limit start again at zero, else the run would stop again at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.machine import FAILING, parse
from flyball.domain.old_tables import upgraded
from flyball.errors import FlyballError
from flyball.state import plans, tally
from flyball.state.run import (
    ASKED,
    GUARDED,
    TO_FOLLOW,
    AnyStep,
    Baseline,
    Checkout,
    Commit,
    Follow,
    Halt,
    Land,
    Path,
    Prepare,
    Progress,
    Prove,
    Restore,
    Run,
    Talk,
    Tries,
    put,
    without,
)
from flyball.state.tally import renewed, renewed_limit, unstalled

NOT_FORWARDS = (*FAILING, "error", "timeout")  # by these a state's failures are not forgotten
BY_A_PERSON = "a person stopped it"
FIRST: dict[str, AnyStep] = {"gate": Prove(), "commit": Commit(), "land": Land()}  # before an outcome
REMINDER = "wait.escalation"  # the code of the warning that a question is still open
ENVIRONMENT = "environment"  # the rule of a stop for tests that cannot run


class Events(list[e.AnyEvent]):
    """The events of one decision, in order, and the run after them. Each event is folded once. Rules read `run`; the
    driver takes it over."""

    def __init__(self, run: Run, now: int) -> None:
        super().__init__()
        self.before, self.run, self.now = run, run, now

    def add(self, *events: e.AnyEvent) -> Events:
        for event in events:
            self.append(event)
            self.run = _APPLY[type(event)](self.run, event)
        return self

    def tell(self, *texts: str, who: str = "flyball") -> Events:
        """The next turn is told so."""
        return self.add(*(e.Told(at=self.now, text=text, who=who) for text in texts))

    def warn(self, code: str, *texts: str) -> Events:
        """A person is told so, and nothing stops."""
        return self.add(*(e.Warned(at=self.now, code=code, text=text) for text in texts))

    def put_back(self, tree: str) -> Events:
        """Restore the checkout to this tree: everything done since is undone."""
        return self.add(e.RestoreOrdered(at=self.now, tree=tree, why="putback"))


def begin(event: e.RunBegan) -> Run:
    machine = parse(event.table)
    machine = upgraded(machine) if event.rules == "1" else machine
    start = event.start or machine.start
    if start not in machine.states:
        raise FlyballError(f"'{machine.name}' has no state '{start}', so run {event.run} cannot be in it.")
    counted = start == machine.iteration or (bool(machine.iteration) and start != machine.start)
    proves = event.settings.proof and not machine.supervises  # a plan is not proved, its steps are
    steps = (Prepare(), Baseline()) if proves else (Prepare(),)
    changed = tuple(event.options.get("changed", ()))
    return Run(
        id=event.run,
        machine=machine,
        settings=event.settings,
        began=event,
        state=start,
        at=event.at,
        entered_at=event.at,
        agenda=steps if event.owner else (),
        iteration=int(counted),
        tree=event.tree,
        path=Path(entries={start: 1}),
        checkout=Checkout(base_tree=event.base_tree, changed=changed, sandbox=event.sandbox),
        progress=Progress(trees=(event.tree,) if event.tree else ()),
        talk=Talk(sessions=event.sessions),
    )


def fold(run: Run | None, events: Iterable[e.AnyEvent]) -> Run:
    for event in events:
        if isinstance(event, e.RunBegan):
            run = begin(event)
        elif run is not None:
            run = apply(run, event)
        else:
            break
    if run is None:
        raise ValueError("a history begins with RunBegan")
    return run


def apply(run: Run, event: e.AnyEvent) -> Run:
    """The run after one more event."""
    return _APPLY[type(event)](run, event)


# ---- acts ------------------------------------------------------------------------------------------------


def _act_started(run: Run, event: e.ActStarted) -> Run:
    act, talk = event.act, run.talk
    delivers = act.do.startswith(("agent:", "run:"))  # what was noted is delivered, once
    if (delivers and talk.notes) or act.session:
        talk = tally.in_session(replace(talk, notes=() if delivers else talk.notes), act, act.session)
    return replace(run, at=event.at, act=act, acts=run.acts + 1, child=act.child, talk=talk)


def _act_finished(run: Run, event: e.ActFinished) -> Run:
    act, result, tries, spending = run.act, event.result, run.tries, run.spending
    if tries.interruptions and not isinstance(result, e.Restored):
        tries = replace(tries, interruptions=0)
    if event.took_us:
        spending = replace(spending, wall_us=spending.wall_us + event.took_us)
    run = replace(run, at=event.at, act=None, tries=tries, spending=spending)
    match result:
        case e.TurnEnded():
            return tally.after_turn(run, act, result)
        case e.ProofEnded():
            return tally.after_proof(run, act, result)
        case e.Prepared():
            return tally.after_prepare(run, result)
        case e.Restored():
            return tally.after_restore(run, act, result)
        case e.CommitEnded():
            return tally.after_commit(run, result)
        case e.ChildEnded():
            return tally.after_child(run, result)
        case e.CheckEnded():
            return run


def _act_interrupted(run: Run, event: e.ActInterrupted) -> Run:
    act, tries, talk, steps = run.act, run.tries, run.talk, run.agenda
    crashed = int(event.reason != BY_A_PERSON)
    tries = replace(tries, interruptions=tries.interruptions + crashed, gone=event.gone, reason=event.reason)
    if act is not None and act.do.startswith("agent:"):
        note = f"Your last turn was interrupted ({event.reason}) and its changes were undone. Start it again."
        talk = tally.in_session(replace(talk, notes=(*act.told, *talk.notes, note)), act, event.session)
        steps = put(steps, Restore(act.tree, "putback"))
    if run.status == "ended":  # to land it, a person orders it again
        steps = without(steps, Land)
    return replace(run, at=event.at, act=None, child="", tries=tries, talk=talk, agenda=steps)


# ---- transitions -----------------------------------------------------------------------------------------


def _moved(run: Run, event: e.Moved) -> Run:
    machine, source, target = run.machine, event.source, event.target
    machine.check(source, target)
    to = machine.states[target]
    if event.outcome == "exhausted":  # it leads to an end, or to somebody who can let it continue
        run = renewed_limit(run, event.reason)
    if event.outcome == "stalled" and to.act != "ask":
        run = unstalled(run)
    path, again, to_cto = run.path, target == machine.iteration, to.do == "agent:cto"
    entries = {} if again else path.entries
    forget = path.failures.get(source) and (to_cto or event.outcome not in NOT_FORWARDS)
    path = replace(
        path,
        previous=source,
        origin=source if to_cto else path.origin,
        interventions=_interventions(run) if run.here.of == "cto" else path.interventions,
        entries={**entries, target: entries.get(target, 0) + 1},
        failures={**path.failures, source: 0} if forget else path.failures,
        alerted=0,
    )
    return replace(
        run,
        at=event.at,
        state=target,
        entered_at=event.at,
        agenda=without(run.agenda, *TO_FOLLOW),
        iteration=run.iteration + again,
        path=path,
        tries=_new_tries(run.tries),
        evidence=tally.rejected(run, event.outcome),
        plan=plans.moved(run, event) if machine.supervises else run.plan,
    )


def _new_tries(tries: Tries) -> Tries:
    """Each state has its own retries, and its own second request for a verdict."""
    return replace(tries, retries=0, unclear=False) if tries.retries or tries.unclear else tries


def _interventions(run: Run) -> int:
    """An attempt is used when the CTO's state is left; not when the run moves on because none is left."""
    return min(run.path.interventions + 1, most_interventions(run))


def most_interventions(run: Run) -> int:
    most = run.most("cto")
    return 2 if most is None else most


def _failure_counted(run: Run, event: e.FailureCounted) -> Run:
    failures = {**run.path.failures, event.state: event.count}
    path = replace(run.path, failures=failures, failure=event.reason)
    repeats = any(event.reason in note for note in run.talk.notes)
    return replace(run if repeats else noted(run, event.reason), at=event.at, path=path)


def _held(run: Run, event: e.Held) -> Run:
    data = {key: value for key, value in event.data.items() if key != "before"}
    waits = event.until if event.until in ASKED else ""
    passed = event.until in ("gate", "commit", "land", "passed")
    follow = Follow(event.outcome, data, waits, str(event.data.get("before", "")), passed)
    first = [FIRST[event.until]] if event.until in FIRST else []
    steps = without(run.agenda, *TO_FOLLOW)
    return replace(run, at=event.at, agenda=put(steps, *first, follow))


def _dropped(run: Run, event: e.Dropped) -> Run:
    """`@back` starts the act again: the retries are reset, and after a stall the turns without progress too."""
    run = replace(run, at=event.at, agenda=without(run.agenda, *TO_FOLLOW))
    run = unstalled(run) if event.why == "@back stalled" else run
    return replace(run, tries=_new_tries(run.tries)) if event.why.startswith("@back") else run


# ---- stops -----------------------------------------------------------------------------------------------


def _stopped(run: Run, event: e.Stopped) -> Run:
    return replace(
        run,
        at=event.at,
        status=event.status,
        stop=event.stop,
        question=event.question,
        questions=run.questions + int(event.question is not None),
        until=event.until,
        agenda=_unhalted(run) if event.status == "paused" else run.agenda,
    )


def _unhalted(run: Run) -> tuple[AnyStep, ...]:
    """A stop, an answer or a resume ends a requested pause, but never a requested cancel."""
    return run.agenda if run.asked == "cancel" else without(run.agenda, Halt)


def _resumed(run: Run, event: e.Event) -> Run:
    steps = _unhalted(run)
    return replace(run, at=event.at, status="running", stop=None, question=None, until=None, agenda=steps)


def _answered(run: Run, event: e.Answered) -> Run:
    stop, pending, evidence = run.stop, run.pending, run.evidence
    if pending and pending.waits in GUARDED and evidence.ruling and event.verb == "approve":
        evidence = replace(evidence, waivers=(*evidence.waivers, evidence.ruling.diff))
    accepted = run.question is not None and run.question.kind == "evidence" and event.verb == "approve"
    if accepted and evidence.proof:
        evidence = replace(evidence, accepted=evidence.proof.evidence.doubts_key)
    if stop and stop.grants(event.verb):
        evidence = replace(evidence, grants=(*evidence.grants, *stop.grants(event.verb)))
    if _proved_anew(run, event.verb) and not accepted:
        evidence = replace(evidence, proof=None)
    if evidence.rejected:
        evidence = replace(evidence, rejected="")
    path, plan = replace(run.path, answered_by=event.who), run.plan
    if run.machine.supervises:
        yes = run.here.act == "ask" and event.verb in ("proceed", "approve", "go-on")
        turns = 0 if stop and stop.code == "limit.actions" else plan.turns
        plan = replace(plans.renewed(plan), approved=plan.approved or yes, failures=0, turns=turns)
        plan = replace(plan, replanned=False, halt=plan.halt if plan.act else None)
    if stop and stop.rule == "third_failure":  # TASK-2: that state's count begins anew
        path = replace(path, failures={**path.failures, run.state: 0})
    run = renewed(replace(run, at=event.at, evidence=evidence, path=path, plan=plan))
    if run.talk.disputes or run.talk.alarms:
        run = replace(run, talk=tally.answered(run.talk, stop))
    if stop and stop.rule == ENVIRONMENT and event.verb == "retry":
        run = replace(run, agenda=put(run.agenda, Baseline()))
    return _resumed(noted(run, tally.answer_for_agent(run.question, event)), event)


def _proved_anew(run: Run, verb: str) -> bool:
    """When a person answers "again", the last proof of the same tree is not reused: the run would stop again at
    once.
    """
    again = verb == "retry" if run.here.act == "ask" else verb not in ("approve", "go-on")
    return run.here.act in ("commit", "wait") or (run.here.act in ("ask", "proof") and again)


def _ended(run: Run, event: e.Ended) -> Run:
    certificate = event.certificate or run.checkout.certificate
    return replace(
        run,
        at=event.at,
        status="ended",
        end=event.end,
        stop=event.stop,
        question=None,
        until=None,
        act=None,
        agenda=without(run.agenda, *TO_FOLLOW),
        checkout=replace(run.checkout, certificate=certificate),
    )


def _land_ordered(run: Run, event: e.LandOrdered) -> Run:
    return replace(run, at=event.at, agenda=put(run.agenda, Land(event.branch, event.who)))


def _landed(run: Run, event: e.Landed) -> Run:
    checkout = replace(run.checkout, landings={**run.checkout.landings, event.branch: event.commit})
    return replace(run, at=event.at, agenda=without(run.agenda, Land), checkout=checkout)


def _proposed(run: Run, event: e.Proposed) -> Run:
    checkout = replace(run.checkout, pull_request=event.url)
    return replace(run, at=event.at, agenda=without(run.agenda, Land), checkout=checkout)


# ---- other runs and other news ---------------------------------------------------------------------------


def _child_stopped(run: Run, event: e.ChildStopped) -> Run:
    steps = _unhalted(run)
    return replace(run, at=event.at, status=event.status, stop=event.stop, until=event.until, agenda=steps)


def _child_went_on(run: Run, event: e.ChildWentOn) -> Run:
    budget = run.stop is not None and run.stop.code.startswith("limit.budget")
    run = renewed(replace(run, at=event.at)) if budget else run
    return replace(run, at=event.at, status="running", stop=None, until=None, question=None)


def _charged(run: Run, event: e.Charged) -> Run:
    spending, talk, key = run.spending, run.talk, f"{event.agent}|{event.role}"
    if event.agent:
        talk = replace(talk, played={**talk.played, key: talk.played.get(key, 0) + 1})
    turns, wall_us = spending.child_turns + event.turns, spending.wall_us + event.took_us
    return replace(
        run,
        at=event.at,
        spent=run.spent.plus(event.usage),
        spending=replace(spending, child_turns=turns, wall_us=wall_us),
        checkout=run.checkout if run.machine.supervises else tally.with_changes(run.checkout, event.changed),
        talk=talk,
        plan=plans.charged(run.plan, event) if run.machine.supervises else run.plan,
    )


def _restore_ordered(run: Run, event: e.RestoreOrdered) -> Run:
    """With the files that a person rolls back, the attempts to mend them go too."""
    step = Restore(event.tree, event.why, event.since)
    path = replace(run.path, entries={}) if event.renews else run.path
    return replace(run, at=event.at, path=path, agenda=put(run.agenda, step))


def _asked(run: Run, event: e.Asked) -> Run:
    steps = without(run.agenda, Halt)
    return replace(run, at=event.at, agenda=put(steps, Halt(event.what)) if event.what else steps)


def _told(run: Run, event: e.Told) -> Run:
    """A newer account of what was done replaces the older one."""
    run = tally.told(run, event)
    if event.text.startswith(tally.FRESH):
        notes = tuple(note for note in run.talk.notes if not note.startswith(tally.FRESH))
        run = replace(run, talk=replace(run.talk, notes=notes))
    return replace(noted(run, event.text), at=event.at)


def noted(run: Run, text: str) -> Run:
    """The next turn is told so."""
    return replace(run, talk=replace(run.talk, notes=(*run.talk.notes, text))) if text else run


def _limited(run: Run, event: e.Limited) -> Run:
    tries = replace(run.tries, limited={**run.tries.limited, event.agent: event.until})
    return replace(run, at=event.at, tries=tries)


def _window_seen(run: Run, event: e.WindowSeen) -> Run:
    return replace(run, at=event.at, spending=replace(run.spending, window=event))


def _ruled(run: Run, event: e.Ruled) -> Run:
    return replace(run, at=event.at, evidence=replace(run.evidence, ruling=event.ruling))


def _warned(run: Run, event: e.Warned) -> Run:
    if event.code.startswith("alert."):
        return replace(run, at=event.at, path=replace(run.path, alerted=int(event.code[6:])))
    if event.code == REMINDER and run.question:
        times = (event.at - run.question.asked_at) // run.settings.remind_us
        return replace(run, at=event.at, question=replace(run.question, reminded=times))
    unclear = run.tries.unclear or event.code == tally.UNCLEAR
    tries = replace(run.tries, unclear=True) if unclear else run.tries
    return replace(run, at=event.at, tries=tries, plan=plans.warned(run.plan, event.code))


def _only_noticed(run: Run, event: e.AnyEvent) -> Run:
    return replace(run, at=event.at)


_APPLY: dict[type[Any], Callable[[Run, Any], Run]] = {
    e.ActStarted: _act_started,
    e.ActFinished: _act_finished,
    e.ActInterrupted: _act_interrupted,
    e.Ruled: _ruled,
    e.Held: _held,
    e.Moved: _moved,
    e.FailureCounted: _failure_counted,
    e.Limited: _limited,
    e.Stopped: _stopped,
    e.Resumed: _resumed,
    e.Answered: _answered,
    e.Dropped: _dropped,
    e.RestoreOrdered: _restore_ordered,
    e.Told: _told,
    e.Asked: _asked,
    e.Charged: _charged,
    e.WindowSeen: _window_seen,
    e.ChildStopped: _child_stopped,
    e.ChildWentOn: _child_went_on,
    e.Milestone: plans.milestone,
    e.PlanReviewed: tally.plan_reviewed,
    e.Triggered: plans.triggered,
    e.Parked: plans.parked,
    e.SetAside: plans.set_aside,
    e.TakenUp: plans.taken_up,
    e.Abandoned: plans.abandoned,
    e.Ended: _ended,
    e.LandOrdered: _land_ordered,
    e.Landed: _landed,
    e.Proposed: _proposed,
    e.Warned: _warned,
    **dict.fromkeys((e.Skipped, e.LetterRefused), _only_noticed),
}

_pack = msgspec.msgpack.Encoder()
_unpack = msgspec.msgpack.Decoder(Run)


def freeze(run: Run) -> bytes:
    """A snapshot of the fold."""
    return _pack.encode(run)


def thaw(body: bytes) -> Run:
    return _unpack.decode(body)
