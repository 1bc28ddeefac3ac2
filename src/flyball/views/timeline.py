"""What an event says to a person: one line. It remembers which run is where, and decides nothing."""

from __future__ import annotations

from msgspec import Struct

from flyball.core import codes
from flyball.core import events as e
from flyball.core.durations import elapsed
from flyball.core.run import Run
from flyball.core.stops import dollars
from flyball.views.text import clock, one_line, some


class Line(Struct, frozen=True):
    """`level`: 2 is shown as a run goes, 1 only where nothing else shows what is being done, 0 in the log."""

    at: int
    where: str
    text: str
    level: int = 0
    tone: str = ""  # good | bad | warn | dim


class Known(Struct):
    """What the teller knows of a run."""

    machine: str
    state: str
    depth: int = 0
    stop: str = ""


class Teller:
    def __init__(self) -> None:
        self._runs: dict[str, Known] = {}
        self._acts: dict[str, e.Act] = {}

    def meet(self, run: Run) -> None:
        """A run whose beginning was not heard."""
        if run.id not in self._runs:
            stop = run.stop.code if run.stop else ""
            self._runs[run.id] = Known(run.machine.name, run.state, self._depth(run.began.parent), stop)
        if run.act:
            self._acts[run.act.key] = run.act

    def _depth(self, parent: str) -> int:
        return self._runs[parent].depth + 1 if parent in self._runs else int(bool(parent))

    def line(self, run_id: str, event: e.AnyEvent) -> Line:
        if isinstance(event, e.RunBegan):
            start = event.start or str(event.table.get("start", ""))
            self._runs[run_id] = Known(event.machine, start, self._depth(event.parent))
        known = self._runs.setdefault(run_id, Known("", ""))
        text, level, tone = self._say(known, event)
        where = f"{'  ' * known.depth}{known.machine} {known.state}".rstrip()
        return Line(event.at, where, text, level, tone)

    def _say(self, known: Known, event: e.AnyEvent) -> tuple[str, int, str]:
        match event:
            case e.ActStarted(act=act):
                self._acts[act.key] = act
                return _started(act)
            case e.ActFinished():
                return _finished(self._acts.pop(event.key, None), event)
            case e.ActInterrupted():
                doing = _doing(self._acts.pop(event.key, None))
                kept = f"; what it had changed is kept under {event.kept}" if event.kept else ""
                return f"{doing} was interrupted ({one_line(event.reason)}){kept}", 2, "warn"
            case e.Moved():
                known.state = event.target
                reason = f": {one_line(event.reason)}" if event.reason else ""
                return f"{event.source} → {event.target} ({event.outcome}){reason}", 2, ""
            case e.Stopped() | e.ChildStopped():
                known.stop = event.stop.code
                return _stopped(event)
            case e.Resumed() | e.ChildWentOn():
                before, known.stop = known.stop, ""
                return _resumed(event, before)
            case _:
                return _plainly(event)


def _plainly(event: e.AnyEvent) -> tuple[str, int, str]:
    """Events that say it all themselves."""
    match event:
        case e.RunBegan():
            below = f", below {event.parent}" if event.parent else ""
            return f"run {event.run} began{below}: {one_line(event.task)}", 2, ""
        case e.Ruled(ruling=ruling):
            return _ruled(ruling)
        case e.Answered():
            text = f": {one_line(event.text)}" if event.text else ""
            return f"{event.question} was answered '{event.verb}'{_by(event.who)}{text}", 2, ""
        case e.Told():
            return f"told{_by(event.who)}: {one_line(event.text)}", 0, "dim"
        case e.Asked():
            return f"asked to {event.what or 'go on'}{_by(event.who)}", 2, "warn"
        case e.Warned():
            return f"warning {event.code}: {one_line(event.text)}", 2, "warn"
        case e.Limited():
            return f"{one_line(event.agent, 60)} is limited until {clock(event.until)}", 2, "warn"
        case e.Skipped():
            return f"{event.what} was skipped: {one_line(event.reason)}", 2, "warn"
        case e.FailureCounted():
            return f"failure {event.count} in {event.state}: {one_line(event.reason)}", 2, "warn"
        case e.Ended():
            return f"ended: {event.stop.code}", 2, "good" if event.end == "success" else "bad"
        case e.Landed():
            return f"landed on {event.branch} as {event.commit[:10]}{_by(event.who)}", 2, "good"
        case _:
            return _quietly(event)


def _quietly(event: e.AnyEvent) -> tuple[str, int, str]:
    """Bookkeeping: for the log only."""
    match event:
        case e.Held():
            return f"'{event.outcome}' is held until {event.until}", 0, "dim"
        case e.Dropped():
            return f"the held outcome was dropped ({event.why})", 0, "dim"
        case e.RestoreOrdered():
            return f"the checkout goes to tree {event.tree[:10]} ({event.why})", 0, "dim"
        case e.LetterRefused():
            return f"letter {event.letter} was refused: {one_line(event.reason)}", 2, "warn"
        case e.Charged():
            return f"charged {dollars(event.usage.cost_uusd)} of run {event.run}", 0, "dim"
        case e.WindowSeen():
            day, week = dollars(event.day_uusd), dollars(event.week_uusd)
            return f"all runs together spent {day} in a day, {week} in a week", 1, "dim"
        case _:
            return e.kind(event), 0, "dim"


def _by(who: str) -> str:
    return f" by {one_line(who, 40)}" if who else ""


# ---- acts ------------------------------------------------------------------------------------------------


def _doing(act: e.Act | None) -> str:
    """An act as the subject of a sentence."""
    if act is None:
        return "the act"
    kind, _, of = act.do.partition(":")
    if kind == "agent":
        return f"turn {act.turn} ({of})"
    if kind == "run":
        return f"the {of} run {act.child}"
    if kind == "proof" and act.why:
        return f"the {act.why} proof"
    return {"prepare": "preparing the checkout", "restore": "putting the tree back"}.get(kind, f"the {kind}")


def _started(act: e.Act) -> tuple[str, int, str]:
    by = f", {one_line(act.agent, 60)}" if act.agent else ""
    return f"{_doing(act)} began{by}", 1 if act.do.startswith("agent:") else 0, "dim"


def _finished(act: e.Act | None, event: e.ActFinished) -> tuple[str, int, str]:
    match event.result:
        case e.TurnEnded() as turn:
            return _turn(_doing(act), turn, event.took_us)
        case e.ProofEnded() as proof:
            return _proof(_doing(act), proof, event.took_us, act is not None and act.why == "baseline")
        case e.CommitEnded() as done:
            return _commit(done)
        case e.Prepared() as made:
            return _prepared(made)
        case e.ChildEnded() as child:
            return f"{_doing(act)} ended: {child.stop.code}", 0, "dim"
        case e.CheckEnded() as check:
            bad = check.outcome != "ready"
            reason = f": {one_line(check.reason)}" if check.reason else ""
            return f"check: {check.outcome}{reason}", 2 if bad else 0, "warn" if bad else "dim"
        case e.Restored() as back:
            kept = f"; edits by hand are kept as {back.kept}" if back.kept else ""
            return f"the checkout holds tree {back.tree[:10]}{kept}", 0, "dim"


def _turn(who: str, turn: e.TurnEnded, took_us: int) -> tuple[str, int, str]:
    said = f": {one_line(turn.error)}" if turn.error and turn.verdict != "ok" else ""
    parts = [f"changed {some(turn.changed)}"] if turn.changed else ["changed nothing"]
    if turn.undone:
        parts.append(f"{some(turn.undone)} put back")
    if turn.reported:
        parts.append(one_line(turn.reported[0]).rstrip("."))
    if turn.usage.cost_uusd:
        parts.append(dollars(turn.usage.cost_uusd))
    parts.append(elapsed(took_us))
    denied = [one_line(f"{a.tool} {a.input}", 60) for a in turn.actions if a.verdict != "allow"]
    refused = f"refused: {some(denied)}" if denied else ""
    if turn.verdict != "ok":
        return f"{who} ended: {turn.verdict}{said}{refused and f'; {refused}'}", 2, "warn"
    parts += [refused] if refused else []
    claim = turn.claim.outcome or turn.claim.signal
    words = f", says {claim}" if claim else ""
    message = f"  “{one_line(turn.message, 80)}”" if turn.message else ""
    return f"{who}: {', '.join(parts)}{words}{message}", 2, ""


def _proof(which: str, proof: e.ProofEnded, took_us: int, baseline: bool) -> tuple[str, int, str]:
    if proof.cannot_start or proof.invalid:
        return f"{which}: {one_line(proof.cannot_start or proof.invalid)}", 2, "bad"
    if proof.passed:
        return f"{which} passed ({elapsed(took_us)})", 2, "" if baseline else "good"
    failing = f", {proof.failing} failing" if proof.failing is not None else ""
    return f"{which} failed{failing} ({elapsed(took_us)})", 2, "dim" if baseline else "warn"


def _commit(done: e.CommitEnded) -> tuple[str, int, str]:
    if done.outcome == "committed":
        return f"committed {done.commit[:10]}", 2, "good"
    return f"commit {done.outcome}: {one_line(done.reason)}", 2, "warn"


def _prepared(made: e.Prepared) -> tuple[str, int, str]:
    if made.error:
        return f"no checkout: {one_line(made.error)}", 2, "bad"
    notes = "".join(f"; {one_line(note)}" for note in made.notes)
    return f"checkout made of {made.base_commit[:10]}, sandbox: {made.sandbox}{notes}", 2, "dim"


def _ruled(ruling: e.Ruling) -> tuple[str, int, str]:
    if ruling.verdict == "allow" and not ruling.reason:
        return "guard: allow", 0, "dim"
    where = f" {one_line(ruling.file, 80)}" if ruling.file else ""
    tone = {"allow": "dim", "ask": "warn"}.get(ruling.verdict, "bad")
    level = 0 if ruling.verdict == "allow" else 2
    return f"guard: {ruling.verdict} {ruling.rule}{where}: {one_line(ruling.reason)}", level, tone


# ---- stops -----------------------------------------------------------------------------------------------


def _stopped(event: e.Stopped | e.ChildStopped) -> tuple[str, int, str]:
    if isinstance(event, e.ChildStopped):
        return f"run {event.run} below is {event.status}: {event.stop.code}", 0, "dim"
    says = codes.of(event.stop.code).says
    if event.until is not None:
        until = f"goes on at {clock(event.until)}, in {elapsed(event.until - event.at)}"
        return f"waits: {says} ({event.stop.rule or event.stop.code}); {until}", 2, "warn"
    detail = f": {one_line(event.stop.detail)}" if event.stop.detail else ""
    return f"{event.status}: {says} ({event.stop.code}){detail}", 2, "warn"


def _resumed(event: e.Resumed | e.ChildWentOn, before: str) -> tuple[str, int, str]:
    if isinstance(event, e.ChildWentOn):
        return f"run {event.run} below goes on", 0, "dim"
    if before == "wait.rate_limit":
        return "the limit has cleared; it goes on", 2, "good"
    return f"goes on ({event.why})" if event.why else "goes on", 2, ""
