"""The prompt of an agent turn: the role and the task, what happened before, what is checked, and how to report."""

from __future__ import annotations

from flyball.core.run import Run
from flyball.core.turns import claimable
from flyball.domain import events as e
from flyball.domain.machine import JUDGING_ROLES, READ_ONLY_ROLES

SIGNALLING_ROLES = ("worker", "author", "reviewer")  # they report by other means than an OUTCOME line

WRITE = (
    "Change the files in this checkout so that the task is done. Do not commit; Flyball records your changes."
)
JUDGE = "`git status` and `git diff` show the change."
DUTIES = {
    "planner": "Read the code and plan the change: which files, what to do in each, and how to check it. "
    "End with the plan, in a few steps; another agent will carry it out.",
    "coder": WRITE,
    "developer": WRITE,
    "critic": f"Decide whether the change does what the task asks and can be merged. {JUDGE}",
    "quality": f"Decide whether the change is good enough to merge: correct, readable, tested. {JUDGE}",
    "validator": "Work out a technical approach for the task and decide whether it is sound.",
    "worker": f"{WRITE} Work on until it is really done; you will get further turns if it is not.",
    "author": f"{WRITE} When it is done, end your message with {{done}} alone on the last line. If the task cannot "
    "be done, end with FAIL alone on the last line and say why above it.",
    "reviewer": f"Review the work. {JUDGE} If it can be merged, end your message with PASS alone on the last line. "
    "If it should be given up, end with FAIL alone on the last line. Otherwise list what must change, "
    "with file and line.",
    "cto": "This task has failed repeatedly. Find out why, and choose one recovery: retry the failed state with "
    "guidance, roll back to an earlier state, skip to the next state, or escalate to a person.",
}
LIMITS = (
    "Every change is checked before the run continues. Unless the task asks for it, do not delete or weaken tests, "
    "do not change CI or test configuration, do not add secrets, and leave .flyball/ alone."
)
READ_ONLY = "You cannot change files in this turn; changes are discarded."
LOOP_STATUS = """\
End your message with this block, filled in. The run ends only if EXIT_SIGNAL is true, at least two indicators are
ticked, and the checks pass. If you need a decision from a person, set Task Status to blocked and ask your question
under Reason: the run then stops until it is answered.

## Loop Status

**Iteration**: {turn}
**Progress**: what you did in this turn
**Circuit State**: {state}
**Task Status**: in_progress | blocked | complete

### Completion Indicators
- [ ] Task complete
- [ ] All tests passing

### Exit Decision
EXIT_SIGNAL: true | false

**Reason**: why you go on or stop"""


def prompt(run: Run, act: e.Act, instructions: str = "") -> str:
    """`instructions` are the repository's own for this role (.flyball/prompts/ROLE.md)."""
    role = act.do.partition(":")[2]
    parts = {
        "Task": run.began.task,
        "Your role": f"You are the {role} in an unattended run: nobody is there to answer while you work. {_duty(run, role)}",
        "Instructions of this repository": instructions.strip(),
        "The plan": run.talk.plan if role != "planner" else "",
        "What happened before": "\n\n".join(act.told),
        "Failing now": _failing(run, act),
        "Checks": _checks(run),
        "How to report": _report(run, act, role),
    }
    return "\n\n".join(f"# {title}\n\n{text}" for title, text in parts.items() if text) + "\n"


def _duty(run: Run, role: str) -> str:
    duty = DUTIES.get(role, WRITE).format(done=run.settings.done_word)
    return f"{duty}\n\n{READ_ONLY if role in READ_ONLY_ROLES else LIMITS}"


def _failing(run: Run, act: e.Act) -> str:
    """The output of the failing proof of this very tree, unless it has just been given."""
    proof = run.evidence.proof
    if (
        proof is None
        or proof.passed
        or proof.tree != run.tree
        or any(proof.summary in text for text in act.told)
    ):
        return ""
    return proof.summary


def _checks(run: Run) -> str:
    if not run.settings.proof:
        return ""
    commands = "\n".join(f"    {command}" for command in run.settings.proof)
    return f"Flyball runs these commands in a clean checkout of your files. All of them must exit 0:\n\n{commands}"


def _report(run: Run, act: e.Act, role: str) -> str:
    if role == "worker":
        return LOOP_STATUS.format(turn=act.turn, state=run.state)
    names = claimable(run)
    if role in SIGNALLING_ROLES or (len(names) < 2 and role not in JUDGING_ROLES):
        return ""
    lines = "\n".join(f"    OUTCOME: {name}" for name in names)
    return f"End your message with one of these lines, alone on its line:\n\n{lines}"
