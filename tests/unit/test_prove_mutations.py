"""A prover is worth what it finds: each deliberate break of a rule must be found, and named by its law."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import resources
from typing import Any

import pytest
from msgspec.structs import replace

from flyball.core import decide, mail, stops, transition as onwards, turns
from flyball.domain import events as e, messages
from flyball.domain.machine import parse
from flyball.lab.prove import Broken, prove
from flyball.machines import shipped
from flyball.state import fold as runs, tally
from flyball.state.fold import Events
from flyball.state.run import Halt, Restore, Run, without


@contextmanager
def instead(place: Any, name: str, rule: Any) -> Iterator[None]:
    """For a while another rule stands in its place."""
    kept = getattr(place, name)
    setattr(place, name, rule)
    try:
        yield
    finally:
        setattr(place, name, kept)


@contextmanager
def folded(kind: type[e.Event], spoil: Callable[[Run, Run, Any], Run]) -> Iterator[None]:
    """A fact of this kind is folded wrongly: `spoil(before, after, event)`."""
    kept = runs._APPLY[kind]
    runs._APPLY[kind] = lambda run, event: spoil(run, kept(run, event), event)
    try:
        yield
    finally:
        runs._APPLY[kind] = kept


def found(machine: str, premise: str) -> Broken:
    broken = prove(shipped(machine), only=[premise]).broken
    assert broken is not None, "the break was not found"
    return broken


def allowed(finished: decide.Finished) -> decide.Finished:
    ruling = finished.ruling
    return replace(finished, ruling=replace(ruling, verdict="allow", rule="")) if ruling else finished


# ---- the breaks --------------------------------------------------------------------------------------------------

react, follow, gate, stopped_by = decide.react, decide.follow, onwards._gate, turns.stopped_by
due, entry_limit, most, hear = decide.due, onwards._entry_limit, Run.most, mail.hear


def _unguarded_in(*states: str) -> Callable[..., Any]:
    """The guard's word is lost after a turn in these states."""
    return lambda run, finished, now: react(run, allowed(finished) if run.state in states else finished, now)


def _waives_everything(facts: Events, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling | None) -> Any:
    return stopped_by(facts, act, turn, None if facts.run.evidence.waivers else ruling)


def _denies_nothing(facts: Events, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling | None) -> Any:
    return stopped_by(facts, act, turn, None if ruling and ruling.verdict == "deny" else ruling)


def _asks_nothing(facts: Events, act: e.Act, turn: e.TurnEnded, ruling: e.Ruling | None) -> Any:
    return stopped_by(facts, act, turn, None if ruling and ruling.verdict == "ask" else ruling)


def _more(key: str, by: int) -> Callable[[Run, str], int | None]:
    def wrong(run: Run, asked: str) -> int | None:
        value = most(run, asked)
        return value + by if asked == key and value is not None else value

    return wrong


def _no_gate_for(outcome: str) -> Callable[..., Any]:
    return lambda facts, given, data: given != outcome and gate(facts, given, data)


def _pauses_once(facts: Events, outcome: str, *rest: Any, **more: Any) -> Any:
    if facts.run.iteration > 1:
        more["past_breakpoint"] = True
    return follow(facts, outcome, *rest, **more)


def _forgets_cancel(run: Run, now: int) -> Any:
    return due(replace(run, agenda=without(run.agenda, Halt)) if run.asked == "cancel" else run, now)


def _goes_on_after_the_end(run: Run, now: int) -> Any:
    return due(replace(run, status="running") if run.status == "ended" else run, now)


def _unbound(run: Run, body: bytes, number: int, now: int) -> Any:
    message = messages.decode(body)
    if isinstance(message, messages.Answer):
        body = messages.encode(replace(message, shown=""))
    return hear(run, body, number, now)


def _count_nothing(facts: Events, outcome: str, *_: Any) -> str:
    return outcome


def _keep(*names: str) -> Callable[[Run, Run, Any], Run]:
    return lambda before, after, event: replace(after, **{n: getattr(before, n) for n in names})


def _turn_counted(before: Run, after: Run, event: Any) -> Run:
    return replace(after, turn=after.turn + 1)


def _retries_forgotten(before: Run, after: Run, event: Any) -> Run:
    return replace(after, tries=replace(after.tries, retries=0))


def _nothing_put_back(before: Run, after: Run, event: Any) -> Run:
    return replace(after, agenda=without(after.agenda, Restore))


def _any_tree_proved(run: Run) -> bool:
    known = run.evidence.proof
    return run.owner and bool(run.settings.proof) and not (known and known.passed and known.examined)


def _examined_at_once(before: Run, after: Run, event: Any) -> Run:
    known = after.evidence.proof
    proof = replace(known, examined=True) if known else None
    return replace(after, evidence=replace(after.evidence, proof=proof))


def _pass_is_done(run: Run, role: str, turn: e.TurnEnded) -> Any:
    return next(name for name, to in run.here.on.items() if to == "complete"), {}, ()


def _fail_is_nothing(run: Run, role: str, turn: e.TurnEnded) -> Any:
    claim = turn.claim if turn.claim.signal != "FAIL" else e.Claim()
    return pair(run, role, replace(turn, claim=claim))


def _grants_anyway(before: Run, after: Run, event: e.Answered) -> Run:
    call = before.stop.call if before.stop and event.verb == "reject" else ""
    grants = (*after.evidence.grants, call) if call else after.evidence.grants
    return replace(after, evidence=replace(after.evidence, grants=grants))


def _keeps_grants(before: Run, after: Run, event: Any) -> Run:
    return replace(after, evidence=replace(after.evidence, grants=before.evidence.grants))


pair = turns._pair

BREAKS: dict[str, tuple[str, str, str, Callable[[], Any]]] = {
    # what is broken: (machine, premise, the law that must be named, the break)
    "the guard's ruling is ignored after fix": (
        "build",
        "every result",
        "ALO-9",
        lambda: instead(decide, "react", _unguarded_in("fix")),
    ),
    "a deny goes on": (
        "build",
        "every result",
        "ALO-1",
        lambda: instead(turns, "stopped_by", _denies_nothing),
    ),
    "the guard's ask goes on": (
        "build",
        "every result",
        "ALO-1",
        lambda: instead(turns, "stopped_by", _asks_nothing),
    ),
    "a waiver is not bound to its diff": (
        "build",
        "every result",
        "ALO-1",
        lambda: instead(turns, "stopped_by", _waives_everything),
    ),
    "an unjudged change goes on": (
        "build",
        "every result",
        "ALO-1",
        lambda: instead(turns, "unjudged", lambda act, result: None),
    ),
    "an answer renews nothing": (
        "build",
        "crashes",
        "HUMAN-2",
        lambda: instead(runs, "renewed", lambda run: run),
    ),
    "one iteration too many": (
        "build",
        "crashes",
        "ALO-7",
        lambda: instead(Run, "most", _more("iterations", 1)),
    ),
    "one iteration too few": (
        "build",
        "crashes",
        "ALO-7",
        lambda: instead(Run, "most", _more("iterations", -1)),
    ),
    "one fix too many": ("build", "crashes", "ALO-3", lambda: instead(Run, "most", _more("fix", 1))),
    "one fix too few": ("build", "crashes", "ALO-3", lambda: instead(Run, "most", _more("fix", -1))),
    "iterations are not counted": ("build", "crashes", "ALO-6", lambda: folded(e.Moved, _keep("iteration"))),
    "retries without end": ("review", "crashes", "RETRY", lambda: folded(e.ActFinished, _retries_forgotten)),
    "one retry too many": ("review", "crashes", "RETRY", lambda: instead(Run, "most", _more("retries", 1))),
    "one retry too few": ("review", "crashes", "RETRY", lambda: instead(Run, "most", _more("retries", -1))),
    "the gate is skipped on one edge": (
        "review",
        "every result",
        "SYS-8",
        lambda: instead(onwards, "_gate", _no_gate_for("done")),
    ),
    "doubts about a proof are not asked about": (
        "loop",
        "every result",
        "SYS-8",
        lambda: instead(onwards, "doubted", lambda run: False),
    ),
    "a proof counts before it is examined": (
        "build",
        "every result",
        "SYS-8",
        lambda: folded(e.ActFinished, _examined_at_once),
    ),
    "a proof of another tree passes the gate": (
        "loop",
        "every result",
        "SYS-8",
        lambda: instead(onwards, "unproved", _any_tree_proved),
    ),
    "a breakpoint is skipped on the second visit": (
        "build",
        "breakpoints",
        "ALO-4",
        lambda: instead(decide, "follow", _pauses_once),
    ),
    "an interruption costs a turn": (
        "build",
        "crashes",
        "SYS-5",
        lambda: folded(e.ActInterrupted, _turn_counted),
    ),
    "an interrupted change stays": (
        "build",
        "crashes",
        "SYS-5",
        lambda: folded(e.ActInterrupted, _nothing_put_back),
    ),
    "interruptions never ask": ("build", "crashes", "SYS-5", lambda: instead(decide, "INTERRUPTIONS", 8)),
    "a rejected change stays": (
        "build",
        "every result",
        "SYS-5",
        lambda: folded(e.RestoreOrdered, _nothing_put_back),
    ),
    "no phase has a time limit": (
        "build",
        "crashes",
        "ALO-10",
        lambda: instead(decide, "phase_us", lambda run: 0),
    ),
    "a skipped test is not journaled": (
        "build",
        "no proof",
        "ALO-2",
        lambda: instead(onwards, "UNTESTED", "never"),
    ),
    "a cancel is forgotten": (
        "loop",
        "pause and cancel",
        "HUMAN-3",
        lambda: instead(decide, "due", _forgets_cancel),
    ),
    "an ended run goes on": (
        "loop",
        "crashes",
        "HUMAN-3",
        lambda: instead(decide, "due", _goes_on_after_the_end),
    ),
    "an answer to something else is taken": (
        "loop",
        "every result",
        "HUMAN-2",
        lambda: instead(mail, "hear", _unbound),
    ),
    "done without indicators": (
        "loop",
        "every result",
        "LOOP-1",
        lambda: instead(turns, "missing_for_exit", lambda run, claim: []),
    ),
    "one turn too many": ("loop", "crashes", "LOOP-1", lambda: instead(Run, "most", _more("turns", 1))),
    "the circuit never opens": (
        "loop",
        "every result",
        "LOOP-3",
        lambda: instead(stops, "stalled", lambda run: None),
    ),
    "done after one probe": ("loop", "probes", "ALO-1", lambda: instead(stops, "PROBE_PASSES", 1)),
    "the last turn before asking, again and again": (
        "loop",
        "probes",
        "LOOP-3",
        lambda: instead(stops, "_may_finish", lambda run: True),
    ),
    "probes without end": ("loop", "probes", "LOOP-3", lambda: instead(stops, "PROBES", 9)),
    "a rate limit costs a turn": (
        "loop",
        "every result",
        "LOOP-5",
        lambda: instead(tally, "costs_nothing", lambda run, turn: False),
    ),
    "the budget is not looked at": (
        "review",
        "money",
        "GUARD-4",
        lambda: instead(decide, "spent_up", lambda run: None),
    ),
    "anything from the author completes": (
        "review",
        "every result",
        "PAIR-1",
        lambda: instead(turns, "_pair", _pass_is_done),
    ),
    "FAIL is not heard": (
        "review",
        "every result",
        "PAIR-1",
        lambda: instead(turns, "_pair", _fail_is_nothing),
    ),
    "files of an earlier iteration are forgotten": (
        "build",
        "crashes",
        "ALO-5",
        lambda: folded(
            e.Moved, lambda _, after, event: replace(after, checkout=replace(after.checkout, changed=()))
        ),
    ),
    "an iteration is taken back": (
        "build",
        "crashes",
        "ALO-8",
        lambda: folded(e.ActInterrupted, lambda before, after, event: replace(after, acts=before.acts - 1)),
    ),
    "what was granted once stays granted": (
        "loop",
        "every result",
        "GUARD-2",
        lambda: folded(e.ActFinished, _keeps_grants),
    ),
    "a rejected call is granted": (
        "loop",
        "every result",
        "GUARD-2",
        lambda: folded(e.Answered, _grants_anyway),
    ),
    "failures are not counted": (
        "task",
        "in another's checkout",
        "BOUND",
        lambda: instead(onwards, "_count_failure", _count_nothing),
    ),
    "interventions are not counted": (
        "task",
        "in another's checkout",
        "TASK-9",
        lambda: instead(runs, "_interventions", lambda run: 0),
    ),
}


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_rule_is_found_and_named(name: str) -> None:
    """That the law holds of the rules as they are, `flyball prove` shows."""
    machine, premise, law, spoil = BREAKS[name]
    with spoil():
        broken = found(machine, premise)
    assert (broken.law, bool(broken.steps)) == (law, True), broken.says


def _table(name: str, old: str, new: str) -> Any:
    text = resources.files("flyball.machines").joinpath(f"{name}.toml").read_text("utf-8")
    assert old in text
    return parse(tomllib.loads(text.replace(old, new, 1)))


def test_a_table_that_places_unproven_in_success_is_found() -> None:
    proof = prove(_table("build", 'unproven = "write"', 'unproven = "complete"'), only=["every result"])
    assert proof.broken is not None
    assert proof.broken.law in ("SYS-3", "SYS-8")


def test_a_table_without_a_bound_is_found() -> None:
    proof = prove(_table("build", "iterations = 10", ""), only=["crashes"])
    assert proof.broken is not None
    assert proof.broken.law == "BOUND"
    assert proof.broken.steps[-1].state in ("write", "test", "fix", "verify")
