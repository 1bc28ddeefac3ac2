"""What the end of an act changes in a run: turns, errors, progress, findings, the known facts about a tree; and new allowances.

A limit costs nothing. A tree never seen before is progress, and so are fewer failing tests; words are not. In the
ledger of findings (PAIR-6) only a judge or evidence closes one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import count
from typing import Any, cast

from msgspec.structs import replace

from flyball.domain import events as e
from flyball.domain.events import Finding
from flyball.domain.machine import JUDGING_ROLES, READ_ONLY_ROLES
from flyball.domain.settings import HOUR
from flyball.state.run import (
    Baseline,
    Checkout,
    Commit,
    Evidence,
    Plan,
    Prepare,
    Progress,
    Proof,
    Prove,
    Restore,
    Run,
    Talk,
    without,
)

CLOSED = ("fixed", "accepted")
DISPUTES = 2  # so many of the same finding go to a person
ALARM = "security finding"  # the rule of a stop for one
KEPT = 200


def entered(ledger: tuple[Finding, ...], role: str, reported: Iterable[Finding]) -> tuple[Finding, ...]:
    """The ledger after one turn's findings."""
    for finding in reported:
        earlier = _known_finding(ledger, finding)
        if earlier is None and (role in JUDGING_ROLES or finding.status == "open"):
            ledger = (*ledger, _new_finding(ledger, finding))
        elif earlier is not None and _may(role, finding):
            texts = {"evidence": finding.evidence or earlier.evidence, "text": earlier.text or finding.text}
            changed = replace(earlier, status=finding.status, **texts)
            ledger = tuple(changed if f.id == earlier.id else f for f in ledger)
    return ledger[-KEPT:]


def _known_finding(ledger: tuple[Finding, ...], finding: Finding) -> Finding | None:
    if finding.id:
        return next((f for f in ledger if f.id == finding.id), None)
    place = (finding.file, finding.line, finding.text)
    return next((f for f in ledger if (f.file, f.line, f.text) == place), None)


def _new_finding(ledger: tuple[Finding, ...], finding: Finding) -> Finding:
    ids = {f.id for f in ledger}
    free = next(name for n in count(1) if (name := f"F{n}") not in ids)
    return replace(finding, id=finding.id or free, status="open")


def _may(role: str, finding: Finding) -> bool:
    """A judging role may change a finding in any way; others may only dispute it, or close it with evidence."""
    if role in JUDGING_ROLES:
        return finding.status in ("open", "disputed", *CLOSED)
    return finding.status == "disputed" or (finding.status == "fixed" and bool(finding.evidence))


def disputed(
    counts: dict[str, int], ledger: tuple[Finding, ...], role: str, reported: Iterable[Finding]
) -> dict[str, int]:
    """How often each finding was disputed by the role that it was addressed to."""
    matches = [
        _known_finding(ledger, f) for f in reported if f.status == "disputed" and role not in JUDGING_ROLES
    ]
    names = [f.id for f in matches if f is not None]
    return {**counts, **{name: counts.get(name, 0) + 1 for name in names}} if names else counts


def alarming(before: tuple[Finding, ...], after: tuple[Finding, ...]) -> tuple[str, ...]:
    """CTO-7: the security findings that a turn raised and that stop the run."""
    grave = [f for f in after if (f.kind, f.severity, f.status) == ("security", "high", "open")]
    return tuple(f.id for f in grave if f not in before)


def answered(talk: Talk, cause: e.Stop | None) -> Talk:
    """A person has decided about this; another alarm still has to be asked about."""
    alarms = () if cause and cause.rule == ALARM else talk.alarms
    return replace(talk, disputes={}, alarms=alarms) if talk.disputes or talk.alarms else talk


def settled(ledger: tuple[Finding, ...], reported: tuple[Finding, ...]) -> bool:
    """The judge closed everything that was open and raised or reopened nothing: read as PASS.

    A round in which it said nothing about the ledger never is.
    """
    return bool(reported) and all(f.status in CLOSED for f in (*reported, *ledger))


SHOWN = "The findings so far:\n"


def shown(ledger: tuple[Finding, ...]) -> str:
    lines = [f"{f.id} {f.severity} {f.status} {f.file}:{f.line} {f.text}".strip() for f in ledger]
    return SHOWN + "\n".join(lines) if lines else ""


# ---- a new allowance: what had run out begins again at zero ------------------------------------------------


INSTEAD = ("wait.escalation", "blocked.table.")  # codes whose rule may be the code of what ran out
ENTRIES = ("limit.turns", "limit.fix_attempts", "limit.iterations", "failed.tests")  # renewed together


def renewed(run: Run) -> Run:
    """The counters that had reached their limit start again at zero."""
    rule, code = (run.stop.rule, run.stop.code) if run.stop else ("", "")
    if rule.startswith(("budget.day", "budget.week")):
        fresh = replace(run.spending, window=None, window_from=run.at, turn_costs=(), turn_tokens=())
        return replace(run, spending=fresh)
    if code.startswith("limit.budget"):
        return replace(run, spending=replace(run.spending, base=run.spent, turn_costs=(), turn_tokens=()))
    tries = replace(run.tries, retries=0, contexts=0, interruptions=0, unclear=False, gone=False)
    return renewed_limit(unstalled(replace(run, tries=tries)), rule if code.startswith(INSTEAD) else "")


def renewed_limit(run: Run, code: str) -> Run:
    if code == "limit.time":
        return replace(run, spending=replace(run.spending, wall_base=run.spending.wall_us))
    if code not in ENTRIES:
        return run
    used = run.turns + run.spending.idle_children
    spending = replace(run.spending, turns_base=used, iteration_base=run.iteration)
    return replace(run, spending=spending, path=replace(run.path, entries={}))


def unstalled(run: Run) -> Run:
    return replace(run, progress=replace(run.progress, idle=0, wanders=False, errors=0, probes=0))


WAITS = ("rate_limited", "plan_limit", "overloaded", "network")  # limits that clear by themselves
FREE = (*WAITS, "auth", "billing", "context")  # cost no turn
FAILED = ("killed", "hung", "unknown", "refused", "cannot_start")  # a failed turn, tried again
TREES_KEPT = 512
CONTEXTS = 2  # so many overflows in a row are a failed turn
PLAN_WINDOW_US = 5 * HOUR
RECENT = 5  # so many of the last turns are told to people and to fresh sessions
UNCLEAR = "turn.unclear"  # the code of the warning that a turn gave no verdict, or no plan
FRESH = "You continue in a new session."
FROM_A_PERSON = "Message from a person: "
UNDONE = ("conflict", "unreachable")  # what a person has to help with before it is tried again


def after_prepare(run: Run, result: e.Prepared) -> Run:
    tree, checkout = result.tree or result.base_tree, with_changes(run.checkout, result.changed, result.lines)
    trees = tuple(dict.fromkeys(t for t in (result.base_tree, tree) if t))
    return replace(
        run,
        tree=tree,
        agenda=run.agenda if result.error else without(run.agenda, Prepare),
        checkout=replace(checkout, sandbox=result.sandbox, base_tree=result.base_tree),
        progress=replace(run.progress, trees=trees),
    )


def with_changes(checkout: Checkout, changed: tuple[str, ...], lines: int = 0, deleted: int = 0) -> Checkout:
    """The run with these files added to its changes."""
    if not (changed or lines or deleted):
        return checkout
    files = tuple(dict.fromkeys((*checkout.changed, *changed)))
    return replace(checkout, changed=files, lines=checkout.lines + lines, deleted=checkout.deleted + deleted)


def after_commit(run: Run, result: e.CommitEnded) -> Run:
    checkout = replace(run.checkout, certificate=result.certificate or run.checkout.certificate)
    if result.outcome == "committed":
        checkout = replace(checkout, commit=result)
    elif result.outcome == "refused":
        note = f"The commit was refused:\n{result.reason}"
        run = replace(run, talk=replace(run.talk, notes=(*run.talk.notes, note)))
    steps = run.agenda if result.outcome in UNDONE else without(run.agenda, Commit)
    return replace(run, checkout=checkout, agenda=steps)


def after_child(run: Run, child: e.ChildEnded) -> Run:
    failure = None if child.end == "success" else child.stop
    idle = run.spending.idle_children + int(child.turns == 0)
    return replace(
        run,
        child="",
        tree=run.tree if run.machine.supervises else child.tree or run.tree,  # its checkout is its own there
        plan=_after_step(run, child) if run.machine.supervises else run.plan,
        path=replace(run.path, child_stop=failure),
        spending=replace(run.spending, idle_children=idle),
    )


def _after_step(run: Run, child: e.ChildEnded) -> Plan:
    plan = run.plan
    if child.end != "success":
        return replace(plan, failures=plan.failures + 1)
    new = replace(plan, step=plan.step + 1, commit=child.commit, idle=0, worked_us=0)
    return replace(new, said=("", 0), error=("", 0), advanced=True)


def after_restore(run: Run, act: e.Act | None, back: e.Restored) -> Run:
    """An approved change is the work of the turn that made it; a change that a person made is theirs."""
    checkout, progress = with_changes(run.checkout, back.changed, back.lines), run.progress
    if act is not None and act.why in ("approved", "hand-back"):
        checkout = replace(checkout, excused=checkout.changed, excused_lines=checkout.lines, deleted=0)
        progress = replace(progress, unproved=progress.unproved + int(back.tree != run.tree))
        if back.tree not in progress.trees:
            progress = replace(progress, trees=(*progress.trees[-TREES_KEPT:], back.tree), advanced=True)
    steps = without(run.agenda, Restore)
    return replace(run, tree=back.tree, agenda=steps, checkout=checkout, progress=progress)


# ---- turns -----------------------------------------------------------------------------------------------


def after_turn(run: Run, act: e.Act | None, turn: e.TurnEnded) -> Run:
    role, key = (act.role, played_key(act)) if act else ("", "|")
    run = replace(
        run,
        spent=run.spent.plus(turn.usage),
        checkout=with_changes(run.checkout, turn.changed, turn.lines, turn.deleted),
        **_told_by(run, act, turn, role, key),
    )
    if turn.assessment is not None:
        run = replace(run, plan=replace(run.plan, assessment=turn.assessment, approved=False, step=0))
    if costs_nothing(run, turn):
        return replace(run, tree=turn.tree or run.tree)
    spending, evidence, talk, progress = run.spending, run.evidence, run.talk, run.progress
    retries = run.tries.retries + 1 if turn.verdict in (*FAILED, "context") else 0
    run = replace(
        run,
        turn=run.turn + 1,
        evidence=replace(evidence, grants=tuple(c for c in evidence.grants if not c.startswith("once:"))),
        spending=replace(
            spending,
            turn_costs=(*spending.turn_costs[-99:], turn.usage.cost_uusd),
            turn_tokens=(*spending.turn_tokens[-99:], turn.usage.tokens),
        ),
        talk=replace(
            talk,
            exit_signal=turn.claim.finished or turn.claim.signal in ("DONE", "PASS"),
            indicators=turn.claim.indicators,
            recent=(*talk.recent[1 - RECENT :], _line(run, role, turn)),
        ),
        tries=replace(run.tries, retries=retries),
        progress=replace(
            progress,
            error_before=(progress.error, progress.errors),
            **_counted_error(progress.error, progress.errors, turn.fingerprint),
        ),
    )
    return _progress(run, role, turn)


def _told_by(run: Run, act: e.Act | None, turn: e.TurnEnded, role: str, key: str) -> dict[str, Any]:
    """What every turn leaves, even one that costs nothing: messages, sessions, limits."""
    talk, tries, progress, spending = run.talk, run.tries, run.progress, run.spending
    undelivered = act.told if act and turn.verdict in (*FREE, *FAILED) else ()
    sessions = {**talk.sessions, key: turn.session} if turn.session else talk.sessions
    if turn.verdict == "context":
        sessions = {k: v for k, v in sessions.items() if k != key}
    if turn.plan_percent is not None:  # without a stated reset time, the window has its usual length
        reset_at = turn.plan_reset_at or run.at + PLAN_WINDOW_US
        spending = replace(spending, plan_percent=turn.plan_percent, plan_reset_at=reset_at)
    limits = min(tries.limits + 1, 2) if turn.verdict in WAITS else 0
    findings = entered(run.findings, role, turn.claim.findings)
    return {
        "findings": findings,
        "talk": replace(
            talk,
            played={**talk.played, key: talk.played.get(key, 0) + 1},
            sessions=sessions,
            message=turn.message or talk.message,
            plan=(_plan(turn) or talk.plan) if role == "planner" else talk.plan,
            notes=(*undelivered, *talk.notes, *turn.notes),
            disputes=disputed(talk.disputes, run.findings, role, turn.claim.findings),
            alarms=(*talk.alarms, *alarming(run.findings, findings)),
        ),
        "tries": replace(tries, contexts=_contexts(tries.contexts, turn.verdict), limits=limits),
        "progress": replace(progress, error_text=turn.error) if turn.error else progress,
        "spending": spending,
    }


def _plan(turn: e.TurnEnded) -> str:
    """The planner's words, and its steps with their criteria where it gave them as data."""
    steps = turn.claim.data.get("steps")
    rows = cast("list[Any]", steps) if isinstance(steps, list) else []
    lines = [_step(n, cast("dict[str, Any]", row)) for n, row in enumerate(rows, 1) if isinstance(row, dict)]
    return "\n\n".join(part for part in (turn.message, "\n".join(lines)) if part)


def _step(number: int, step: dict[str, Any]) -> str:
    paths, criteria = _texts(step.get("paths")), _texts(step.get("criteria"))
    where = f" ({', '.join(paths)})" if paths else ""
    return "\n".join((f"{number}. {step.get('title', '')}{where}", *(f"   - {one}" for one in criteria)))


def _texts(value: Any) -> list[str]:
    """One text or a list of them; an agent may have put anything there."""
    if isinstance(value, str):
        return [value]
    return [str(one) for one in cast("list[Any]", value)] if isinstance(value, list) else []


def _contexts(count: int, verdict: str) -> int:
    """Overflows in a row; a limit between two of them is not a turn between them."""
    return count + 1 if verdict == "context" else count if verdict in FREE else 0


def _line(run: Run, role: str, turn: e.TurnEnded) -> str:
    """One of the last turns, in a line."""
    paths = turn.changed or turn.held
    files = ", ".join(paths[:3]) + (" …" if len(paths) > 3 else "")
    changed = "" if role in READ_ONLY_ROLES else f" changed {files or 'no files'}"
    failure = "" if turn.verdict == "ok" else f", ended as {turn.verdict}"
    words = closing_line(turn.message)
    quote = f": “{words[:120]}”" if words else ""
    return f"turn {run.turn + 1} ({role}){changed}{failure}{quote}"


_NO_SUMMARY = re.compile(r"\s*#|\W*(?:OUTCOME|EXIT_SIGNAL)\b|(?:DONE|PASS|FAIL)$")
_STATUS_BLOCK = re.compile(r"^\W*Loop Status\W*$", re.M | re.I)


def closing_line(message: str) -> str:
    """The last line of a message that says something: no heading, claim or signal; above the status block if it can be."""
    above = _STATUS_BLOCK.split(message, maxsplit=1)[0]
    for part in (above, message):
        lines = [line.strip() for line in part.splitlines() if any(map(str.isalpha, line))]
        if sentences := [line for line in lines if not _NO_SUMMARY.match(line)]:
            return sentences[-1]
    return ""


def costs_nothing(run: Run, turn: e.TurnEnded) -> bool:
    """A limit costs neither a turn nor a failure; a context that overflows repeatedly does."""
    return turn.verdict in FREE and not (turn.verdict == "context" and run.tries.contexts >= CONTEXTS)


def waits_for_answer(turn: e.TurnEnded) -> bool:
    """It ended with an open question or permission request, so it does not count (CTO-11)."""
    return bool(turn.claim.ask) or turn.verdict == "needs_approval" or turn.claim.reading == "blocked"


def _progress(run: Run, role: str, turn: e.TurnEnded) -> Run:
    """A tree never seen in this run is progress; one seen before is not, and neither are words (CTO-11)."""
    tree, progress = turn.tree or run.tree, run.progress
    if role == "author":  # what was said of an earlier tree, or in the other place, is no longer said
        done_tree = tree if turn.claim.signal == "DONE" else ""
        run = replace(run, evidence=replace(run.evidence, done_tree=done_tree))
    if role in READ_ONLY_ROLES or waits_for_answer(turn):
        return replace(run, tree=tree)
    fresh = bool(tree) and tree not in progress.trees
    progress = replace(
        progress,
        trees=(*progress.trees[-TREES_KEPT:], tree) if fresh else progress.trees,
        advanced=fresh,
        idle=0 if fresh else progress.idle + 1,
        wanders=not fresh and (progress.wanders or tree != run.tree),
        unproved_turns=progress.unproved_turns + int(turn.verdict == "ok"),
        unproved=progress.unproved + int(tree != run.tree),
    )
    return replace(run, tree=tree, progress=progress)


def played_key(act: e.Act) -> str:
    """The key under which an agent's sessions and finished turns are kept."""
    return f"{act.agent}|{act.do.partition(':')[2]}"


def in_session(talk: Talk, act: e.Act, session: str) -> Talk:
    """Keep the session, if it is known, for the next turn of this agent and role."""
    return replace(talk, sessions={**talk.sessions, played_key(act): session}) if session else talk


# ---- proofs ----------------------------------------------------------------------------------------------


def after_proof(run: Run, act: e.Act | None, proof: e.ProofEnded) -> Run:
    evidence, why = run.evidence, act.why if act else ""
    before = evidence.proof.fails if evidence.proof and evidence.proof.tree == proof.tree else 0
    current = Proof(
        tree=proof.tree,
        passed=proof.passed,
        failing=proof.failing,
        summary=proof.invalid or proof.summary,
        commands=proof.commands,
        at=run.at,
        fingerprint=proof.fingerprint,
        failing_tests=proof.failing_tests,
        key=act.key if act else "",
        examined=why == "gate",
        evidence=proof.evidence or e.Evidence(),
        fails=0 if proof.passed or proof.cannot_start else before + 1,
    )
    if why == "baseline":
        base = {"baseline": proof.failing, "before": proof.failing_tests, "fewest": proof.failing}
        evidence = replace(evidence, proof=current, **base)
        return replace(run, agenda=without(run.agenda, Baseline), evidence=evidence)
    fewer = proof.failing is not None and (evidence.fewest is None or proof.failing < evidence.fewest)
    evidence = replace(evidence, proof=current, fewest=proof.failing if fewer else evidence.fewest)
    gate = why == "gate" and not proof.cannot_start
    run = replace(run, evidence=evidence, agenda=without(run.agenda, Prove) if gate else run.agenda)
    run = replace(run, progress=_probed(run.progress, proof, why == "probe", fewer))
    if fewer:
        run = replace(run, progress=replace(run.progress, advanced=True, idle=0, wanders=False))
    return run if proof.passed else disproved(run, proof.fingerprint, proof.summary)


def _probed(progress: Progress, proof: e.ProofEnded, probe: bool, fewer: bool) -> Progress:
    """Any proof settles the state of the files; only probes without fewer failing tests in a row are counted."""
    fails = probe and not proof.passed and not fewer
    passes = progress.passes if proof.passed and proof.tree == progress.passed else 0
    passes += int(proof.passed and probe)
    return replace(
        progress,
        unproved_turns=0,
        unproved=0,
        probes=progress.probes + 1 if fails else progress.probes if not (proof.passed or fewer) else 0,
        passed=proof.tree if passes else "",
        passes=passes,
    )


def rejected(run: Run, outcome: str) -> Evidence:
    """A validator judges an approach, not the files; and where nothing was changed there is nothing to accept."""
    evidence, proof = run.evidence, run.evidence.proof
    if outcome != "rejected" or run.here.of not in JUDGING_ROLES or run.here.of == "validator":
        return evidence
    proved = proof is not None and proof.passed and proof.tree == run.tree != run.checkout.base_tree
    tree = run.tree if proved else ""
    return replace(evidence, rejected=tree) if tree != evidence.rejected else evidence


def answer_for_agent(question: e.Question | None, event: e.Answered) -> str:
    """An answer with what it answers: the agent of the next turn may not be the one that asked."""
    if not event.text:
        return ""
    for_agent = question is not None and event.verb == "answer" and question.kind == "clarification"
    if question is not None and for_agent:
        return f"You asked: {question.text}\n\nThe answer: {event.text}"
    return f"{FROM_A_PERSON}{event.text}"


def told(run: Run, event: e.Told) -> Run:
    """It may tell of a failing proof, or of one more host that agents may reach."""
    run = disproved(run, event.fingerprint, "") if event.fingerprint else run
    hosts = (*run.checkout.hosts, event.host)
    return replace(run, checkout=replace(run.checkout, hosts=hosts)) if event.host else run


def plan_reviewed(run: Run, event: e.PlanReviewed) -> Run:
    notes = (*run.talk.notes, event.text) if event.text else run.talk.notes
    evidence, talk = replace(run.evidence, plan_reviewed=True), replace(run.talk, notes=notes)
    return replace(run, at=event.at, evidence=evidence, talk=talk)


def disproved(run: Run, fingerprint: str, summary: str) -> Run:
    """The failing proof after a turn is the turn's error, even if the tree was known to fail."""
    progress = run.progress
    count = _counted_error(*progress.error_before, fingerprint)
    return replace(run, progress=replace(progress, error_text=summary or progress.error_text, **count))


def _counted_error(last: str, count: int, now: str) -> dict[str, Any]:
    return {"error": now, "errors": (count + 1 if now == last else 1) if now else 0}
