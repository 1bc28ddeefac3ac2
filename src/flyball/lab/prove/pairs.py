"""Two runs together: a run and its child run, both with the production rules, one journal transaction at a time.

Each machine is proved by itself with its child runs treated as acts. Here both runs are real, and their effects on each
other go through the same `Family` that the supervisor uses. A child run of the lower run is treated as an act again, so
a chain of three is covered by two pairs. What the supervisor does (start the lower run, pass requests on) is
done by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from flyball.core import mail
from flyball.core.decide import Do, Note, Rest, due, phase_us, react, trigger
from flyball.core.family import Changed, Family
from flyball.domain import events as e, messages
from flyball.domain.machine import Machine, State
from flyball.domain.settings import Settings
from flyball.errors import UserError
from flyball.lab.prove import graphs
from flyball.lab.prove.act_results import results, usage_of
from flyball.lab.prove.explore import LARGEST, Broken, Exploration, Step, brief, listens, waits
from flyball.lab.prove.key import key
from flyball.lab.prove.premises import NO_BUDGET, UNIT, Premise, nested, small_limits
from flyball.lab.prove.witness import Witness
from flyball.state.fold import begin
from flyball.state.run import Run

TOP, BELOW = "top", "below"
NOBODY = Witness()
ASKED = ("pause", "cancel")
GRANDCHILD = (("waiting", "wait.question"), ("blocked", "blocked.guard.radius"))


class Breach(Exception):
    """A law about the pair is broken in the current step."""

    def __init__(self, law: str, says: str) -> None:
        super().__init__(says)
        self.law, self.says = law, says


class Pair(Struct, frozen=True):
    """The two machines, and the state of the upper one that runs the lower one."""

    upper: Premise
    lower: Premise
    state: State

    @property
    def name(self) -> str:
        return f"with a real {self.lower.machine.name} in '{self.state.name}'"

    def of(self, run: Run) -> Premise:
        return self.upper if run.id == TOP else self.lower


def pair(upper: Machine, state: State, lower: Machine) -> Pair:
    limits = {m.name: small_limits(m) for m in (upper, lower)}
    settings = Settings(proof=("prove",), budget=NO_BUDGET, limits=limits, agents={"default": "a"})
    options: dict[str, Any] = {"write": "loop"} if state.loop else {}
    plain = Premise(
        name="", machine=upper, settings=settings, results="onward", cost_uusd=UNIT, options=options
    )
    below = nested(replace(plain, machine=lower, options={}, results="few"), state.options)
    return Pair(plain, below, state)


# ---- what may happen ---------------------------------------------------------------------------------------------------

Runs = tuple[Run, ...]  # the upper run, then the lower one if it exists


class FamilyStep(Struct, frozen=True):
    says: str
    family: Runs
    facts: dict[str, list[e.AnyEvent]]


def first(two: Pair) -> Runs:
    return (begin(replace(two.upper.began(), run=TOP)),)


def happenings(family: Runs, two: Pair) -> Iterator[FamilyStep]:
    now = max(run.at for run in family) + 1
    yield from _of_itself(family, two, now)
    for run in family:
        if run.act is not None and not (run.act.child and run.id == TOP and len(family) == 2):
            yield from _came_of(family, run, run.act, two, now)
        if run.question is not None:
            yield from _answered(family, run, run.question, now)
    if family[0].status in ("paused", "waiting"):
        yield from _happened(
            "`flyball resume`", family, [(r.id, mail.wake(r, now)) for r in reversed(family)]
        )
    if not any(run.asked for run in family):
        for what in ASKED:
            yield from _asked(family, what, now)


def _of_itself(family: Runs, two: Pair, now: int) -> Iterator[FamilyStep]:
    """As the supervisor's tick does: whatever is due in either run, in one transaction."""
    rests = [
        step.until
        for run in family
        if run.act is None and isinstance(step := due(run, now), Rest) and step.until is not None
    ]
    acts = any(not isinstance(due(run, now), Rest) for run in family)
    if not acts and not rests:
        listening = family[0].status == "running" and family[0].act is None and family[0].here.act == "listen"
        if listening:
            for outcome in family[0].here.on:
                yield from _happened(f"there is {outcome}", family, [(TOP, trigger(family[0], outcome, now))])
        return
    now = now if acts else max(now, min(rests))
    changes = _changes(family)
    for run in family:
        match due(changes.run(run.id), now):
            case Note(facts):
                changes.add(run.id, facts)
            case Do(act):
                _begun(changes, changes.run(run.id), act, two, now)
            case _:
                pass
    yield from _written("the rules go on" if acts else "the wait is over", family, changes)


def _begun(changes: Family, run: Run, act: e.Act, two: Pair, now: int) -> None:
    real = run.id == TOP and act.do == f"run:{two.lower.machine.name}" and act.state == two.state.name
    if act.do.startswith("run:"):
        act = replace(act, child=BELOW if real else f"{run.id}.{run.acts}")
    if real:
        changes.begin(_child(run, two, now))
    changes.add(run.id, [e.ActStarted(at=now, act=act)])


def _child(parent: Run, two: Pair, now: int) -> e.RunBegan:
    event = two.lower.began()
    if parent.machine.supervises:  # in a checkout of its own
        settings = replace(
            event.settings, proof=()
        )  # what the gate does is proved for each machine by itself
        return replace(event, at=now, run=BELOW, parent=TOP, root=BELOW, owner=True, settings=settings)
    return replace(
        event,
        at=now,
        run=BELOW,
        parent=TOP,
        root=TOP,
        tree=parent.tree,
        base_tree=parent.checkout.base_tree,
        within_us=phase_us(parent),
    )


def _came_of(family: Runs, run: Run, act: e.Act, two: Pair, now: int) -> Iterator[FamilyStep]:
    premise = two.of(run)
    for came in results(run, act, premise):
        result = came.finished.result
        if isinstance(result, e.TurnEnded) and result.verdict == "context":
            continue  # what it costs is proved for each machine by itself
        charges = _went_on(run, act, result, premise, now)
        after = _changes(family)
        for member, facts in charges:
            after.add(member, facts)
        after.add(run.id, react(after.run(run.id), came.finished, now))
        yield from _written(came.says, family, after)
    if act.child:
        yield from _stops_below(family, run, act, now)
    elif run.tries.interruptions < 1:
        cut = e.ActInterrupted(at=now, key=act.key, reason="its keeper was killed")
        yield from _happened("its process is killed with the driver", family, [(run.id, [cut])])


def _went_on(
    run: Run, act: e.Act, result: e.AnyResult, premise: Premise, now: int
) -> list[tuple[str, list[e.AnyEvent]]]:
    """A child run of the lower run is an act: its cost is charged to all runs above it."""
    if not isinstance(result, e.ChildEnded):
        return []
    continued: list[e.AnyEvent] = [e.ChildWentOn(at=now, run=act.child)] if run.status != "running" else []
    usage = usage_of(premise)
    charged = [e.Charged(at=now, run=act.child, usage=usage, turns=result.turns)] if result.turns else []
    above: list[tuple[str, list[e.AnyEvent]]] = [(TOP, [*charged])] if run.id != TOP else []
    return [(run.id, [*continued, *charged]), *above]


def _stops_below(family: Runs, run: Run, act: e.Act, now: int) -> Iterator[FamilyStep]:
    if run.status != "running":
        went_on = e.ChildWentOn(at=now, run=act.child)
        yield from _happened("the run below goes on", family, [(run.id, [went_on])])
        return
    for status, code in GRANDCHILD:
        stop = e.ChildStopped(at=now, run=act.child, status=status, stop=e.Stop(code=code))
        yield from _happened(f"the run below stops: {code}", family, [(run.id, [stop])])


def _answered(family: Runs, run: Run, question: e.Question, now: int) -> Iterator[FamilyStep]:
    for verb in question.verbs:
        answer = messages.Answer(
            question=question.id, verb=verb, who="anna", text="so" if verb == "answer" else ""
        )
        facts = mail.hear(run, messages.encode(answer), 1, now)
        yield from _happened(f"a person answers {run.machine.name}: {verb}", family, [(run.id, facts)])


def _asked(family: Runs, what: str, now: int) -> Iterator[FamilyStep]:
    """A request to a run also applies to its child run; a cancel ends the act in flight."""
    facts: list[tuple[str, list[e.AnyEvent]]] = [
        (run.id, mail.hear(run, messages.encode(messages.Ask(what=what)), 1, now)) for run in family
    ]
    last = family[-1]
    if what == "cancel" and last.act is not None and not last.act.child:
        facts.append((last.id, [e.ActInterrupted(at=now, key=last.act.key, reason="a person stopped it")]))
    yield from _happened(f"a person says {what}", family, facts)


# ---- one transaction -----------------------------------------------------------------------------------------------------


def _changes(family: Runs) -> Family:
    return Family({run.id: Changed(run, []) for run in family})


def _happened(
    says: str, family: Runs, changes_of: list[tuple[str, list[e.AnyEvent]]]
) -> Iterator[FamilyStep]:
    changes = _changes(family)
    for member, facts in changes_of:
        changes.add(member, facts)
    yield from _written(says, family, changes)


def _written(says: str, family: Runs, changes: Family) -> Iterator[FamilyStep]:
    """The family afterwards; a lower run that has ended is dropped."""
    facts = {name: list(staged.events) for name, staged in changes.changed.items() if staged.events}
    if not facts:
        return
    names = [TOP, BELOW] if len(family) == 2 or BELOW in changes.changed else [TOP]
    after = [changes.run(name) for name in names]
    yield FamilyStep(says, tuple(run for run in after if run.id == TOP or run.status != "ended"), facts)


# ---- the laws of the two ---------------------------------------------------------------------------------------------------


def check(family: Runs, step: FamilyStep) -> None:
    """What must hold for the pair, whatever each run does by itself."""
    top = step.family[0]
    _ends_together(family, step)
    _charged(step)
    _one_act(step.family)
    if len(step.family) == 2 and not _set_aside(top) and not _given_up(step.family):
        _stand_alike(top, step.family[1])
    starts = any(isinstance(fact, e.ActStarted) for facts in step.facts.values() for fact in facts)
    if family[0].asked == "cancel" and starts:
        raise Breach("HUMAN-3", "an act begins though the run is cancelled")
    good = (
        top.evidence.proof is not None and top.evidence.proof.passed and top.evidence.proof.tree == top.tree
    )
    if top.end == "success" and not (
        good and top.checkout.commit is not None and top.checkout.commit.tree == top.tree
    ):
        raise Breach("SYS-8", "it succeeds without a proof and a commit of this tree")


def _ends_together(family: Runs, step: FamilyStep) -> None:
    """The end of the lower run is the outcome of the upper run's act, in the same transaction, and with the same
    tree.
    """
    over = [fact for fact in step.facts.get(BELOW, []) if isinstance(fact, e.Ended)]
    reports = [
        f
        for f in step.facts.get(TOP, [])
        if isinstance(f, e.ActFinished) and isinstance(f.result, e.ChildEnded)
    ]
    real = [f for f in reports if isinstance(f.result, e.ChildEnded) and f.result.run == BELOW]
    if len(over) != len(real) and not _given_up(family):
        raise Breach("SYS-5", f"the run below ended {len(over)} times, the run above heard of {len(real)}")
    if not over and len(family) == 2 and len(step.family) == 1:
        raise Breach("SYS-5", "the run below is gone without an end")
    starts = [fact for fact in step.facts.get(BELOW, []) if isinstance(fact, e.RunBegan)]
    if starts and starts[0].tree != step.family[0].tree and not starts[0].owner:
        raise Breach("SYS-10", "the run below begins on another tree")
    if step.family[0].status == "ended" and len(step.family) == 2 and not _given_up(step.family):
        raise Breach("HUMAN-3", "the run above has ended, the run below has not")


def _set_aside(top: Run) -> bool:
    """The lower run pauses, while the upper one waits for a person or does something more urgent."""
    plans = (top.plan, *top.plan.aside)
    return any(plan.act is not None and plan.act.child == BELOW for plan in plans)


def _given_up(family: Runs) -> bool:
    """The upper run no longer waits for the lower one, which is being cancelled."""
    return len(family) == 2 and family[1].asked == "cancel" and family[0].child != BELOW


def _charged(step: FamilyStep) -> None:
    """What the lower run spends is charged to the upper one in the same transaction."""
    facts = step.facts.get(BELOW, [])
    turns = [f for f in facts if isinstance(f, e.ActFinished) and isinstance(f.result, e.TurnEnded)]
    paid = [f for f in step.facts.get(TOP, []) if isinstance(f, e.Charged) and f.run == BELOW]
    if len(turns) != len([charge for charge in paid if charge.usage.cost_uusd]):
        raise Breach("GUARD-4", f"{len(turns)} turns below, {len(paid)} charged above")


def _one_act(family: Runs) -> None:
    working = [run for run in family if run.act is not None and not run.act.child]
    if len(working) > 1 and not family[1].owner:
        raise Breach("SYS-5", "two acts at once in one checkout")
    aside = _set_aside(family[0]) or _given_up(family)
    if len(family) == 2 and not aside and (family[0].act is None or family[0].act.child != BELOW):
        raise Breach("SYS-5", "the run above does something else while the run below is there")


def _stand_alike(top: Run, low: Run) -> None:
    """If the lower run waits, pauses or is blocked, so is the upper one, with the same code."""
    if low.status == "running" and top.status != "running":
        raise Breach("SYS-7", f"the run below goes on, the run above is {top.status}")
    if low.status == "running":
        return
    codes = [run.stop.code if run.stop else "" for run in (top, low)]
    if top.status != low.status or codes[0] != codes[1]:
        raise Breach(
            "SYS-7", f"the run below is {low.status} ({codes[1]}), the run above {top.status} ({codes[0]})"
        )


# ---- everything -------------------------------------------------------------------------------------------------------------


class Graph:
    """What was reached, from where, and by which step."""

    def __init__(self, two: Pair) -> None:
        self.two, start = two, first(two)
        self.index: dict[tuple[Any, ...], int] = {_key(start, two): 0}
        self.nodes: list[Runs] = [start]
        self.reached: list[tuple[int, str]] = [(0, "")]
        self.edges: list[list[int]] = []
        self.transitions = 0

    def join(self, node: int, step: FamilyStep) -> None:
        self.transitions += 1
        there = self.index.setdefault(_key(step.family, self.two), len(self.nodes))
        if there == len(self.nodes):
            self.nodes.append(step.family)
            self.reached.append((node, step.says))
        self.edges[node].append(there)


def explore(two: Pair) -> Exploration:
    """Breadth first through everything that may happen to the pair."""
    graph = Graph(two)
    broken: Broken | None = None
    for node, family in enumerate(graph.nodes):
        graph.edges.append([])
        if len(graph.nodes) > LARGEST:
            raise UserError(f"'{two.upper.machine.name}' {two.name} has more than {LARGEST} states.")
        broken = _expand(graph, node) if family[0].status != "ended" else None
        if broken:
            break
    return Exploration(two.name, len(graph.nodes), graph.transitions, broken=broken or _never_ends(graph))


def _expand(graph: Graph, node: int) -> Broken | None:
    family, step = graph.nodes[node], None
    try:
        for step in happenings(family, graph.two):
            check(family, step)
            graph.join(node, step)
        return None if graph.edges[node] else _counterexample(graph, node, "SYS-1", "nothing leads on")
    except Breach as breach:
        return _counterexample(graph, node, breach.law, breach.says, step)
    except Exception as problem:  # any exception in the rules is a counterexample
        return _counterexample(graph, node, "SYS-3", f"{type(problem).__name__}: {problem}")


def _key(family: Runs, two: Pair) -> tuple[Any, ...]:
    """Each run as the rules see it, and which trees of the lower run the upper one knows."""
    keys = tuple(key(run, NOBODY, two.of(run)) for run in family)
    if len(family) == 1:
        return keys
    top, low = family
    proved = low.evidence.proof.tree if low.evidence.proof else ""
    return (*keys, low.tree == top.tree, low.tree in top.progress.trees, proved == low.tree)


def _never_ends(graph: Graph) -> Broken | None:
    """From every point an end (or a wait for a trigger) can be reached, and every cycle contains a wait."""
    if len(graph.edges) < len(graph.nodes):
        return None
    good = {n for n, family in enumerate(graph.nodes) if family[0].end or listens(family[0])}
    dead_end = graphs.lost(graph.edges, good)
    if dead_end is not None:
        return _counterexample(graph, dead_end, "SYS-1", "from here no end can be reached")
    between = [steps if not waits(graph.nodes[n][0]) else [] for n, steps in enumerate(graph.edges)]
    _, loose = graphs.in_order(between)
    return _counterexample(graph, loose[0], "BOUND", "it goes round without a wait") if loose else None


# ---- a counterexample ---------------------------------------------------------------------------------------------------------


def _counterexample(graph: Graph, node: int, law: str, says: str, last: FamilyStep | None = None) -> Broken:
    way: list[int] = []
    while node:
        way.insert(0, node)
        node = graph.reached[node][0]
    steps = [_replayed(graph, n) for n in way]
    return Broken(law, says, graph.two.name, (*steps, *([_step(last)] if last else [])))


def _replayed(graph: Graph, node: int) -> Step:
    source, says = graph.reached[node]
    target = _key(graph.nodes[node], graph.two)
    ways = happenings(graph.nodes[source], graph.two)
    return _step(next(s for s in ways if s.says == says and _key(s.family, graph.two) == target))


def _step(happened: FamilyStep) -> Step:
    facts = [
        f"{name}: {brief(happened.family[0], fact)}"
        for name, group in happened.facts.items()
        for fact in group
    ]
    state = " > ".join(run.state for run in happened.family)
    return Step(happened.says, tuple(facts), state, happened.family[0].status)
