"""`flyball machines`: which machines there are, what they look like, and what is wrong with one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from flyball.cli.where import EXAMPLE, print_json, print_table, root_of, screen_width
from flyball.core.machine import NAME, Machine
from flyball.errors import MachineFault, NotFound
from flyball.machines import SHIPPED, find, from_file, names
from flyball.views import diagram

FOLDER = Path(".flyball/machines")
REPO = click.option(
    "--repo",
    default=".",
    type=click.Path(path_type=Path),
    help="A folder of the repository whose machines count.",
)
ABOUT = {
    "build": "governed write-test-fix: planned, written, proved, read by a critic",
    "loop": "one agent until it is truly done; a circuit that opens when nothing moves",
    "review": "author and reviewer, until the work passes",
    "task": "a ticket's life, with the CTO and a human behind it",
    "cto": "the standing loop: triggers, plans, a task for each step",
}


@click.group(
    invoke_without_command=True,
    help=f"List, show and check machines.\n\n{EXAMPLE}flyball machines show build",
)
@click.pass_context
def machines(ctx: click.Context) -> None:
    if ctx.invoked_subcommand is None:
        ctx.invoke(ls)


def _folder(repo: Path) -> Path | None:
    root = root_of(repo)
    return root / FOLDER if root else None


@machines.command(
    help=f"List the machines that ship and the repository's own.\n\n{EXAMPLE}flyball machines ls"
)
@REPO
@click.option("--json", "as_json", is_flag=True, help="Print facts for programs.")
def ls(repo: Path = Path(), as_json: bool = False) -> None:
    folder = _folder(repo)
    rows = [_listed(name, folder) for name in names(folder)]
    if as_json:
        print_json([{"name": name, "origin": origin, "about": about} for name, origin, about in rows])
    else:
        print_table([("machine", "from", "what"), *rows])


def _listed(name: str, folder: Path | None) -> tuple[str, str, str]:
    own = bool(folder and (folder / f"{name}.toml").is_file())
    if not own:
        return name, "flyball", ABOUT[name]
    try:
        about = f"{len(find(name, folder).states)} states"
    except MachineFault:
        about = f"has a fault; see `flyball machines check {FOLDER / name}.toml`"
    return name, str(FOLDER), about


@machines.command(
    help=f"Print a machine: a table, facts or a picture.\n\n{EXAMPLE}flyball machines show task --svg > task.svg"
)
@click.argument("name")
@click.option("--json", "form", flag_value="json", help="Facts: states, edges, limits.")
@click.option("--mermaid", "form", flag_value="mermaid", help="A Mermaid state diagram.")
@click.option("--svg", "form", flag_value="svg", help="A picture.")
@REPO
def show(name: str, form: str | None, repo: Path) -> None:
    machine = _find(name, _folder(repo))
    if form == "json":
        print_json(diagram.facts(machine))
    elif form == "mermaid":
        click.echo(diagram.mermaid(machine), nl=False)
    elif form == "svg":
        from flyball.views.drawing import svg

        click.echo(svg(machine), nl=False)
    else:
        click.echo(diagram.table(machine, screen_width()), nl=False)


def _find(name: str, folder: Path | None) -> Machine:
    if not NAME.fullmatch(name):
        raise NotFound(f"There is no machine called '{name}'. Known: {', '.join(names(folder))}.")
    return find(name, folder)


@machines.command(
    help="Name every fault of a machine file. With --prove also explore every reachable state of it, check every law, "
    "and print the shortest counterexample if one is broken. Exit code 2 for a fault, 1 for a broken law."
    f"\n\n{EXAMPLE}flyball machines check .flyball/machines/mine.toml --prove"
)
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--prove", "proves", is_flag=True, help="Also prove it, as `flyball prove FILE` does.")
@click.option("--json", "as_json", is_flag=True, help="Print facts for programs.")
def check(file: Path, proves: bool, as_json: bool) -> None:
    faults, machine = _faults(file)
    proof = _proof(machine, file, as_json) if proves and machine and not faults else None
    if as_json:
        facts = {"file": str(file), "ok": not faults and _holds(proof), "faults": faults}
        print_json({**facts, "proof": proof} if proves else facts)
    elif machine and not faults and not proof:
        click.echo(_may_run(file, machine))
    else:
        for fault in faults:
            click.echo(f"{file}: {fault}", err=True)
    sys.exit(2 if faults else int(not _holds(proof)))


def _may_run(file: Path, machine: Machine) -> str:
    return f"{file}: '{machine.name}' may run: {len(machine.states)} states, no fault."


def _proof(machine: Machine, file: Path, quiet: bool) -> dict[str, Any]:
    """The proof as facts; unless quiet it is told as it goes, since it may take a while."""
    from flyball.cli.prove import facts, lines, neighbours
    from flyball.lab.prove.many import timed

    if not quiet:
        click.echo(_may_run(file, machine))
    proof, took_s = timed(machine, neighbours(file))
    if not quiet:
        click.echo("\n".join(lines(machine, proof, took_s)))
    return facts(machine, proof, took_s)


def _holds(proof: dict[str, Any] | None) -> bool:
    return proof is None or bool(proof["holds"])


def _faults(file: Path) -> tuple[list[str], Machine | None]:
    try:
        machine = from_file(file)
    except MachineFault as told:
        return [line.removeprefix(f"{file}: ") for line in str(told).splitlines()], None
    return _missing_machines(machine, file.absolute().parent), machine


def _missing_machines(machine: Machine, folder: Path) -> list[str]:
    """A state may run a shipped machine, this one's neighbour, or this one never."""
    known = {*SHIPPED, *names(folder)}
    return [
        f"'{state.name}' runs the machine '{state.of}', which there is not. Known: {', '.join(sorted(known))}."
        for state in machine.states.values()
        if state.act == "run" and state.of not in known
    ]
