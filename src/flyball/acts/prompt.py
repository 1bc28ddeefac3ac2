"""The prompt of an agent turn: the role and the task, what is known, what is checked, and how to report and to ask.

What a role is told to do stands in `prompts/ROLE.md`. A repository replaces it with `.flyball/prompts/ROLE.md`; there
`{shipped}` stands for the text that ships.
"""

from __future__ import annotations

from functools import cache
from importlib import resources

from flyball.core.run import Run
from flyball.core.tally import CLOSED
from flyball.core.turns import PLAN_REVIEW, claimable
from flyball.domain import events as e
from flyball.domain.machine import JUDGING_ROLES, READ_ONLY_ROLES
from flyball.reading.test_output import failing_names

DIFF_MOST = 24_000  # characters; a prompt may have to fit into an argument of a command
NAMES_MOST = 30
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
PAIR = {
    "author": "When it is done, end your message with {done} alone on the last line. If the task cannot be done, end "
    "with FAIL alone on the last line and say why above it.",
    "reviewer": "If it can be merged, end your message with PASS alone on the last line. If it should be given up, end "
    "with FAIL alone on the last line. Otherwise list what must change, with file and line.",
}
ASK = (
    "If only a person can decide how to go on, ask: change nothing in this turn and end your message with that one "
    "question. The run then waits for the answer, and you get it in your next turn. Do not ask for permission to begin."
)


TOOLS = (
    "The MCP server `flyball` gives you tools for this, and what you say with them counts before your text: `finish` "
    "(the whole task is done), `outcome` (how your turn ended), `report_finding`, `report_progress`, `ask_human` and "
    "`request_approval`. After one of the last two end your turn: the answer comes with your next one."
)


def prompt(run: Run, act: e.Act, instructions: str = "", diff: str = "", tools: bool = False) -> str:
    """`instructions` are the repository's own for this role; `diff` is the change so far, for those who judge it;
    `tools`: the agent has Flyball's MCP server."""
    role = act.do.partition(":")[2]
    parts = {
        "Task": run.task,
        "Your role": _role(role, instructions, act.why),
        "The plan": _plan(run, role),
        "What happened before": "\n\n".join(act.told),
        "Failing now": _failing(run, act),
        "Open findings": _findings(run) if role not in JUDGING_ROLES else "",
        "The change": _change(diff) if role in JUDGING_ROLES else "",
        "The proof": _proof(run) if role in JUDGING_ROLES else "",
        "Checks": _checks(run),
        "How to report": f"{_report(run, act, role)}\n\n{TOOLS}" if tools else _report(run, act, role),
    }
    return "\n\n".join(f"# {title}\n\n{text}" for title, text in parts.items() if text) + "\n"


@cache
def shipped(role: str) -> str:
    """What ships for a role; a role without a text of its own writes code."""
    folder = resources.files("flyball.acts").joinpath("prompts")
    file = folder.joinpath(f"{role}.md")
    return (file if file.is_file() else folder.joinpath("coder.md")).read_text("utf-8").strip()


def _plan(run: Run, role: str) -> str:
    """The plan file that the task carries out, and what a planner made of it."""
    file = f"The task carries out the plan in {run.plan_file}. Read it first." if run.plan_file else ""
    return "\n\n".join(part for part in (file, run.talk.plan if role != "planner" else "") if part)


def _role(role: str, instructions: str, why: str = "") -> str:
    text = shipped(PLAN_REVIEW) if why == PLAN_REVIEW else shipped(role)
    duty = instructions.strip().replace("{shipped}", text) or text
    alone = f"You are the {role} in an unattended run: nobody is there to answer while you work."
    return f"{alone}\n\n{duty}\n\n{READ_ONLY if role in READ_ONLY_ROLES else LIMITS}"


def _failing(run: Run, act: e.Act) -> str:
    """The failing tests of this very tree, with their output unless it has just been given."""
    proof = run.evidence.proof
    if proof is None or proof.passed or proof.tree != run.tree:
        return ""
    names = (proof.failing_tests or failing_names(proof.summary))[:NAMES_MOST]
    listed = "\n".join(f"- {name}" for name in names)
    given = any(proof.summary in text for text in act.told)
    return listed if given else "\n\n".join(part for part in (listed, proof.summary) if part)


def _findings(run: Run) -> str:
    left = [f for f in run.findings if f.status not in CLOSED]
    return "\n".join(f"- {f.id} ({f.severity}) {f.file}:{f.line} {f.text}".strip() for f in left)


def _change(diff: str) -> str:
    """The change itself, as far as it fits."""
    if not diff.strip():
        return "No file has been changed."
    rest = "" if len(diff) <= DIFF_MOST else "\n… The rest is left out; `git diff` shows it."
    return f"`git status` and `git diff` show it too.\n\n```diff\n{diff[:DIFF_MOST].rstrip()}\n```{rest}"


def _proof(run: Run) -> str:
    """How the proof of this very tree ended."""
    proof = run.evidence.proof
    if proof is None or proof.tree != run.tree:
        return (
            "It has not run on this change yet; Flyball runs it before the run may end."
            if run.settings.proof
            else ""
        )
    before = f" Before the run, {run.evidence.baseline} failed." if run.evidence.baseline else ""
    return (
        f"All checks passed on exactly this change.{before}"
        if proof.passed
        else f"It failed:\n\n{proof.summary}"
    )


def _checks(run: Run) -> str:
    if not run.settings.proof:
        return ""
    commands = "\n".join(f"    {command}" for command in run.settings.proof)
    return f"Flyball runs these commands in a clean checkout of your files. All of them must exit 0:\n\n{commands}"


def _report(run: Run, act: e.Act, role: str) -> str:
    if role == "worker":
        return LOOP_STATUS.format(turn=act.turn, state=run.state)
    if role in PAIR:
        told = PAIR[role].format(done=run.settings.done_word)
        return f"{told}\n\n{ASK}" if role == "author" else told
    names = claimable(run)
    if len(names) < 2 and role not in JUDGING_ROLES:
        return ASK
    lines = "\n".join(f"    OUTCOME: {name}" for name in names)
    return f"End your message with one of these lines, alone on its line:\n\n{lines}\n\n{ASK}"
