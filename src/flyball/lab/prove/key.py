"""When two runs are the same to every rule.

A field of the run is either known here, and then kept as far as decisions read it, or unknown, and then kept as it
is: a rule that begins to read something new makes the exploration larger, never wrong. Left out are clocks, ids,
texts, sessions and counts without a limit. Trees are named by the order in which the run speaks of them.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

from flyball.core import events as e
from flyball.core.run import Run
from flyball.lab.prove.premises import Premise
from flyball.lab.prove.witness import Witness

UNREAD = (  # what no decision reads
    *(
        "id",
        "machine",
        "settings",
        "began",
        "at",
        "entered_at",
        "previous",
        "answered_by",
        "acts",
        "questions",
    ),
    *(
        "sandbox",
        "base_tree",
        "changed",
        "lines",
        "baseline",
        "certificate",
        "last_error",
        "sessions",
        "told",
    ),
    *(
        "message",
        "lately",
        "exit_signal",
        "indicators",
        "plan",
        "played",
        "child",
        "excused",
        "excused_lines",
        "cut",
    ),
)
READ = (  # what the key below holds in its own way
    *(
        "state",
        "status",
        "end",
        "stop",
        "question",
        "until",
        "asked",
        "act",
        "held",
        "todo",
        "below",
        "origin",
    ),
    *(
        "turn",
        "below_turns",
        "barren",
        "turns_base",
        "iteration",
        "iteration_base",
        "entries",
        "tree",
        "seen",
    ),
    *(
        "moved_tree",
        "fewest",
        "proof",
        "done_tree",
        "ruling",
        "waived",
        "granted",
        "committed",
        "no_progress",
        "progressed",
    ),
    *("error", "error_count", "error_before", "failures", "spent", "spent_base", "turn_costs", "turn_tokens"),
    *("wall_us", "wall_base", "retries", "contexts", "limits", "limited"),
)
KEPT = tuple(name for name in Run.__struct_fields__ if name not in UNREAD and name not in READ)
_kept = attrgetter(*KEPT)
GUARDED = ("approval", "block")


class Names:
    """Trees by the order in which they are spoken of."""

    def __init__(self) -> None:
        self.given: dict[str, int] = {}

    def of(self, tree: str) -> int:
        return self.given.setdefault(tree, len(self.given)) if tree else -1

    def known(self, tree: str) -> int:
        """A tree that nothing else speaks of will not come back: which one it was is all the same."""
        return self.given.get(tree, -1)


def key(run: Run, witness: Witness, premise: Premise) -> tuple[Any, ...]:
    if run.status == "ended":
        return run.end, run.state
    trees = Names()
    named = (*_where(run, premise, trees), *_trees(run, premise, trees))
    known = tuple(tree in run.seen for tree in trees.given) if premise.circuit else ()
    kept = tuple([_plain(value) for value in _kept(run)])
    return (
        named,
        known,
        kept,
        _counts(run, premise),
        _spent(run, premise),
        witness.key(run, trees.of, trees.known, premise),
    )


def _plain(value: Any) -> Any:
    """Whatever it is, as something that can be looked up."""
    return value if isinstance(value, bool | int | str) else repr(value)


def _where(run: Run, premise: Premise, trees: Names) -> tuple[Any, ...]:
    stop, held, act = run.stop, run.held, run.act
    return (
        run.state,
        run.status,
        run.asked,
        run.origin if run.state in premise.origins else "",
        (stop.code, stop.rule) if stop else None,
        run.below.code if run.below and premise.blames else "",
        run.question.verbs if run.question else None,
        run.until is not None,
        (act.do, act.why, trees.of(act.tree), act.state) if act else None,
        (held.outcome, held.until, _data(run, held, trees)) if held else None,
        (run.todo.why, trees.of(run.todo.tree)) if run.todo else None,
    )


def _data(run: Run, held: e.Held, trees: Names) -> tuple[Any, ...]:
    """What goes with a held outcome; a state is named for nothing where the table names it."""
    data = dict(held.data)
    if not run.machine.place(run.state, held.outcome).startswith("any:"):
        data.pop("state", None)
    return tuple((k, trees.of(v) if k == "before" else str(v)) for k, v in sorted(data.items()))


def _trees(run: Run, premise: Premise, trees: Names) -> tuple[Any, ...]:
    guarded = run.held is not None and run.held.until in GUARDED
    now = trees.of(run.tree)
    returns = premise.results == "all"  # a turn may come back to the base tree, or to the one last proved
    base = trees.of(run.seen[0]) if run.seen and returns and premise.circuit else -1
    ruled = trees.of(run.ruling.tree) if guarded and run.ruling else -1
    proof = (trees.of if returns else trees.known)(run.proof.tree) if run.proof else -1
    return (
        *(now, base, ruled, proof),
        run.proof.passed if run.proof and proof >= 0 else None,
        trees.known(run.committed.tree) if run.committed else -1,
        trees.known(run.done_tree) if premise.settings.consensus else -1,
        bool(run.waived),
        any(call.startswith("once:") for call in run.granted),
    )


def _counts(run: Run, premise: Premise) -> tuple[Any, ...]:
    """Counts as far as a limit reads them."""
    idle, errors, turns = (premise.most(k) for k in ("no_progress", "same_error", "turns"))
    circuit = premise.circuit
    return (
        min(run.no_progress, idle) if idle is not None else 0,
        run.moved_tree and idle is not None,
        run.progressed and circuit,
        run.fewest if circuit else None,
        (bool(run.error), min(run.error_count, errors), run.error_before) if errors is not None else None,
        min(run.turns + run.barren - run.turns_base, turns) if turns is not None else 0,
        run.retries,
        min(run.contexts, 2),
        run.limits if premise.settings.fallback else 0,
        tuple(sorted((agent, until - run.at) for agent, until in run.limited.items() if until > run.at)),
        run.turn > run.retries,
        run.iteration - run.iteration_base if premise.most("iterations") is not None else 0,
        run.iteration % 2 if premise.settings.consensus else 0,
        tuple((k, run.entries.get(k, 0)) for k in premise.machine.most if k in premise.machine.states),
        tuple(sorted((k, n) for k, n in run.failures.items() if n)),
    )


def _spent(run: Run, premise: Premise) -> tuple[Any, ...]:
    budget, base = premise.settings.budget, run.spent_base
    if budget.uusd is None and budget.wall_us is None and budget.tokens is None:
        return ()
    costs = run.turn_costs if budget.tokens is None else run.turn_tokens
    wall = min(run.wall_us - run.wall_base, budget.wall_us) if budget.wall_us is not None else 0
    cost = min(run.spent.cost_uusd - base.cost_uusd, budget.uusd) if budget.uusd is not None else 0
    used = min(run.spent.tokens - base.tokens, budget.tokens) if budget.tokens is not None else 0
    return wall, cost, used, costs[:1] if len(set(costs)) == 1 else costs
