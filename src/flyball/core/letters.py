"""What people (and other processes) write to a run. Only its driver turns letters into facts."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from flyball.core import events as e
from flyball.core.landing import cannot_land
from flyball.core.run import Run, apply
from flyball.core.stops import ALIASES, ended, stop, unapproved
from flyball.core.transition import follow

TEXT_MAX = 20_000


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


class Ask(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """Pause or take over after this turn, stop now, or cancel."""

    what: str  # pause | stop | cancel | take-over
    who: str = ""


class HandBack(Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="is", tag=True):
    """A person has worked in the checkout; what they changed is theirs, and the run goes on."""

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


AnyLetter = Answer | Tell | Ask | HandBack | Rollback | Land
ASKS = ("pause", "stop", "cancel", "interrupt", "take-over")
_decoder = msgspec.json.Decoder(AnyLetter)


def encode(letter: AnyLetter) -> bytes:
    return msgspec.json.encode(letter, order="deterministic")


def decode(body: bytes) -> AnyLetter:
    """The letter; a MsgspecError if it is none, whatever is wrong with it."""
    try:
        return _decoder.decode(body)
    except RecursionError:
        raise msgspec.DecodeError("it is nested too deeply") from None


def hear(run: Run, body: bytes, number: int, now: int) -> list[e.AnyEvent]:
    """The facts that follow from a letter. One that cannot be used is refused, as a fact."""
    try:
        letter = decode(body)
    except (msgspec.DecodeError, msgspec.ValidationError) as broken:
        return [e.LetterRefused(at=now, letter=number, reason=f"it cannot be read: {broken}")]
    reason = refusal(run, letter)
    if reason:
        return [e.LetterRefused(at=now, letter=number, reason=reason)]
    match letter:
        case Answer():
            return answer(run, letter, now)
        case Tell():
            return [e.Told(at=now, text=letter.text[:TEXT_MAX], who=letter.who)]
        case Ask():
            return _ask(run, letter, now)
        case HandBack():
            return _hand_back(run, letter, now)
        case Rollback():
            return _rollback(run, letter, now)
        case Land():
            return [e.LandOrdered(at=now, branch=letter.branch, who=letter.who)]


def for_who_works(body: bytes) -> bool:
    """What is told or handed back reaches the run that works, not those that wait for it."""
    try:
        return isinstance(decode(body), Tell | HandBack)
    except (msgspec.DecodeError, msgspec.ValidationError):
        return False


def refusal(run: Run, letter: AnyLetter) -> str:
    """Why a letter cannot be used now, as a sentence; "" if it can."""
    if isinstance(letter, Land):
        return cannot_land(run)
    if run.status == "ended":
        return f"Run {run.id} has ended ({run.stop.code if run.stop else run.end})."
    match letter:
        case Ask():
            return "" if letter.what in ASKS else f"There is no '{letter.what}'."
        case Tell():
            return ""
        case HandBack():
            taken = run.stop is not None and run.stop.code == "wait.take_over"
            return (
                "" if taken else f"Run {run.id} was not taken over. `flyball take-over {run.id}` comes first."
            )
        case Rollback():
            return f"Run {run.id} is at work. `flyball pause {run.id}` first." if run.act else ""
        case Answer():
            return _unanswerable(run, letter)


def _unanswerable(run: Run, letter: Answer) -> str:
    question = run.question
    if question is None or question.id != letter.question:
        return f"Question {letter.question} is not open. `flyball inbox` lists the open ones."
    if letter.shown and letter.shown != question.shown:
        return f"What question {question.id} shows has changed since. Look again, then answer."
    if letter.verb not in question.verbs:
        return f"Question {question.id} cannot be answered with '{letter.verb}'. It takes: {', '.join(question.verbs)}."
    return _misplaced(run, letter)


def _misplaced(run: Run, letter: Answer) -> str:
    target = run.here.on.get(letter.verb, "")
    if run.here.act != "ask" or not target.startswith("any:"):
        return ""
    named = str(letter.data.get("state") or letter.text or run.origin)
    choices = run.machine.targets(target)
    return "" if named in choices else f"'{letter.verb}' needs a state: one of {', '.join(choices)}."


def _ask(run: Run, letter: Ask, now: int) -> list[e.AnyEvent]:
    """A run that waits is taken over at once, and what it asked or held is dropped; first its tree is put right."""
    if letter.what != "take-over" or run.act is not None or run.status == "running":
        return [e.Asked(at=now, what=letter.what, who=letter.who)]
    dropped: list[e.AnyEvent] = [e.Dropped(at=now, why="taken over")] if run.held else []
    if run.todo:
        asked = e.Asked(at=now, what=letter.what, who=letter.who)
        return [*dropped, e.Resumed(at=now, why="taken over"), asked]
    seen = stop(run, "wait.take_over", rule=f"taken over by {letter.who}")
    return [*dropped, e.Stopped(at=now, status="paused", stop=seen)]


def _hand_back(run: Run, letter: HandBack, now: int) -> list[e.AnyEvent]:
    """Where there is no checkout yet, nobody can have changed it."""
    facts: list[e.AnyEvent] = [e.Resumed(at=now, why=f"handed back by {letter.who}")]
    if run.retries:
        facts.append(e.Dropped(at=now, why="@back hand-back"))  # the retries begin anew
    return [*facts, e.RestoreOrdered(at=now, tree=run.tree, why="hand-back")] if run.prepared else facts


def _rollback(run: Run, letter: Rollback, now: int) -> list[e.AnyEvent]:
    text = f"A person brought the files back to where they were after turn {letter.turn}."
    dropped: list[e.AnyEvent] = [e.Dropped(at=now, why="rolled back")] if run.held else []
    ordered = e.RestoreOrdered(at=now, tree=letter.tree, why="rollback", since=str(letter.turn))
    return [*dropped, ordered, e.Told(at=now, text=text, who=letter.who)]


# ---- answers ---------------------------------------------------------------------------------------------


def answer(run: Run, letter: Answer, now: int) -> list[e.AnyEvent]:
    """An answer, and what follows from it."""
    answered = e.Answered(
        at=now,
        question=letter.question,
        verb=letter.verb,
        text="" if _names_a_state(run, letter) else letter.text[:TEXT_MAX],
        who=letter.who,
        how=letter.how,
        data=letter.data,
    )
    after = apply(run, answered)
    if letter.verb == "cancel":
        seen = stop(run, "cancelled", rule=f"answer to {letter.question}")
        return [answered, *unapproved(run, now), ended(after, "cancelled", seen, now)]
    return [answered, *_consequences(run, after, letter, now)]


def _names_a_state(run: Run, letter: Answer) -> bool:
    return run.here.act == "ask" and letter.text in run.machine.states


def _consequences(run: Run, after: Run, letter: Answer, now: int) -> list[e.AnyEvent]:
    """`run` is as it was asked, `after` as it is answered."""
    held, yes = run.held, letter.verb in ("approve", "go-on", "grant")
    kind = run.question.kind if run.question else ""
    if held and held.until == "breakpoint" and kind == "breakpoint":
        again: list[e.AnyEvent] = [e.Dropped(at=now, why=letter.verb)]
        return follow(after, held.outcome, now, held.data, past_breakpoint=True) if yes else again
    if held and held.until in ("approval", "block") and kind in ("approval", "block"):
        return _let_stand(run, held, now) if yes else _put_back(run, held, letter, now)
    if kind == "permission" and letter.verb in ("approve", "grant", "reject"):
        return [e.Told(at=now, text=_permitted(run, letter.verb), who=letter.who)]
    if held is None and run.here.act == "ask" and kind in ("escalation", "loop"):
        return _state_answer(after, letter, now)
    return []  # what was held, or the act of the state, is done again


def _permitted(run: Run, verb: str) -> str:
    said = {
        "approve": "A person allows",
        "grant": "A person allows, once",
        "reject": "A person does not allow",
    }
    return f"{said[verb]}: {run.stop.detail if run.stop and run.stop.detail else 'what you asked for'}"


def _let_stand(run: Run, held: e.Held, now: int) -> list[e.AnyEvent]:
    assert run.ruling is not None
    data = {k: v for k, v in held.data.items() if k != "before"}
    return [
        e.RestoreOrdered(
            at=now, tree=run.ruling.tree, why="approved", since=held.data.get("before") or run.tree
        ),
        e.Held(at=now, outcome=held.outcome, until="taken", data=data),
    ]


def _put_back(run: Run, held: e.Held, letter: Answer, now: int) -> list[e.AnyEvent]:
    reason = run.ruling.reason if run.ruling else ""
    told = e.Told(
        at=now, text=f"Your last change was not accepted and was put back. {reason}".strip(), who=letter.who
    )
    before = held.data.get("before")
    back: list[e.AnyEvent] = [e.RestoreOrdered(at=now, tree=before, why="putback")] if before else []
    return [*back, told, e.Dropped(at=now, why=letter.verb)]


def _state_answer(after: Run, letter: Answer, now: int) -> list[e.AnyEvent]:
    on = after.here.on
    alias = ALIASES.get(letter.verb, letter.verb)
    outcome = next((name for name in (letter.verb, alias, "answered") if name in on), next(iter(on)))
    return follow(after, outcome, now, {"state": letter.data.get("state") or letter.text or after.origin})


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


def wake(run: Run, now: int) -> list[e.AnyEvent]:
    """What `resume` means: a pause is over; a breakpoint is passed. An open question stays open."""
    if run.status == "running" and run.asked in ("interrupt", "pause", "stop"):
        return [e.Asked(at=now, what="", who="resume")]  # its driver died before it had stopped
    if run.stop is None or run.status not in ("paused", "waiting"):
        return []
    if run.stop.code == "wait.breakpoint" and run.question:
        return answer(run, Answer(question=run.question.id, verb="go-on", how="resume"), now)
    taken = run.stop.code == "wait.take_over"  # only the one who has it gives it back
    if run.status == "paused" and run.question is None and not taken:
        return [e.Resumed(at=now, why="resumed")]
    return []
