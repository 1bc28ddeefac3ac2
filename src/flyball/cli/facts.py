"""What `show` shows: the fold of a run, and what its history adds (proofs, rulings, iterations)."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from flyball.cli.runs import asking, certificate_file, question_lines, summary, why
from flyball.core import events as e
from flyball.core.durations import elapsed
from flyball.core.run import Run
from flyball.core.stops import dollars
from flyball.runtime.app import App
from flyball.views.text import clean, day_and_clock, many, one_line, some

LIST_MOST = 12


def facts(app: App, run: Run) -> dict[str, Any]:
    """The summary, and all that `show` adds to it."""
    history = [e.decode(entry.body) for entry in app.journal.read(run.id)]
    certificate = certificate_file(app, run)
    return {
        **summary(app, run),
        "events": len(history),
        "repo": run.began.repo,
        "parent": run.began.parent or None,
        "children": [row.run for row in app.journal.rows(parent=run.id)],
        "began_at": run.began.at,
        "updated_at": run.at,
        "driven": app.driven(run.id),
        "settings": msgspec.to_builtins(run.settings),
        "base_commit": run.began.commit,
        "answers_out_of_reach": confined(run),
        "certificate_file": str(certificate) if certificate else None,
        "baseline_failing": run.baseline,
        "proofs": [_proof_facts(event) for event in history if _is_proof(event)],
        "rulings": [msgspec.to_builtins(event.ruling) for event in history if isinstance(event, e.Ruled)],
        "why": why(app, run),
    }


def _is_proof(event: e.AnyEvent) -> bool:
    return isinstance(event, e.ActFinished) and isinstance(event.result, e.ProofEnded)


def _proof_facts(event: e.AnyEvent) -> dict[str, Any]:
    assert isinstance(event, e.ActFinished)
    return {"key": event.key, "took_us": event.took_us, **msgspec.to_builtins(event.result)}


# ---- for people ------------------------------------------------------------------------------------------


def shown(app: App, run: Run) -> list[str]:
    told = facts(app, run)
    lines = [f"Run {run.id}: {_place(app, run)}", ""]
    lines += [f"  {name:<12} {value}" for name, value in _rows(run, told) if value]
    lines += _history(told)
    asks = asking(app, run)
    if asks is not None:
        lines += ["", *question_lines(asks)]
    return [*lines, "", *told["why"]]


def _place(app: App, run: Run) -> str:
    code = f" ({run.stop.code})" if run.stop else ""
    driver = "" if run.status == "ended" else ", driven" if app.driven(run.id) else ", not driven"
    return f"{run.machine.name} in '{run.state}', {run.status}{code}{driver}"


def _rows(run: Run, told: dict[str, Any]) -> list[tuple[str, str]]:
    now = time.time_ns() // 1000
    last = run.at if run.status == "ended" else now
    proof = "; ".join(clean(command) for command in run.settings.proof)
    return [
        ("task", one_line(run.began.task, 200)),
        ("repository", run.began.repo),
        ("below", run.began.parent),
        ("began", f"{day_and_clock(run.began.at)}, {elapsed(now - run.began.at)} ago"),
        ("elapsed", f"{elapsed(last - run.began.at)}, at work {elapsed(run.wall_us)}"),
        ("agents", _agents(run)),
        ("proof", proof or "none: the end is unproven"),
        ("risk", f"{run.ruling.tier}: {run.ruling.tier_why}" if run.ruling and run.ruling.tier else ""),
        ("guard", f"policy {run.settings.policy}, sandbox {run.sandbox or run.settings.sandbox}"),
        ("answers", _answers(run)),
        ("budget", _budget(run)),
        ("turns", f"{run.turns}{_of(run.most('turns'))}"),
        ("iteration", f"{run.iteration}{_of(run.most('iterations'))}" if run.iteration else ""),
        ("breakpoints", ", ".join(run.settings.breakpoints)),
        ("changed", f"{many(len(run.changed), 'file')}: {some(run.changed)}" if run.changed else "nothing"),
        ("branch", (told["branch"] or "") if run.changed else ""),
        ("certificate", told["certificate_file"] or ""),
        ("children", some(told["children"])),
        ("events", str(told["events"])),
    ]


def _agents(run: Run) -> str:
    return ", ".join(f"{role}={one_line(agent, 60)}" for role, agent in sorted(run.settings.agents.items()))


def _answers(run: Run) -> str:
    """HUMAN-4, and where it is only best effort."""
    if confined(run):
        return "a person's alone: its agents can reach neither the journal nor the key of letters"
    return "a person's alone as far as can be told: without a sandbox an agent has your own rights"


def confined(run: Run) -> bool:
    return (run.sandbox or "unsandboxed") not in ("unsandboxed", "none")


def _of(most: int | None) -> str:
    return f" of {most}" if most is not None else ""


def _budget(run: Run) -> str:
    budget = run.settings.budget
    money = dollars(run.spent.cost_uusd) + (f" of {dollars(budget.uusd)}" if budget.uusd is not None else "")
    tokens = f"{run.spent.tokens}{_of(budget.tokens)} tokens"
    wall = f", {elapsed(budget.wall_us)} at most" if budget.wall_us is not None else ""
    return f"{money}, {tokens}{wall}"


def _history(told: dict[str, Any]) -> list[str]:
    lines: list[str] = []
    for proof in told["proofs"][-LIST_MOST:]:
        outcome = "passed" if proof["passed"] else f"failed, {proof.get('failing', '?')} failing"
        lines.append(f"  {'proof':<12} {outcome} on tree {proof['tree'][:10]} ({elapsed(proof['took_us'])})")
    for ruling in told["rulings"][-LIST_MOST:]:
        if ruling["verdict"] != "allow":
            where, reason = one_line(ruling.get("file", "")), one_line(ruling.get("reason", ""))
            lines.append(f"  {'ruling':<12} {ruling['verdict']} {ruling.get('rule', '')} {where}: {reason}")
    allowed = sum(ruling["verdict"] == "allow" for ruling in told["rulings"])
    return [*lines, f"  {'rulings':<12} {many(len(told['rulings']), 'change')} judged, {allowed} allowed"]
