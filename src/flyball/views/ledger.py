"""The pages for a person who looks in now and then (CTO-12): ledger, last known state, plan. Reads runs, decides nothing.

They are rendered from the journal and never read back. The last line of a page is the digest of the rest, so an edit
by hand can be told from what was written here.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence

from flyball.core.standing import outline
from flyball.reading.terminal import plain
from flyball.state.run import Run
from flyball.views import reasons
from flyball.views.text import cost_text, first_few, first_line, iso, one_line, plural

SEAL = re.compile(r"<!-- Written by Flyball; an edit is not read\. sha256: ([0-9a-f]{64}) -->\n?")
TOPS_MOST = 20


def sealed(text: str) -> str:
    """A page with its digest."""
    body = plain(text).rstrip() + "\n\n"
    digest = hashlib.sha256(body.encode("utf-8", "replace")).hexdigest()
    return f"{body}<!-- Written by Flyball; an edit is not read. sha256: {digest} -->\n"


def edited(text: str) -> bool:
    """Whether this is not a page as it was written."""
    body, mark, seal = text.rpartition("<!-- Written by Flyball")
    match = SEAL.fullmatch(mark + seal)
    return not match or hashlib.sha256(body.encode("utf-8", "replace")).hexdigest() != match[1]


def ledger(runs: Sequence[Run], waiting: Sequence[str]) -> str:
    """STATUS_LEDGER.md: of everything under way, what it is for, how far it is, what it waits for, what is next."""
    tops = _tops(runs)
    lines = ["# Status ledger", ""]
    if not tops:
        lines += ["Nothing is running.", ""]
    for run in tops:
        lines += [*_entry(run, runs), ""]
    lines += ["## Backlog", "", *([f"- {one_line(one, 200)}" for one in waiting] or ["No task is waiting."])]
    return sealed("\n".join(lines))


def _tops(runs: Sequence[Run]) -> list[Run]:
    return [run for run in runs if not run.began.parent and run.status != "ended"][:TOPS_MOST]


def _entry(run: Run, runs: Sequence[Run]) -> list[str]:
    working, chain = run, [run]
    while working.child and (below := _find(runs, working.child)) and below not in chain:
        working = below
        chain.append(below)
    asks = next((one for one in reversed(chain) if one.question), None)
    stopped = next((one for one in reversed(chain) if one.stop and one.status != "running"), None)
    rows = [
        ("Objective", run.began.task),
        ("Active task", first_line(run.task) if run.plan.trigger or not run.machine.standing else "none"),
        ("Tier", _tier(run)),
        ("Progress", _progress(run)),
        ("Where", " > ".join(f"{one.machine.name} {one.state} ({one.id})" for one in chain)),
        ("Waits for", _waits_for(run, stopped, asks)),
        ("Request", asks.question.text if asks and asks.question else "none"),
        ("Next", _next(run, working, asks)),
    ]
    title = f"## {run.id}: {run.machine.name}, {run.state}, {run.status}"
    return [title, "", *(f"- **{name}**: {one_line(text, 500)}" for name, text in rows)]


def _waits_for(run: Run, stopped: Run | None, asks: Run | None) -> str:
    """Why it does not go on; a question is quoted below."""
    if run.machine.standing and run.status == "paused" and run.stop and run.stop.code == "interrupted":
        return "`flyball up`, which is not running"
    return " ".join(reasons.why(stopped)[: 1 if asks else 2]) if stopped else "nothing"


def _find(runs: Sequence[Run], name: str) -> Run | None:
    return next((run for run in runs if run.id == name), None)


def _tier(run: Run) -> str:
    assessment, ruling = run.plan.assessment, run.evidence.ruling
    if run.machine.standing and assessment is None:
        return "nothing is planned"
    if assessment is not None:
        return f"{assessment.tier} ({assessment.tier_why.rstrip('.')})"
    return f"{ruling.tier} ({ruling.tier_why.rstrip('.')})" if ruling and ruling.tier else "not known yet"


def _progress(run: Run) -> str:
    spent = f"{plural(run.turns, 'turn')}, {cost_text(run, unknown='cost unknown')}"
    if run.machine.standing:
        steps = f"{run.plan.step} of {len(run.plan.steps)} steps done" if run.plan.steps else "no plan"
        ended = [became for became in run.plan.outcomes.values() if became.startswith("done")]
        return f"{steps}; {plural(len(ended), 'task')} done so far; {spent}"
    return f"{spent}; {plural(len(run.checkout.changed), 'file')} changed"


def _next(run: Run, working: Run, asks: Run | None) -> str:
    if asks is not None and asks.question is not None:
        return reasons.how_to_answer(asks.question)
    if run.machine.standing and run.status == "paused":
        return reasons.next_step(run).removeprefix("Next: ").rstrip(".")
    if run.machine.standing and run.here.act == "listen":
        return "take the next task of the backlog"
    if working.status == "running":
        titles = [one_line(step.title) for step in run.plan.steps[run.plan.step :]]
        then = f", then {first_few(titles[1:], 3)}" if titles[1:] else ""
        return f"finish '{titles[0] if titles else working.state}'{then}"
    return reasons.next_step(working)


def last_known_state(runs: Sequence[Run]) -> str:
    """LAST_KNOWN_STATE.md: the position of each machine, and where its files are."""
    lines = ["# Last known state", ""]
    for run in _tops(runs) or runs[:1]:
        lines += [f"## {run.id}", "", *(f"- **{name}**: {text}" for name, text in _position(run) if text), ""]
    return sealed("\n".join(lines))


def _position(run: Run) -> list[tuple[str, str]]:
    return [
        ("Machine", run.machine.name),
        ("State", f"{run.state} ({run.status}), since {iso(run.entered_at)}"),
        ("Previous state", run.path.previous or "none"),
        ("Task", first_line(run.task)),
        ("Steps done", f"{run.plan.step} of {len(run.plan.steps)}" if run.plan.steps else ""),
        (
            "Files",
            f"commit {run.plan.commit}"
            if run.plan.commit
            else f"tree {run.tree}"
            if run.tree
            else "none yet",
        ),
        ("Child run", run.child or "none"),
        *(("Interrupted", one_line(one, 200)) for one in _aside(run)),
        ("Stopped", f"{reasons.happened(run.stop, run.state)} ({run.stop.code})" if run.stop else ""),
    ]


def _aside(run: Run) -> Iterable[str]:
    for plan in run.plan.waiting:
        yield f"{plan.trigger.text if plan.trigger else ''} ({plan.step} of {len(plan.steps)} steps done)"


def plan_page(runs: Sequence[Run]) -> str:
    """PLAN.md: the plan of each lane, with its criteria; ticked where a step is done."""
    lines = ["# Plan", ""]
    for run in runs:
        if run.plan.assessment is None or run.status == "ended":
            continue
        lines += [f"## {run.id}: {first_line(run.task, 200)}", "", *_facts(run), ""]
        for number, step in enumerate(run.plan.assessment.steps):
            tick = "x" if number < run.plan.step else " "
            where = f" ({', '.join(step.paths)})" if step.paths else ""
            lines.append(f"- [{tick}] {one_line(step.title, 300)}{where}")
            lines += [f"  - {one_line(one, 300)}" for one in step.criteria]
        lines.append("")
    if len(lines) == 2:
        lines.append("Nothing is planned.")
    return sealed("\n".join(lines))


def _facts(run: Run) -> list[str]:
    assessment = run.plan.assessment
    assert assessment is not None
    facts = [
        line for line in outline(run).splitlines() if line.startswith(("Tier:", "Estimate:", "Rollback:"))
    ]
    needed = f"needed. {' '.join(assessment.reasons)}" if assessment.reasons else "not needed"
    approval = "approved" if run.plan.approved else needed
    return [*(f"- {line}" for line in (*facts, f"Approval: {approval}"))]
