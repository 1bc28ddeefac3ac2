"""How an agent's turn is read: what stops the run, and which outcome its message means. DONE is a claim.

`judgement` says what happens to its change: it is kept, kept while a person is asked, or undone.
"""

from __future__ import annotations

import hashlib
from typing import Any, cast

from msgspec import Struct
from msgspec.structs import replace

from flyball.core import stops
from flyball.core.stops import ask, cancel, stop
from flyball.core.transition import follow
from flyball.domain import events as e
from flyball.domain.machine import JUDGING_ROLES, READ_ONLY_ROLES
from flyball.domain.settings import INDICATORS, INDICATORS_MIN, show_duration
from flyball.state.fold import Events
from flyball.state.run import Run
from flyball.state.tally import CONTEXTS, DISPUTES, FAILED, FREE, UNCLEAR, WAITS, settled, waits_for_answer

GIVEN = (  # outcomes that Flyball gives itself: no agent can claim them
    *("untested", "unproven", "approval", "stalled", "progressed", "success", "failure", "third_failure"),
    *("blocked", "exhausted", "timeout", "error", "cancel", "passed", "committed", "refused", "answered"),
)
PLAN_REVIEW = "plan-review"  # why an act is done: a look at the code base before a plan file is carried out
REVIEWS = ("approved", "rejected")
RECOVERIES = ("retry", "rollback", "skip", "escalate")
VERDICTS = ("ok", "turn_limit", "budget_limit", "needs_approval", "timeout", *FREE, *FAILED)
TIERS = ("T0", "T3", "T2", "T1")
Reading = tuple[str, dict[str, Any], tuple[str, ...]]  # outcome, its data, notes for the next turn


def claimable(run: Run, act: e.Act | None = None) -> list[str]:
    """`act`: the act of the turn, if it is over and the run no longer has it."""
    act = act or run.act
    if act is not None and act.why == PLAN_REVIEW:
        return list(REVIEWS)
    first, *others = run.here.on
    return [first, *(name for name in others if name not in GIVEN)]


def first_outcome(run: Run) -> str:
    """The outcome of a writing turn that ended well; without a test phase it is `untested`."""
    tested = bool(run.settings.proof) and run.settings.require_test_pass
    return "untested" if "untested" in run.here.on and not tested else next(iter(run.here.on))


# ---- does the result fit? --------------------------------------------------------------------------------


def fitted(run: Run, act: e.Act, result: e.AnyResult) -> e.AnyResult:
    """The result after checking that it fits the act."""
    match result:
        case e.TurnEnded():
            return _fitted_turn(run, act, result)
        case e.ProofEnded() if result.passed and (result.invalid or result.tree != act.tree):
            return replace(result, passed=False, invalid=result.invalid or "It proved another tree.")
        case e.CommitEnded(outcome="committed") if not _holds(run, act, result):
            reason = result.reason or "The commit holds another tree."
            return replace(result, outcome="conflict" if act.do == "land" else "refused", reason=reason)
        case _:
            return result


def _holds(run: Run, act: e.Act, result: e.CommitEnded) -> bool:
    """The commit holds the tree that had to be committed, or its merge if that was proved too."""
    if result.work != act.tree or not result.of:
        return result.work == act.tree
    proof = result.proof
    return not run.settings.proof or (proof is not None and proof.passed and proof.tree == result.tree)


def _fitted_turn(run: Run, act: e.Act, turn: e.TurnEnded) -> e.TurnEnded:
    """Data that does not fit makes the turn a failed one, and the agent is told why."""
    if turn.verdict not in VERDICTS:
        return replace(turn, verdict="unknown", error=turn.error or f"an unknown end: {turn.verdict}")
    if turn.verdict == "turn_limit":  # an ended turn without a claim
        return replace(turn, claim=e.Claim())
    problem = misfit(run, act.role, turn.claim) if turn.verdict == "ok" else ""
    if turn.verdict == "ok" and turn.claim.outcome == "nothing" and not turn.message.strip():
        problem = "'nothing' needs a message that says why."  # CTO-1
    if not problem:
        return turn
    note = f"Your report could not be used: {problem}"
    return replace(turn, verdict="unknown", error=problem, notes=(*turn.notes, note))


def unjudged(act: e.Act, result: e.AnyResult) -> e.Ruling | None:
    """ALO-1: a change that the guard has not checked is refused, always."""
    if not isinstance(result, e.TurnEnded) or result.tree in ("", act.tree):
        return None
    reason = "The change was not checked."
    return e.Ruling(verdict="deny", rule="unjudged", reason=reason, tree=result.tree, diff=result.tree)


def misfit(run: Run, role: str, claim: e.Claim) -> str:
    if run.act is not None and run.act.why == PLAN_REVIEW:
        return ""
    if role == "cto" and (claim.outcome or claim.data):
        return _recovery_misfit(run, claim)
    if role == "planner" and claim.data:
        return _plan_misfit(claim.data)
    target = run.here.on.get(claim.outcome, "") if claim.outcome in claimable(run) else ""
    if target.startswith("any:") and claim.data.get("state") not in run.machine.targets(target):
        return f"'{claim.outcome}' needs data.state, one of {', '.join(run.machine.targets(target))}."
    return ""


def _recovery_misfit(run: Run, claim: e.Claim) -> str:
    kind, origin = claim.data.get("kind", claim.outcome), run.path.origin
    if kind not in RECOVERIES:
        return f"a recovery's kind is one of {', '.join(RECOVERIES)}, not '{kind}'."
    if kind == "escalate" or kind not in run.here.on:
        return ""
    target, choices = _recovery_state(run, claim), run.machine.targets(run.here.on[kind])
    if target not in choices:
        return f"'{target}' is not a state that work can continue in."
    if kind != "skip" and origin in choices and choices.index(target) > choices.index(origin):
        return f"'{target}' comes after '{origin}': only 'skip' goes forward, and by one state."
    return "a rollback names an earlier state." if kind == "rollback" and target == origin else ""


def _recovery_state(run: Run, claim: e.Claim) -> str:
    kind, origin = claim.data.get("kind", claim.outcome), run.path.origin
    if not run.here.on.get(kind, "").startswith("any:"):
        return run.here.on.get(kind, "")
    if kind == "skip":
        return next(iter(run.machine.states[origin].on.values())) if origin else ""
    return str(claim.data.get("state") or origin)


def _plan_misfit(data: dict[str, Any]) -> str:
    steps, tier = data.get("steps"), data.get("tier", "T3")
    if not isinstance(steps, list) or not all(_is_step(step) for step in cast("list[Any]", steps)):
        return "a plan is {steps: [{title, paths, criteria}], rollback, tier?}."
    return "" if tier in TIERS else f"a tier is one of {', '.join(TIERS)}, not '{tier}'."


def _is_step(step: Any) -> bool:
    return isinstance(step, dict) and isinstance(cast("dict[str, Any]", step).get("title"), str)


# ---- what stops a turn before its outcome counts ---------------------------------------------------------


def stopped_by(events: Events, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling | None) -> bool:
    """Tampering, cancel, deny, process failure, in this order. False: the outcome counts."""
    run = events.run
    waived = ruling is not None and ruling.diff in run.evidence.waivers
    asks = ruling is not None and ruling.verdict == "ask" and not waived
    if ruling and ruling.rule == "tampering":
        return _blocked(events, act, turn, ruling, "blocked.tampering")
    if run.asked == "cancel":
        return bool(cancel(_put_back(events, act) if asks else events))
    if ruling and ruling.verdict == "deny" and not waived:
        return _blocked(events, act, turn, ruling, f"blocked.guard.{ruling.rule}")
    if ruling and asks:
        return _asked_about(events, act, turn, ruling)
    if _process_failure(events, act, turn) or _halted(events, turn) or stops.alarmed(events):
        return True
    return _asks(events, turn) or _asked_again(events, act, turn) or _stuck(events, act, turn)


def _put_back(events: Events, act: e.Act) -> Events:
    """The question is dropped: the change is undone, also for the parent run."""
    return events if events.run.tree == act.tree else events.put_back(act.tree)


def _asked_about(events: Events, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling) -> bool:
    """The guard asks about the change. A failed turn comes first if no change is left, or if it ends the run."""
    trial = Events(events.run, events.now)
    failed = _process_failure(trial, act, turn)
    if failed and (events.run.tree == act.tree or trial.run.status == "ended"):
        return _process_failure(_put_back(events, act), act, turn)
    text = f"The guard asks about a change: {_with_place(ruling)} Accept it?"
    return _stopped_for(events, act, turn, ruling, "approval", "wait.approval", text)


def _blocked(events: Events, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling, code: str) -> bool:
    how = "How should the run continue?"
    text = f"The guard refused a change: {_with_place(ruling)} It was undone. {how}"
    if ruling.call:
        text = f"The guard ended the turn. {ruling.reason} Its changes were undone. {how}"
    return _stopped_for(events, act, turn, ruling, "block", code, text)


def _stopped_for(
    events: Events, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling, kind: str, code: str, text: str
) -> bool:
    _pend(events, act, turn, ruling, kind)
    where = f"{ruling.file}{f':{ruling.line}' if ruling.line else ''}"
    more = {"otherwise": _otherwise(events.run), "detail": ruling.reason}
    cause = stop(events.run, code, ruling.rule, f"policy {ruling.policy}", where, **more)
    waivable = ruling.waivable or kind == "approval"
    return bool(ask(events, cause, kind, text, waivable=waivable, bound=ruling.diff))


def _with_place(ruling: e.Ruling) -> str:
    """The reason as a sentence, with the file if it does not name it yet."""
    reason = ruling.reason.rstrip(". ")
    return f"{reason}." if ruling.file in reason else f"{reason} ({ruling.file})."


def _pend(events: Events, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling, until: str) -> None:
    """The outcome to follow once the change is accepted; a turn that failed, was halted or asks has none."""
    run = events.run
    asks = waits_for_answer(turn) or _disputed(run) or run.talk.alarms or _says_nothing(run, act, turn)
    outcome, data = "", dict[str, Any]()
    if turn.verdict in ("ok", "turn_limit") and not turn.halted and not asks and act.why != PLAN_REVIEW:
        outcome, data, _ = outcome_of(_as_if_it_stood(run, ruling), act, turn)
    if run.tree != act.tree:
        data = {**data, "before": act.tree}
    events.add(e.Held(at=events.now, outcome=outcome, until=until, data=data))


def _otherwise(run: Run) -> str:
    outcome = run.pending.outcome if run.pending else ""
    then = f"continued with '{outcome}'" if outcome else "tried the turn again"
    return f"The change would have been kept, and the run would have {then}."


def _as_if_it_stood(run: Run, ruling: e.Ruling) -> Run:
    if not ruling.tree or ruling.tree in run.progress.trees:
        return run
    return replace(run, tree=ruling.tree, progress=replace(run.progress, advanced=True, idle=0))


def _process_failure(events: Events, act: e.Act, turn: e.TurnEnded) -> bool:
    run, error = events.run, turn.error
    match turn.verdict:
        case "timeout":
            _timed_out(events, act, turn)
        case verdict if verdict in WAITS:
            stops.limited(events, act, turn)
        case "auth" | "billing" as verdict:
            text = f"The agent cannot work: {(error or verdict).rstrip('.')}. Fix this, then answer go-on."
            ask(events, stop(run, f"wait.{verdict}", verdict, detail=error), "limit", text)
        case "budget_limit":
            cause = stop(run, "limit.budget_usd", "the agent's own budget", detail=error)
            ask(events, cause, "budget", "The agent's own budget is used up. Raise it?")
        case "context" if run.tries.contexts < CONTEXTS:
            events.tell(stops.so_far(run))
        case verdict if verdict in (*FAILED, "context"):
            _failed(events, turn)
        case _:
            return False
    return True


def _timed_out(events: Events, act: e.Act, turn: e.TurnEnded) -> None:
    """The exceeded time limit is the phase's, unless the run's own budget is used up."""
    late = stops.out_of_time(events.run)
    limit = show_duration(act.wall_us) if act.wall_us else ""
    phase = stop(events.run, "timeout.phase", "phase_timeout", limit, "exceeded", detail=turn.error)
    follow(events, "exhausted" if late else "timeout", cause=late or phase)


def _failed(events: Events, turn: e.TurnEnded) -> None:
    run, retries = events.run, events.run.tries.retries
    most = run.most("retries")
    most = 3 if most is None else most
    if retries <= most:
        events.warn("turn.failed", turn.error or turn.verdict)
        return
    code = {"hung": "timeout.idle", "cannot_start": "failed.start"}.get(turn.verdict, "failed.agent")
    if code == "failed.start" and run.turn > retries:
        code = "failed.agent"
    follow(events, "error", cause=stop(run, code, "retries", most, retries, detail=turn.error))


def warn_of(events: Events, turn: e.TurnEnded) -> None:
    """What a person should see of a turn, however it ended: hosts that were refused, and very many tool calls."""
    events.warn("network.refused", *turn.refused)
    warn = stops.call_limits(events.run).warn
    if not turn.halted and turn.calls > warn:
        events.warn("limit.actions", f"{turn.calls} tool calls in one turn (warning above {warn}).")


def _halted(events: Events, turn: e.TurnEnded) -> bool:
    if turn.halted:
        cause = stop(events.run, turn.halted, "tool calls", detail=turn.halted_why)
        ask(events, cause, "loop", f"{turn.halted_why} Continue?")
    return bool(turn.halted)


def _disputed(run: Run) -> list[str]:
    return [name for name, count in run.talk.disputes.items() if count >= DISPUTES]


def _asks(events: Events, turn: e.TurnEnded) -> bool:
    run, twice = events.run, ", ".join(_disputed(events.run))
    message = turn.message or "The agent says that it is blocked."
    text = turn.claim.ask or (message if turn.claim.reading == "blocked" else "")
    if turn.verdict == "needs_approval":
        cause = replace(stop(run, "wait.permission", "permission", detail=turn.error), call=turn.wanted)
        what = f": {turn.error}" if turn.error else "."
        ask(events, cause, "permission", f"The agent asks for permission{what}")
    elif twice:
        cause = stop(run, "wait.question", "disputed twice", DISPUTES, DISPUTES, detail=twice)
        text = f"Author and reviewer have disagreed twice about {twice}. Who is right?"
        ask(events, cause, "clarification", text)
    elif text:
        ask(events, stop(run, "wait.question", "the agent asks", detail=text), "clarification", text)
    return turn.verdict == "needs_approval" or bool(twice or text)


# ---- a turn without its verdict or plan ------------------------------------------------------------------


def _asked_again(events: Events, act: e.Act, turn: e.TurnEnded) -> bool:
    """AGENT-8: a judging role without a verdict, or a planner without a plan, is told so and asked again once."""
    missing = _says_nothing(events.run, act, turn)
    if not missing:
        return False
    again, but = events.run.tries.unclear, unlisted(events.run, act, turn)
    then = f"This counts as '{outcome_of(events.run, act, turn)[0]}'." if again else "Asking again."
    events.warn(UNCLEAR, f"The {act.role} gave no {missing}{f': {but}' if but else ''}. {then}")
    if not again:
        events.tell(_reminder(events.run, act, missing, but))
    return not again


def unlisted(run: Run, act: e.Act, turn: e.TurnEnded) -> str:
    """What is wrong with a claimed name that does not count here; "" if none was claimed."""
    names, name = claimable(run, act), turn.claim.outcome
    return f"'{name}' is not one of {', '.join(names)}" if name and name not in names else ""


def _says_nothing(run: Run, act: e.Act, turn: e.TurnEnded) -> str:
    """What is missing from an ended turn. A script's silence is meant (AGENT-7)."""
    role, claim = act.role, turn.claim
    judges = role in JUDGING_ROLES and not (role == "reviewer" and "passed" in run.here.on)
    if judges or act.why == PLAN_REVIEW:
        return "" if claim.signal in ("PASS", "FAIL") or claim.outcome in claimable(run, act) else "verdict"
    silent = not (turn.message.strip() or claim.outcome or claim.data or act.agent.startswith("script:"))
    return "plan" if role == "planner" and silent else ""


def _reminder(run: Run, act: e.Act, missing: str, but: str) -> str:
    if missing == "plan":
        return "Your last turn ended without a message, so there is no plan. End this turn with the plan."
    names = " or ".join(f"`OUTCOME: {name}`" for name in claimable(run, act))
    why = f"no verdict that counts: {but}" if but else "no readable verdict"
    return f"Your last message had {why}. Decide now, and end with the line {names}."


def _stuck(events: Events, act: e.Act, turn: e.TurnEnded) -> bool:
    """AGENT-8: a role that rejects the same proved tree twice without a new finding would do so forever."""
    run, role = events.run, act.role
    if not run.tree or run.evidence.rejected != run.tree or turn.claim.findings:
        return False
    if outcome_of(run, act, turn)[0] != "rejected":
        return False
    cause = stop(run, "wait.question", "rejected twice", 2, 2, detail=turn.message[-500:])
    text = (
        f"The {role} rejected the same files twice although the proof passes, and nothing was changed in between. "
        f"Its last message: {turn.message[-500:] or 'none'}\nIs the {role} right? Your answer goes to the {role}."
    )
    return bool(ask(events, cause, "clarification", text))


# ---- what a turn amounts to ------------------------------------------------------------------------------


def outcome_of(run: Run, act: e.Act, turn: e.TurnEnded) -> Reading:
    """(outcome, data, what the next turn is told)."""
    role, on = act.role, run.here.on
    if act.why == PLAN_REVIEW:
        return _plan_review(turn)
    if role == "worker" and "done" in on:
        return _worker(run, turn)
    if (role == "author" and "done" in on) or (role == "reviewer" and "passed" in on):
        return _pair(run, role, turn)
    if role == "cto":
        return _recovery(run, turn)
    if role in JUDGING_ROLES:
        return _judgement(run, turn)
    first = next(iter(on))
    outcome = turn.claim.outcome if turn.claim.outcome in claimable(run) else first
    if turn.assessment and outcome == first and "approval" in on and turn.assessment.reasons:
        return "approval", {}, ()
    return (first_outcome(run) if outcome == first else outcome), turn.claim.data, ()


def _worker(run: Run, turn: e.TurnEnded) -> Reading:
    missing = missing_for_exit(run, turn.claim)
    if not missing:
        return "done", {}, ()
    claims_done = turn.claim.finished or len(set(turn.claim.indicators)) >= INDICATORS_MIN
    proof = run.evidence.proof
    passes = " The checks pass on these files." if proof and proof.passed and proof.tree == run.tree else ""
    notes = (f"Not done yet: {' '.join(missing)}{passes}",) if claims_done else ()
    if "progressed" in run.here.on:
        return ("progressed" if run.progress.advanced else "stalled"), {}, notes
    open_now = stops.stalled(run) and run.machine.place(run.state, "stalled")
    return ("stalled" if open_now else next(iter(run.here.on))), {}, notes


def missing_for_exit(run: Run, claim: e.Claim) -> list[str]:
    """LOOP-1 without the proof, which is the gate's: what the claim lacks, as sentences."""
    missing, count_given = list(claim.missing), len(set(claim.indicators))
    if not claim.finished and not missing:
        missing.append("The exit signal is not set.")
    if count_given < INDICATORS_MIN and not claim.missing:  # else it is among what was missing in the words
        names = ", ".join(INDICATORS)
        count = f"{count_given} of {INDICATORS_MIN} distinct completion indicators"
        missing.append(f"{count} were given; they are: {names}.")
    if any(f.severity == "high" and f.status == "open" for f in run.findings):
        missing.append("A high finding is still open.")
    return missing


def _pair(run: Run, role: str, turn: e.TurnEnded) -> Reading:
    signal = turn.claim.signal
    if signal == "FAIL" and "failed" in run.here.on:
        return "failed", {}, ()
    if role == "reviewer":
        return _review(run, turn)
    review = run.option("review") == "always" or run.settings.consensus
    unproved = run.owner and not run.settings.proof
    agreed = signal == "DONE" and not review and not unproved
    notes = (f"The author says:\n{turn.message}",) if turn.message else ()
    return ("done" if agreed else next(iter(run.here.on))), {}, notes


def _review(run: Run, turn: e.TurnEnded) -> Reading:
    if turn.claim.signal != "PASS" and not settled(run.findings, turn.claim.findings):
        return "rejected", {}, _remarks(turn)
    if run.settings.consensus and run.evidence.done_tree != run.tree:
        return "rejected", {}, ("The reviewer accepts it, but the author has not said that it is done.",)
    return "passed", {}, ()


def _remarks(turn: e.TurnEnded) -> tuple[str, ...]:
    return (f"The reviewer says:\n{turn.message}",) if turn.message else ()


def _recovery(run: Run, turn: e.TurnEnded) -> Reading:
    claim = turn.claim
    kind = str(claim.data.get("kind", claim.outcome) or "escalate")
    guidance = str(claim.data.get("guidance", "")) or turn.message
    if kind not in run.here.on or kind == "escalate":
        return "escalate", {}, ()
    return kind, {"state": _recovery_state(run, claim)}, (f"The CTO says: {guidance}",) if guidance else ()


def _plan_review(turn: e.TurnEnded) -> Reading:
    signal, outcome = turn.claim.signal, turn.claim.outcome
    approved = signal != "FAIL" and (outcome == REVIEWS[0] or (signal == "PASS" and outcome != REVIEWS[1]))
    return (REVIEWS[0], {}, ()) if approved else (REVIEWS[1], {}, _remarks(turn))


def _judgement(run: Run, turn: e.TurnEnded) -> Reading:
    claim, first = turn.claim, next(iter(run.here.on))
    if claim.outcome in claimable(run) and claim.signal != "FAIL":
        outcome = claim.outcome
    else:
        outcome = first if claim.signal == "PASS" else "rejected"
    return outcome, claim.data, _remarks(turn) if outcome != first else ()


# ---- what becomes of the change ----------------------------------------------------------------------------


class Judgement(Struct, frozen=True, kw_only=True):
    """What the shell does with the change, and what it reports."""

    ruling: e.Ruling  # as it counts, with the tree that an approval would bring back
    tree: str  # that the checkout holds afterwards
    undo: bool  # keep the change under a ref, and put the checkout back
    checkpoint: bool  # record the tree
    publish: bool  # … and move the user's branch to it
    counts: bool  # its files are the run's: they count for the radius
    read_only: bool  # a role that may not change files has changed some
    error: str = ""  # what ended the turn, where the guard did


def judgement(
    run: Run,
    act: e.Act,
    verdict: str,
    ruling: e.Ruling,
    tree: str,
    changed: bool,
    alarm: e.Action | None = None,
) -> Judgement:
    """`verdict` is the agent's, `ruling` the guard's on `tree`; `changed` also by files that no tree holds."""
    reads_only = act.role in READ_ONLY_ROLES
    alarms = alarm is not None and ruling.verdict != "deny"
    if alarm is not None and alarms:
        ruling = _refused(ruling, alarm)
    read_only = reads_only and tree != act.tree and ruling.verdict != "deny"
    if read_only:
        reason = f"A {act.do.partition(':')[2]} may not change files. The change was undone."
        ruling = replace(ruling, verdict="allow", rule="read-only", reason=reason)
    passed = not read_only and (ruling.verdict == "allow" or ruling.diff in run.evidence.waivers)
    stands = passed or (ruling.verdict == "ask" and verdict not in FAILED and not read_only)
    undo = not stands and (tree != act.tree or changed)
    if undo:
        ruling = replace(ruling, tree=act.tree if reads_only and alarm else tree)
    return Judgement(
        ruling=ruling,
        tree=tree if stands else act.tree,
        undo=undo,
        checkpoint=stands and tree != act.tree,
        publish=passed and tree != act.tree,
        counts=passed,
        read_only=read_only,
        error=ruling.reason if alarms else "",
    )


def _refused(ruling: e.Ruling, alarm: e.Action) -> e.Ruling:
    """CTO-7: the call was refused and did not run; a person decides about the agent's other changes."""
    call = f"{alarm.tool}: {alarm.input[:200]}"
    bound = f"{ruling.diff}:{alarm.tool}:{alarm.input}".encode("utf-8", "replace")
    also = f" Also about its changes: {ruling.reason} ({ruling.file})" if ruling.verdict == "ask" else ""
    reason = f"It tried {call}. That was refused ({alarm.rule}): {alarm.reason}{also}"
    rule, diff = alarm.rule.rpartition("/")[2], hashlib.sha256(bound).hexdigest()
    return replace(ruling, verdict="deny", rule=rule, reason=reason, diff=diff, call=call, waivable=True)
