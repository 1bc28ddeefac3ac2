"""Any machine without a fault, any results, any answers: bounded, legal, and exactly what its events add up to."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import HealthCheck, assume, given, settings, strategies as st

from flyball.core.decide import Finished, Rest, due
from flyball.core.mail import hear, wake
from flyball.domain import events as e
from flyball.domain.faults import faults
from flyball.domain.machine import edges, parse
from flyball.domain.messages import Answer, Ask, Tell, encode
from flyball.domain.settings import Budget, Settings
from flyball.machines import shipped
from flyball.state.fold import fold, freeze, thaw
from flyball.state.run import Run
from flyball.views.reasons import why
from flyball.views.run_view import exit_code, summary
from support import Played, begun, start

QUICK = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
OUTCOMES = {
    "agent:coder": ["written", "again", "hopeless"],
    "agent:planner": ["planned", "nothing"],
    "agent:worker": ["worked", "done", "stalled"],
    "agent:author": ["worked", "done", "failed"],
    "agent:critic": ["accepted", "rejected"],
    "agent:reviewer": ["passed", "rejected", "failed"],
    "agent:cto": ["retry", "skip", "escalate"],
    "run:loop": ["success", "failure"],
    "proof": ["passed", "failed"],
    "check": ["ready", "failure", "cannot_start"],
    "commit": ["committed", "refused"],
    "ask": ["yes", "no", "answered"],
    "wait": ["over"],
}
SPECIAL = ["@back", "@ask", "@fail"]


@st.composite
def machines(draw: st.DrawFn) -> dict[str, Any]:
    """A random table: a chain of states that reaches an end, with every other outcome leading anywhere."""
    count = draw(st.integers(1, 4))
    names = [f"s{n}" for n in range(count)]
    places = [*names, "lost", *SPECIAL, "any:all"]
    states: dict[str, Any] = {}
    for at, name in enumerate(names):
        do = draw(st.sampled_from(sorted(OUTCOMES)))
        first, *others = OUTCOMES[do]
        on = {first: names[at + 1] if at + 1 < count else "done"}
        for outcome in [*others, "unproven"]:
            targets = [p for p in places if outcome != "unproven" or p != "done"]
            on[outcome] = draw(
                st.sampled_from(
                    [*targets, *(["done"] if outcome != "stalled" and outcome != "unproven" else [])]
                )
            )
        if do == "agent:cto":
            on["escalate"] = "lost"
        states[name] = {"do": do, "on": on}
    states |= {"done": {"end": "success"}, "lost": {"end": "failure"}}
    anywhere = {"blocked": "@blocked", "cancel": "@cancel"}
    for outcome in ("exhausted", "timeout", "error", "third_failure", "stalled"):
        anywhere[outcome] = draw(st.sampled_from(["@fail", "@ask", "lost", *names]))
    most = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "turns": st.integers(1, 9),
                "iterations": st.integers(1, 4),
                "failures": st.integers(1, 3),
                "no_progress": st.integers(1, 4),
                names[-1]: st.integers(1, 3),
            },
        )
    )
    return {
        "name": "mine",
        "start": "s0",
        "iteration": draw(st.sampled_from(["", *names])),
        "states": states,
        "anywhere": {"on": anywhere},
        "groups": {"all": names},
        "most": most,
    }


class Chance:
    """Does acts at random; limits and interruptions, which cost nothing, run out in the end."""

    def __init__(self, random: Random, free: int = 12) -> None:
        self.random, self.free, self.trees = random, free, 0

    def __call__(self, run: Run, act: e.Act) -> Any:
        if self.free and self.random.random() < 0.08:
            self.free -= 1
            return "chance"
        match act.do.partition(":")[0]:
            case "prepare":
                return e.Prepared(base_tree="base")
            case "restore":
                return e.Restored(tree=act.tree)
            case "proof":
                return self.proof(act)
            case "commit":
                return e.CommitEnded(
                    outcome=self.one("committed", "committed", "refused", "conflict"), tree=act.tree
                )
            case "check":
                return e.CheckEnded(
                    outcome=self.one("ready", "ready", "failure", "cannot_start"), reason="chance"
                )
            case "run":
                return self.child(act)
            case _:
                return self.turn(run, act)

    def one(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def proof(self, act: e.Act) -> e.ProofEnded:
        broken = "it is gone" if self.random.random() < 0.03 else ""
        passed = not broken and self.random.random() < 0.5
        failing = 0 if passed else self.random.randint(1, 4)
        return e.ProofEnded(
            tree=act.tree, passed=passed, failing=failing, cannot_start=broken, fingerprint=self.one("", "E1")
        )

    def child(self, act: e.Act) -> e.ChildEnded:
        end, code = self.one(("success", "completed"), ("failure", "limit.turns"), ("cancelled", "cancelled"))
        stop = e.Stop(code=code)
        return e.ChildEnded(
            run=act.child, end=end, stop=stop, tree=self.tree(act), turns=self.random.randint(0, 2)
        )

    def tree(self, act: e.Act) -> str:
        self.trees += 1
        return self.one(act.tree, act.tree, "base", "t1", f"n{self.trees}")

    def turn(self, run: Run, act: e.Act) -> Finished:
        limited = ["rate_limited", "network", "context"] if self.free else []
        self.free -= bool(limited)
        verdict = self.one(
            *["ok"] * 14, "killed", "hung", "timeout", "turn_limit", "needs_approval", "nonsense", *limited
        )
        tree = self.tree(act)
        allowed = self.one("allow", "allow", "allow", "allow", "ask", "deny")
        ruling = e.Ruling(
            verdict=allowed, rule="chance", diff=tree, tree=tree, waivable=self.one(True, False)
        )
        result = e.TurnEnded(
            verdict=verdict,
            tree=act.tree if allowed == "deny" else tree,
            claim=self.claim(run),
            usage=e.Usage(output_tokens=self.random.randint(0, 50), cost_uusd=self.random.randint(0, 300)),
            fingerprint=self.one("", "E1"),
            halted=self.one(*[""] * 9, "loop.same_action"),
        )
        return Finished(key=act.key, result=result, ruling=ruling, took_us=self.random.randint(0, 1000))

    def claim(self, run: Run) -> e.Claim:
        names = [*run.here.on, "", "nonsense"]
        done = ("a", "b") if self.random.random() < 0.3 else ()
        return e.Claim(
            outcome=self.one(*names),
            signal=self.one("", "", "DONE", "PASS", "FAIL"),
            finished=bool(done),
            indicators=done,
            ask=self.one(*[""] * 9, "Which?"),
            findings=self.one((), (), (e.Finding(id="F1", status=self.one("open", "fixed", "disputed")),)),
            data=self.one({}, {}, {"state": "s0"}, {"kind": "retry", "state": "planning"}, {"state": 7}),
        )


def lived(event: e.RunBegan, seed: int, answers: int = 6, chance: type[Chance] = Chance) -> Played:
    """A whole life of a run, with a person who answers a few times."""
    random = Random(seed)
    played = start(chance(random), event)
    for _ in range(answers):
        played.go_on()
        question = played.run.question
        if played.run.status == "ended":
            break
        if random.random() < 0.2:
            order = random.choice([Ask(what="pause"), Tell(text="hello"), Ask(what="nonsense")])
            played.write(order)
        if question:
            state = random.choice([*played.run.machine.states, ""])
            others = [verb for verb in question.verbs if verb != "cancel"]
            verb = random.choice([*others * 4, "cancel", "nonsense"])
            played.write(Answer(question=question.id, verb=verb, text=state))
        else:
            played.note(wake(played.run, played.now))
    return played.go_on()


def holds(played: Played) -> None:
    """What is true of every run, whatever happened."""
    run = played.run
    _is_its_events(played)
    _moved_legally(played)
    _never_asked_twice_for_nothing(played)
    _succeeded_only_through_the_gate(played)
    assert len(why(run)) == 3 and isinstance(exit_code(run), int) and summary(run)["run"] == run.id
    assert all(c.count <= (run.most("failures") or 0) for c in played.of(e.FailureCounted))
    assert run.path.interventions <= 2
    if run.status == "ended":
        _stays_ended(run)


def _is_its_events(played: Played) -> None:
    assert fold(None, played.events) == played.run
    assert [e.decode(e.encode(event)) for event in played.events] == played.events
    assert fold(None, [e.decode(e.encode(event)) for event in played.events]) == played.run
    assert thaw(freeze(played.run)) == played.run
    half = len(played.events) // 2 or 1
    assert fold(thaw(freeze(fold(None, played.events[:half]))), played.events[half:]) == played.run


def _moved_legally(played: Played) -> None:
    legal, state = edges(played.run.machine), played.path[0]
    for moved in played.of(e.Moved):
        assert (moved.source, moved.target) in legal and moved.source == state
        assert moved.outcome in legal[moved.source, moved.target]
        state = moved.target
    assert state == played.run.state


def _never_asked_twice_for_nothing(played: Played) -> None:
    """An answer never leads straight back to the same stop without an act in between."""
    state, last, answered = played.path[0], ("", "", ""), False
    for event in played.events:
        match event:
            case e.Moved():
                state = event.target
            case e.ActStarted():
                answered = False
            case e.Answered():
                answered = True
            case e.Stopped(stop=seen):
                asks = played.run.machine.states[state].act == "ask" and seen.code == "wait.escalation"
                assert asks or not (answered and last == (state, seen.code, seen.rule)), (state, seen)
                last, answered = (state, seen.code, seen.rule), False
            case _:
                pass


def _succeeded_only_through_the_gate(played: Played) -> None:
    run = played.run
    if run.end != "success" or not run.owner:
        return
    assert run.checkout.commit is not None and run.checkout.commit.tree == run.tree
    if run.settings.proof:
        assert (
            run.evidence.proof is not None
            and run.evidence.proof.passed
            and run.evidence.proof.tree == run.tree
        )
        assert played.code == "completed"
    else:
        assert played.code == "completed_unproven"


def _stays_ended(run: Run) -> None:
    assert due(run, run.at + 10**12) == Rest()
    for message in (Ask(what="cancel"), Tell(text="x"), Answer(question="r1.1", verb="go-on")):
        assert [type(fact) for fact in hear(run, encode(message), 1, run.at + 1)] == [e.LetterRefused]
    assert wake(run, run.at + 1) == []


def tuned(random: Random) -> Settings:
    budget = Budget(
        uusd=random.choice([None, 0, 100, 2_000]),
        tokens=random.choice([None, 50, 5_000]),
        wall_us=random.choice([None, 3_000]),
    )
    return Settings(
        agents={"default": "script:x"},
        proof=random.choice([(), ("prove",)]),
        budget=budget,
        write=random.choice(["turn", "loop"]),
        review=random.choice(["unless-done", "always"]),
        consensus=random.choice([True, False]),
        require_test_pass=random.choice([True, False]),
        breakpoints=random.choice(
            [(), (), ("write",), ("closed",), ("s0",), ("planning",), ("verify", "s1")]
        ),
    )


@QUICK
@given(table=machines(), seed=st.integers(0, 2**32))
def test_any_machine_without_a_fault_is_bounded_legal_and_its_events(
    table: dict[str, Any], seed: int
) -> None:
    assume(not faults(parse(table)))
    holds(lived(begun(table, tuned(Random(seed))), seed))


@QUICK
@given(
    name=st.sampled_from(["build", "loop", "review", "task"]), owner=st.booleans(), seed=st.integers(0, 2**32)
)
def test_any_life_of_a_shipped_machine_holds(name: str, owner: bool, seed: int) -> None:
    event = begun(shipped(name), tuned(Random(seed)), owner=owner, tree="" if owner else "base")
    holds(lived(event, seed))


@QUICK
@given(seed=st.integers(0, 2**32))
def test_a_cancel_ends_any_run_at_any_time(seed: int) -> None:
    random = Random(seed)
    played = start(Chance(random), begun(shipped("task"), tuned(random)))
    steps = random.randint(0, 40)
    played.go_on(lambda run: run.acts >= steps)
    if played.run.status == "ended":
        return
    played.write(Ask(what="cancel")).go_on()
    assert (played.run.status, played.run.end, played.code) == ("ended", "cancelled", "cancelled")


@QUICK
@given(seed=st.integers(0, 2**32), name=st.sampled_from(["build", "loop", "review", "task"]))
def test_the_same_journal_gives_the_same_decisions(seed: int, name: str) -> None:
    one, two = (lived(begun(shipped(name), tuned(Random(seed))), seed) for _ in range(2))
    assert [e.encode(event) for event in one.events] == [e.encode(event) for event in two.events]


@QUICK
@given(
    text=st.text(max_size=40),
    keys=st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
        max_leaves=8,
    ),
)
def test_no_table_crashes_the_reader(text: str, keys: Any) -> None:
    from flyball.errors import MachineFault

    for table in (
        {"name": text, "states": keys},
        {"name": "x", "start": "y", "states": keys, "groups": keys, "from": keys, "most": keys},
        keys,
    ):
        if not isinstance(table, dict):
            continue
        try:
            faults(parse(table))
        except MachineFault as fault:
            assert str(fault)
