"""Where each setting comes from: defaults < user < repository < environment < flags, and the last one wins.

Each layer is a list of assignments. The user's file and the repository's `.flyball/` are read once: what was read is what
is hashed and what is used. Every refusal names where, which key, and what is allowed.
"""

from __future__ import annotations

import hashlib
import stat
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from enum import IntEnum
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flyball.config import loosening
from flyball.config.schema import (
    KEYS,
    SECTIONS,
    Key,
    defaults,
    is_table,
    key_of,
    known,
    limits_of,
    split_limit,
)
from flyball.config.values import BadValue, Duration, Shown, Value, nearest, parse_agent, split_role
from flyball.domain.machine import Machine
from flyball.domain.settings import Settings
from flyball.errors import ConfigError
from flyball.machines import SHIPPED, from_text, shipped, unknown as no_machine
from flyball.state_dir import paths

FOLDER = ".flyball"
REPO_FILE = f"{FOLDER}/flyball.toml"
POLICY_FILE = f"{FOLDER}/policy.toml"
LARGEST = 1_000_000
MOST_FILES = 200
PREFIX = "FLYBALL_"
SHARED = ("run",)  # sections whose variables (FLYBALL_RUN_…) are not all settings


class Layer(IntEnum):
    DEFAULT = 0
    USER = 1
    REPOSITORY = 2
    ENVIRONMENT = 3
    FLAG = 4


class Assigned(Struct, frozen=True):
    """One key, its value, and where it is from. `clears` names what it overrides besides its own key."""

    key: str
    value: Value
    origin: str
    layer: Layer
    clears: str = ""


class Source(Struct, frozen=True):
    """Where a layer is from, what relative files in it are relative to, and which machines there are."""

    where: str
    origin: str
    layer: Layer
    base: Path
    machines: Collection[str]


class RepoFile(Struct, frozen=True):
    """A file of the repository as it was read: its path from the root, its text, and the hash of its bytes."""

    path: str
    sha256: str
    text: str


class Row(Struct, frozen=True):
    """One line of `flyball config`."""

    key: str
    value: Shown
    origin: str
    doc: str = ""


class LoadedConfig(Struct, frozen=True):
    """All layers, weakest first, and the repository's files that they and the run use."""

    assigned: tuple[Assigned, ...]
    files: dict[str, RepoFile]
    machines: tuple[str, ...]

    @property
    def machine(self) -> str:
        """The machine that a run is started with."""
        return str(self.held()["run.machine"].value)

    @property
    def hashes(self) -> dict[str, str]:
        """Path -> sha256 of each file of the repository, for a run to pin."""
        return {path: file.sha256 for path, file in self.files.items()}

    def held(self, machine: str = "") -> dict[str, Assigned]:
        """The value of each key for a run started with `machine`."""
        assigned = fold(self.assigned, machine, self.machines)
        if not machine:
            return fold(self.assigned, str(assigned["run.machine"].value), self.machines)
        return assigned

    def below(self, layer: Layer) -> LoadedConfig:
        """The value without this layer and those above it."""
        return replace(self, assigned=tuple(one for one in self.assigned if one.layer < layer))

    def origin(self, key: str) -> str:
        """Where the value of `key` is from; "" if nobody set it."""
        held = self.held()
        assigned = held.get(settled(key, self.machine, self.machines))
        return assigned.origin if assigned else ""

    def table(self, name: str) -> Machine:
        """The repository's own machine of that name, as it was read, else a shipped one."""
        own = self.files.get(f"{FOLDER}/machines/{name}.toml")
        if own:
            return from_text(own.text, own.path)
        if name in SHIPPED:
            return shipped(name)
        raise no_machine(name, tuple(self.machines))

    def rows(self) -> list[Row]:
        """Every key with a value, by name."""
        held = self.held()
        refuse_unknown_limits(held, self.table, self.machines)
        return [self._row(key, one) for key, one in sorted(held.items())]

    def _row(self, key: str, one: Assigned) -> Row:
        row = key_of(one.key, self.machines)
        if row is None:
            raise ConfigError(f"There is no setting '{key}'.")
        return Row(key, row.kind.show(one.value), one.origin, row.doc)

    def settings(self, machine: Machine | None = None) -> Settings:
        """What a run started with `machine` (or the configured one) pins."""
        machine = machine or self.table(self.machine)
        held = self.held(machine.name)

        def table(name: str) -> Machine:
            return machine if name == machine.name else self.table(name)

        refuse_unknown_limits(held, table, self.machines)
        values = _nested(held, self.machines) | {
            "policy_hash": self.hashes.get(POLICY_FILE, ""),
            "notify": (),
        }
        return msgspec.convert(values, Settings)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where people are notified. They hold passwords, so they are no part of what a run journals."""
        held = self.held().get("notify.urls")
        return cast("tuple[str, ...]", held.value) if held else ()


def _nested(held: Mapping[str, Assigned], machines: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {"budget": {}, "retention": {}, "limits": {}, "timeouts_us": {}}
    assigned_values = {row.field: held[key].value for key, row in KEYS.items() if row.field and key in held}
    for field, value in assigned_values.items():
        table, dot, name = field.partition(".")
        if dot:
            values[table][name] = value
        else:
            values[field] = value
    roles = {key[7:]: one.value for key, one in held.items() if key.startswith("agents.")}
    values["agents"] = {role: agent for role, agent in roles.items() if "." not in role}
    for name, _, field in (key.partition(".") for key in roles if "." in key):
        values.setdefault("lent", {}).setdefault(name, {})[field] = roles[f"{name}.{field}"]
    for key, one in held.items():
        if key.startswith("limits."):
            _put_limit(values, key, one, machines)
    return values


def _put_limit(values: dict[str, Any], key: str, one: Assigned, machines: Sequence[str]) -> None:
    name = split_limit(one.key, machines)[1]
    machine = key.removeprefix("limits.").removesuffix("." + name)
    row = key_of(one.key, machines)
    table = "timeouts_us" if row and isinstance(row.kind, Duration) else "limits"
    values[table].setdefault(machine, {})[name] = one.value


# ---- reading --------------------------------------------------------------------------------------------


def load(
    repo_root: Path | None,
    env: Mapping[str, str],
    sets: Sequence[str] = (),
    *,
    agents: Sequence[str] = (),
    machine: str = "",
    breakpoints: Sequence[str] = (),
    pass_env: Sequence[str] = (),
    cwd: Path | None = None,
) -> LoadedConfig:
    """Everything that is configured here. Relative files in flags and environment are taken from `cwd`."""
    cwd = (cwd or Path.cwd()).absolute()
    files = repository_files(repo_root) if repo_root else {}
    machines = _machines(files)
    assigned = [*from_defaults(), *_user(paths(env).config_file, machines)]
    assigned += _repository(repo_root, files, machines)
    assigned += from_environment(env, cwd, machines)
    assigned += from_sets(sets, cwd, machines) + from_agents(agents, cwd)
    if machine:
        assigned.append(from_flag("run.machine", machine, "--machine", cwd, machines))
    for key, flag, more in (
        ("run.breakpoints", "--breakpoint", breakpoints),
        ("guard.pass_env", "--pass-env", pass_env),
    ):
        if more:
            held = fold(assigned, "", machines)[key]
            assigned.append(with_more(key, flag, more, held, cwd))
    return LoadedConfig(tuple(assigned), files, machines)


def _machines(files: Mapping[str, RepoFile]) -> tuple[str, ...]:
    own = [Path(path).stem for path in files if path.startswith(f"{FOLDER}/machines/")]
    return tuple(dict.fromkeys([*SHIPPED, *own]))


def _user(file: Path, machines: Sequence[str]) -> list[Assigned]:
    data = read_small(file)
    if data is None:
        return []
    source = Source(str(file), f"user {file}", Layer.USER, file.parent, machines)
    return from_toml(decoded(data, str(file)), source)


def _repository(root: Path | None, files: Mapping[str, RepoFile], machines: Sequence[str]) -> list[Assigned]:
    if root is None or REPO_FILE not in files:
        return []
    source = Source(REPO_FILE, f"repository {REPO_FILE}", Layer.REPOSITORY, root.absolute(), machines)
    return from_toml(files[REPO_FILE].text, source)


def repository_files(root: Path) -> dict[str, RepoFile]:
    """What the repository says to us: flyball.toml, policy.toml, its machines and its prompts."""
    names = [REPO_FILE, POLICY_FILE, *_listed(root, "machines", ".toml"), *_listed(root, "prompts", "")]
    texts = {name: read_small(root / name) for name in names}
    return {name: _repo_file(name, data) for name, data in texts.items() if data is not None}


def _repo_file(name: str, data: bytes) -> RepoFile:
    return RepoFile(name, hashlib.sha256(data).hexdigest(), decoded(data, name))


def _listed(root: Path, folder: str, suffix: str) -> list[str]:
    where = f"{FOLDER}/{folder}"
    try:
        names = sorted(entry.name for entry in (root / where).iterdir() if entry.is_file())
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise ConfigError(f"{where} cannot be listed: {problem.strerror}; correct or remove it.") from None
    files = [f"{where}/{name}" for name in names if name.endswith(suffix) and not name.startswith(".")]
    if len(files) > MOST_FILES:
        raise ConfigError(
            f"{where} holds {len(files)} files, but at most {MOST_FILES} are read; remove some."
        )
    return files


def read_small(file: Path) -> bytes | None:
    """The bytes of a regular file of at most a megabyte; None if there is none."""
    try:
        if not stat.S_ISREG(file.stat().st_mode):
            raise ConfigError(f"{file} is not a regular file; put a file there or remove it.")
        with file.open("rb") as stream:
            data = stream.read(LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as problem:
        raise ConfigError(f"{file} cannot be read: {problem.strerror}; correct or remove it.") from None
    if len(data) > LARGEST:
        raise ConfigError(f"{file} is larger than a megabyte. Make it smaller.")
    return data


def decoded(data: bytes, where: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        line = data[: problem.start].count(b"\n") + 1
        raise ConfigError(f"{where} is not UTF-8 text (line {line}); save it as UTF-8.") from None


# ---- layers ----------------------------------------------------------------------------------------------


def fold(assigned: Iterable[Assigned], machine: str, machines: Collection[str]) -> dict[str, Assigned]:
    """What holds for a run started with `machine`: a bare limit is a limit of that machine."""
    held: dict[str, Assigned] = {}
    for one in assigned:
        if one.clears:
            held = {key: kept for key, kept in held.items() if key.rpartition(".")[0] + "." != one.clears}
        held[settled(one.key, machine, machines)] = one
    return held


def settled(key: str, machine: str, machines: Collection[str]) -> str:
    """The key with the machine that a bare limit means."""
    if not key.startswith("limits."):
        return key
    limit, name = split_limit(key, machines)
    return f"limits.{limit or machine}.{name}"


def from_defaults() -> list[Assigned]:
    return [Assigned(key, value, "default", Layer.DEFAULT) for key, value in defaults().items()]


# ---- files ----------------------------------------------------------------------------------------------


def from_toml(text: str, source: Source) -> list[Assigned]:
    """The assignments of a file. Bare limits come first: a machine's own are nearer, wherever they stand."""
    assigned = [
        _assigned(key, data, source, as_text=False)
        for key, data in _leaves(parsed(text, source.where), "", source)
    ]
    return sorted(assigned, key=lambda one: _nearness(one.key, source.machines))


def _nearness(key: str, machines: Collection[str]) -> int:
    return 1 if key.startswith("limits.") and split_limit(key, machines)[0] else 0


def parsed(text: str, where: str) -> dict[str, Any]:
    """The table of a TOML text; numbers with a point stay exact."""
    try:
        return tomllib.loads(text, parse_float=Decimal)
    except tomllib.TOMLDecodeError as broken:
        reason = str(broken).replace("at end of document", f"at line {len(text.splitlines())}, the end")
        raise ConfigError(f"{where} is not valid TOML: {reason}; correct the file.") from None
    except (ValueError, ArithmeticError, RecursionError):
        raise ConfigError(
            f"{where} has a number that is too long or tables that are nested too deeply; correct the file."
        ) from None


def _leaves(table: Mapping[str, Any], above: str, source: Source) -> Iterator[tuple[str, object]]:
    for name, data in table.items():
        key = f"{above}.{name}" if above else name
        if "." in name:
            raise ConfigError(unknown(key, source.where, source.machines))
        if isinstance(data, dict):
            yield from _below(key, cast("dict[str, Any]", data), source)
        else:
            yield key, data


def _below(key: str, table: dict[str, Any], source: Source) -> Iterator[tuple[str, object]]:
    if key in KEYS:
        raise ConfigError(_refusal(key, table, source.where, KEYS[key].kind.allowed))
    if not is_table(key, source.machines):
        raise ConfigError(unknown(key, source.where, source.machines))
    yield from _leaves(table, key, source)


# ---- environment and flags ------------------------------------------------------------------------------


def from_environment(env: Mapping[str, str], cwd: Path, machines: Collection[str]) -> list[Assigned]:
    """The assignments of `FLYBALL_<SECTION>_<KEY>`; an empty variable counts as unset."""
    names = {variable(key): key for key in reversed(known(machines))}
    assigned: list[Assigned] = []
    for name in sorted(env):
        source = Source(
            f"Environment variable {name}", f"environment {name}", Layer.ENVIRONMENT, cwd, machines
        )
        if name in names and env[name]:
            assigned.append(_assigned(names[name], env[name], source, as_text=True))
        elif name not in names:
            _refuse_slip(name, list(names))
    return sorted(assigned, key=lambda one: _nearness(one.key, machines))


def variable(key: str) -> str:
    """The environment variable of a key: `limits.loop.turns` is FLYBALL_LIMITS_LOOP_TURNS."""
    return PREFIX + key.replace(".", "_").replace("-", "_").upper()


def _refuse_slip(name: str, names: Sequence[str]) -> None:
    """A variable in one of our sections that is not a key is probably a typing mistake: refuse it rather than
    ignore it.
    """
    section = next((s for s in SECTIONS if name.startswith(variable(s) + "_")), None)
    if section is None:
        return
    start = variable(section) + "_"
    ours = [other.removeprefix(start) for other in names if other.startswith(start)]
    close = nearest(name.removeprefix(start), ours, start)
    if close or section not in SHARED:
        raise ConfigError(f"The environment variable {name} is not a setting{close}; correct or unset it.")


def from_sets(sets: Sequence[str], cwd: Path, machines: Collection[str]) -> list[Assigned]:
    """The assignments of `--set key=value`, in the order given."""
    source = Source("--set", "--set", Layer.FLAG, cwd, machines)
    return [_of_set(text, source) for text in sets]


def _of_set(text: str, source: Source) -> Assigned:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ConfigError(f"--set takes key=value, such as limits.iterations=3, but '{text}' was given.")
    return _assigned(key.strip(), value, source, as_text=True)


def from_agents(texts: Sequence[str], cwd: Path) -> list[Assigned]:
    """`--agent X` plays every role; `--agent ROLE=X` plays one, wherever it stands among the flags."""
    pairs = sorted((split_role(text) for text in texts), key=lambda pair: bool(pair[0]))
    return [_of_agent(role, text, cwd) for role, text in pairs]


def _of_agent(role: str, text: str, cwd: Path) -> Assigned:
    try:
        agent = str(parse_agent(text, cwd))
    except ConfigError as problem:
        raise ConfigError(f"--agent: {problem}") from None
    return Assigned(
        f"agents.{role or 'default'}", agent, "--agent", Layer.FLAG, clears="" if role else "agents."
    )


def from_flag(key: str, value: str, flag: str, cwd: Path, machines: Collection[str]) -> Assigned:
    """The assignment of a flag with a key of its own, such as `--machine`."""
    return _assigned(key, value, Source(flag, flag, Layer.FLAG, cwd, machines), as_text=True)


# ---- one assignment -------------------------------------------------------------------------------------


def _assigned(key: str, data: object, source: Source, *, as_text: bool) -> Assigned:
    row = key_of(key, source.machines)
    if row is None or is_table(key, source.machines):
        raise ConfigError(_misplaced(key, source))
    try:
        value = row.kind.text(str(data)) if as_text else row.kind.read(data)
    except BadValue as wrong:
        raise ConfigError(_refusal(key, data, source.where, str(wrong))) from None
    except ConfigError as problem:
        raise ConfigError(f"{source.where}: {key}: {problem}") from None
    return Assigned(key, _anchored(row, value, source.base), source.origin, source.layer)


def _misplaced(key: str, source: Source) -> str:
    if is_table(key, source.machines) and not key.startswith("agents."):
        return (
            f"{source.where}: '{key}' is a table of settings and takes no value of its own; name a key in it."
        )
    return unknown(key, source.where, source.machines)


def unknown(key: str, where: str, machines: Collection[str]) -> str:
    """The error for an unknown key."""
    section, _, rest = key.partition(".")
    if section == "limits" and "." not in rest and nearest(rest, list(machines)):
        return f"{where}: there is no machine '{rest}'{nearest(rest, list(machines))}; known are {', '.join(machines)}."
    close = (not rest and nearest(key, SECTIONS)) or nearest(key, known(machines))
    sentence = f"there is no setting '{key}'{close}; `flyball config` lists them all."
    return f"{where}: {sentence}" if where else sentence.capitalize()


def _refusal(key: str, data: object, where: str, allowed: str) -> str:
    return f"{where}: {key} is {quoted(data)}, but must be {allowed}."


def quoted(data: object) -> str:
    """A value as a message repeats it: on one line, not too long."""
    text = repr(data) if isinstance(data, str) else str(data)
    text = {"True": "true", "False": "false"}.get(text, " ".join(text.split()))
    return text if len(text) <= 80 else text[:79] + "…"


def _anchored(row: Key, value: Value, base: Path) -> Value:
    """A relative script file made absolute, so that the value means the same wherever it is read."""
    if row.holds != "agents":
        return value
    agents = tuple(str(parse_agent(one, base)) for one in loosening.items(value))
    return agents if isinstance(value, tuple) else agents[0]


def with_more(key: str, flag: str, items: Sequence[str], held: Assigned, cwd: Path) -> Assigned:
    """A flag such as `--breakpoint` adds to what is configured; it takes none away."""
    more = from_flag(key, ",".join(items), flag, cwd, ())
    both = (*cast("tuple[str, ...]", held.value), *cast("tuple[str, ...]", more.value))
    return replace(more, value=tuple(dict.fromkeys(both)))


def refuse_unknown_limits(
    held: Mapping[str, Assigned], table: Callable[[str], Machine], machines: Collection[str]
) -> None:
    """A limit that its machine does not have would be ignored, so it is refused with the names of those there are."""
    for full, one in held.items():
        if not full.startswith("limits."):
            continue
        name = split_limit(one.key, machines)[1]
        machine = table(full.removeprefix("limits.").removesuffix(f".{name}"))
        limits = limits_of(machine)
        if name not in limits:
            plain = [limit for limit in limits if "." not in limit]
            raise ConfigError(
                f"{one.origin}: the machine '{machine.name}' has no limit '{name}'{nearest(name, limits)}; "
                f"it has {', '.join(plain)}, within.STATE and alert.STATE. To set a limit of another machine, write limits.MACHINE.{name}."
            )
