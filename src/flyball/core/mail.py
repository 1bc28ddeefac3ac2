"""The events that follow from a message to a run (an answer, a pause, a take-over, a rollback), or why it cannot be used now."""

from __future__ import annotations

import msgspec

from flyball.core import standing
from flyball.core.stops import ALIASES, cancel, let_go, pause
from flyball.core.transition import follow, refuse_claim
from flyball.domain import events as e
from flyball.domain.messages import (
    ASKS,
    RESUME,
    Allow,
    Answer,
    AnyMessage,
    Ask,
    HandBack,
    Land,
    Rollback,
    Start,
    Tell,
    decode,
    readable,
)
from flyball.state.fold import Events
from flyball.state.run import GUARDED, Follow, Run
from flyball.state.tally import FROM_A_PERSON

TEXT_MAX = 20_000
HOST_MAX = 300


def hear(run: Run, body: bytes, number: int, now: int) -> Events:
    """The events that follow from a message. One that cannot be used is refused, and the refusal is an event."""
    events = Events(run, now)
    try:
        message = decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError) as broken:
        return events.add(e.LetterRefused(at=now, letter=number, reason=f"it cannot be read: {broken}"))
    reason = refusal(run, message)
    if reason:
        return events.add(e.LetterRefused(at=now, letter=number, reason=reason))
    match message:
        case Answer():
            return _answer(events, message)
        case Start():
            return standing.hear_trigger(events, message.trigger)
        case Tell():
            return events.tell(f"{FROM_A_PERSON}{message.text[:TEXT_MAX]}", who=message.who)
        case Allow():
            text = f"You may now reach {message.host}."
            return events.add(e.Told(at=now, text=text, who=message.who, host=message.host))
        case Ask():
            return _ask(events, message)
        case HandBack():
            return _hand_back(events, message)
        case Rollback():
            return _rollback(events, message)
        case Land():
            return events.add(e.LandOrdered(at=now, branch=message.branch, who=message.who))


def refusal(run: Run, message: AnyMessage) -> str:
    """Why a message cannot be used now, as a sentence; "" if it can."""
    if isinstance(message, Land):
        return _unlandable(run)
    if run.status == "ended":
        ended = run.stop.code if run.stop else run.end
        return f"Run {run.id} has ended ({ended}). `flyball retry {run.id}` starts a new run from its files."
    by_hand = isinstance(message, HandBack | Rollback) or (
        isinstance(message, Ask) and message.what == "take-over"
    )
    if by_hand and run.machine.supervises:
        step = standing.step_run(run)
        return f"Run {run.id} only plans and has no checkout. Name the run of a step{f': {step}' if step else ''}."
    match message:
        case Ask():
            if message.what not in ASKS:
                return f"'{message.what}' is not known. Use {', '.join(ASKS)}."
            if message.what == RESUME and not (paused(run) or run.asked):
                return f"Run {run.id} is not paused."
            return f"Run {run.id} is being cancelled." if run.asked == "cancel" else ""
        case Tell():
            return ""
        case Allow():
            valid = message.host and message.host.isprintable() and len(message.host) < HOST_MAX
            return "" if valid else "This is not the name of a host."
        case HandBack():
            taken_over = run.stop is not None and run.stop.code == "wait.take_over"
            return (
                ""
                if taken_over
                else f"Run {run.id} was not taken over. Use `flyball take-over {run.id}` first."
            )
        case Rollback():
            return f"Run {run.id} is working. Use `flyball pause {run.id}` first." if run.act else ""
        case Answer():
            return _unanswerable(run, message)
        case Start():
            return standing.refusal(run, message.trigger)


def _unlandable(run: Run) -> str:
    if not run.owner:
        return f"Run {run.id} is part of run {run.began.root}. Use `flyball land {run.began.root}`."
    if run.status != "ended":
        return f"Run {run.id} has not ended ({run.status} in '{run.state}'); it cannot be merged yet. See `flyball why {run.id}`."
    if run.end != "success" or run.checkout.commit is None:
        code = run.stop.code if run.stop else run.end
        return f"Run {run.id} did not end in success ({code}); there is nothing to merge. See `flyball why {run.id}`."
    return f"Run {run.id} is already being merged into '{run.landing.branch}'." if run.landing else ""


def _unanswerable(run: Run, message: Answer) -> str:
    question = run.question
    if question is None or question.id != message.question:
        return f"Question {message.question} is not open. `flyball inbox` lists the open ones."
    if message.shown and message.shown != question.shown:
        return f"Question {question.id} has changed since you saw it. Look at it again with `flyball inbox`, then answer."
    if message.verb not in question.verbs:
        return f"Question {question.id} cannot be answered with '{message.verb}'. It takes: {', '.join(question.verbs)}."
    return _misplaced(run, message)


def _misplaced(run: Run, message: Answer) -> str:
    target = run.here.on.get(message.verb, "")
    if run.here.act != "ask" or not target.startswith("any:"):
        return ""
    state = str(message.data.get("state") or message.text or run.path.origin)
    choices = run.machine.targets(target)
    return "" if state in choices else f"'{message.verb}' needs a state: one of {', '.join(choices)}."


def order(run: Run, what: str, who: str, now: int) -> Events:
    """A request to a run and its child runs: pause, stop, cancel, interrupt or take-over."""
    return _ask(Events(run, now), Ask(what=what, who=who))


def _ask(events: Events, message: Ask) -> Events:
    """A waiting run is taken over at once. Its question or pending outcome is dropped, and its tree is
    restored first."""
    run, now, event = events.run, events.now, e.Asked(at=events.now, what=message.what, who=message.who)
    if message.what == RESUME:
        return wake(run, now)
    if message.what != "take-over" or run.act is not None or run.status == "running":
        return events.add(event)
    let_go(events, "taken over")
    if run.restore:
        return events.add(e.Resumed(at=now, why="taken over"), event)
    return pause(events, "wait.take_over", f"taken over by {message.who}")


def _hand_back(events: Events, message: HandBack) -> Events:
    """Without a checkout there are no changes by a person; a rollback that was just ordered comes first."""
    run, now = events.run, events.now
    rolls_back = run.restore is not None and run.restore.why == "rollback"
    events.add(e.Resumed(at=now, why=f"handed back by {message.who}"))
    if run.tries.retries:
        events.add(e.Dropped(at=now, why="@back hand-back"))  # the retries begin anew
    if not run.prepared or rolls_back:
        return events
    return events.add(e.RestoreOrdered(at=now, tree=run.tree, why="hand-back"))


def _rollback(events: Events, message: Rollback) -> Events:
    now, turn = events.now, str(message.turn)
    let_go(events, "rolled back")
    events.add(e.RestoreOrdered(at=now, tree=message.tree, why="rollback", since=turn, renews=True))
    return events.tell(f"A person restored the files as they were after turn {turn}.", who=message.who)


# ---- answers ---------------------------------------------------------------------------------------------


def answer(run: Run, message: Answer, now: int) -> Events:
    """An answer, and what follows from it."""
    return _answer(Events(run, now), message)


def _answer(events: Events, message: Answer) -> Events:
    run = events.run
    names_a_state = run.here.act == "ask" and message.text in run.machine.states
    event = e.Answered(
        at=events.now,
        question=message.question,
        verb=message.verb,
        text="" if names_a_state else message.text[:TEXT_MAX],
        who=message.who,
        how=message.how,
        data=message.data,
    )
    events.add(event)
    if message.verb == "cancel":
        return cancel(events, f"answer to {message.question}")
    return _consequences(events, run, message)


def _consequences(events: Events, run: Run, message: Answer) -> Events:
    """`run` is the run as it was when it asked."""
    pending, yes = run.pending, message.verb in ("approve", "go-on", "grant")
    kind = run.question.kind if run.question else ""
    if pending and pending.waits == kind and kind in ("breakpoint", "done"):
        if not yes:
            return let_go(events, message.verb)
        passed = kind == "breakpoint"
        return follow(events, pending.outcome, pending.data, past_breakpoint=passed)
    if pending and pending.waits in GUARDED and kind in GUARDED:
        return _let_stand(events, pending) if yes else _put_back(events, pending, message)
    if kind == "evidence":
        return _about_evidence(events, pending, message)
    if kind == "permission" and message.verb in ("approve", "grant", "reject"):
        return events.tell(_permission(run, message.verb), who=message.who)
    if pending is None and run.here.act == "ask" and kind in ("escalation", "loop"):
        return _state_answer(events, message)
    return events  # what was to be followed, or the act of the state, is done again


def _about_evidence(events: Events, pending: Follow | None, message: Answer) -> Events:
    """If approved, the outcome is followed. Otherwise the agent is told the doubts and continues."""
    if message.verb == "approve":
        return follow(events, pending.outcome, pending.data, past_breakpoint=True) if pending else events
    proof = events.run.evidence.proof
    doubts = "\n".join(proof.evidence.doubts) if proof else ""
    return refuse_claim(events.tell(f"Your work was not accepted as done:\n{doubts}", who=message.who))


def _permission(run: Run, verb: str) -> str:
    result = {"approve": "allowed", "grant": "allowed once", "reject": "did not allow"}[verb]
    return f"A person {result}: {run.stop.detail if run.stop and run.stop.detail else 'what you asked for'}"


def _let_stand(events: Events, pending: Follow) -> Events:
    run, now, ruling = events.run, events.now, events.run.evidence.ruling
    assert ruling is not None
    since = pending.before or run.tree
    return events.add(
        e.RestoreOrdered(at=now, tree=ruling.tree, why="approved", since=since),
        e.Held(at=now, outcome=pending.outcome, until="taken", data=pending.data),
    )


def _put_back(events: Events, pending: Follow, message: Answer) -> Events:
    ruling = events.run.evidence.ruling
    if pending.before:
        events.put_back(pending.before)
    text = f"Your last change was not accepted and was undone. {ruling.reason if ruling else ''}".strip()
    return let_go(events.tell(text, who=message.who), message.verb)


def _state_answer(events: Events, message: Answer) -> Events:
    on = events.run.here.on
    alias = ALIASES.get(message.verb, message.verb)
    outcome = next((name for name in (message.verb, alias, "answered") if name in on), next(iter(on)))
    state = message.data.get("state") or message.text or events.run.path.origin
    return follow(events, outcome, {"state": state})


def settles(run: Run, body: bytes, cancelling: bool = True) -> bool:
    """Whether an unread message answers the run's open question, or ends the run (a cancel)."""
    message = readable(body)
    if isinstance(message, Ask):
        return cancelling and message.what == "cancel"
    return isinstance(message, Answer) and run.question is not None and message.question == run.question.id


def paused(run: Run) -> bool:
    """Whether a person paused or stopped it; it continues when they say so."""
    return run.status == "paused" and run.question is None and not _taken(run)


def _taken(run: Run) -> bool:
    """Only the person who took it over can hand it back."""
    return run.stop is not None and run.stop.code == "wait.take_over"


def wake(run: Run, now: int) -> Events:
    """What `resume` means: a pause is over; a breakpoint is passed. An open question stays open."""
    events = Events(run, now)
    if run.status == "running" and run.asked in ("interrupt", "pause", "stop"):
        return events.add(e.Asked(at=now, what="", who="resume"))  # its driver died before it had stopped
    if run.stop is None or run.status not in ("paused", "waiting"):
        return events
    if run.stop.code == "wait.breakpoint" and run.question:
        return _answer(events, Answer(question=run.question.id, verb="go-on", how="resume"))
    if paused(run):
        return events.add(e.Resumed(at=now, why="resumed"))
    return events
