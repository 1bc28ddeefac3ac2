"""What a user does once: `init`, `config`, `trust`, `completion`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from flyball.authority import trust as trusting
from flyball.cli.where import EXAMPLE, need_root, print_json, print_table, root_of
from flyball.config import (
    FOLDER,
    REPO_FILE,
    SHAREABLE,
    Detected,
    Loaded,
    Row,
    detect,
    environment,
    load,
    paths,
    render_config,
)
from flyball.core.machine import Machine
from flyball.errors import ConfigError, UserError
from flyball.runtime.start import loosened, tracked_files
from flyball.workspace.git import reading_user

REPO = click.option(
    "--repo", default=".", type=click.Path(path_type=Path), help="A folder of the repository that is meant."
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print facts for programs.")


# ---- init -----------------------------------------------------------------------------------------------


@click.command(
    help=f"Write .flyball/flyball.toml with what is found here: the test command, the agents.\n\n{EXAMPLE}flyball init"
)
@REPO
@click.option("--force", is_flag=True, help="Write it anew if it is already there.")
@JSON
def init(repo: Path, force: bool, as_json: bool) -> None:
    root, env = need_root(repo), environment()
    file = root / REPO_FILE
    if file.exists() and not force:
        raise UserError(f"{REPO_FILE} is already there; edit it, or give --force to write it anew.")
    found = detect(root, path=env.get("PATH", ""), ignored=_ignored(root))
    _write(file, render_config(found))
    _write(root / FOLDER / "out" / ".gitignore", "*\n")
    loaded = load(root, env)
    trusting.TrustStore(paths(env).state_dir).trust(root, REPO_FILE, loaded.files[REPO_FILE].sha256)
    if as_json:
        print_json(
            {
                "file": str(file),
                "tests": [t.command for t in found.tests],
                "share": found.share,
                "installed": found.agents,
            }
        )
    else:
        _tell(found)


def _ignored(root: Path) -> list[str]:
    """Those of the shareable folders that git ignores."""
    told = reading_user(root, "check-ignore", *SHAREABLE, ok=(0, 1)).out
    return told.decode("utf-8", "replace").split()


def _write(file: Path, text: str) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(f".{file.name}.draft")
        draft.write_text(text, "utf-8")
        draft.replace(file)
    except OSError as problem:
        raise ConfigError(
            f"{file} cannot be written: {problem.strerror}; make the folder writable."
        ) from None


def _tell(found: Detected) -> None:
    click.echo(f"Wrote {REPO_FILE}; it is trusted as it stands.")
    if found.tests:
        click.echo(f"  proof   {found.tests[0].command}   ({found.tests[0].why})")
    else:
        click.echo("  proof   none found: a finished run will say `unproven`; set [proof] commands")
    click.echo(
        f"  agent   none set: pass --agent, or set [agents] default (installed: {', '.join(found.agents) or 'none'})"
    )
    if found.share:
        click.echo(f"  share   {', '.join(found.share)}, read-only in every checkout")
    click.echo(
        f'\nLook it over, commit {FOLDER}/, then: flyball run "Describe the task" --agent "command:my-agent {{prompt}}"'
    )


# ---- config ---------------------------------------------------------------------------------------------


@click.command(help=f"Show every setting and where it is from.\n\n{EXAMPLE}flyball config budget.usd")
@click.argument("key", required=False)
@REPO
@click.option(
    "--set", "sets", multiple=True, metavar="KEY=VALUE", help="As it would be with this flag of `run`."
)
@JSON
def config(key: str | None, repo: Path, sets: tuple[str, ...], as_json: bool) -> None:
    loaded = load(root_of(repo), environment(), sets)
    rows = loaded.rows() if key is None else _rows_of(loaded, key)
    if as_json:
        print_json(
            [{"key": row.key, "value": row.value, "origin": row.origin, "doc": row.doc} for row in rows]
        )
    elif key is not None and len(rows) == 1 and rows[0].key.rpartition(".")[2] == key.rpartition(".")[2]:
        click.echo(f"{shown(rows[0].value)}  ({rows[0].origin})\n{rows[0].doc}")
    else:
        print_table([("key", "value", "from"), *((row.key, shown(row.value), row.origin) for row in rows)])


def _rows_of(loaded: Loaded, key: str) -> list[Row]:
    """The row of a key, or those of a table of keys; a limit that nobody set is the machine's own."""
    from flyball.config.layers import settled, unknown
    from flyball.config.schema import is_table, key_of

    rows = loaded.rows()
    full = settled(key, loaded.machine, loaded.machines)
    found = [row for row in rows if row.key == full] or [row for row in rows if row.key.startswith(f"{key}.")]
    if not found and key_of(key, loaded.machines) and not is_table(key, loaded.machines):
        return [_unset(full, loaded)]
    if not found and not is_table(key, loaded.machines):
        raise ConfigError(unknown(key, "flyball config", loaded.machines))
    return found


def _unset(key: str, loaded: Loaded) -> Row:
    """What holds though nobody set it: the default agent for a role, the machine's own limit."""
    from flyball.config.layers import unknown
    from flyball.config.schema import key_of, limits_of, split_limit

    row = key_of(key, loaded.machines)
    doc = row.doc if row else ""
    if key.startswith("agents."):
        given = loaded.held().get("agents.default")
        origin = f"agents.default, {given.origin}" if given else "not set"
        return Row(key, str(given.value) if given else "none", origin, doc)
    name, limit = split_limit(key, loaded.machines)
    machine = loaded.table(name)
    if limit not in limits_of(machine):
        raise ConfigError(unknown(key, "flyball config", loaded.machines))
    return Row(key, _own(machine, limit), f"machine {machine.name}", doc)


def _own(machine: Machine, limit: str) -> int | str:
    """The machine's own value of a limit."""
    from flyball.core import durations

    state = limit.removeprefix("within.")
    if state != limit and state in machine.within_us:
        return durations.show(machine.within_us[state])
    return machine.most.get(limit, "none")


def shown(value: object) -> str:
    """A value as flyball.toml would have it, near enough to copy."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# ---- trust ----------------------------------------------------------------------------------------------


@click.command(
    help=f"Agree to what this repository's tracked files ask for: programs, addresses, looser rules.\n\n{EXAMPLE}flyball trust --list"
)
@REPO
@click.option("--list", "listing", is_flag=True, help="Only show what is asked for; agree to nothing.")
@click.option("--forget", is_flag=True, help="Take back every yes for this repository.")
@click.option(
    "--machine", default="", help="As for a run with this machine; the configured one unless given."
)
@JSON
def trust(repo: Path, listing: bool, forget: bool, machine: str, as_json: bool) -> None:
    root, env = need_root(repo), environment()
    store = trusting.TrustStore(paths(env).state_dir)
    if forget:
        count = store.forget(root)
        click.echo(f"Took back {count} answer{'' if count == 1 else 's'} for {root}.")
        return
    loaded = load(root, env, machine=machine)
    asked = trusting.needs(loaded, tracked_files(root), loaded.machine, policy=loosened)
    new = trusting.untrusted(asked, loaded, root, store)
    if not listing:
        for file in dict.fromkeys(need.file for need in new):
            store.trust(root, file, loaded.files[file].sha256)
    if as_json:
        print_json([_fact(need, need in new and listing) for need in asked])
    else:
        _tell_trust(asked, new, listing)


def _fact(need: trusting.Need, open_: bool) -> dict[str, Any]:
    return {"file": need.file, "key": need.key, "asks": need.sentence, "trusted": not open_}


def _tell_trust(asked: list[trusting.Need], new: list[trusting.Need], listing: bool) -> None:
    if not asked:
        click.echo("No tracked file of this repository asks for anything: there is nothing to agree to.")
        return
    for need in asked:
        word = "trusted" if need not in new else "not trusted" if listing else "now trusted"
        click.echo(f"{word:<12}{need.file}: {need.sentence}")
    if new and listing:
        click.echo("\n`flyball trust` agrees to these files as they stand; another byte asks again.")


# ---- completion -----------------------------------------------------------------------------------------

HOW = {
    "bash": 'eval "$(flyball completion bash)" in ~/.bashrc',
    "zsh": 'eval "$(flyball completion zsh)" in ~/.zshrc',
    "fish": "flyball completion fish > ~/.config/fish/completions/flyball.fish",
}


@click.command(help=f"Print a completion script for your shell.\n\n{EXAMPLE}{HOW['bash']}")
@click.argument("shell", type=click.Choice(list(HOW)))
def completion(shell: str) -> None:
    from click.shell_completion import get_completion_class

    from flyball.cli import cli

    made = get_completion_class(shell)
    if made is None:
        raise UserError(f"There is no completion for {shell}; choose bash, zsh or fish.")
    click.echo(made(cli, {}, "flyball", "_FLYBALL_COMPLETE").source())
