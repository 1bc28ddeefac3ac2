"""The tasks of the week: the results of their acts, what people answer and do.

`acts`: for a state (`task.testing`) or a purpose (`gate`, `baseline`, `plan-review`), the results one after the other;
after those it goes well. `answers`: what people answer to its questions, in order; after those, a helpful answer.
`does`: what somebody does while it is in a state.
"""

from __future__ import annotations

from msgspec import Struct

ERROR = ("killed",) * 5  # more often than the retries allow
FAILS = ("fails",) * 3
SLOW_BUILD = ("slow",) * 3


class WeekTask(Struct, frozen=True, kw_only=True):
    text: str
    kind: str = "task"
    priority: int = 50
    acts: dict[str, tuple[str, ...]] = {}
    answers: tuple[str, ...] = ()
    does: dict[str, str] = {}
    after: tuple[int, ...] = ()  # other tasks of this list, counted from 1
    later: bool = False  # it waits until somebody starts it
    plan: str = ""  # the file with the plan that it carries out


def _cancelled(state: str, **acts: tuple[str, ...]) -> WeekTask:
    """Somebody cancels it there, and gives the work up."""
    return WeekTask(
        text=f"Cancelled in {state}",
        acts={name.replace("__", "."): words for name, words in acts.items()},
        answers=("drop",),
        does={f"task.{state}": "cancel"},
    )


TASKS: tuple[WeekTask, ...] = (
    # ---- how it should be
    WeekTask(text="Fix the parser"),
    WeekTask(text="Two steps, the second on the first", acts={"cto.PLANNING": ("plan 2",)}),
    WeekTask(text="Builds on the first", after=(1,)),
    WeekTask(text="Later, when somebody starts it", later=True),
    WeekTask(text="The nightly build fails", kind="ci", priority=80),
    WeekTask(text="The start page takes two seconds", kind="performance", priority=60),
    WeekTask(text="A token leaked", kind="security", priority=90),
    WeekTask(text="The bill doubled", kind="cost", priority=70),
    WeekTask(text="A health check fails", kind="health"),
    WeekTask(text="The computer crashes", does={"task.in_progress": "kill"}),
    # ---- plans
    WeekTask(
        text="Change the dependencies, approved", acts={"cto.PLANNING": ("risky",)}, answers=("proceed",)
    ),
    WeekTask(text="Change the dependencies, refused", acts={"cto.PLANNING": ("risky",)}, answers=("drop",)),
    WeekTask(
        text="Change the dependencies, in another way", acts={"cto.PLANNING": ("risky",)}, answers=("replan",)
    ),
    *(
        WeekTask(text="Look for flaky tests", acts={"cto.PLANNING": ("nothing",)}, answers=("drop",))
        for _ in range(4)
    ),
    WeekTask(text="The planner dies", acts={"cto.PLANNING": ERROR}, answers=("replan",)),
    WeekTask(text="The planner takes too long", acts={"cto.PLANNING": ("slow",)}, answers=("replan",)),
    WeekTask(
        text="The planner touches Flyball's files", acts={"cto.PLANNING": ("tamper",)}, answers=("reject",)
    ),
    WeekTask(text="Somebody stops the planning", does={"cto.PLANNING": "stop"}, answers=("replan",)),
    # ---- checks, and the help of the cto role
    WeekTask(
        text="Pending fails three times", acts={"task.pending": FAILS, "task.cto_intervention": ("retry",)}
    ),
    WeekTask(
        text="Assigned fails three times",
        acts={"task.assigned": FAILS, "task.cto_intervention": ("rollback",)},
    ),
    WeekTask(
        text="Validated fails three times", acts={"task.validated": FAILS, "task.cto_intervention": ("skip",)}
    ),
    WeekTask(
        text="Approved fails three times",
        acts={"task.approved": FAILS, "task.cto_intervention": ("escalate",)},
        answers=("retry approved",),
    ),
    WeekTask(
        text="The validator says no three times",
        acts={"task.planning": ("rejected",) * 3, "task.cto_intervention": ERROR},
        answers=("retry planning",),
    ),
    WeekTask(
        text="The validator dies",
        acts={"task.planning": ERROR, "task.cto_intervention": ("slow",)},
        answers=("retry planning",),
    ),
    WeekTask(
        text="The validator takes too long",
        acts={"task.planning": ("slow",), "task.cto_intervention": ("tamper",)},
        answers=("reject",),
    ),
    WeekTask(
        text="The validator touches Flyball's files",
        acts={"task.planning": ("tamper",)},
        answers=("redirect",),
    ),
    # ---- building, testing, reviewing, committing
    WeekTask(text="The build fails three times", acts={"build.plan": SLOW_BUILD}),
    WeekTask(text="The tests fail three times", acts={"task.testing": FAILS}),
    WeekTask(text="The reviewer finds a way in", acts={"review.reviewing": ("grave",)}, answers=("go-on",)),
    WeekTask(text="The review fails three times", acts={"review.reviewing": ("FAIL",) * 3}),
    WeekTask(text="A hook refuses the commit three times", acts={"task.committing": ("refused",) * 3}),
    WeekTask(text="The last proof fails", acts={"gate": ("fails",)}),
    WeekTask(text="A test was removed, accepted", acts={"gate": ("doubts",)}, answers=("approve",)),
    WeekTask(text="A test was removed, not accepted", acts={"gate": ("doubts",)}, answers=("reject",)),
    # ---- out of time
    WeekTask(text="No time is left to plan", acts={"baseline": ("@5h",)}, answers=("proceed",)),
    WeekTask(text="No time is left to build", acts={"task.validated": ("@5h",)}, answers=("proceed", "drop")),
    WeekTask(text="No time is left to review", acts={"task.testing": ("@5h",)}, answers=("proceed", "drop")),
    WeekTask(
        text="No time is left for help",
        acts={"task.approved": ("fails", "fails", "fails@5h")},
        answers=("proceed", "drop"),
    ),
    # ---- a person decides
    WeekTask(
        text="Escalated, and completed by a person",
        acts={"task.approved": FAILS, "task.cto_intervention": ("escalate",)},
        answers=("complete",),
    ),
    WeekTask(
        text="Escalated, and not as complete as a person thinks",
        acts={"task.approved": FAILS, "task.cto_intervention": ("escalate",), "gate": ("fails",)},
        answers=("complete",),
    ),
    WeekTask(
        text="Escalated, and abandoned",
        acts={"task.pending": FAILS, "task.cto_intervention": ("escalate",)},
        answers=("abandon", "drop"),
    ),
    WeekTask(text="Nobody answers for a day", acts={"cto.PLANNING": ("risky",)}, answers=("proceed@26h",)),
    # ---- questions of agents, the guard, budgets and limits
    WeekTask(text="The worker asks", acts={"loop.closed": ("asks",)}, answers=("answer",)),
    WeekTask(
        text="The worker wants a permission",
        acts={"loop.closed": ("needs_approval", "needs_approval")},
        answers=("grant", "approve"),
    ),
    WeekTask(
        text="The guard asks about a change", acts={"loop.closed": ("guard_asks",)}, answers=("approve",)
    ),
    WeekTask(text="The guard refuses a change", acts={"loop.closed": ("deny",)}, answers=("retry",)),
    WeekTask(
        text="The agent's budget is used up", acts={"loop.closed": ("budget_limit",)}, answers=("raise",)
    ),
    WeekTask(text="The login is gone", acts={"loop.closed": ("auth",)}, answers=("go-on",)),
    WeekTask(text="The tests cannot start", acts={"task.testing": ("cannot start",)}, answers=("go-on",)),
    WeekTask(
        text="A rate limit, waited out", acts={"loop.closed": ("rate_limited", "plan_limit", "overloaded")}
    ),
    WeekTask(
        text="The worker changes nothing",
        acts={"loop.closed": ("same",) * 8},
        answers=("go-on", "redirect", "cancel", "drop"),
    ),
    # ---- people at work
    WeekTask(text="Interrupted by something urgent", does={"task.in_progress": "interrupt"}),
    WeekTask(
        text="Urgent and risky",
        kind="security",
        priority=95,
        later=True,
        acts={"cto.PLANNING": ("risky",)},
        answers=("proceed@6h",),
    ),
    WeekTask(text="Goes on while the risky one waits", does={"task.in_progress": "start Urgent and risky"}),
    WeekTask(text="Taken over by hand", does={"task.testing": "take-over"}),
    WeekTask(text="Paused, and told something", does={"task.planning": "pause", "task.testing": "tell"}),
    WeekTask(text="Stopped in the middle", does={"task.in_progress": "stop"}),
    *(
        _cancelled(state)
        for state in (
            "pending",
            "assigned",
            "planning",
            "validated",
            "in_progress",
            "testing",
            "quality_review",
            "approved",
            "committing",
        )
    ),
    _cancelled("cto_intervention", task__pending=FAILS),
    _cancelled("human_escalation", task__pending=FAILS, task__cto_intervention=("escalate",)),
    WeekTask(text="The lane is cancelled while it plans", does={"cto.PLANNING": "cancel"}),
    WeekTask(text="The lane is cancelled while it works", does={"cto.EXECUTING": "cancel"}),
    WeekTask(
        text="The lane is cancelled while it waits", acts={"cto.PLANNING": ("risky",)}, answers=("cancel",)
    ),
    WeekTask(text="After all that"),
    # ---- plan files
    WeekTask(text="Carry out a plan file", plan="plan.md"),
    WeekTask(text="The review of the plan file dies", plan="plan.md", acts={"plan-review": ERROR}),
    WeekTask(
        text="The review of the plan file touches Flyball's files",
        plan="plan.md",
        acts={"plan-review": ("tamper",)},
        answers=("reject",),
    ),
)
