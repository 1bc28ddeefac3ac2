"""What is due, as steps on the run. `due` returns the act of the first one; facts only put steps in and take them out.

There is at most one step of a kind, and they stand in the order in which they are done. The agenda is empty when only
the act of the state is due.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct


class Step(Struct, frozen=True, tag=True):
    """Something to do before the act of the state."""


class Halt(Step, frozen=True, tag=True):
    """Somebody wants the run to stop at the next boundary."""

    what: str  # pause | stop | interrupt | take-over | cancel


class Restore(Step, frozen=True, tag=True):
    """The checkout must hold this tree."""

    tree: str
    why: str
    since: str = ""


class Prepare(Step, frozen=True, tag=True):
    """The checkout must be made."""


class Baseline(Step, frozen=True, tag=True):
    """The base tree must be proved, to know what failed before."""


class Prove(Step, frozen=True, tag=True):
    """The gate: this very tree must be proved."""


class Commit(Step, frozen=True, tag=True):
    """The proved tree must be committed."""


class Land(Step, frozen=True, tag=True):
    """A branch of the user's must take the commit; "" is the one that the run began from."""

    branch: str = ""
    who: str = ""  # the person who ordered it, after the end


class Follow(Step, frozen=True, tag=True):
    """An outcome is reached and will be followed; "" is that of a turn that came to nothing."""

    outcome: str
    data: dict[str, Any] = {}
    waits: str = ""  # approval | block | breakpoint | evidence | done: for the answer to that question
    before: str = ""  # approval, block: the tree without the change in question
    past_breakpoint: bool = False


AnyStep = Halt | Restore | Prepare | Baseline | Prove | Commit | Land | Follow
ORDER = (Prepare, Baseline, Prove, Commit, Land, Follow)
TO_FOLLOW = (Prove, Commit, Land, Follow)  # one outcome, and what stands before its transition
ASKED = ("approval", "block", "breakpoint", "evidence", "done")  # what a Follow may wait for
GUARDED = ("approval", "block")  # what a Follow waits for where the guard asked or refused


def put(agenda: tuple[AnyStep, ...], *steps: AnyStep) -> tuple[AnyStep, ...]:
    """The agenda with these steps, each in its place and instead of the last of its kind."""
    kinds = tuple(type(step) for step in steps)
    return tuple(sorted((*without(agenda, *kinds), *steps), key=_place))


def without(agenda: tuple[AnyStep, ...], *kinds: type[Step]) -> tuple[AnyStep, ...]:
    return tuple(step for step in agenda if not isinstance(step, kinds)) if agenda else agenda


def _place(step: AnyStep) -> int:
    """A cancel comes first, then what a person wants undone. A pause does not wait for a tree to be put right; who
    takes the checkout over gets it put right."""
    match step:
        case Halt(what):
            return {"cancel": 0, "take-over": 4}.get(what, 2)
        case Restore():
            return 1 if step.why == "rollback" else 3
        case _:
            return 5 + ORDER.index(type(step))
