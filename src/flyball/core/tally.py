"""What the end of an act adds to a run's counts: turns, errors, progress, what is known of a tree.

A limit costs nothing. A tree never seen before is progress, and so are fewer failing tests; words are not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from flyball.core import events as e
from flyball.core.ledger import disputed, entered
from flyball.core.machine import READ_ONLY_ROLES
from flyball.core.settings import HOUR

if TYPE_CHECKING:
    from flyball.core.run import Run

WAITS = ("rate_limited", "plan_limit", "overloaded", "network")  # limits that clear by themselves
FREE = (*WAITS, "auth", "billing", "context")  # cost no turn
FAILED = ("killed", "hung", "unknown", "refused", "cannot_start")  # a failed turn, tried again
TREES_KEPT = 512
CONTEXTS = 2  # so many overflows in a row are a failed turn
PLAN_WINDOW_US = 5 * HOUR
LATELY = 5  # so many of the last turns are told to people and to fresh sessions
FRESH = "You go on in a fresh session."


class Proof(Struct, frozen=True):
    tree: str
    passed: bool
    failing: int | None = None
    summary: str = ""
    commands: tuple[e.ProofCommand, ...] = ()
    at: int = 0
    fingerprint: str = ""


def after_prepare(run: Run, made: e.Prepared) -> Run:
    tree = made.tree or made.base_tree
    return replace(
        run,
        prepared=not made.error,
        sandbox=made.sandbox,
        base_tree=made.base_tree,
        tree=tree,
        seen=tuple(dict.fromkeys(t for t in (made.base_tree, tree) if t)),
        changed=union(run.changed, made.changed),
        lines=run.lines + made.lines,
    )


def after_commit(run: Run, done: e.CommitEnded) -> Run:
    certificate = done.certificate or run.certificate
    if done.outcome == "committed":
        return replace(run, committed=done, certificate=certificate)
    return replace(run, certificate=certificate, told=(*run.told, f"The commit was refused:\n{done.reason}"))


def land_ordered(run: Run, event: e.LandOrdered) -> Run:
    return replace(run, at=event.at, landing=event)


def landed(run: Run, event: e.Landed) -> Run:
    landings = {**run.landings, event.branch: event.commit}
    return replace(run, at=event.at, landing=None, landings=landings)


def after_child(run: Run, child: e.ChildEnded) -> Run:
    return replace(
        run,
        child="",
        tree=child.tree or run.tree,
        below=None if child.end == "success" else child.stop,
        barren=run.barren + int(child.turns == 0),
    )


def after_restore(run: Run, act: e.Act | None, back: e.Restored) -> Run:
    """A change that a person let stand is the work that the turn had done; one that a person made is theirs."""
    changed = tuple(dict.fromkeys((*run.changed, *back.changed)))
    run = replace(run, tree=back.tree, todo=None, changed=changed, lines=run.lines + back.lines)
    if act is None or act.why not in ("approved", "hand-back"):
        return run
    run = replace(run, excused=run.changed, excused_lines=run.lines, deleted=0)
    if back.tree in run.seen:
        return run
    return replace(run, seen=(*run.seen[-TREES_KEPT:], back.tree), progressed=True)


def after_turn(run: Run, act: e.Act | None, turn: e.TurnEnded) -> Run:
    role = act.do.partition(":")[2] if act else ""
    key = played_key(act) if act else "|"
    run = replace(
        run,
        spent=run.spent.plus(turn.usage),
        played={**run.played, key: run.played.get(key, 0) + 1},
        sessions={**run.sessions, key: turn.session} if turn.session else run.sessions,
        message=turn.message or run.message,
        told=(*_unheard(act, turn), *run.told, *turn.notes),
        last_error=turn.error or run.last_error,
        contexts=_contexts(run, turn.verdict),
        limits=min(run.limits + 1, 2) if turn.verdict in WAITS else 0,
        changed=union(run.changed, turn.changed),
        lines=run.lines + turn.lines,
        deleted=run.deleted + turn.deleted,
        findings=entered(run.findings, role, turn.claim.findings),
        disputes=disputed(run.disputes, run.findings, role, turn.claim.findings),
        **_plan(run, turn),
    )
    if turn.verdict == "context":
        run = replace(run, sessions=_without(run.sessions, key))
    if costs_nothing(run, turn):
        return replace(run, tree=turn.tree or run.tree)
    run = replace(
        run,
        turn=run.turn + 1,
        granted=tuple(call for call in run.granted if not call.startswith("once:")),
        exit_signal=turn.claim.finished or turn.claim.signal in ("DONE", "PASS"),
        indicators=turn.claim.indicators,
        lately=(*run.lately[1 - LATELY :], _line(run, role, turn)),
        turn_costs=(*run.turn_costs[-99:], turn.usage.cost_uusd),
        turn_tokens=(*run.turn_tokens[-99:], turn.usage.tokens),
        retries=run.retries + 1 if turn.verdict in (*FAILED, "context") else 0,
        error_before=(run.error, run.error_count),
        **_counted_error(run.error, run.error_count, turn.fingerprint),
    )
    return _progress(run, role, turn)


def _plan(run: Run, turn: e.TurnEnded) -> dict[str, int]:
    """How much of the plan's window is used; who says no instant of reset has one of the usual length."""
    if turn.plan_percent is None:
        return {}
    return {"plan_percent": turn.plan_percent, "plan_reset_at": turn.plan_reset_at or run.at + PLAN_WINDOW_US}


def _contexts(run: Run, verdict: str) -> int:
    """Overflows in a row; a limit between two of them is no turn between them."""
    if verdict == "context":
        return run.contexts + 1
    return run.contexts if verdict in FREE else 0


def _unheard(act: e.Act | None, turn: e.TurnEnded) -> tuple[str, ...]:
    """What was told to a turn that came to nothing is told to the one that takes its place."""
    return act.told if act and turn.verdict in (*FREE, *FAILED) else ()


def _line(run: Run, role: str, turn: e.TurnEnded) -> str:
    """One of the last turns, in a line."""
    shown = ", ".join(turn.changed[:3]) + (" …" if len(turn.changed) > 3 else "")
    ended = "" if turn.verdict == "ok" else f", ended as {turn.verdict}"
    said = next((line.strip() for line in turn.message.splitlines() if line.strip()), "")
    words = f": “{said[:120]}”" if said else ""
    return f"turn {run.turn + 1} ({role}) changed {shown or 'nothing'}{ended}{words}"


def costs_nothing(run: Run, turn: e.TurnEnded) -> bool:
    """A limit costs neither a turn nor a failure; a context that overflows again and again does."""
    return turn.verdict in FREE and not (turn.verdict == "context" and run.contexts >= CONTEXTS)


def waits_for_answer(turn: e.TurnEnded) -> bool:
    """It ended with an open question or permission: it counts for nothing (CTO-11)."""
    return bool(turn.claim.ask) or turn.verdict == "needs_approval" or turn.claim.reading == "blocked"


def _progress(run: Run, role: str, turn: e.TurnEnded) -> Run:
    """A tree never seen in this run is progress; one seen before is not, and neither are words (CTO-11)."""
    tree = turn.tree or run.tree
    if role == "author":  # what was said of an earlier tree, or in the other place, is no longer said
        run = replace(run, done_tree=tree if turn.claim.signal == "DONE" else "")
    if role in READ_ONLY_ROLES or waits_for_answer(turn):
        return replace(run, tree=tree)
    fresh = bool(tree) and tree not in run.seen
    return replace(
        run,
        tree=tree,
        seen=(*run.seen[-TREES_KEPT:], tree) if fresh else run.seen,
        progressed=fresh,
        no_progress=0 if fresh else run.no_progress + 1,
        moved_tree=not fresh and (run.moved_tree or tree != run.tree),
    )


def after_proof(run: Run, act: e.Act | None, proof: e.ProofEnded) -> Run:
    summary = proof.invalid or proof.summary
    known = Proof(proof.tree, proof.passed, proof.failing, summary, proof.commands, run.at, proof.fingerprint)
    if act and act.why == "baseline":
        return replace(run, baselined=True, baseline=proof.failing, fewest=proof.failing, proof=known)
    fewer = proof.failing is not None and (run.fewest is None or proof.failing < run.fewest)
    run = replace(run, proof=known, fewest=proof.failing if fewer else run.fewest)
    if fewer:
        run = replace(run, progressed=True, no_progress=0, moved_tree=False)
    return run if proof.passed else disproved(run, proof.fingerprint, proof.summary)


def disproved(run: Run, fingerprint: str, summary: str) -> Run:
    """The failing proof after a turn is its error, also where the tree was known to fail."""
    before, count = run.error_before
    counted = _counted_error(before, count, fingerprint)
    return replace(run, last_error=summary or run.last_error, **counted)


def _counted_error(last: str, count: int, now: str) -> dict[str, Any]:
    return {"error": now, "error_count": (count + 1 if now == last else 1) if now else 0}


def played_key(act: e.Act) -> str:
    """Under which an agent's sessions and finished turns are kept."""
    return f"{act.agent}|{act.do.partition(':')[2]}"


def union(old: tuple[str, ...], new: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*old, *new))) if new else old


def _without(sessions: dict[str, str], key: str) -> dict[str, str]:
    return {k: v for k, v in sessions.items() if k != key}
