"""Plays runs without a shell: a tiny driver asks what is due and answers with scripted results.

A rule of the core is tested by a `Case`: a line that says what is played and which path, stops and acts must come
of it. `check` plays it. Only public functions and the public fields of a run are used, so the rules can be
rewritten without touching the tables.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from flyball.core.decide import Do, Finished, Note, due, react
from flyball.core.mail import hear, wake
from flyball.domain import events as e
from flyball.domain.machine import Machine, parse
from flyball.domain.messages import Answer, AnyMessage, encode
from flyball.domain.results import code_of
from flyball.domain.settings import Settings
from flyball.machines import shipped
from flyball.state.fold import apply, begin
from flyball.state.run import Run

BASE = "base"
STEPS_MAX = 3_000
PROOF = ("prove",)
ALLOW = e.Ruling(verdict="allow", policy="default", policy_hash="h")
Reply = e.AnyResult | Finished | str
Player = Callable[[Run, e.Act], Reply]
T = TypeVar("T")


def anywhere(**otherwise: str) -> dict[str, Any]:
    """The lines that every table needs; each outcome fails unless told otherwise."""
    usual = {
        "blocked": "@blocked",
        "exhausted": "@fail",
        "timeout": "@fail",
        "error": "@fail",
        "cancel": "@cancel",
    }
    return {"on": {**usual, **otherwise}}


class Played(Struct):
    """A run, every fact of it, and every act that was begun."""

    run: Run
    player: Player
    events: list[e.AnyEvent]
    acts: list[e.Act]
    now: int = 0

    @property
    def code(self) -> str:
        return self.run.stop.code if self.run.stop else ""

    @property
    def path(self) -> list[str]:
        """The states it went through."""
        began = self.events[0]
        assert isinstance(began, e.RunBegan)
        start = began.start or self.run.machine.start
        return [start, *(m.target for m in self.of(e.Moved))]

    @property
    def done(self) -> list[str]:
        """What was done, in order; `proof:gate` and the like say what for."""
        return [f"{a.do}:{a.why}" if a.do in ("proof", "restore") else a.do for a in self.acts]

    def of(self, kind: type[T]) -> list[T]:
        return [event for event in self.events if isinstance(event, kind)]

    def note(self, facts: Iterable[e.AnyEvent]) -> None:
        for fact in facts:
            self.run = apply(self.run, fact)
            self.events.append(fact)

    def write(self, message: AnyMessage) -> Played:
        """A message arrives."""
        self.now += 1
        self.note(hear(self.run, encode(message), 1, self.now))
        return self

    def answer(self, verb: str, text: str = "", **more: Any) -> Played:
        """Answer the open question, then go on."""
        question = self.run.question
        assert question is not None, f"nothing is asked: {self.run.status} {self.code}"
        self.write(Answer(question=question.id, verb=verb, text=text, **more))
        return self.go_on()

    def wake(self) -> Played:
        """What `flyball resume` does."""
        self.now += 1
        self.note(wake(self.run, self.now))
        return self.go_on()

    def told(self, do: str, n: int = -1) -> str:
        """What the n-th act of this kind was told, in one text; -1 is the last one."""
        return "\n".join([act for act in self.acts if act.do == do][n].told)

    def restores(self) -> list[tuple[str, str]]:
        return [(act.why, act.tree) for act in self.acts if act.do == "restore"]

    def begin_act(self, do: str = "") -> e.Act:
        """Go on until an act begins (this one, if it is named) and leave it in flight."""
        for _ in range(STEPS_MAX):
            self.now += 1
            match due(self.run, self.now):
                case Do(act) if not do or act.do == do:
                    return self.start_act(act)
                case Do(act):
                    self.perform(act)
                case Note(facts):
                    self.note(facts)
                case _:
                    break
        raise AssertionError(f"no {do or 'act'} is due: {self.run.status} {self.code}")

    def finish_act(self, result: Reply) -> Played:
        """What came of the act in flight."""
        act = self.run.act
        assert act is not None, "no act is in flight"
        if isinstance(result, str):
            self.note([e.ActInterrupted(at=self.now, key=act.key, reason=result)])
        else:
            finished = result if isinstance(result, Finished) else judged(act, result)
            self.note(react(self.run, finished, self.now))
        return self

    def go_on(self, stop_at: Callable[[Run], bool] = lambda run: False) -> Played:
        """Until nothing is due."""
        for _ in range(STEPS_MAX):
            if stop_at(self.run):
                return self
            self.now += 1
            match due(self.run, self.now):
                case Note(facts):
                    self.note(facts)
                case Do(act):
                    self.perform(act)
                case rest:
                    if rest.until is None or rest.until < self.now:
                        return self
                    self.now = rest.until
        raise AssertionError(f"it never rests: {self.path[-20:]} {self.done[-20:]}")

    def perform(self, act: e.Act) -> None:
        act = self.start_act(act)
        self.finish_act(self.player(self.run, act))

    def start_act(self, act: e.Act) -> e.Act:
        child = f"{self.run.id}/{act.key}" if act.do.startswith("run:") else ""
        act = e.Act(**{f: getattr(act, f) for f in act.__struct_fields__ if f != "child"}, child=child)
        self.acts.append(act)
        self.note([e.ActStarted(at=self.now, act=act)])
        return act


def judged(act: e.Act, result: e.AnyResult, ruling: e.Ruling | None = ALLOW, took_us: int = 0) -> Finished:
    turn = isinstance(result, e.TurnEnded)
    return Finished(key=act.key, result=result, ruling=ruling if turn else None, took_us=took_us)


def ok(tree: str = "", **claim: Any) -> e.TurnEnded:
    """A turn that ended well, with what it claims."""
    message = str(claim.pop("message", ""))
    usage = claim.pop("usage", e.Usage())
    return e.TurnEnded(verdict="ok", tree=tree, message=message, usage=usage, claim=e.Claim(**claim))


def bad(verdict: str, **more: Any) -> e.TurnEnded:
    return e.TurnEnded(verdict=verdict, error=f"it was {verdict}", **more)


def finish(tree: str = "") -> e.TurnEnded:
    """LOOP-1's claim, complete but for the proof."""
    return ok(tree, finished=True, indicators=("task complete", "all done"))


def says(signal: str = "", message: str = "", **claim: Any) -> Callable[[Run, e.Act], e.TurnEnded]:
    """A turn that leaves the tree as it was."""
    return lambda run, act: ok(act.tree, signal=signal, message=message, **claim)


def writes(**claim: Any) -> Callable[[Run, e.Act], e.TurnEnded]:
    """A turn that leaves a tree never seen before."""
    return lambda run, act: ok(f"new-{act.key}", **claim)


PASS, FAIL = says("PASS"), says("FAIL", "not yet")


def settings(**more: Any) -> Settings:
    return Settings(**{"proof": PROOF, "agents": {"default": "script:x"}, **more})


def begun(
    machine: str | dict[str, Any] | Machine = "build",
    settings: Settings | None = None,
    **more: Any,
) -> e.RunBegan:
    if isinstance(machine, str):
        machine = shipped(machine)
    elif isinstance(machine, dict):
        machine = parse(machine)
    given = settings or Settings(proof=PROOF, agents={"default": "script:x"})
    return e.RunBegan(
        at=0,
        run="r1",
        machine=machine.name,
        table=machine.table,
        settings=given,
        task="fix it",
        **{"rules": e.RULES, **more},
    )


def start(player: Player, event: e.RunBegan | None = None, **more: Any) -> Played:
    """A run that has begun; nothing is done yet."""
    event = event or begun(**more)
    return Played(begin(event), player, [event], [])


def play(player: Player, event: e.RunBegan | None = None, **more: Any) -> Played:
    """Play a run until nothing is due."""
    return start(player, event, **more).go_on()


class Script:
    """Plays the acts of a run by name: a list is played in order and its last entry repeats.

    Names, the most exact first: STATE, the act with its `why` (`proof:gate`), the act, the kind of act.
    An entry is a result, or a function of (run, act) that makes one.
    """

    def __init__(self, **plays: Any) -> None:
        self.plays = {k.replace("__", ":"): list(v) if isinstance(v, list) else [v] for k, v in plays.items()}
        self.trees = 0

    def __call__(self, run: Run, act: e.Act) -> Reply:
        own = act.do not in (run.here.do, "run:loop") or act.why in ("gate", "baseline")
        names = ("" if own else act.state, f"{act.do}:{act.why}", act.do, act.do.partition(":")[0])
        for name in names:
            if name in self.plays:
                plays = self.plays[name]
                entry = plays.pop(0) if len(plays) > 1 else plays[0]
                return entry(run, act) if callable(entry) else entry
        return self.usual(run, act)

    def usual(self, run: Run, act: e.Act) -> Reply:
        """What happens where nothing is said: writers leave a new tree, judges pass, proofs pass."""
        match act.do:
            case "prepare":
                return e.Prepared(base_tree=BASE, sandbox="none")
            case "restore":
                return e.Restored(tree=act.tree)
            case "proof":
                return e.ProofEnded(tree=act.tree, passed=True, failing=0)
            case "commit":
                return e.CommitEnded(outcome="committed", tree=act.tree, commit="c", certificate="cert")
            case "land":
                assert run.checkout.commit
                return replace(run.checkout.commit, landed="main")
            case "check":
                return e.CheckEnded(outcome="ready")
            case do if do.startswith("run:"):
                return self.child(act)
            case "agent:critic" | "agent:reviewer" | "agent:validator" | "agent:quality":
                return ok(act.tree, signal="PASS")
            case "agent:planner" | "agent:cto":
                return ok(act.tree)
            case _:
                return ok(self.fresh())

    def fresh(self) -> str:
        self.trees += 1
        return f"t{self.trees}"

    def child(self, act: e.Act, end: str = "success", code: str = "completed") -> e.ChildEnded:
        tree = self.fresh() if end == "success" else act.tree
        return e.ChildEnded(run=act.child, end=end, stop=e.Stop(code=code), tree=tree, turns=1)


def failing(
    count: int = 1, summary: str = "1 failed", fingerprint: str = ""
) -> Callable[[Run, e.Act], e.ProofEnded]:
    """A proof that fails on whatever tree it is given."""

    def proof(run: Run, act: e.Act) -> e.ProofEnded:
        return e.ProofEnded(
            tree=act.tree, passed=False, failing=count, summary=summary, fingerprint=fingerprint
        )

    return proof


def passing(run: Run, act: e.Act) -> e.ProofEnded:
    return e.ProofEnded(tree=act.tree, passed=True, failing=0)


def failed_child(code: str = "failed.review", end: str = "failure") -> Callable[[Run, e.Act], e.ChildEnded]:
    def child(run: Run, act: e.Act) -> e.ChildEnded:
        return e.ChildEnded(run=act.child, end=end, stop=e.Stop(code=code, detail="it broke"), turns=1)

    return child


def ruled(
    verdict: str,
    tree: str,
    rule: str = "protected",
    waivable: bool = True,
    turn: e.TurnEnded | None = None,
    **claim: Any,
) -> Callable[[Run, e.Act], Finished]:
    """A turn whose change the guard asks about or denies; a denied one is put back as the shell does."""

    def finished(run: Run, act: e.Act) -> Finished:
        left = act.tree if verdict == "deny" else tree
        ruling = e.Ruling(
            verdict=verdict,
            rule=rule,
            reason="It touches a protected path.",
            file="a.py",
            line=3,
            policy="default",
            policy_hash="h",
            diff=f"diff-{tree}",
            tree=tree,
            waivable=waivable,
        )
        result = replace(turn, tree=turn.tree or left) if turn else ok(left, **claim)
        return Finished(key=act.key, result=result, ruling=ruling)

    return finished


# ---- tables of cases -------------------------------------------------------------------------------------


class Case(Struct, frozen=True):
    """One line of a table: what is played, and what must come of it."""

    path: str  # the states it goes through; see `steps`
    codes: str  # the code of each stop: the first, then one after each answer
    plays: dict[str, Any] = {}  # as in `Script`
    machine: Any = ""
    limits: dict[str, int] = {}
    given: dict[str, Any] = {}  # other settings
    event: dict[str, Any] = {}  # other fields of RunBegan
    answers: tuple[str, ...] = ()  # VERB or `VERB text`, one after each stop
    does: str = ""  # the acts, without the first prepare and baseline; see `steps`
    restores: str = ""  # WHY:TREE of each restore
    turns: int | None = None
    numbers: str = ""  # threshold and observed value of the last stop
    hears: tuple[
        tuple[str, int, str], ...
    ] = ()  # the n-th act of this kind is told something with this in it


def steps(text: str) -> list[str]:
    """`a b*2 (c d)*2` is a b b c d c d."""
    while (again := re.sub(r"\(([^()]*)\)\*(\d+)", _repeated, text)) != text:
        text = again
    return re.sub(r"(\S+)\*(\d+)", _repeated, text).split()


def _repeated(match: re.Match[str]) -> str:
    return " ".join([match[1]] * int(match[2]))


def check(case: Case, machine: Any = "build") -> Played:
    """Play a case and compare; the played run is there for what only one case asks."""
    machine = case.machine or machine
    name = machine if isinstance(machine, str) else machine["name"]
    given = settings(**{"limits": {name: case.limits}, **case.given})
    played = play(Script(**case.plays), begun(machine, given, **case.event))
    stops = [stop_of(played)]
    for answer in case.answers:
        verb, _, text = answer.partition(" ")
        stops.append(stop_of(played.answer(verb, text)))
    assert (played.path, stops) == (steps(case.path), steps(case.codes))
    assert not case.does or [d for d in played.done if d not in GROUNDWORK] == steps(case.does)
    assert not case.restores or [":".join(r) for r in played.restores()] == case.restores.split()
    assert case.turns is None or played.run.turns == case.turns
    stop = played.run.stop
    assert not case.numbers or (stop and f"{stop.threshold} {stop.observed}" == case.numbers)
    for do, n, text in case.hears:
        assert text in played.told(do, n)
    return played


GROUNDWORK = ("prepare", "proof:baseline")


def stop_of(played: Played) -> str:
    """The code of its stop, which must fit its status and its end."""
    run = played.run
    status = "ended" if run.end else code_of(played.code).status
    ends = {"completed": "success", "completed_unproven": "success", "cancelled": "cancelled"}
    assert run.status == status and run.end in ("", ends.get(played.code, "failure"))
    return played.code
