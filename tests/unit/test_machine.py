"""The five machines are the tables that they are said to be; a machine with a fault is refused in a sentence."""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest

from flyball.domain import events as e
from flyball.domain.faults import faults
from flyball.domain.machine import Machine, edges, parse
from flyball.errors import InvalidTransition, MachineFault, NotFound
from flyball.machines import SHIPPED, find, from_text, names, shipped
from flyball.state.fold import apply, begin
from flyball.testing import rehearse
from support import begun

NINE = [
    *("pending", "assigned", "planning", "validated", "in_progress", "testing", "quality_review"),
    *("approved", "committing"),
]
FORWARD = list(zip(NINE, [*NINE[1:], "completed"], strict=True))

EDGES: dict[str, set[tuple[str, str]]] = {
    "cto": {
        ("IDLE", "PLANNING"),
        ("IDLE", "WAITING_FOR_HUMAN"),
        ("PLANNING", "EXECUTING"),
        ("PLANNING", "WAITING_FOR_HUMAN"),
        ("PLANNING", "IDLE"),
        ("EXECUTING", "WAITING_FOR_HUMAN"),
        ("EXECUTING", "PLANNING"),
        ("EXECUTING", "IDLE"),
        ("WAITING_FOR_HUMAN", "EXECUTING"),
        ("WAITING_FOR_HUMAN", "PLANNING"),
        ("WAITING_FOR_HUMAN", "IDLE"),
    },
    "task": {
        *FORWARD,
        ("planning", "planning"),
        ("testing", "in_progress"),
        ("quality_review", "in_progress"),
        ("committing", "in_progress"),
        *((state, "cto_intervention") for state in NINE),
        *(("cto_intervention", state) for state in NINE),
        ("cto_intervention", "human_escalation"),
        *(("human_escalation", state) for state in NINE),
        ("human_escalation", "completed"),
    },
    "build": {
        ("plan", "write"),
        ("write", "test"),
        ("write", "verify"),
        ("test", "fix"),
        ("test", "verify"),
        ("fix", "test"),
        ("fix", "write"),
        ("verify", "complete"),
        ("verify", "write"),
    },
    "loop": {
        ("closed", "closed"),
        ("closed", "open"),
        ("closed", "complete"),
        ("open", "half_open"),
        ("half_open", "closed"),
        ("half_open", "open"),
        ("half_open", "complete"),
    },
    "review": {
        ("init", "working"),
        ("init", "failed"),
        ("working", "reviewing"),
        ("working", "complete"),
        ("working", "failed"),
        ("reviewing", "working"),
        ("reviewing", "complete"),
        ("reviewing", "failed"),
    },
}
STATES = {
    "cto": "IDLE PLANNING EXECUTING WAITING_FOR_HUMAN",
    "task": " ".join([*NINE, "completed cto_intervention human_escalation"]),
    "build": "plan write test fix verify complete",
    "loop": "closed half_open open complete",
    "review": "init working reviewing complete failed",
}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_states_and_edges_are_exactly_those(name: str) -> None:
    machine = shipped(name)
    assert (set(machine.states), set(edges(machine))) == (set(STATES[name].split()), EDGES[name])


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_machine_has_no_fault(name: str) -> None:
    assert faults(shipped(name)) == []


@pytest.mark.parametrize("name", SHIPPED)
def test_a_transition_that_is_not_in_the_table_is_refused_by_name(name: str) -> None:
    machine = shipped(name)
    pairs = [(a, b) for a in machine.states for b in machine.states if (a, b) not in EDGES[name]]
    assert pairs
    for source, target in pairs:
        with pytest.raises(InvalidTransition, match=f"'{source}' to '{target}'"):
            machine.check(source, target)


def test_a_refused_transition_changes_nothing() -> None:
    run = begin(begun("build"))
    with pytest.raises(InvalidTransition):
        apply(run, e.Moved(at=1, source="plan", target="complete", outcome="planned"))
    assert run == begin(begun("build"))


def test_no_state_of_cto_follows_itself() -> None:
    assert not [a for a, b in edges(shipped("cto")) if a == b]


@pytest.mark.parametrize(
    ("name", "outcomes", "states"),
    [
        ("build", "planned written failed fixed passed rejected written passed accepted", None),
        ("build", "planned untested accepted", "plan write verify complete"),
        ("build", "planned written failed rewrite", "plan write test fix write"),
        ("loop", "worked worked stalled answered progressed done", None),
        ("loop", "stalled answered stalled answered done", "closed open half_open open half_open complete"),
        (
            "review",
            "ready worked rejected worked passed",
            "init working reviewing working reviewing complete",
        ),
        ("review", "ready failed", "init working failed"),
        ("review", "cannot_start", "init failed"),
    ],
)
def test_outcomes_lead_where_the_table_says(name: str, outcomes: str, states: str | None) -> None:
    gone = rehearse(shipped(name), *outcomes.split())
    assert len(gone) == len(outcomes.split()) + 1
    assert states is None or gone == states.split()
    assert all(pair in EDGES[name] for pair in itertools.pairwise(gone))


def test_the_limits_and_times_are_those_of_the_documents() -> None:
    minute = 60_000_000
    assert shipped("build").most == {"iterations": 10, "fix": 3}
    assert shipped("loop").most == {"turns": 50, "no_progress": 5, "same_error": 10, "probe": 5}
    assert shipped("review").most == {"iterations": 10}
    assert shipped("task").most == {"failures": 3, "cto": 2}
    alerts = [shipped("task").alert_us.get(s, 0) // minute for s in STATES["task"].split()]
    assert alerts == [60, 15, 30, 15, 240, 30, 30, 10, 15, 0, 60, 0]


# ---- faults ----------------------------------------------------------------------------------------------

ANYWHERE = {
    "blocked": "@blocked",
    "exhausted": "@fail",
    "timeout": "@fail",
    "error": "@fail",
    "cancel": "@cancel",
}


def table(**changes: Any) -> dict[str, Any]:
    """A small machine without a fault, changed."""
    made: dict[str, Any] = {
        "name": "mine",
        "start": "write",
        "states": {
            "write": {"do": "agent:coder", "on": {"written": "judge"}},
            "judge": {
                "do": "agent:critic",
                "on": {"accepted": "done", "rejected": "write", "unproven": "write"},
            },
            "done": {"end": "success"},
        },
        "anywhere": {"on": dict(ANYWHERE)},
        "most": {"turns": 9},
    }
    made.update(changes)
    return made


def with_state(name: str, line: Any, **more: Any) -> dict[str, Any]:
    made = table(**more)
    made["states"] = {**made["states"], name: line}
    return made


def test_the_small_machine_has_no_fault() -> None:
    assert faults(parse(table())) == []


JUDGE = {"accepted": "done", "rejected": "write", "unproven": "write"}
FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "missing start": (table(start="nowhere"), "The start 'nowhere' is not a state"),
    "missing state": (
        with_state("write", {"do": "agent:coder", "on": {"written": "nowhere"}}),
        "'write': 'written' leads to 'nowhere', which is not a state",
    ),
    "never entered": (
        with_state("lost", {"do": "agent:coder", "on": {"written": "judge"}}),
        "'lost' is never entered",
    ),
    "no way to an end": (
        with_state("write", {"do": "agent:coder", "on": {"written": "write"}}),
        "'write' has no way to an end",
    ),
    "no success": (with_state("done", {"end": "failure"}), "No state ends in success"),
    "no end at all": (
        table(states={"write": {"do": "agent:coder", "on": {"written": "write"}}}),
        "No state ends in success",
    ),
    "unplaced outcome": (
        table(anywhere={"on": {k: v for k, v in ANYWHERE.items() if k != "exhausted"}}),
        "'write' does not say where 'exhausted' leads",
    ),
    "a judge without rejected": (
        with_state("judge", {"do": "agent:critic", "on": {"accepted": "done", "unproven": "write"}}),
        "'judge' does not say where 'rejected' leads",
    ),
    "a CTO without escalate": (
        with_state("judge", {"do": "agent:cto", "on": {"retry": "done", "unproven": "write"}}),
        "'judge' does not say where 'escalate' leads",
    ),
    "a CTO who escalates to nobody": (
        with_state(
            "judge", {"do": "agent:cto", "on": {"retry": "done", "escalate": "write", "unproven": "write"}}
        ),
        "'judge': 'escalate' must lead to an end or to a state that asks",
    ),
    "a proof without failed": (
        with_state("judge", {"do": "proof", "on": {"passed": "done", "unproven": "write"}}),
        "'judge' does not say where 'failed' leads",
    ),
    "a child without success": (
        with_state("judge", {"do": "run:loop", "on": {"ended": "done", "unproven": "write"}}),
        "'judge' does not say where 'success' leads",
    ),
    "no place for unproven": (
        with_state("judge", {"do": "agent:critic", "on": {"accepted": "done", "rejected": "write"}}),
        "'judge' leads to a success end, so it must say where 'unproven' leads",
    ),
    "no place for unproven behind a group": (
        with_state(
            "judge",
            {"do": "agent:critic", "on": {"accepted": "any:ends", "rejected": "write"}},
            groups={"ends": ["done"]},
        ),
        "must say where 'unproven' leads",
    ),
    "unproven as success": (
        with_state("judge", {"do": "agent:critic", "on": {**JUDGE, "unproven": "done"}}),
        "'unproven' leads to the success end 'done'",
    ),
    "a limit as success": (
        table(anywhere={"on": {**ANYWHERE, "exhausted": "done", "unproven": "write"}}),
        "'exhausted' leads to the success end 'done'",
    ),
    "a limit that leads back to work": (
        table(anywhere={"on": {**ANYWHERE, "exhausted": "write"}}),
        "'exhausted' leads to 'write', which continues without a limit",
    ),
    "a limit that leads back": (
        table(anywhere={"on": {**ANYWHERE, "exhausted": "@back"}}),
        "'exhausted' leads to '@back', but nothing is left to repeat",
    ),
    "blocked as a state": (
        table(anywhere={"on": {**ANYWHERE, "blocked": "write"}}),
        "'blocked' leads to 'write', but a table cannot decide that. Write '@blocked'",
    ),
    "no bound": (table(most={}), "Nothing bounds the cycle write → judge → write"),
    "no bound on going back": (
        with_state(
            "judge",
            {"do": "agent:critic", "on": {**JUDGE, "rejected": "@back", "unproven": "@back"}},
            most={},
        ),
        "Nothing bounds the cycle judge → judge",
    ),
    "a bound that begins anew": (
        table(
            iteration="write",
            most={"judge": 3},
        ),
        "Nothing bounds the cycle write → judge → write",
    ),
    "a third failure that goes round": (
        table(
            most={"failures": 3},
            anywhere={"on": {**ANYWHERE, "third_failure": "write"}},
        ),
        "Nothing bounds the cycle",
    ),
    "unknown role": (
        with_state("write", {"do": "agent:wizard", "on": {"written": "judge"}}),
        "'write' names the role 'wizard'",
    ),
    "unknown act": (
        with_state("write", {"do": "sing", "on": {"written": "judge"}}),
        "'write' does 'sing', which does not exist",
    ),
    "an act with a name too many": (
        with_state("write", {"do": "proof:fast", "on": {"passed": "judge", "failed": "judge"}}),
        "'proof' takes no name",
    ),
    "a child without a machine": (
        with_state("write", {"do": "run:", "on": {"success": "judge"}}),
        "'write' must name the machine it runs",
    ),
    "no outcome": (with_state("write", {"do": "agent:coder"}), "'write' leads nowhere"),
    "neither acts nor ends": (
        with_state("write", {"on": {"written": "judge"}}),
        "neither does anything nor ends",
    ),
    "an end that acts": (
        with_state("done", {"end": "success", "do": "proof"}),
        "'done' ends, so it cannot do anything",
    ),
    "an end of its own kind": (with_state("done", {"end": "maybe"}), "neither does anything nor ends"),
    "unknown special": (
        table(anywhere={"on": {**ANYWHERE, "error": "@explode"}}),
        "'error' leads to '@explode', which does not exist",
    ),
    "missing group": (
        with_state("judge", {"do": "agent:critic", "on": {**JUDGE, "rejected": "any:where"}}),
        "leads to the group 'where', which is missing or empty",
    ),
    "empty group": (
        with_state(
            "judge", {"do": "agent:critic", "on": {**JUDGE, "rejected": "any:none"}}, groups={"none": []}
        ),
        "leads to the group 'none', which is missing or empty",
    ),
    "missing state in a group": (table(groups={"all": ["write", "nowhere"]}), "[groups] names 'nowhere'"),
    "missing state in within": (table(within={"5m": ["nowhere"]}), "[within] names 'nowhere'"),
    "missing state in alert": (table(alert={"5m": ["nowhere"]}), "[alert] names 'nowhere'"),
    "missing iteration": (table(iteration="nowhere"), "The iteration state 'nowhere' is not a state"),
    "a wait without end": (
        with_state("write", {"do": "wait", "on": {"over": "judge"}, "with": {"for": "soon"}}),
        "'write' waits for 'soon', which is not a duration",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_each_fault_is_a_sentence(case: str) -> None:
    made, sentence = FAULTS[case]
    found = faults(parse(made))
    assert any(sentence in fault for fault in found), found
    assert all(fault.endswith((".", "}.")) and fault[0] in "'TN[" for fault in found)


def test_every_fault_of_a_file_is_told_at_once() -> None:
    text = """
    name = "mine"
    start = "a"
    [states]
    a = { do = "agent:wizard", on = { x = "nowhere" } }
    b = { do = "sing", on = { x = "a" } }
    """
    with pytest.raises(MachineFault) as refused:
        from_text(text, "mine.toml")
    told = str(refused.value)
    assert all(word in told for word in ("wizard", "nowhere", "sing", "mine.toml"))


@pytest.mark.parametrize("name", ["build", "loop", "review", "task"])
def test_a_machine_is_refused_without_its_limits(name: str) -> None:
    made = copy.deepcopy(shipped(name).table)
    made["most"] = {}
    assert any("Nothing bounds the cycle" in fault for fault in faults(parse(made)))


def test_a_standing_machine_needs_no_end_but_its_cycles_wait() -> None:
    made = table(standing=True, most={})
    made["states"] = {
        "listen": {"do": "listen", "on": {"trigger": "plan"}},
        "plan": {"do": "agent:planner", "on": {"planned": "listen"}},
    }
    made["start"] = "listen"
    assert faults(parse(made)) == []
    made["states"]["listen"]["on"]["trigger"] = "plan"
    made["states"]["plan"]["on"]["planned"] = "plan"
    assert any("Nothing bounds" in fault for fault in faults(parse(made)))


# ---- hostile tables --------------------------------------------------------------------------------------

HOSTILE: dict[str, tuple[Any, str]] = {
    "a stray key": (table(extra=1), "A machine has no 'extra'"),
    "no name": (table(name=""), "needs a 'name'"),
    "a name that is a path": (table(name="../../x"), "needs a 'name'"),
    "a name that is a number": (table(name=3), "needs a 'name'"),
    "states as a list": (table(states=["write"]), "[states] must be a table"),
    "a state as a text": (with_state("write", "agent:coder"), "State 'write' must be a table"),
    "a stray key in a state": (with_state("write", {"go": 1}), "State 'write' has no 'go'"),
    "options as a text": (with_state("write", {"do": "proof", "with": "x"}), "'with' must be a table"),
    "outcomes as a list": (with_state("write", {"do": "proof", "on": ["x"]}), "'on' must be a table"),
    "a target as a number": (
        with_state("write", {"do": "proof", "on": {"passed": 3}}),
        "'on' must be a table",
    ),
    "a state with a special name": (with_state("@fail", {"end": "failure"}), "'@fail' cannot name a state"),
    "a state with a group's name": (with_state("any:x", {"end": "failure"}), "'any:x' cannot name a state"),
    "a state without a name": (with_state("", {"end": "failure"}), "'' cannot name a state"),
    "a state with a line break": (with_state("a\nb", {"end": "failure"}), "cannot name a state"),
    "an outcome with a space": (
        with_state("write", {"do": "agent:coder", "on": {"well done": "judge"}}),
        "'well done' cannot name an outcome",
    ),
    "anywhere without on": (table(anywhere={"exhausted": "@fail"}), "[anywhere] takes only `on"),
    "from as a number": (table(groups={"g": ["write"]}, **{"from": {"g": 3}}), "[from.g] takes only `on"),
    "from without its group": (table(**{"from": {"g": {"on": {}}}}), "[from.g] names no group"),
    "a group as a text": (table(groups={"g": "write"}), "groups.g must be a list"),
    "a negative limit": (table(most={"turns": -1}), "most.turns must be a whole number"),
    "a limit that is true": (table(most={"turns": True}), "most.turns must be a whole number"),
    "a limit that is half": (table(most={"turns": 1.5}), "most.turns must be a whole number"),
    "a limit that is endless": (table(most={"turns": float("inf")}), "most.turns must be a whole number"),
    "a number beyond all measure": (
        with_state("write", {"do": "proof", "on": {}, "with": {"x": 10**30}}),
        "cannot be kept",
    ),
    "a limit beyond reason": (table(most={"turns": 10**12}), "most.turns must be a whole number"),
    "a time that is none": (table(within={"soon": ["write"]}), "'soon' in [within] is not a duration"),
    "a time beyond reason": (table(within={"999999999d": ["write"]}), "is not a duration of at most a year"),
    "standing as a text": (table(standing="yes"), "'standing' is true or false"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_a_hostile_table_is_refused_in_a_sentence(case: str) -> None:
    made, sentence = HOSTILE[case]
    with pytest.raises(MachineFault) as refused:
        parse(made)
    assert sentence in str(refused.value)


def test_what_is_no_toml_is_refused_with_its_place() -> None:
    with pytest.raises(MachineFault, match=r"mine\.toml is not valid TOML"):
        from_text("name = [", "mine.toml")


def test_an_unknown_machine_is_named_with_those_there_are() -> None:
    with pytest.raises(NotFound, match=r"'nope'\. Machines: build, loop, review, task, cto"):
        find("nope", None)
    assert names(None) == list(SHIPPED)


def test_the_digest_follows_the_table_alone() -> None:
    one, two = parse(table()), parse(copy.deepcopy(table()))
    assert one.digest == two.digest
    assert parse(table(most={"turns": 8})).digest != one.digest


def test_a_table_survives_its_own_record() -> None:
    for name in SHIPPED:
        machine: Machine = shipped(name)
        assert parse(machine.table) == machine
