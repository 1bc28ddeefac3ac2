"""A run as the object that `--json` prints, and as a timeline: one line for each event, and what happens right now."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from flyball.domain import events as e
from flyball.domain.machine import Machine
from flyball.domain.results import code_of
from flyball.domain.settings import SECOND, dollars, elapsed, rough
from flyball.errors import FlyballError
from flyball.reading.test_output import failing_names
from flyball.state.run import Run
from flyball.state.tally import FROM_A_PERSON
from flyball.views.reasons import happened, in_brackets
from flyball.views.text import (
    UNKNOWN,
    agent_name,
    clock,
    cost,
    cost_text,
    cost_usd,
    finding_text,
    first_few,
    last_words,
    one_line,
    plural,
)


def exit_code(run: Run) -> int:
    """The exit code of `flyball run` for where the run is now."""
    if run.stop is None:
        return 0
    if run.stop.code.startswith("error.") and run.status == "ended":
        return 2
    return code_of(run.stop.code).exit


def alo_code(run: Run) -> str:
    return code_of(run.stop.code).alo if run.stop else ""


def summary(run: Run, asking: Run | None = None) -> dict[str, Any]:
    """The one object that `--json` prints (SYS-12); the question is that of the run below it that is `asking`."""
    return {
        "run": run.id,
        "machine": run.machine.name,
        "state": run.state,
        "status": run.status,
        "end": run.end or None,
        "stop_reason": _reason(run),
        "turns": run.turns,
        "cost_usd": cost_usd(run),
        "tokens": run.spent.tokens,
        "tree": run.tree,
        "certificate": run.checkout.certificate or None,
        "alo_code": alo_code(run) or None,
        "iteration": run.iteration,
        "question": _question(asking or run),
        "branch": f"flyball/{run.id}" if run.owner else None,
        "pull_request": run.checkout.pull_request or None,
        "unproven": run.end == "success" and not run.settings.proof,
        "sandbox": run.checkout.sandbox,
        "tier": (run.evidence.ruling.tier if run.evidence.ruling else "") or None,
        "task": run.task,
        "changed": list(run.checkout.changed),
        **({"run_state": run_state(run.machine, run.state)} if run.machine.run_states else {}),
    }


def _reason(run: Run) -> dict[str, Any] | None:
    stop = run.stop
    if stop is None:
        return None
    evidence = {
        "threshold": stop.threshold,
        "observed": stop.observed,
        "turn": stop.turn,
        "otherwise": stop.otherwise or otherwise(stop.code),
        "detail": stop.detail,
    }
    return {"code": stop.code, "rule": stop.rule, "evidence": evidence}


def _question(run: Run) -> dict[str, Any] | None:
    question = run.question
    if question is None:
        return None
    return {"id": question.id, "kind": question.kind, "text": question.text, "verbs": list(question.verbs)}


# ---- what outside tools call a state (PAIR-5) --------------------------------------------------------------------


def run_state(machine: Machine, state: str) -> str:
    """What outside tools call a state of a machine that has such names."""
    if state not in machine.run_states:
        raise FlyballError(f"'{state}' has no run state. States with one: {', '.join(machine.run_states)}.")
    return machine.run_states[state]


def from_run_state(machine: Machine, name: str) -> str:
    """The state of `review` for a run state. An unknown one is an error, not a failure of the run."""
    state = next((state for state, run_state in machine.run_states.items() if run_state == name), "")
    if not state:
        raise FlyballError(f"'{name}' is not a run state. Known: {', '.join(machine.run_states.values())}.")
    return state


# ---- what would have happened otherwise (SYS-7) --------------------------------------------------------------

OTHERWISE = {
    "limit.iterations": "The agent would have had another iteration.",
    "limit.turns": "The agent would have had another turn.",
    "limit.fix_attempts": "The agent would have had another fix attempt.",
    "limit.time": "The next turn would have started.",
    "limit.budget_usd": "The next turn would have started.",
    "limit.budget_tokens": "The next turn would have started.",
    "failed.tests": "If the proof had passed, the run would have continued.",
    "timeout.phase": "The phase would have continued.",
    "timeout.idle": "The turn would have continued.",
    "failed.agent": "The run would have continued with the outcome of the turn.",
    "completed": "If a proof command had failed, the run would have continued.",
    "completed_unproven": "With a proof command in flyball.toml, the result would have been proved.",
    "wait.rate_limit": "The turn would have been tried at once.",
}


def otherwise(code: str) -> str:
    return OTHERWISE.get(code, "The run would have continued.")


# ---- the timeline of a run -----------------------------------------------------------------------------------


# What must happen before an outcome counts.
PENDING = {
    "gate": "the final proof",
    "commit": "the commit",
    "land": "the merge",
    "taken": "the approved change",
    **dict.fromkeys(("evidence", "done", "approval", "block", "breakpoint"), "your answer"),
}
WAITS = ("rate_limited", "plan_limit", "overloaded", "network", "needs_approval")
NO_SANDBOX = ("unsandboxed", "none")
WRITERS = ("coder", "worker", "author", "developer")
PLACE_WIDTH = 12
Words = tuple[str, int, str]  # text, level, tone


class Line(Struct, frozen=True):
    """`level`: 2 is always shown, 1 only where there is no live line, 0 only in the log."""

    at: int
    where: str
    text: str
    level: int = 0
    tone: str = ""  # good | bad | warn | wait | ask | dim


class Place(Struct):
    """Where a run is."""

    machine: str
    state: str
    depth: int = 0
    stop: str = ""
    task: str = ""
    failing: tuple[str, ...] = ()  # the tests that its last proof named


class Timeline:
    def __init__(self, *, above_question: bool = False) -> None:
        """`above_question`: the question is printed below, and says why the guard asks."""
        self._above_question = above_question
        self.width = PLACE_WIDTH  # of the column with the place
        self._spent = ""  # what all runs spent, as it was shown last
        self._places: dict[str, Place] = {}
        self._acts: dict[str, e.Act] = {}

    def add(self, run: Run) -> None:
        """A run whose first events were not given."""
        if run.id not in self._places:
            stop = run.stop.code if run.stop else ""
            self._places[run.id] = Place(run.machine.name, run.state, self._depth(run.began.parent), stop)
            self._widen(run.id, run.machine.states)
        if run.act:
            self._acts[run.act.key] = run.act

    def _widen(self, run_id: str, states: Iterable[str]) -> None:
        """Every state of the machine fits into the column from the first line on."""
        longest = max((len(state) for state in states), default=0)
        self.width = max(self.width, 2 * self._places[run_id].depth + longest)

    def _depth(self, parent: str) -> int:
        return self._places[parent].depth + 1 if parent in self._places else int(bool(parent))

    def line(self, run_id: str, event: e.AnyEvent) -> Line:
        if isinstance(event, e.RunBegan):
            start = event.start or str(event.table.get("start", ""))
            self._places[run_id] = Place(event.machine, start, self._depth(event.parent), task=event.task)
            self._widen(run_id, event.table.get("states", ()))
            if event.parent in self._places and self._places[event.parent].task == event.task:
                return self._line(
                    event, self._places[run_id], (f"{event.machine} run {run_id} started", 2, "")
                )
        place = self._places.setdefault(run_id, Place("", ""))
        return self._line(event, place, self._words(place, event))

    def _line(self, event: e.AnyEvent, place: Place, words: Words) -> Line:
        text, level, tone = words
        state = event.source if isinstance(event, e.Moved) else place.state  # a move is shown where it starts
        where = f"{'· ' * place.depth}{state}"
        return Line(event.at, where, text, level, tone)

    def _words(self, place: Place, event: e.AnyEvent) -> Words:
        match event:
            case e.ActStarted(act=act):
                self._acts[act.key] = act
                return _started(act)
            case e.ActFinished():
                return self._finished(place, event)
            case e.ActInterrupted():
                name = _subject(self._acts.pop(event.key, None))
                suffix = f"; its changes are kept in {event.kept}" if event.kept else ""
                return f"{name} was interrupted: {one_line(event.reason)}{suffix}", 2, "warn"
            case e.Ruled(ruling=ruling):
                return _ruled(ruling, self._above_question)
            case e.Moved():
                place.state = event.target
                reason = f": {one_line(event.reason)}" if event.reason else ""
                return f"→ {event.target} ({event.outcome}){reason}", 2 if reason else 0, "dim"
            case e.Stopped():
                place.stop = event.stop.code
                return _stopped(event, place.state)
            case e.WindowSeen():
                text, before = _window(event), self._spent
                self._spent = text
                return text, int(bool(event.week_uusd or event.week_tokens) and text != before), "dim"
            case e.Resumed():
                before, place.stop = place.stop, ""
                return _resumed(event, before)
            case _:
                return _from_outside(event)

    def _finished(self, place: Place, event: e.ActFinished) -> Words:
        act, proof = self._acts.pop(event.key, None), event.result
        if not isinstance(proof, e.ProofEnded):
            return _finished(act, event)
        failing = _failing(proof)
        same = bool(failing) and failing == place.failing
        place.failing = failing
        return _proof(act, proof, event.took_us, "the same tests as before" if same else first_few(failing))


def _failing(proof: e.ProofEnded) -> tuple[str, ...]:
    return tuple(one_line(test, 80) for test in proof.failing_tests or failing_names(proof.summary))


def _from_outside(event: e.AnyEvent) -> Words:
    """What people and other runs caused."""
    match event:
        case e.RunBegan():
            first = event.task.strip().partition("\n")[0]
            return f"{event.machine} run {event.run} started: {one_line(first)}", 2, ""
        case e.Answered():
            verb = "" if event.verb == "answer" else f": {event.verb}"
            text = f": {one_line(event.text)}" if event.text else ""
            return f"question {event.question} answered{_by(event.who)}{verb}{text}", 2, ""
        case e.Told() if event.host:
            return f"agents may now reach {one_line(event.host)}{_by(event.who)}", 2, ""
        case e.Told():
            spoken_text = event.text.removeprefix(FROM_A_PERSON)
            return f"message for the agent{_from(event.who)}: {one_line(spoken_text)}", 0, "dim"
        case e.Asked():
            what = {"": "continue", "interrupt": "stop"}.get(event.what, event.what)
            by = "" if event.who == "terminal" else _by(event.who)
            return f"{what} requested{by}", 0 if event.who == "parent" else 2, "warn"
        case e.Ended():
            return f"ended: {event.stop.code}", 1, "good" if event.end == "success" else "bad"
        case e.LandOrdered():
            return f"merge into {event.branch} requested{_by(event.who)}", 2, ""
        case e.Proposed():
            return f"pull request {event.url} has {event.commit[:10]}", 2, "good"
        case e.Landed():
            return f"merged into {event.branch} as {event.commit[:10]}{_by(event.who)}", 2, "good"
        case e.ChildStopped():
            return f"child run {event.run} is {event.status}: {event.stop.code}", 0, "dim"
        case e.ChildWentOn():
            return f"child run {event.run} continues", 0, "dim"
        case e.LetterRefused():
            replaced = "replaced" in event.reason
            return (
                f"message {event.letter} was not used: {one_line(event.reason)}",
                0 if replaced else 2,
                "warn",
            )
        case _:
            return _by_flyball(event)


def _by_flyball(event: e.AnyEvent) -> Words:
    """What Flyball noted itself."""
    match event:
        case e.Warned():
            repeated = event.code == "turn.failed"  # the line above has it
            return f"warning: {one_line(event.text)} ({event.code})", 0 if repeated else 2, "warn"
        case e.Limited():
            return f"{agent_name(event.agent)} is rate limited until {clock(event.until)}", 2, "warn"
        case e.Skipped():
            return f"{event.what} skipped: {one_line(event.reason)}", 2, "warn"
        case e.FailureCounted():
            return f"failure {event.count} in {event.state}: {one_line(event.reason)}", 2, "warn"
        case e.Held():
            return f"outcome '{event.outcome}'; next is {PENDING.get(event.until, event.until)}", 0, "dim"
        case e.Dropped():
            why = f" ({event.why})" if event.why else ""
            return f"the last outcome was discarded{why}", 0, "dim"
        case e.RestoreOrdered():
            return f"restoring tree {event.tree[:10]} ({event.why})", 0, "dim"
        case e.Charged():
            return f"{cost(event.usage.cost_uusd)} charged for run {event.run}", 0, "dim"
        case _:
            return _of_the_loop(event)


def _window(event: e.WindowSeen) -> str:
    day, week = dollars(event.day_uusd), dollars(event.week_uusd)
    return f"all runs spent {day} in the last day, {week} in the last week"


def _of_the_loop(event: e.AnyEvent) -> Words:
    """What only the standing loop knows."""
    match event:
        case e.Triggered():
            name = f"{event.trigger.ticket} " if event.trigger.ticket else ""
            return f"{name}starts ({event.trigger.kind}, priority {event.trigger.priority})", 2, ""
        case e.SetAside():
            why = f": {event.stop.code}" if event.stop else " for something more urgent"
            return f"run {event.run} is paused{why}", 2, "warn"
        case e.Parked():
            return "the plan needs your approval; meanwhile the interrupted work continues", 2, ""
        case e.TakenUp(what="parked"):
            return f"run {event.run} asks for approval of the plan", 2, ""
        case e.TakenUp():
            return (
                f"continuing the interrupted {'plan' if event.what == 'plan' else f'run {event.run}'}",
                2,
                "",
            )
        case e.Abandoned():
            return f"run {event.run} was dropped", 2, "warn"
        case e.PlanReviewed():
            return f"the code base was reviewed for {event.file}", 2, ""
        case e.Milestone():
            return f"run {event.run}: {event.what}", 0, "dim"
        case _:
            return e.kind(event), 0, "dim"


def _from(who: str) -> str:
    return f" from the {who} run" if who == "parent" else f" from {one_line(who, 40)}" if who else ""


def _by(who: str) -> str:
    return f" by {one_line(who, 40)}" if who else ""


# ---- acts ------------------------------------------------------------------------------------------------


def _subject(act: e.Act | None) -> str:
    """An act as the subject of a sentence."""
    if act is None:
        return "the step"
    kind, _, name = act.do.partition(":")
    if kind == "agent":
        return f"turn {act.turn} ({name})"
    if kind == "run":
        return f"{name} run {act.child}"
    if kind == "proof" and act.why:
        return {"test": "proof", "gate": "final proof"}.get(act.why, f"{act.why} proof")
    names = {"prepare": "preparing the checkout", "restore": "restoring the checkout", "land": "merge"}
    return names.get(kind, kind)


def _started(act: e.Act) -> Words:
    agent = f" with {agent_name(act.agent)}" if act.agent else ""
    return f"{_subject(act)} started{agent}", 1 if act.do.startswith("agent:") else 0, "dim"


def _finished(act: e.Act | None, event: e.ActFinished) -> Words:
    match event.result:
        case e.TurnEnded() as turn:
            return _turn(act, turn, event.took_us)
        case e.ProofEnded() as proof:
            return _proof(act, proof, event.took_us, first_few(_failing(proof)))
        case e.CommitEnded() as commit:
            return _commit(_subject(act), commit)
        case e.Prepared() as prepared:
            return _prepared(prepared)
        case e.ChildEnded() as child:
            return f"{_subject(act)} ended: {child.stop.code}", 0, "dim"
        case e.CheckEnded() as check:
            bad = check.outcome != "ready"
            reason = f": {one_line(check.reason)}" if check.reason else ""
            return f"check: {check.outcome}{reason}", 2 if bad else 0, "warn" if bad else "dim"
        case e.Restored() as restored:
            suffix = f"; your edits are kept as {restored.kept}" if restored.kept else ""
            return f"checkout restored to tree {restored.tree[:10]}{suffix}", 0, "dim"


def _turn(act: e.Act | None, turn: e.TurnEnded, took_us: int) -> Words:
    name = _subject(act)
    calls = [one_line(f"{a.tool} {a.input}", 60) for a in turn.actions if a.verdict != "allow"]
    refused = f"refused: {first_few(calls)}" if calls else ""
    if turn.verdict in WAITS:
        return f"{name} stopped early: {turn.verdict.replace('_', ' ')}", 0, "warn"  # the stop says more
    if turn.verdict != "ok":
        error = f": {one_line(turn.error)}" if turn.error else ""
        kind = f" ({turn.verdict.replace('_', ' ')})" if turn.verdict != "unknown" else ""
        return f"{name} failed{kind}{error}{refused and f'; {refused}'}", 2, "bad"
    claim, paths = turn.claim.outcome or turn.claim.signal, turn.changed or turn.held
    parts = [
        f"changed {first_few(paths)}" if paths else "",
        f"{first_few(turn.undone)} restored (read-only role)" if turn.undone else "",
        one_line(turn.reported[0]).rstrip(".") if turn.reported else "",
        claim.replace("_", " "),
        _findings(turn.claim.findings),
        dollars(turn.usage.cost_uusd) if turn.usage.cost_uusd else "",
        elapsed(took_us),
        refused,
    ]
    words = last_words(turn.message, 120)
    message = f"  “{words}”" if words else ""
    if not any(parts[:5]):
        writes = act is not None and act.do.partition(":")[2] in WRITERS and turn.tree == act.tree
        parts.insert(
            0, "asked a question" if turn.claim.ask else "no files changed" if writes else "finished"
        )
    return f"{name}: {', '.join(part for part in parts if part)}{message}", 2, ""


def _findings(findings: tuple[e.Finding, ...]) -> str:
    """What a review raised, and what it says of what was raised before."""
    raised = [finding_text(finding) for finding in findings if not finding.id or finding.text]
    changes = [f"{finding.id} {finding.status}" for finding in findings if finding.id and not finding.text]
    count = f"{plural(len(raised), 'finding')}: {'; '.join(raised[:3])}" if raised else ""
    return ", ".join(part for part in (count, first_few(changes)) if part)


def _proof(act: e.Act | None, proof: e.ProofEnded, took_us: int, names: str) -> Words:
    name, baseline = _subject(act), act is not None and act.why == "baseline"
    if cause := proof.cannot_start or proof.lacks or proof.invalid:
        return f"{name}: {one_line(cause)}", 2, "bad"
    if proof.passed:
        return f"{name} passed ({elapsed(took_us)})", 2, "" if baseline else "good"
    count = f": {proof.failing} failing" if proof.failing is not None else ""
    return f"{name} failed{count} ({elapsed(took_us)}){names and f': {names}'}", 2, "" if baseline else "bad"


def _commit(name: str, commit: e.CommitEnded) -> Words:
    if commit.landed or commit.pull_request:
        return f"{name} done", 0, "dim"  # the next event says more
    if commit.outcome == "committed":
        return f"committed {commit.commit[:10]}", 2, "good"
    return f"{name} {commit.outcome}: {one_line(commit.reason)}", 2, "warn"


def _prepared(prepared: e.Prepared) -> Words:
    if prepared.error:
        return f"cannot prepare the checkout: {one_line(prepared.error)}", 2, "bad"
    notes = "".join(f". {one_line(note).rstrip('.')}" for note in prepared.notes)
    sandbox = "" if prepared.sandbox in NO_SANDBOX else f", sandbox {prepared.sandbox}"  # a note says why
    return f"checkout of {prepared.base_commit[:10]} ready{sandbox}{notes}", 2, "dim"


def _ruled(ruling: e.Ruling, above_question: bool) -> Words:
    if ruling.verdict == "allow":
        return "guard: nothing was changed" if ruling.unchanged else "guard: change allowed", 0, "dim"
    where = f" {one_line(ruling.file, 80)}" if ruling.file else " the change"
    what = "asks about" if ruling.verdict == "ask" else "refused"
    tone = "warn" if ruling.verdict == "ask" else "bad"
    reason = one_line(ruling.reason).removeprefix(f"{one_line(ruling.file, 80)}: ")
    return f"guard {what}{where} (rule {ruling.rule}){'' if above_question else f': {reason}'}", 2, tone


# ---- stops -----------------------------------------------------------------------------------------------


def _stopped(event: e.Stopped, state: str) -> Words:
    clause = happened(event.stop, state)
    if event.until is not None:
        until = f"continues at {clock(event.until)}, in {rough(event.until - event.at)}"
        return f"waiting: {clause}; {until}{in_brackets(event.stop.code)}", 2, "wait"
    return f"{event.status}: {clause}{in_brackets(event.stop.code)}", 2, "ask" if event.question else "wait"


def _resumed(event: e.Resumed, before: str) -> Words:
    if before == "wait.rate_limit":
        return "the limit was reset; continuing", 2, "good"
    return f"continuing ({event.why})" if event.why not in ("", "resumed") else "continuing", 2, ""


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
        number = run.turns + self._in_turn(run)
        turn = [f"turn {number}{f' of {limit}' if limit is not None else ''}"] if number else []
        money = cost_text(run, unknown=f"cost {UNKNOWN}")
        iterations = run.most("iterations")
        of = f" of {iterations}" if iterations is not None else ""
        iteration = [f"iteration {run.iteration}{of}"] if run.iteration else []
        return " · ".join([*turn, *iteration, rough(now - run.began.at), money])

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
            idle = inner.status == "running" and inner.here.act == "listen"
            return "waiting for a task" if idle else inner.status
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
