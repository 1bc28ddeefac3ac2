"""`review`: DONE needs a proof, PASS needs a proof, FAIL fails, anything else goes round; the findings ledger."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from flyball.domain import events as e
from support import Case, bad, check, failing, passing, says, writes

AGENTS = {"default": "script:x", "author": "script:a", "reviewer": "script:r"}
OK = says("PASS")


def pair(path: str, codes: str, author: Any, reviewer: Any = OK, gate: Any = passing, **more: Any) -> Case:
    """The states are abbreviated: w is working, r is reviewing, c is complete, f is failed."""
    names = {"w": "working", "r": "reviewing", "c": "complete", "f": "failed", "i": "init"}
    plays = {"agent:author": author, "agent:reviewer": reviewer, "proof:gate": gate}
    given = {"agents": AGENTS, **more.pop("given", {})}
    return Case(" ".join(names[message] for message in path), codes, plays, "review", given=given, **more)


W, D = writes(), writes(signal="DONE")
INNER = {"owner": False, "tree": "base"}
SIGNALS = {
    "DONE, proved": pair("iwc", "completed", D),
    "DONE, not proved": pair("iwrwc", "completed", D, says("", "look here"), [failing(summary="E 1"), passing], hears=(("agent:reviewer", 0, "E 1"), ("agent:author", 1, "look here"))),
    "DONE, no proof command": pair("iwrc", "completed_unproven", D, given={"proof": ()}),
    "DONE, always reviewed": pair("iwrc", "completed", D, given={"review": "always"}),
    "DONE, in another's checkout": pair("iwc", "completed", D, event=INNER, does="check agent:author"),
    "DONE, there and without a proof": pair("iwc", "completed_unproven", D, event=INNER, given={"proof": ()}),
    "DONE, the parent says always": pair("iwrc", "completed", D, event={**INNER, "options": {"review": "always"}}),
    "PASS, not proved": pair("iwrwrc", "completed", W, OK, [failing(), passing]),
    "the author FAILs": pair("iwf", "failed.review", writes(signal="FAIL", message="x" + "y" * 500)),
    "the reviewer FAILs": pair("iwrf", "failed.review", W, says("FAIL")),
    **{f"the reviewer says {word or 'nothing'}": pair("iwrwrc", "completed", W, [says(word, "line 3"), OK], hears=(("agent:author", 1, "line 3"),)) for word in ("", "DONE", "LGTM")},
    **{f"the author says {word or 'nothing'}": pair("iwrc", "completed", writes(signal=word, message="Here."), hears=(("agent:reviewer", 0, "Here."),)) for word in ("", "PASS", "done")},
    "outcomes in words are not read": pair("iwrwrc", "completed", writes(outcome="done"), [says(outcome="passed"), OK]),
    **{f"{n} iterations": pair("i" + "wr" * n + "f", "limit.iterations", W, says(), limits={"iterations": n}, numbers=f"{n} {n + 1}") for n in (1, 3)},
    "ten unless told": pair("i" + "wr" * 10 + "f", "limit.iterations", W, says()),
    "PASS in the last": pair("iwrwrc", "completed", W, [says(), OK], limits={"iterations": 2}),
    "not proved in the last": pair("iwrf", "failed.tests", W, OK, failing(), limits={"iterations": 1}),
    "begun at reviewing": pair("rwrwrf", "limit.iterations", W, says(), event={**INNER, "start": "reviewing", "options": {"iterations": 3}}),
    "an option that is no number": pair("rwrf", "limit.iterations", W, says(), limits={"iterations": 2}, event={**INNER, "start": "reviewing", "options": {"iterations": True}}),
    "an agent that hangs": pair("iwf", "timeout.idle", bad("hung")),
    "an agent over its time": pair("iwf", "timeout.phase", bad("timeout")),
    "a stall asks": pair("iwrwrw", "loop.no_progress", says(), says(), limits={"no_progress": 2}),
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNALS)
def test_what_the_signals_lead_to(name: str) -> None:
    check(SIGNALS[name])


@pytest.mark.parametrize(
    ("outcome", "code"),
    [("cannot_start", "failed.start"), ("failure", "failed.start"), ("ready", "completed")],
)
def test_a_check_that_fails_ends_in_failed(outcome: str, code: str) -> None:
    case = Case("init working reviewing complete" if outcome == "ready" else "init failed", code, {"init": e.CheckEnded(outcome=outcome, reason="no agent")}, "review")  # fmt: skip
    assert outcome == "ready" or "no agent" in check(case).run.stop.detail  # type: ignore[union-attr]


def test_a_failure_is_told_with_the_end_of_the_last_message() -> None:
    stop = check(SIGNALS["the author FAILs"]).run.stop
    assert stop and (stop.detail, stop.rule) == ("y" * 500, "failed")


# ---- consensus -----------------------------------------------------------------------------------------------

BOTH = {"consensus": True}
CONSENSUS = {
    "DONE and PASS": pair("iwrc", "completed", D, given=BOTH),
    "PASS alone": pair("iwrwrc", "completed", [W, D], given=BOTH, hears=(("agent:author", 1, "author"),)),
    "DONE of an earlier tree": pair("iwrwrwrc", "completed", [D, W, D], [says(), OK], given=BOTH),
    "DONE is not said again": pair("iwrwrf", "limit.iterations", [D, says()], [says(), OK], limits={"iterations": 2}, given=BOTH),
    "DONE and PASS, not proved": pair("iwrwrc", "completed", D, OK, [failing(), passing], given=BOTH),
    "PASS of a tree that moved": pair("iwrwrc", "completed", D, [writes(signal="PASS"), OK], given=BOTH),
}  # fmt: skip


@pytest.mark.parametrize("name", CONSENSUS)
def test_under_consensus_done_and_pass_are_of_the_same_tree(name: str) -> None:
    check(CONSENSUS[name])


@pytest.mark.parametrize(("given", "players"), [(BOTH, "arraar"), ({"review": "always"}, "ararar")])
def test_under_consensus_the_agents_change_places_each_iteration(given: dict[str, Any], players: str) -> None:
    played = check(pair("iwrwrwrc", "completed", D, [says(), says(), OK], given=given))
    assert "".join(a.agent[-1] for a in played.acts if a.agent) == players


def test_each_agent_goes_on_in_its_own_session() -> None:
    def turn(session: str, signal: str) -> Any:
        claim = e.Claim(signal=signal)
        return lambda r, a: e.TurnEnded(verdict="ok", tree=a.tree, session=session, claim=claim if a.resume else e.Claim())  # fmt: skip

    played = check(pair("iwrwrc", "completed", turn("sa", ""), turn("sr", "PASS")))
    sessions = [(a.session, a.resume) for a in played.acts if a.agent]
    assert sessions == [("", False), ("", False), ("sa", True), ("sr", True)]
    retried = check(pair("iwc", "completed", D, event={"sessions": {"script:a|author": "old"}}))
    assert [(a.session, a.resume) for a in retried.acts if a.agent] == [("old", True)]


# ---- the findings ledger ---------------------------------------------------------------------------------------


def found(status: str = "open", name: str = "", text: str = "x", **more: Any) -> e.Finding:
    return e.Finding(id=name, file="a.py", line=3, status=status, text=text, **more)


def notes(*findings: e.Finding, signal: str = "") -> Any:
    return says(signal, findings=findings)


def edits(*findings: e.Finding) -> Any:
    return writes(findings=findings)


FIXED, ACCEPTED, DISPUTED = (found(status, "F1") for status in ("fixed", "accepted", "disputed"))
ROUNDS: dict[str, tuple[Any, bool]] = {  # what the reviewer says in the second round; whether that is a PASS
    "fixed": (notes(FIXED), True),
    "accepted": (notes(ACCEPTED), True),
    "fixed, by its place": (notes(found("fixed")), True),
    "nothing": (notes(), False),
    "still open": (notes(found("open", "F1")), False),
    "fixed, and a new one": (notes(FIXED, found("open", "F2", "y")), False),
    "fixed, and a new one that is fixed": (notes(FIXED, found("fixed", "F2", "y")), False),
    "disputed": (notes(DISPUTED), False),
    "no such status": (notes(found("banana", "F1")), False),
}


def test_a_finding_that_comes_back_is_the_same_one_and_reopened() -> None:
    rounds = [
        notes(found()),
        notes(ACCEPTED, found(text="y")),
        notes(found()),
        notes(FIXED, found("fixed", "F2")),
    ]
    played = check(pair("i" + "wr" * 4 + "c", "completed", edits(), rounds))
    shown = [a.told[-1].splitlines()[1:] for a in played.acts if a.do == "agent:reviewer" and a.told]
    ledgers = [[f"{line.split()[0]} {line.split()[2]}" for line in lines] for lines in shown]
    assert ledgers == [["F1 open"], ["F1 accepted", "F2 open"], ["F1 open", "F2 open"]]


@pytest.mark.parametrize("name", ROUNDS)
def test_a_round_that_closes_all_that_was_open_is_read_as_pass(name: str) -> None:
    second, passes = ROUNDS[name]
    path, code = ("iwrwrc", "completed") if passes else ("iwrwrf", "limit.iterations")
    check(pair(path, code, edits(), [notes(found()), second], limits={"iterations": 2}))


SAID: dict[str, tuple[list[e.Finding], list[str]]] = {  # what the author says of F1; the ledger after it
    "fixed": ([FIXED], ["F1 open"]),
    "fixed with evidence": ([found("fixed", "F1", evidence="test_x")], ["F1 fixed test_x"]),
    "accepted": ([found("accepted", "F1", evidence="trust me")], ["F1 open"]),
    "disputed": ([DISPUTED], ["F1 disputed"]),
    "reopened": ([found("open", "F1")], ["F1 open"]),
    "a new one": ([found(text="y")], ["F1 open", "F2 open"]),
    "the same at another place": ([e.Finding(file="b.py", line=3, text="x")], ["F1 open", "F2 open"]),
    "a new one that is disputed": ([found("disputed", text="y")], ["F1 open"]),
    "a new one by a name": ([found("open", "Q", "y")], ["F1 open", "Q open"]),
}


@pytest.mark.parametrize("name", SAID)
def test_only_the_reviewer_or_evidence_closes_a_finding(name: str) -> None:
    said, ledger = SAID[name]
    played = check(
        pair("iwrwrf", "failed.review", [edits(), edits(*said)], [notes(found()), notes(signal="FAIL")])
    )
    assert [f"{f.id} {f.status} {f.evidence}".strip() for f in played.run.findings] == ledger


def test_what_is_said_of_a_finding_later_keeps_its_words_and_its_evidence() -> None:
    first, later = found(evidence="seen"), found("fixed", "F1", "other words")
    played = check(pair("iwrwrc", "completed", edits(), [notes(first), notes(later)]))
    assert [(f.text, f.evidence, f.status, f.file) for f in played.run.findings] == [
        ("x", "seen", "fixed", "a.py")
    ]


def test_numbers_are_given_once_and_the_newest_two_hundred_are_kept() -> None:
    named = [found("open", "F2", "n"), found(text="a"), found(text="b")]
    played = check(pair("iwrf", "failed.review", edits(), notes(*named, signal="FAIL")))
    assert [f.id for f in played.run.findings] == ["F2", "F1", "F3"]
    many = [found("open", f"Q{n}", f"t{n}") for n in range(205)]
    played = check(pair("iwrf", "failed.review", edits(), notes(*many, signal="FAIL")))
    assert (len(played.run.findings), played.run.findings[0].id) == (200, "Q5")


def test_the_reviewer_alone_is_shown_the_ledger_and_each_round() -> None:
    rounds = [notes(found(severity="high")), notes(found("open", "F1")), notes(FIXED)]
    played = check(pair("iwrwrwrc", "completed", edits(), rounds))
    shown = [(a.do[6:], "\n".join(a.told).count("F1 high open a.py:3 x")) for a in played.acts if a.agent]
    assert shown == [
        ("author", 0),
        ("reviewer", 0),
        ("author", 0),
        ("reviewer", 1),
        ("author", 0),
        ("reviewer", 1),
    ]


DISPUTES = {
    "twice": pair("iwrwrw", "wait.question", [edits(), edits(DISPUTED)], notes(found("open", "F1"))),
    "by its place": pair("iwrwrw", "wait.question", [edits(), edits(found("disputed"))], notes(found("open", "F1"))),
    "settled by a person": pair("iwrwrwrc", "wait.question completed", [edits(), edits(DISPUTED), edits(DISPUTED), edits()], [*[notes(found("open", "F1"))] * 2, OK], answers=("answer the reviewer is right",)),
    "counted anew after an answer": pair("iwrwrwrw", "wait.question*2", [edits(), edits(DISPUTED)], notes(found("open", "F1")), answers=("answer no",)),
    "by the reviewer alone": pair("iwrwrwrwrf", "limit.iterations", edits(), [notes(found()), notes(DISPUTED)], limits={"iterations": 4}),
    "two findings, once each": pair("iwrwrwrf", "failed.review", [edits(), edits(DISPUTED), edits(found("disputed", "F2"))], [notes(found(), found(text="y")), notes(found("open", "F1")), says("FAIL")]),
}  # fmt: skip


GRAVE = e.Finding(id="S1", file="a.py", line=3, severity="high", kind="security", text="SQL from a form")
ALARMS = {
    "by the reviewer": pair("iwr", "wait.escalation", edits(), notes(GRAVE)),
    "by the author": pair("iw", "wait.escalation", edits(GRAVE)),
    "seen once, it does not ask again": pair("iwrwrc", "wait.escalation completed", edits(), [notes(GRAVE), notes(GRAVE), notes(replace(GRAVE, status="fixed"))], answers=("answer bind it",)),
    "a second one asks again": pair("iwr", "wait.escalation*2", edits(), [notes(GRAVE), notes(replace(GRAVE, id="S2"))], answers=("go-on",)),
    "not high": pair("iwrf", "limit.iterations", edits(), notes(replace(GRAVE, severity="medium")), limits={"iterations": 1}),
    "not of security": pair("iwrf", "limit.iterations", edits(), notes(replace(GRAVE, kind="")), limits={"iterations": 1}),
    "fixed at once": pair("iwrwrc", "completed", [edits(found()), edits()], [notes(found("open", "F1")), notes(replace(GRAVE, id="F1", status="fixed"))]),
}  # fmt: skip


@pytest.mark.parametrize("name", ALARMS)
def test_a_high_security_finding_stops_at_once(name: str) -> None:
    """CTO-7. An answer is for the finding that was shown, and the turn is taken again."""
    played = check(ALARMS[name])
    stopped = [event.stop.rule for event in played.of(e.Stopped)]
    assert ("security finding" in stopped) == ("wait.escalation" in ALARMS[name].codes)


@pytest.mark.parametrize("name", DISPUTES)
def test_the_same_finding_disputed_twice_goes_to_a_person(name: str) -> None:
    played = check(DISPUTES[name])
    assert played.code != "wait.question" or (played.run.question and "F1" in played.run.question.text)
