"""`flyball prove`: check every law in every reachable state of a machine, or print the shortest counterexample."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from flyball.cli import JSON, REPO, examples, print_json, say
from flyball.cli.machines import machine_folder
from flyball.domain.machine import NAME, Machine, edges
from flyball.lab.prove import LAWS, Broken, Find, Proof
from flyball.lab.prove.many import proofs
from flyball.machines import SHIPPED, find, from_file, names, shipped, unknown
from flyball.views.text import columns, plural


@click.command(epilog=examples("flyball prove build", "flyball prove .flyball/machines/mine.toml"))
@click.argument("machine", required=False, metavar="[MACHINE|FILE]")
@REPO
@JSON
def prove(machine: str | None, repo: Path, as_json: bool) -> None:
    """Check a state machine in every state that it can reach.

    Tries every result, answer, crash and message, and checks Flyball's laws at each step, for example that no run
    succeeds without a proof. Without a name: the five built-in machines.

    Exit code 1 if a law is broken.
    """
    results: list[dict[str, Any]] = []
    for table, proof, took_s in proofs(list(_chosen(machine, repo))):
        results.append(facts(table, proof, took_s))
        if not as_json:
            say("\n".join(as_text(table, proof, took_s)))
    if as_json:
        print_json(results)
    sys.exit(0 if all(fact["holds"] for fact in results) else 1)


def neighbours(file: Path) -> Find:
    """The machines that a file's states may run: those in its folder, and the built-in ones."""
    return partial(find, folder=file.absolute().parent)


def _chosen(name: str | None, repo: Path) -> Iterator[tuple[Machine, Find]]:
    """A file, a machine by name (the repository's own first), or the five built-in ones."""
    if name is None:
        yield from ((shipped(each), shipped) for each in SHIPPED)
        return
    if name.endswith(".toml") or "/" in name:
        yield from_file(Path(name)), neighbours(Path(name))
        return
    by_name = partial(find, folder=machine_folder(repo))
    if not NAME.fullmatch(name):
        raise unknown(name, names(machine_folder(repo)))
    yield by_name(name), by_name


# ---- as text ----------------------------------------------------------------------------------------------------


def as_text(machine: Machine, proof: Proof, took_s: float) -> Iterator[str]:
    verdict = "all laws hold" if proof.holds else f"{proof.broken.law} is broken" if proof.broken else ""
    size = f"{plural(proof.states, 'state')}, {plural(proof.transitions, 'transition')}, {took_s:.1f} s"
    yield f"{machine.name}: {verdict} ({size})"
    if proof.broken:
        yield from _counterexample(proof.broken)
        return
    yield f"  laws     {' '.join(proof.laws)}"
    yield f"  bound    ends or waits within {plural(proof.bound, 'turn')}{_inside(proof)}"
    untaken = sorted(set(edges(machine)) - proof.taken)
    if untaken:
        yield f"  not used yet: {', '.join(f'{a}→{b}' for a, b in untaken)}"


def _inside(proof: Proof) -> str:
    parts = ", ".join(f"{plural(turns, 'turn')} per {name}" for name, turns in proof.below.items())
    return f" ({parts})" if parts else ""


def _counterexample(broken: Broken) -> Iterator[str]:
    yield f"  {LAWS[broken.law]}: {broken.says}."
    yield f"  premise: {broken.premise}"
    if not broken.steps:  # the table alone shows it
        return
    rows = [(str(n), s.says, s.state, s.status, "; ".join(s.facts)) for n, s in enumerate(broken.steps, 1)]
    yield from (f"  {line}" for line in columns(("", "what happens", "state", "status", "facts"), rows))


# ---- as facts ----------------------------------------------------------------------------------------------------


def facts(machine: Machine, proof: Proof, took_s: float) -> dict[str, Any]:
    return {
        "machine": machine.name,
        "holds": proof.holds,
        "states": proof.states,
        "transitions": proof.transitions,
        "took_s": round(took_s, 3),
        "bound_turns": proof.bound if proof.holds else None,
        "below": proof.below,
        "laws": list(proof.laws),
        "premises": [
            {"name": p.premise, "states": p.states, "transitions": p.transitions} for p in proof.explored
        ],
        "untaken": sorted(set(edges(machine)) - proof.taken) if proof.holds else [],
        "counterexample": _as_facts(proof.broken) if proof.broken else None,
    }


def _as_facts(broken: Broken) -> dict[str, Any]:
    steps = [
        {"says": s.says, "facts": list(s.facts), "state": s.state, "status": s.status} for s in broken.steps
    ]
    return {"law": broken.law, "says": broken.says, "premise": broken.premise, "steps": steps}
