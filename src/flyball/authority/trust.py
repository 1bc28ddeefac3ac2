"""Files that git tracks may tighten settings freely. Running a program or loosening a rule needs the user's trust.

Trust is bound to the file's hash: after any change it is asked for again. A file that git does not track is the
user's own and needs no trust. `needs` is pure; `TrustStore` keeps the answers under the state directory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from flyball.config.load import FOLDER, POLICY_FILE, REPO_FILE, Layer, LoadedConfig, quoted
from flyball.config.loosening import UNKNOWN, added
from flyball.config.schema import Key, key_of, split_limit
from flyball.config.values import Value, parse_agent
from flyball.domain.settings import MINUTE
from flyball.errors import ConfigError, Untrusted
from flyball.machines import SHIPPED
from flyball.reading.terminal import as_object
from flyball.state_dir import private_folder, write_whole

PolicyJudge = Callable[[str], Sequence[str]]


class Need(Struct, frozen=True):
    """One thing in a file that a person must have agreed to."""

    file: str
    key: str
    sentence: str


def needs(
    loaded: LoadedConfig, tracked: Collection[str], machine: str = "", *, policy: PolicyJudge | None = None
) -> list[Need]:
    """What the repository's tracked files ask for, for a run started with `machine`.

    `tracked` holds paths from the root as git lists them. `policy` gives a sentence for each loosening in the text
    of policy.toml; without it the whole file is asked about.
    """
    files = [file for file in loaded.files.values() if is_tracked(file.path, tracked)]
    result: list[Need] = []
    for file in files:
        if file.path == REPO_FILE:
            result += _of_settings(loaded, machine or loaded.machine)
        elif file.path == POLICY_FILE:
            result += [Need(file.path, "", sentence) for sentence in _of_policy(file.text, policy)]
        else:
            result.append(Need(file.path, "", _of_whole(file.path)))
    return result


def is_tracked(path: str, tracked: Collection[str]) -> bool:
    """Whether git tracks the path or what it is reached through: a tracked link or submodule lends its content.

    Letter case is ignored, as some file systems ignore it.
    """
    steps = path.casefold().split("/")
    ways = {"/".join(steps[:n]) for n in range(1, len(steps) + 1)}
    return any(name.casefold() in ways for name in tracked)


def _of_policy(text: str, judge: PolicyJudge | None) -> Sequence[str]:
    return judge(text) if judge else ["it sets the rules of the guard"]


def _of_whole(path: str) -> str:
    """Machines and prompts cannot be compared with another version: they are asked about as a whole."""
    name = Path(path).stem
    if path.startswith(f"{FOLDER}/machines/"):
        kind = "replaces the machine" if name in SHIPPED else "defines the machine"
        return f"it {kind} '{name}', its states and limits"
    return f"it says what an agent is told ('{name}')"


# ---- settings -------------------------------------------------------------------------------------------


def _of_settings(loaded: LoadedConfig, machine: str) -> list[Need]:
    before = {key: one.value for key, one in loaded.below(Layer.REPOSITORY).held(machine).items()}
    result: list[Need] = []
    for key, one in sorted(loaded.held(machine).items()):
        if one.layer is Layer.REPOSITORY:
            old = before.get(key, _bound(key, loaded))
            sentence = _sentence(one.key, old, one.value, loaded)
            result += [Need(REPO_FILE, one.key, sentence)] if sentence else []
    return result


def _sentence(value: str, old: Value, new: Value, loaded: LoadedConfig) -> str:
    """What the value asks for; "" if nothing."""
    row = key_of(value, loaded.machines)
    if row is None:
        raise ConfigError(f"There is no setting '{value}'.")
    programs = [item for item in added(new, old) if row.holds and _is_program(row, item)]
    if programs:
        return f"{value} runs {', '.join(map(quoted, programs))}"
    if new == old or not row.looser(new, old):
        return ""
    was = "no limit is known" if old is UNKNOWN else f"it was {_plain(row.kind.show(old))}"
    return f"{value} loosens to {_plain(row.kind.show(new))} ({was})"


def _is_program(row: Key, item: str) -> bool:
    return row.holds == "commands" or parse_agent(item).is_program


def _plain(value: object) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, bool | list) else str(value)


ALWAYS: dict[str, int] = {"retries": 3, "idle_timeout": 10 * MINUTE, "cooldown": 0}  # in every machine


def _bound(key: str, loaded: LoadedConfig) -> Value:
    """What a limit is when nobody sets it: the machine's own."""
    if not key.startswith("limits."):
        return (() if key.count(".") == 2 else None) if key.startswith("agents.") else UNKNOWN
    name, limit = split_limit(key, loaded.machines)
    machine = loaded.table(name)
    within = {f"within.{state}": length for state, length in machine.within_us.items()}
    phase = {"phase_timeout": min(machine.within_us.values())} if machine.within_us else {}
    return {**ALWAYS, **machine.most, **within, **phase}.get(limit, UNKNOWN)


# ---- the answers ----------------------------------------------------------------------------------------


def untrusted(needs_: Iterable[Need], loaded: LoadedConfig, root: Path, store: TrustStore) -> list[Need]:
    """The needs in files that nobody has agreed to in their present form."""
    return [need for need in needs_ if not store.trusted(root, need.file, loaded.files[need.file].sha256)]


def refusal(needs_: Sequence[Need]) -> Untrusted:
    """The error for a run that cannot ask: which file, what it needs, and how to agree."""
    by_file: dict[str, list[str]] = {}
    for need in needs_:
        by_file.setdefault(need.file, []).append(need.sentence)
    details = "; ".join(f"{file} ({', and '.join(sentences)})" for file, sentences in by_file.items())
    return Untrusted(
        f"Not trusted yet: {details}. Read it, then run `flyball trust`, or add --trust for this run only."
    )


class TrustStore:
    """One small file for each answer, so that two processes never write the same one. Unreadable means no."""

    def __init__(self, state_dir: Path) -> None:
        self.folder = state_dir / "trust"

    def trusted(self, repo_root: Path, path: str, sha256: str) -> bool:
        """Whether a person has agreed to exactly these bytes at this place."""
        return self._read(self._file(repo_root, path, sha256)) == _answer(repo_root, path, sha256)

    def trust(self, repo_root: Path, path: str, sha256: str) -> None:
        """Record the agreement: completely or not at all, readable only by the user."""
        try:
            private_folder(self.folder)
            write_whole(
                self._file(repo_root, path, sha256), json.dumps(_answer(repo_root, path, sha256)).encode()
            )
        except OSError as problem:
            raise ConfigError(
                f"Cannot save the answer in {self.folder}: {problem.strerror}; make the folder writable."
            ) from None

    def forget(self, repo_root: Path) -> int:
        """Take back every agreement for this repository; returns how many there were."""
        root, count = _root(repo_root), 0
        for file in sorted(self.folder.glob("*.json")):
            if self._read(file).get("repo") == root:
                file.unlink(missing_ok=True)
                count += 1
        return count

    def _file(self, repo_root: Path, path: str, sha256: str) -> Path:
        name = "\0".join((_root(repo_root), path, sha256)).encode("utf-8", "surrogateescape")
        return self.folder / f"{hashlib.sha256(name).hexdigest()}.json"

    def _read(self, file: Path) -> dict[str, Any]:
        try:
            return as_object(file.read_bytes()) or {}
        except OSError:
            return {}


def _answer(repo_root: Path, path: str, sha256: str) -> dict[str, str]:
    return {"repo": _root(repo_root), "path": path, "sha256": sha256}


def _root(repo_root: Path) -> str:
    return str(repo_root.resolve())
