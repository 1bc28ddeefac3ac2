"""`flyball machines`: list, show and check state machines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from flyball.cli import (
    JSON,
    REPO,
    examples,
    group_of,
    print_json,
    print_table,
    repository_of,
    say,
    terminal_width,
)
from flyball.domain.machine import NAME, Machine
from flyball.errors import MachineFault
from flyball.machines import SHIPPED, find, from_file, names, unknown
from flyball.views import diagram

FOLDER = Path(".flyball/machines")
ABOUT = {
    "build": "plan, write, test, fix, and a review by a critic",
    "loop": "one agent until its work is proved done; stops when there is no progress",
    "review": "an author and a reviewer, until the review passes",
    "task": "one ticket from planning to commit, with escalation",
    "cto": "runs all the time: takes triggers, plans, and runs a task for each step",
}


def machine_folder(repo: Path) -> Path | None:
    root = repository_of(repo)
    return root / FOLDER if root else None


@click.command(epilog=examples("flyball machines ls"))
@REPO
@JSON
def ls(repo: Path = Path(), as_json: bool = False) -> None:
    """List the built-in machines and the repository's own."""
    folder = machine_folder(repo)
    rows = [_listed(name, folder) for name in names(folder)]
    if as_json:
        print_json([{"name": name, "origin": origin, "about": about} for name, origin, about in rows])
    else:
        print_table([("machine", "from", "about"), *rows])


def _listed(name: str, folder: Path | None) -> tuple[str, str, str]:
    own = bool(folder and (folder / f"{name}.toml").is_file())
    if not own:
        return name, "flyball", ABOUT[name]
    try:
        about = f"{len(find(name, folder).states)} states"
    except MachineFault:
        about = f"has a fault; see `flyball machines check {FOLDER / name}.toml`"
    return name, str(FOLDER), about


@click.command(epilog=examples("flyball machines show build", "flyball machines show task --svg > task.svg"))
@click.argument("name")
@click.option("--json", "form", flag_value="json", help="Print JSON: states, edges, limits.")
@click.option("--mermaid", "form", flag_value="mermaid", help="Print a Mermaid state diagram.")
@click.option("--svg", "form", flag_value="svg", help="Print an SVG picture.")
@REPO
def show(name: str, form: str | None, repo: Path) -> None:
    """Show a machine: its states and where each outcome leads."""
    machine = _find(name, machine_folder(repo))
    if form == "json":
        print_json(diagram.facts(machine))
    elif form == "mermaid":
        click.echo(diagram.mermaid(machine), nl=False)
    elif form == "svg":
        from flyball.views.drawing import svg

        click.echo(svg(machine), nl=False)
    else:
        click.echo(diagram.table(machine, terminal_width() or 100), nl=False)


def _find(name: str, folder: Path | None) -> Machine:
    if not NAME.fullmatch(name):
        raise unknown(name, names(folder))
    return find(name, folder)


@click.command(epilog=examples("flyball machines check .flyball/machines/mine.toml --prove"))
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--prove", "proves", is_flag=True, help="Also check every law, as `flyball prove FILE` does.")
@JSON
def check(file: Path, proves: bool, as_json: bool) -> None:
    """List everything that is wrong with a machine file.

    Exit codes: 0 no fault, 1 a law is broken (--prove), 2 a fault.
    """
    faults, machine = _faults(file)
    proof = _proof(machine, file, as_json) if proves and machine and not faults else None
    if as_json:
        facts = {"file": str(file), "ok": not faults and _holds(proof), "faults": faults}
        print_json({**facts, "proof": proof} if proves else facts)
    elif machine and not faults and not proof:
        say(_no_fault(file, machine))
    else:
        for fault in faults:
            say(fault if str(file) in fault else f"{file}: {fault}", err=True)
    sys.exit(2 if faults else int(not _holds(proof)))


def _no_fault(file: Path, machine: Machine) -> str:
    return f"{file}: no faults in '{machine.name}' ({len(machine.states)} states)."


def _proof(machine: Machine, file: Path, quiet: bool) -> dict[str, Any]:
    """The proof as facts; unless quiet it is also printed, since it may take a while."""
    from flyball.cli.prove import as_text, facts, neighbours
    from flyball.lab.prove.many import timed

    if not quiet:
        say(_no_fault(file, machine))
    proof, took_s = timed(machine, neighbours(file))
    if not quiet:
        say("\n".join(as_text(machine, proof, took_s)))
    return facts(machine, proof, took_s)


def _holds(proof: dict[str, Any] | None) -> bool:
    return proof is None or bool(proof["holds"])


def _faults(file: Path) -> tuple[list[str], Machine | None]:
    try:
        machine = from_file(file)
    except MachineFault as problem:
        return [line.removeprefix(f"{file}: ") for line in str(problem).splitlines()], None
    return _missing_machines(machine, file.absolute().parent), machine


def _missing_machines(machine: Machine, folder: Path) -> list[str]:
    """A state may run a built-in machine or one in the same folder."""
    machines = {*SHIPPED, *names(folder)}
    return [
        f"'{state.name}' runs the machine '{state.of}', which does not exist. Machines: {', '.join(sorted(machines))}."
        for state in machine.states.values()
        if state.act == "run" and state.of not in machines
    ]


machines = group_of(
    "machines", "List, show and check state machines.", "flyball machines show build", ls, show, check
)
