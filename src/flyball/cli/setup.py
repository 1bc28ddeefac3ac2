"""Commands that a user runs once or seldom: config, trust, completion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import msgspec

from flyball.authority import trust as trusting
from flyball.cli import (
    JSON,
    REPO,
    SET,
    examples,
    print_json,
    print_table,
    repository_of,
    require_repository,
    say,
)
from flyball.config.load import LoadedConfig, Row, load
from flyball.domain.machine import Machine
from flyball.errors import ConfigError, UserError
from flyball.runtime.start import loosened, tracked_files
from flyball.state_dir import environment, paths
from flyball.views.text import plural

# ---- config ---------------------------------------------------------------------------------------------


@click.command(epilog=examples("flyball config", "flyball config budget.usd"))
@click.argument("key", required=False)
@REPO
@SET
@JSON
def config(key: str | None, repo: Path, sets: tuple[str, ...], as_json: bool) -> None:
    """Show the settings and where each value comes from."""
    loaded = load(repository_of(repo), environment(), sets)
    rows = loaded.rows() if key is None else _rows_of(loaded, key)
    if as_json:
        print_json(
            [{"key": row.key, "value": row.value, "origin": row.origin, "doc": row.doc} for row in rows]
        )
    elif key is not None and len(rows) == 1 and rows[0].key.rpartition(".")[2] == key.rpartition(".")[2]:
        say(f"{as_toml(rows[0].value)}  ({rows[0].origin})\n{rows[0].doc}")
    else:
        print_table([("key", "value", "from"), *((row.key, as_toml(row.value), row.origin) for row in rows)])


def _rows_of(loaded: LoadedConfig, key: str) -> list[Row]:
    """The row of a key, or the rows of a table. A limit that nobody set is the machine's own."""
    from flyball.config.load import settled, unknown
    from flyball.config.schema import is_table, key_of

    full = settled(key, loaded.machine, loaded.machines)
    exact = [row for row in loaded.rows() if row.key == full]
    rows = exact or [row for row in loaded.rows() if row.key.startswith(f"{key}.")]
    if not rows and key_of(key, loaded.machines) and not is_table(key, loaded.machines):
        return [_default(full, loaded)]
    if not rows and not is_table(key, loaded.machines):
        raise ConfigError(unknown(key, "", loaded.machines))
    return rows


def _default(key: str, loaded: LoadedConfig) -> Row:
    """The value of a key that nobody set: the default agent for a role, the machine's own limit."""
    from flyball.config.load import unknown
    from flyball.config.schema import key_of, limits_of, split_limit

    row = key_of(key, loaded.machines)
    doc = row.doc if row else ""
    if key.startswith("agents."):
        default = loaded.held().get("agents.default")
        origin = f"agents.default, {default.origin}" if default else "not set"
        return Row(key, str(default.value) if default else "none", origin, doc)
    name, limit = split_limit(key, loaded.machines)
    machine = loaded.table(name)
    if limit not in limits_of(machine):
        raise ConfigError(unknown(key, "", loaded.machines))
    return Row(key, _own(machine, limit), f"machine {machine.name}", doc)


def _own(machine: Machine, limit: str) -> int | str:
    """The machine's own value of a limit."""
    from flyball.domain.settings import show_duration

    state = limit.removeprefix("within.")
    if state != limit and state in machine.within_us:
        return show_duration(machine.within_us[state])
    return machine.most.get(limit, "none")


def as_toml(value: object) -> str:
    """A value nearly as flyball.toml has it."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


# ---- trust ----------------------------------------------------------------------------------------------


@click.command(epilog=examples("flyball trust --list", "flyball trust"))
@REPO
@click.option("--list", "listing", is_flag=True, help="Only list what needs trust.")
@click.option("--forget", is_flag=True, help="Withdraw all trust in this repository.")
@click.option(
    "--machine", default="", metavar="M", help="For runs of this machine (default: the configured one)."
)
@JSON
def trust(repo: Path, listing: bool, forget: bool, machine: str, as_json: bool) -> None:
    """Trust this repository's configuration.

    Settings in tracked files that run programs, reach addresses or relax rules need your agreement once. A file that
    changes needs it again.
    """
    root, env = require_repository(repo), environment()
    store = trusting.TrustStore(paths(env).state_dir)
    if forget:
        say(f"Withdrew trust in {plural(store.forget(root), 'file')} of {root}.")
        return
    loaded = load(root, env, machine=machine)
    needs = trusting.needs(loaded, tracked_files(root), loaded.machine, policy=loosened)
    new = trusting.untrusted(needs, loaded, root, store)
    if not listing:
        for file in dict.fromkeys(need.file for need in new):
            store.trust(root, file, loaded.files[file].sha256)
    if as_json:
        print_json([_need_facts(need, trusted=not (listing and need in new)) for need in needs])
    else:
        _print_needs(needs, new, listing)


def _need_facts(need: trusting.Need, trusted: bool) -> dict[str, Any]:
    return {"file": need.file, "key": need.key, "asks": need.sentence, "trusted": trusted}


def _print_needs(needs: list[trusting.Need], new: list[trusting.Need], listing: bool) -> None:
    if not needs:
        say("Nothing in this repository's tracked files needs trust.")
        return
    for need in needs:
        status = "trusted" if need not in new else "not trusted" if listing else "now trusted"
        say(f"{status:<12}{need.file}: {need.sentence}")
    if new and listing:
        say("\nTrust these files as they are now with `flyball trust`.")


# ---- completion -----------------------------------------------------------------------------------------

SHELLS = {
    "bash": 'eval "$(flyball completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(flyball completion zsh)"    # in ~/.zshrc',
    "fish": "flyball completion fish > ~/.config/fish/completions/flyball.fish",
}


@click.command(epilog=examples(*SHELLS.values()))
@click.argument("shell", type=click.Choice(list(SHELLS)))
def completion(shell: str) -> None:
    """Print a completion script for your shell."""
    from click.shell_completion import get_completion_class

    from flyball.cli import cli

    script = get_completion_class(shell)
    if script is None:
        raise UserError(f"There is no completion for {shell}. Choose bash, zsh or fish.")
    click.echo(script(cli, {}, "flyball", "_FLYBALL_COMPLETE").source())
