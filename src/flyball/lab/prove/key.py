"""When two runs are equal for every rule.

A field of the run is either listed here, and then kept as far as decisions read it, or not listed, and then kept as it
is: if a rule begins to read something new, the exploration becomes larger, never wrong. Clocks, ids, texts,
sessions and
counts without a limit are left out. Trees are numbered in the order in which the run mentions them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from msgspec.structs import fields

from flyball.core.transition import doubted
from flyball.lab.prove.premises import Premise
from flyball.lab.prove.witness import Witness
from flyball.state.run import GUARDED, AnyStep, Follow, Halt, Part, Plan, Restore, Run

UNREAD = (  # what no decision reads
    *("id", "machine", "settings", "began", "at", "entered_at", "acts", "questions", "child"),
    *("path.previous", "path.answered_by", "path.failure", "progress.error_text", "tries.reason"),
    *("checkout.sandbox", "checkout.base_tree", "checkout.changed", "checkout.lines", "checkout.excused"),
    *(
        "checkout.excused_lines",
        "checkout.certificate",
        "checkout.landings",
        "checkout.pull_request",
        "talk.sessions",
        "talk.notes",
        "talk.message",
        "talk.plan",
    ),
    *("talk.recent", "talk.played", "evidence.before"),
)
READ = (  # what the key below keeps in its own form
    *("state", "status", "end", "stop", "question", "until", "agenda", "act", "turn", "iteration", "tree"),
    *("spent", "path.child_stop", "path.origin", "path.entries", "path.failures", "spending.child_turns"),
    *("spending.idle_children", "spending.turns_base", "spending.iteration_base", "spending.base"),
    *("spending.turn_costs", "spending.turn_tokens", "spending.wall_us", "spending.wall_base"),
    *("checkout.commit", "evidence.fewest", "evidence.proof", "evidence.done_tree", "evidence.ruling"),
    *("evidence.rejected", "evidence.accepted"),
    *("evidence.waivers", "evidence.grants", "progress.trees", "progress.wanders", "progress.idle"),
    *("evidence.baseline", "talk.exit_signal", "talk.indicators"),
    *(
        "progress.unproved",
        "progress.unproved_turns",
        "progress.probes",
        "progress.passed",
        "progress.passes",
    ),
    *("progress.advanced", "progress.error", "progress.errors", "progress.error_before", "tries.retries"),
    *("tries.contexts", "tries.limits", "tries.limited"),
    *(f"plan.{field}" for field in Plan.__struct_fields__),
)
FIELDS = tuple(  # of a run and of its parts
    f"{name}.{field}" if isinstance(default, Part) else name
    for name, default in ((f.name, f.default) for f in fields(Run))
    for field in (default.__struct_fields__ if isinstance(default, Part) else ("",))
)
KEPT = tuple(name for name in FIELDS if name not in UNREAD and name not in READ)
_kept = attrgetter(*KEPT)


class Names:
    """Trees, numbered in the order in which they are mentioned."""

    def __init__(self) -> None:
        self.given: dict[str, int] = {}

    def of(self, tree: str) -> int:
        return self.given.setdefault(tree, len(self.given)) if tree else -1

    def known(self, tree: str) -> int:
        """A tree that nothing else mentions cannot come back, so it does not matter which one it was."""
        return self.given.get(tree, -1)


def key(run: Run, witness: Witness, premise: Premise) -> tuple[Any, ...]:
    if run.status == "ended":
        return run.end, run.state
    trees = Names()
    trees_key = (*_where(run, premise, trees), *_trees(run, premise, trees))
    in_progress = tuple(tree in run.progress.trees for tree in trees.given) if premise.circuit else ()
    plain = tuple([_plain(value) for value in _kept(run)])
    return (
        trees_key,
        in_progress,
        plain,
        _counts(run, premise),
        _spent(run, premise),
        _plan(run.plan, premise) if premise.machine.supervises else (),
        witness.key(run, trees.of, trees.known, premise),
    )


def _plain(value: Any) -> Any:
    """Any value, as something hashable."""
    return value if isinstance(value, bool | int | str) else repr(value)


def _where(run: Run, premise: Premise, trees: Names) -> tuple[Any, ...]:
    stop, act = run.stop, run.act
    return (
        run.state,
        run.status,
        run.path.origin if run.state in premise.origins else "",
        (stop.code, stop.rule) if stop else None,
        run.path.child_stop.code if run.path.child_stop and premise.blames else "",
        run.question.verbs if run.question else None,
        run.until is not None,
        (act.do, act.why, trees.of(act.tree), act.state) if act else None,
        tuple([_step(run, step, trees) for step in run.agenda]),
    )


def _step(run: Run, step: AnyStep, trees: Names) -> tuple[Any, ...]:
    match step:
        case Halt(what):
            return "halt", what
        case Restore():
            return "restore", step.why, trees.of(step.tree)
        case Follow():
            data = dict(step.data)
            if not run.machine.place(run.state, step.outcome).startswith("any:"):
                data.pop("state", None)  # where the table names the state, the data does not
            details = tuple((name, str(value)) for name, value in sorted(data.items()))
            return step.outcome, step.waits, step.past_breakpoint, trees.of(step.before), details
        case _:
            return (type(step).__name__,)


def _trees(run: Run, premise: Premise, trees: Names) -> tuple[Any, ...]:
    guarded = run.pending is not None and run.pending.waits in GUARDED
    now = trees.of(run.tree)
    returns = premise.results == "all"  # a turn may come back to the base tree, or to the one last proved
    base = trees.of(run.progress.trees[0]) if run.progress.trees and returns and premise.circuit else -1
    ruled = trees.of(run.evidence.ruling.tree) if guarded and run.evidence.ruling else -1
    proof = (trees.of if returns else trees.known)(run.evidence.proof.tree) if run.evidence.proof else -1
    return (
        *(now, base, ruled, proof),
        _proof(run) if proof >= 0 else None,
        (
            trees.known(run.checkout.commit.tree),
            run.checkout.commit.landed or run.checkout.commit.pull_request,
        )
        if run.checkout.commit
        else -1,
        trees.known(run.evidence.rejected),
        trees.known(run.evidence.done_tree) if premise.settings.consensus else -1,
        (trees.known(run.progress.passed), min(run.progress.passes, 2)),
        bool(run.evidence.waivers),
        any(call.startswith("once:") for call in run.evidence.grants),
    )


def _proof(run: Run) -> tuple[Any, ...] | None:
    proof = run.evidence.proof
    if proof is None:
        return None
    tests = any(state.act == "proof" for state in run.machine.states.values())
    fails = min(proof.fails, 2) if tests else 0
    return (proof.passed, proof.examined, bool(proof.evidence.doubts), doubted(run), fails)


def _counts(run: Run, premise: Premise) -> tuple[Any, ...]:
    """Counts as far as a limit reads them."""
    idle, errors, turns = (premise.most(k) for k in ("no_progress", "same_error", "turns"))
    circuit = premise.circuit
    return (
        _probing(run, premise),
        min(run.progress.idle, idle) if idle is not None else 0,
        run.progress.wanders and idle is not None,
        run.progress.advanced and circuit,
        run.evidence.fewest if circuit else None,
        (bool(run.progress.error), min(run.progress.errors, errors), run.progress.error_before)
        if errors is not None
        else None,
        min(run.turns + run.spending.idle_children - run.spending.turns_base, turns)
        if turns is not None
        else 0,
        run.tries.retries,
        min(run.tries.contexts, 2),
        run.tries.limits if premise.settings.fallback else 0,
        tuple(
            sorted((agent, until - run.at) for agent, until in run.tries.limited.items() if until > run.at)
        ),
        run.turn > run.tries.retries,
        run.iteration - run.spending.iteration_base if premise.most("iterations") is not None else 0,
        run.iteration % 2 if premise.settings.consensus else 0,
        tuple((k, run.path.entries.get(k, 0)) for k in premise.machine.most if k in premise.machine.states),
        tuple(sorted((k, n) for k, n in run.path.failures.items() if n)),
    )


def _probing(run: Run, premise: Premise) -> tuple[Any, ...]:
    """What decides about probes, where there are any."""
    most, progress, talk = premise.most("probe"), run.progress, run.talk
    if not (most and premise.owner and premise.proves):
        return ()
    still = progress.passes > 0 and progress.passed == run.tree
    signal = talk.exit_signal or len(set(talk.indicators)) > 1
    return (
        min(progress.unproved, most),
        progress.unproved_turns > 0 and still,
        min(progress.probes, 2),
        min(progress.passes, 2) if still else 0,
        signal and still,
    )


def _plan(plan: Plan, premise: Premise) -> tuple[Any, ...]:
    """The plan, and its counts as far as a limit reads them."""
    most = {key: premise.most(key) or 0 for key in ("turns", "no_progress", "same_action", "same_error")}
    assessment = plan.assessment
    return (
        (
            plan.trigger is not None,
            bool(assessment and assessment.reasons),
            len(plan.steps),
            plan.approved,
            plan.step,
        ),
        (
            plan.act is not None,
            plan.halt.code if plan.halt else "",
            plan.replanned,
            plan.advanced,
            plan.warned,
        ),
        min(plan.failures, (premise.most("failures") or 3) + 1),
        min(plan.turns, most["turns"] + 1),
        plan.worked_us,
        min(plan.idle, most["no_progress"] + 1),
        min(plan.said[1], most["same_action"] + 1),
        min(plan.error[1], most["same_error"] + 1),
        tuple(_plan(below, premise) for below in plan.waiting),
    )


def _spent(run: Run, premise: Premise) -> tuple[Any, ...]:
    budget, base = premise.settings.budget, run.spending.base
    if budget.uusd is None and budget.wall_us is None and budget.tokens is None:
        return ()
    costs = run.spending.turn_costs if budget.tokens is None else run.spending.turn_tokens
    wall = (
        min(run.spending.wall_us - run.spending.wall_base, budget.wall_us)
        if budget.wall_us is not None
        else 0
    )
    cost = min(run.spent.cost_uusd - base.cost_uusd, budget.uusd) if budget.uusd is not None else 0
    spent = min(run.spent.tokens - base.tokens, budget.tokens) if budget.tokens is not None else 0
    return wall, cost, spent, costs[:1] if len(set(costs)) == 1 else costs
