"""Reads the user's file and the repository's `.flyball/`, once. What was read is what is hashed and what is used."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
from msgspec import Struct

from flyball.config import layers
from flyball.config.layers import Assigned, Layer, Source
from flyball.config.schema import key_of, split_limit
from flyball.config.values import Duration, Shown
from flyball.domain.machine import Machine
from flyball.domain.settings import Settings
from flyball.errors import ConfigError, NotFound
from flyball.machines import SHIPPED, from_text, shipped
from flyball.state_dir import paths

FOLDER = ".flyball"
REPO_FILE = f"{FOLDER}/flyball.toml"
POLICY_FILE = f"{FOLDER}/policy.toml"
LARGEST = 1_000_000
MOST_FILES = 200


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


class Loaded(Struct, frozen=True):
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
        """What holds for a run started with `machine`, by full key."""
        found = layers.fold(self.assigned, machine, self.machines)
        if not machine:
            return layers.fold(self.assigned, str(found["run.machine"].value), self.machines)
        return found

    def below(self, layer: Layer) -> Loaded:
        """What would be, had this layer and those above it said nothing."""
        return Loaded(
            tuple(one for one in self.assigned if one.layer < layer),
            self.files,
            self.machines,
        )

    def origin(self, key: str) -> str:
        """Where the value of `key` is from; "" if nobody set it."""
        held = self.held()
        found = held.get(layers.settled(key, self.machine, self.machines))
        return found.origin if found else ""

    def table(self, name: str) -> Machine:
        """The repository's own machine of that name, as it was read, else a shipped one."""
        own = self.files.get(f"{FOLDER}/machines/{name}.toml")
        if own:
            return from_text(own.text, own.path)
        if name in SHIPPED:
            return shipped(name)
        raise NotFound(f"There is no machine called '{name}'. Known: {', '.join(self.machines)}.")

    def rows(self) -> list[Row]:
        """Every key with a value, by name."""
        held = self.held()
        layers.refuse_unknown_limits(held, self.table, self.machines)
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

        layers.refuse_unknown_limits(held, table, self.machines)
        found = _nested(held, self.machines) | {"policy_hash": self._policy_hash(), "notify": ()}
        return msgspec.convert(found, Settings)

    @property
    def addresses(self) -> tuple[str, ...]:
        """Where people are notified. They hold passwords, so they are no part of what a run journals."""
        held = self.held().get("notify.urls")
        return cast("tuple[str, ...]", held.value) if held else ()

    def _policy_hash(self) -> str:
        return self.hashes.get(POLICY_FILE, "")


def _nested(held: Mapping[str, Assigned], machines: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {"budget": {}, "retention": {}, "limits": {}, "timeouts_us": {}}
    for field, value in layers.fields(held).items():
        table, dot, name = field.partition(".")
        if dot:
            found[table][name] = value
        else:
            found[field] = value
    roles = {key[7:]: one.value for key, one in held.items() if key.startswith("agents.")}
    found["agents"] = {role: agent for role, agent in roles.items() if "." not in role}
    for name, _, field in (key.partition(".") for key in roles if "." in key):
        found.setdefault("lent", {}).setdefault(name, {})[field] = roles[f"{name}.{field}"]
    for key, one in held.items():
        if key.startswith("limits."):
            _put_limit(found, key, one, machines)
    return found


def _put_limit(found: dict[str, Any], key: str, one: Assigned, machines: Sequence[str]) -> None:
    name = split_limit(one.key, machines)[1]
    machine = key.removeprefix("limits.").removesuffix("." + name)
    row = key_of(one.key, machines)
    table = "timeouts_us" if row and isinstance(row.kind, Duration) else "limits"
    found[table].setdefault(machine, {})[name] = one.value


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
) -> Loaded:
    """Everything that is configured here. Relative files in flags and environment are taken from `cwd`."""
    cwd = (cwd or Path.cwd()).absolute()
    files = repository_files(repo_root) if repo_root else {}
    machines = _machines(files)
    assigned = [*layers.from_defaults(), *_user(paths(env).config_file, machines)]
    assigned += _repository(repo_root, files, machines)
    assigned += layers.from_environment(env, cwd, machines)
    assigned += layers.from_sets(sets, cwd, machines) + layers.from_agents(agents, cwd)
    if machine:
        assigned.append(layers.from_flag("run.machine", machine, "--machine", cwd, machines))
    for key, flag, more in (
        ("run.breakpoints", "--breakpoint", breakpoints),
        ("guard.pass_env", "--pass-env", pass_env),
    ):
        if more:
            held = layers.fold(assigned, "", machines)[key]
            assigned.append(layers.with_more(key, flag, more, held, cwd))
    return Loaded(tuple(assigned), files, machines)


def _machines(files: Mapping[str, RepoFile]) -> tuple[str, ...]:
    own = [Path(path).stem for path in files if path.startswith(f"{FOLDER}/machines/")]
    return tuple(dict.fromkeys([*SHIPPED, *own]))


def _user(file: Path, machines: Sequence[str]) -> list[Assigned]:
    data = read_small(file)
    if data is None:
        return []
    source = Source(str(file), f"user {file}", Layer.USER, file.parent, machines)
    return layers.from_toml(decoded(data, str(file)), source)


def _repository(root: Path | None, files: Mapping[str, RepoFile], machines: Sequence[str]) -> list[Assigned]:
    if root is None or REPO_FILE not in files:
        return []
    source = Source(REPO_FILE, f"repository {REPO_FILE}", Layer.REPOSITORY, root.absolute(), machines)
    return layers.from_toml(files[REPO_FILE].text, source)


def repository_files(root: Path) -> dict[str, RepoFile]:
    """What the repository says to us: flyball.toml, policy.toml, its machines and its prompts."""
    names = [REPO_FILE, POLICY_FILE, *_listed(root, "machines", ".toml"), *_listed(root, "prompts", "")]
    found = {name: read_small(root / name) for name in names}
    return {name: _repo_file(name, data) for name, data in found.items() if data is not None}


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
    wanted = [f"{where}/{name}" for name in names if name.endswith(suffix) and not name.startswith(".")]
    if len(wanted) > MOST_FILES:
        raise ConfigError(
            f"{where} holds {len(wanted)} files, but at most {MOST_FILES} are read; remove some."
        )
    return wanted


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
