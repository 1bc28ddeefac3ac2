"""Messages (letters) that people and other processes send to a run. The process that runs it turns them into events."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from flyball.core import standing
from flyball.core.agenda import GUARDED, Follow
from flyball.core.run import Facts, Run
from flyball.core.stops import ALIASES, cancel, let_go, pause
from flyball.core.tally import FROM_A_PERSON
from flyball.core.transition import follow, refuse_claim
from flyball.domain import events as e

TEXT_MAX = 20_000
HOST_MAX = 300


class Answer(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    question: str
    verb: str
    text: str = ""
    who: str = ""
    how: str = ""
    shown: str = ""  # the hash of what the person saw; "" binds to nothing
    data: dict[str, Any] = {}


class Tell(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    text: str
    who: str = ""


class Allow(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """Agents may reach one more host."""

    host: str
    who: str = ""


class Ask(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """Pause or take over after this turn, stop now, cancel; or continue after a pause."""

    what: str  # pause | stop | cancel | take-over | resume
    who: str = ""


class HandBack(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """A person has worked in the checkout; what they changed is theirs, and the run continues."""

    who: str = ""


class Rollback(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """The checkout is to hold the tree of an earlier turn again."""

    turn: int
    tree: str
    who: str = ""


class Land(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """The result of an ended run is to go to this branch."""

    branch: str
    who: str = ""


class Start(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """There is work for the standing loop."""

    trigger: e.Trigger
    who: str = ""


AnyLetter = Start | Answer | Tell | Allow | Ask | HandBack | Rollback | Land
RESUME = "resume"
ASKS = ("pause", "stop", "cancel", "interrupt", "take-over", RESUME)
_decoder = msgspec.json.Decoder(AnyLetter)


def encode(letter: AnyLetter) -> bytes:
    return msgspec.json.encode(letter, order="deterministic")


def decode(body: bytes) -> AnyLetter:
    """The letter; a MsgspecError if it is none, whatever is wrong with it."""
    try:
        return _decoder.decode(body)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None


def hear(run: Run, body: bytes, number: int, now: int) -> Facts:
    """The facts that follow from a letter. One that cannot be used is refused, as a fact."""
    facts = Facts(run, now)
    try:
        letter = decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError) as broken:
        return facts.add(e.LetterRefused(at=now, letter=number, reason=f"it cannot be read: {broken}"))
    reason = refusal(run, letter)
    if reason:
        return facts.add(e.LetterRefused(at=now, letter=number, reason=reason))
    match letter:
        case Answer():
            return _answer(facts, letter)
        case Start():
            return standing.hear_trigger(facts, letter.trigger)
        case Tell():
            text = f"{FROM_A_PERSON}{letter.text[:TEXT_MAX]}"
            return facts.add(e.Told(at=now, text=text, who=letter.who))
        case Allow():
            text = f"You may now reach {letter.host}."
            return facts.add(e.Told(at=now, text=text, who=letter.who, host=letter.host))
        case Ask():
            return _ask(facts, letter)
        case HandBack():
            return _hand_back(facts, letter)
        case Rollback():
            return _rollback(facts, letter)
        case Land():
            return facts.add(e.LandOrdered(at=now, branch=letter.branch, who=letter.who))


def for_who_works(body: bytes) -> bool:
    """What is told or handed back reaches the run that works, not those that wait for it."""
    try:
        return isinstance(decode(body), Tell | HandBack)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return False


def refusal(run: Run, letter: AnyLetter) -> str:
    """Why a letter cannot be used now, as a sentence; "" if it can."""
    if isinstance(letter, Land):
        return _unlandable(run)
    if run.status == "ended":
        return f"Run {run.id} has ended ({run.stop.code if run.stop else run.end})."
    by_hand = isinstance(letter, HandBack | Rollback) or (
        isinstance(letter, Ask) and letter.what == "take-over"
    )
    if by_hand and run.machine.supervises:
        return f"Run {run.id} only plans and has no checkout. Name the run of a step{f': {run.child}' if run.child else ''}."
    match letter:
        case Ask():
            if letter.what not in ASKS:
                return f"'{letter.what}' is not known. Use {', '.join(ASKS)}."
            if letter.what == RESUME and not (paused(run) or run.asked):
                return f"Run {run.id} is not paused."
            return f"Run {run.id} is being cancelled." if run.asked == "cancel" else ""
        case Tell():
            return ""
        case Allow():
            named = letter.host and letter.host.isprintable() and len(letter.host) < HOST_MAX
            return "" if named else "This is not the name of a host."
        case HandBack():
            taken = run.stop is not None and run.stop.code == "wait.take_over"
            return (
                "" if taken else f"Run {run.id} was not taken over. Use `flyball take-over {run.id}` first."
            )
        case Rollback():
            return f"Run {run.id} is working. Use `flyball pause {run.id}` first." if run.act else ""
        case Answer():
            return _unanswerable(run, letter)
        case Start():
            return standing.refusal(run, letter.trigger)


def _unlandable(run: Run) -> str:
    if not run.owner:
        return f"Run {run.id} is part of run {run.began.root}. Use `flyball land {run.began.root}`."
    if run.status != "ended":
        return f"Run {run.id} has not ended ({run.status} in '{run.state}'); it cannot be merged yet. See `flyball why {run.id}`."
    if run.end != "success" or run.checkout.commit is None:
        code = run.stop.code if run.stop else run.end
        return f"Run {run.id} did not end in success ({code}); there is nothing to merge. See `flyball why {run.id}`."
    return f"Run {run.id} is already being merged into '{run.landing.branch}'." if run.landing else ""


def _unanswerable(run: Run, letter: Answer) -> str:
    question = run.question
    if question is None or question.id != letter.question:
        return f"Question {letter.question} is not open. `flyball inbox` lists the open ones."
    if letter.shown and letter.shown != question.shown:
        return f"Question {question.id} has changed since you saw it. Look at it again with `flyball inbox`, then answer."
    if letter.verb not in question.verbs:
        return f"Question {question.id} cannot be answered with '{letter.verb}'. It takes: {', '.join(question.verbs)}."
    return _misplaced(run, letter)


def _misplaced(run: Run, letter: Answer) -> str:
    target = run.here.on.get(letter.verb, "")
    if run.here.act != "ask" or not target.startswith("any:"):
        return ""
    named = str(letter.data.get("state") or letter.text or run.path.origin)
    choices = run.machine.targets(target)
    return "" if named in choices else f"'{letter.verb}' needs a state: one of {', '.join(choices)}."


def _ask(facts: Facts, letter: Ask) -> Facts:
    """A run that waits is taken over at once, without what it asked or would have followed; first its tree is put
    right."""
    run, now, asked = facts.run, facts.now, e.Asked(at=facts.now, what=letter.what, who=letter.who)
    if letter.what == RESUME:
        return wake(run, now)
    if letter.what != "take-over" or run.act is not None or run.status == "running":
        return facts.add(asked)
    let_go(facts, "taken over")
    if run.restore:
        return facts.add(e.Resumed(at=now, why="taken over"), asked)
    return pause(facts, "wait.take_over", f"taken over by {letter.who}")


def _hand_back(facts: Facts, letter: HandBack) -> Facts:
    """Where there is no checkout yet, nobody can have changed it; a rollback ordered just before goes first."""
    run, now = facts.run, facts.now
    rolls_back = run.restore is not None and run.restore.why == "rollback"
    facts.add(e.Resumed(at=now, why=f"handed back by {letter.who}"))
    if run.tries.retries:
        facts.add(e.Dropped(at=now, why="@back hand-back"))  # the retries begin anew
    if not run.prepared or rolls_back:
        return facts
    return facts.add(e.RestoreOrdered(at=now, tree=run.tree, why="hand-back"))


def _rollback(facts: Facts, letter: Rollback) -> Facts:
    now, turn = facts.now, str(letter.turn)
    let_go(facts, "rolled back")
    facts.add(e.RestoreOrdered(at=now, tree=letter.tree, why="rollback", since=turn))
    text = f"A person restored the files as they were after turn {turn}."
    return facts.add(e.Told(at=now, text=text, who=letter.who))


# ---- answers ---------------------------------------------------------------------------------------------


def answer(run: Run, letter: Answer, now: int) -> Facts:
    """An answer, and what follows from it."""
    return _answer(Facts(run, now), letter)


def _answer(facts: Facts, letter: Answer) -> Facts:
    run = facts.run
    names_a_state = run.here.act == "ask" and letter.text in run.machine.states
    answered = e.Answered(
        at=facts.now,
        question=letter.question,
        verb=letter.verb,
        text="" if names_a_state else letter.text[:TEXT_MAX],
        who=letter.who,
        how=letter.how,
        data=letter.data,
    )
    facts.add(answered)
    if letter.verb == "cancel":
        return cancel(facts, f"answer to {letter.question}")
    return _consequences(facts, run, letter)


def _consequences(facts: Facts, run: Run, letter: Answer) -> Facts:
    """`run` is as it was when it asked."""
    pending, yes = run.pending, letter.verb in ("approve", "go-on", "grant")
    kind = run.question.kind if run.question else ""
    if pending and pending.waits == kind and kind in ("breakpoint", "done"):
        if not yes:
            return let_go(facts, letter.verb)
        passed = kind == "breakpoint"
        return follow(facts, pending.outcome, pending.data, past_breakpoint=passed)
    if pending and pending.waits in GUARDED and kind in GUARDED:
        return _let_stand(facts, pending) if yes else _put_back(facts, pending, letter)
    if kind == "evidence":
        return _about_evidence(facts, pending, letter)
    if kind == "permission" and letter.verb in ("approve", "grant", "reject"):
        return facts.add(e.Told(at=facts.now, text=_permission(run, letter.verb), who=letter.who))
    if pending is None and run.here.act == "ask" and kind in ("escalation", "loop"):
        return _state_answer(facts, letter)
    return facts  # what was to be followed, or the act of the state, is done again


def _about_evidence(facts: Facts, pending: Follow | None, letter: Answer) -> Facts:
    """Approved: the outcome is followed. Otherwise the agent is told what was doubted and works on."""
    if letter.verb == "approve":
        return follow(facts, pending.outcome, pending.data, past_breakpoint=True) if pending else facts
    proof = facts.run.evidence.proof
    doubts = "\n".join(proof.evidence.doubts) if proof else ""
    text = f"Your work was not accepted as done:\n{doubts}"
    return refuse_claim(facts.add(e.Told(at=facts.now, text=text, who=letter.who)))


def _permission(run: Run, verb: str) -> str:
    said = {"approve": "allowed", "grant": "allowed once", "reject": "did not allow"}[verb]
    return f"A person {said}: {run.stop.detail if run.stop and run.stop.detail else 'what you asked for'}"


def _let_stand(facts: Facts, pending: Follow) -> Facts:
    run, now, ruling = facts.run, facts.now, facts.run.evidence.ruling
    assert ruling is not None
    since = pending.before or run.tree
    return facts.add(
        e.RestoreOrdered(at=now, tree=ruling.tree, why="approved", since=since),
        e.Held(at=now, outcome=pending.outcome, until="taken", data=pending.data),
    )


def _put_back(facts: Facts, pending: Follow, letter: Answer) -> Facts:
    now, ruling = facts.now, facts.run.evidence.ruling
    if pending.before:
        facts.add(e.RestoreOrdered(at=now, tree=pending.before, why="putback"))
    text = f"Your last change was not accepted and was undone. {ruling.reason if ruling else ''}".strip()
    return let_go(facts.add(e.Told(at=now, text=text, who=letter.who)), letter.verb)


def _state_answer(facts: Facts, letter: Answer) -> Facts:
    on = facts.run.here.on
    alias = ALIASES.get(letter.verb, letter.verb)
    outcome = next((name for name in (letter.verb, alias, "answered") if name in on), next(iter(on)))
    named = letter.data.get("state") or letter.text or facts.run.path.origin
    return follow(facts, outcome, {"state": named})


def settles(run: Run, body: bytes, cancelling: bool = True) -> bool:
    """Whether a letter that is not taken yet answers the run's open question, or (if that counts) ends the run."""
    try:
        letter = decode(body)
    except msgspec.MsgspecError:
        return False
    if isinstance(letter, Ask):
        return cancelling and letter.what == "cancel"
    return isinstance(letter, Answer) and run.question is not None and letter.question == run.question.id


def replaces(later: bytes, earlier: bytes) -> bool:
    """Whether a later answer takes the place of an earlier one that was not taken: same question, same author."""
    try:
        new, old = decode(later), decode(earlier)
    except msgspec.MsgspecError:
        return False
    if not (isinstance(new, Answer) and isinstance(old, Answer)):
        return False
    return (new.question, new.who) == (old.question, old.who)


def contradiction(one: bytes, other: bytes) -> str:
    """CTO-8: what to say where two people give the same question different answers; "" where they do not."""
    try:
        first, second = decode(one), decode(other)
    except msgspec.MsgspecError:
        return ""
    if not (isinstance(first, Answer) and isinstance(second, Answer)) or first.question != second.question:
        return ""
    same = (first.verb, first.text, first.data) == (second.verb, second.text, second.data)
    if same or first.who == second.who:
        return ""
    said = sorted(f"{one.who} answered {one.verb}" for one in (first, second))
    return f"{said[0]} and {said[1]}. Neither answer was used; agree on one, then answer again"


def paused(run: Run) -> bool:
    """A person paused or stopped it, and it continues when they say so."""
    return run.status == "paused" and run.question is None and not _taken(run)


def _taken(run: Run) -> bool:
    """Only the one who took it over gives it back."""
    return run.stop is not None and run.stop.code == "wait.take_over"


def resumes(body: bytes) -> bool:
    """Whether the letter says that a run, and those below it, continue."""
    try:
        letter = decode(body)
    except msgspec.MsgspecError:
        return False
    return isinstance(letter, Ask) and letter.what == RESUME


def wake(run: Run, now: int) -> Facts:
    """What `resume` means: a pause is over; a breakpoint is passed. An open question stays open."""
    facts = Facts(run, now)
    if run.status == "running" and run.asked in ("interrupt", "pause", "stop"):
        return facts.add(e.Asked(at=now, what="", who="resume"))  # its driver died before it had stopped
    if run.stop is None or run.status not in ("paused", "waiting"):
        return facts
    if run.stop.code == "wait.breakpoint" and run.question:
        return _answer(facts, Answer(question=run.question.id, verb="go-on", how="resume"))
    if paused(run):
        return facts.add(e.Resumed(at=now, why="resumed"))
    return facts
