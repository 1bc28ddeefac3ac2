"""What an agent is told: the task, where it stands, what is asked of it now, and what it must know from before."""

from __future__ import annotations

from flyball.core import events as e
from flyball.core.machine import JUDGING_ROLES
from flyball.core.run import Run
from flyball.core.turns import claimable

ASKED = {
    "planner": "Work out how to do the task. Do not change any file. End with a short plan.",
    "coder": "Do the task in this checkout: change the files. Do not commit; the supervisor keeps the history.",
    "developer": "Do the task in this checkout: change the files. Do not commit; the supervisor keeps the history.",
    "critic": "Judge whether the change does what the task asks. Do not change any file.",
    "validator": "Work out the technical approach and judge it. Do not change any file.",
    "quality": "Judge the quality of the change. Do not change any file.",
    "worker": "Work on the task until it is truly done. Report your Loop Status at the end of each turn.",
    "author": "Work on the task. When it is done, say {done} alone on the last line; if it cannot be done, FAIL.",
    "reviewer": "Review the work. Say PASS alone on the last line if it may stand, FAIL if it is beyond repair; "
    "otherwise list your findings.",
    "cto": "A task has failed. Look at what happened and claim one recovery: retry, rollback, skip or escalate, "
    "with guidance.",
}
LOOP_STATUS = """
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

**Reason**: why you go on or stop
"""


def prompt(run: Run, act: e.Act) -> str:
    role = act.do.partition(":")[2]
    parts = [
        f"# Task\n\n{run.began.task}",
        f"# Your part\n\nYou are the {role}. {ASKED.get(role, '').format(done=run.settings.done_word)}",
        _claims(run, role),
        _proof(run),
        "# From before\n\n" + "\n\n".join(act.told) if act.told else "",
        "# How to report\n" + LOOP_STATUS.format(turn=act.turn, state=run.state) if role == "worker" else "",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claims(run: Run, role: str) -> str:
    names = claimable(run)
    if role in ("worker", "author", "reviewer") or (len(names) < 2 and role not in JUDGING_ROLES):
        return ""
    lines = "\n".join(f"- OUTCOME: {name}" for name in names)
    return f"# Outcomes\n\nClaim one of these on a line of its own at the end:\n{lines}"


def _proof(run: Run) -> str:
    if not run.settings.proof:
        return ""
    commands = "\n".join(f"    {command}" for command in run.settings.proof)
    return f"# Proof\n\nThe supervisor itself runs these on your tree, in a clean checkout; only that counts:\n{commands}"
