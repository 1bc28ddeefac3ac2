"""What the standing loop works on: a trigger, and the plan that is made for it. Parts of events."""

from __future__ import annotations

from msgspec import Struct

KINDS = ("task", "ci", "performance", "security", "cost", "health", "schedule")  # of triggers
ORDINARY = 50  # the priority of a task, of 0 to 100
URGENT = {"security": 90, "ci": 80, "cost": 70, "performance": 60}


class Trigger(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why the standing loop should work (CTO-5)."""

    kind: (
        str  # task | start | schedule | health | ci | performance | security | cost; hold | release | cancel
    )
    text: str  # what is to be done
    ticket: str = ""  # the task of the backlog that it is
    priority: int = ORDINARY
    commit: str = ""  # the work starts from here …
    tree: str = ""  # … which is this tree
    after: tuple[str, ...] = ()  # tickets that must be done first
    later: bool = False  # it waits until somebody starts it
    plan: str = ""  # a plan file of the repository that it implements (TASK-5)


class PlanStep(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step: it becomes a task."""

    title: str
    paths: tuple[str, ...] = ()
    criteria: tuple[str, ...] = ()


class Assessment(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A plan as Flyball judges it (CTO-2): from the planner's words, by rules, before anything is executed."""

    steps: tuple[PlanStep, ...]
    tier: str = "T3"
    tier_why: str = ""
    approval: tuple[str, ...] = ()  # why a person must say yes first; nothing: no need
    cost_uusd: int = 0  # the estimate, with the basis that it stands on
    tokens: int = 0
    basis: str = ""
    rollback: str = ""
    blockers: tuple[str, ...] = ()
    governance: dict[str, str] = {}  # file -> sha256, as the planner could read it

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why a person must say yes before it is executed (CTO-3, CTO-4); nothing: no need."""
        return (*self.blockers, *self.approval)
