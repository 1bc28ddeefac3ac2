"""A tracked file may tighten freely. What runs a program, names an address or loosens a rule needs a person's yes.

The yes is bound to the file's hash: another byte, another question. A file that git does not track is the user's
own and needs none. `needs` is pure; `TrustStore` keeps the answers under the state directory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from msgspec import Struct

from flyball.config.agent import parse_agent
from flyball.config.layers import Layer, quoted
from flyball.config.load import FOLDER, POLICY_FILE, REPO_FILE, Loaded
from flyball.config.schema import NETWORKS, kind_of, split_limit
from flyball.config.values import Value, masked
from flyball.core.settings import MINUTE
from flyball.errors import ConfigError, Untrusted
from flyball.machines import SHIPPED, shipped
from flyball.state_dir import write_whole

Looser = Callable[[Value, Value], bool]
PolicyJudge = Callable[[str], Sequence[str]]


class Need(Struct, frozen=True):
    """One thing in a file that a person must have agreed to."""

    file: str
    key: str
    sentence: str


def needs(
    loaded: Loaded, tracked: Collection[str], machine: str = "", *, policy: PolicyJudge | None = None
) -> list[Need]:
    """What the repository's tracked files ask for, for a run started with `machine`.

    `tracked` holds paths from the root as git lists them. `policy` gives a sentence for each loosening in the text
    of policy.toml; without it the whole file is asked about.
    """
    files = [file for file in loaded.files.values() if is_tracked(file.path, tracked)]
    found: list[Need] = []
    for file in files:
        if file.path == REPO_FILE:
            found += _of_settings(loaded, machine or loaded.machine)
        elif file.path == POLICY_FILE:
            found += [Need(file.path, "", sentence) for sentence in _of_policy(file.text, policy)]
        else:
            found.append(Need(file.path, "", _of_whole(file.path)))
    return found


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
    """Machines and prompts cannot be weighed against another: they are asked about as a whole."""
    name = Path(path).stem
    if path.startswith(f"{FOLDER}/machines/"):
        kind = "replaces the machine" if name in SHIPPED else "defines the machine"
        return f"it {kind} '{name}', its states and bounds"
    return f"it says what an agent is told ('{name}')"


# ---- settings -------------------------------------------------------------------------------------------


def _of_settings(loaded: Loaded, machine: str) -> list[Need]:
    before = {key: one.value for key, one in loaded.below(Layer.REPOSITORY).held(machine).items()}
    found: list[Need] = []
    for key, one in sorted(loaded.held(machine).items()):
        if one.layer is Layer.REPOSITORY:
            old = before.get(key, _bound(key, loaded))
            sentence = _sentence(key, one.key, old, one.value, loaded)
            found += [Need(REPO_FILE, one.key, sentence)] if sentence else []
    return found


def _sentence(key: str, written: str, old: Value, new: Value, loaded: Loaded) -> str:
    """What the value asks for, or nothing."""
    programs = _programs(key, new, old)
    if programs:
        return f"{written} runs {', '.join(map(quoted, programs))}"
    if key == "notify.urls" and (added := _added(new, old)):
        return f"notify.urls sends messages to {', '.join(map(masked, added))}"
    if new == old or not _looser(key)(new, old):
        return ""
    kind = kind_of(written, loaded.machines)
    if kind is None:
        raise ConfigError(f"There is no setting '{written}'.")
    from_old = "where no bound is known" if old is UNKNOWN else f"where it was {_plain(kind.show(old))}"
    return f"{written} loosens to {_plain(kind.show(new))}, {from_old}"


def _plain(shown: object) -> str:
    return json.dumps(shown, ensure_ascii=False) if isinstance(shown, bool | list) else str(shown)


def _programs(key: str, new: Value, old: Value) -> list[str]:
    """The programs that the value names and the one before it did not."""
    if key in ("proof.commands", "workspace.setup"):
        return _added(new, old)
    if key == "rate_limit.fallback":
        return [text for text in _added(new, old) if parse_agent(text).is_program]
    if key.startswith("agents.") and new != old and parse_agent(str(new)).is_program:
        return [str(new)]
    return []


def _added(new: Value, old: Value) -> list[str]:
    return [item for item in _items(new) if item not in _items(old)]


def _items(value: Value) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


UNKNOWN = "?"  # no value of any limit: the bound that a limit is compared with is not known
ALWAYS: dict[str, int] = {"retries": 3, "idle_timeout": 10 * MINUTE, "cooldown": 0}  # in every machine


def _bound(key: str, loaded: Loaded) -> Value:
    """What a limit is when nobody sets it: the shipped machine's own."""
    if not key.startswith("limits."):
        return None if key.startswith("agents.") else UNKNOWN
    machine, name = split_limit(key, loaded.machines)
    bounds = _bounds(machine) if machine in SHIPPED else {}
    return bounds.get(name, UNKNOWN)


def _bounds(machine: str) -> dict[str, int]:
    table = shipped(machine)
    within = {f"within.{state}": length for state, length in table.within_us.items()}
    alert = {f"alert.{state}": length for state, length in table.alert_us.items()}
    phase = {"phase_timeout": min(table.within_us.values())} if table.within_us else {}
    return {**ALWAYS, **table.most, **within, **alert, **phase}


def _looser(key: str) -> Looser:
    """How to tell that a value of this key is looser than the one before."""
    name = key.rpartition(".")[2]
    if key.startswith("limits."):
        return _sooner if name == "cooldown" else _alarm_later if ".alert." in key else _more
    return LOOSER.get(key, _never)


def _never(new: Value, old: Value) -> bool:
    return False


def _more(new: Value, old: Value) -> bool:
    """A bigger number, or no bound where there was one."""
    if old is None or new is None:
        return old is not None
    return not isinstance(old, int) or cast("int", new) > old


def _sooner(new: Value, old: Value) -> bool:
    """A circuit that closes again by itself, or does so sooner; 0 is never."""
    if not isinstance(old, int):
        return new != 0
    return new != 0 and (old == 0 or cast("int", new) < old)


def _alarm_later(new: Value, old: Value) -> bool:
    """An alert that comes later or, being 0, not at all; where there was none, any is tighter."""
    if not isinstance(old, int) or old == 0:
        return False
    return new == 0 or cast("int", new) > old


def _fewer(new: Value, old: Value) -> bool:
    return not set(_items(old)) <= set(_items(new))


def _longer(new: Value, old: Value) -> bool:
    return bool(_added(new, old))


def _differs(new: Value, old: Value) -> bool:
    return new != old


def _is(looser: Value) -> Looser:
    """Looser is this one value."""
    return lambda new, old: new == looser and old != looser


def _is_not(tight: Value) -> Looser:
    """Looser is every change but that to this one value."""
    return lambda new, old: new != tight and new != old


def _wider(new: Value, old: Value) -> bool:
    return NETWORKS.index(str(new)) > NETWORKS.index(str(old))


AT_LEAST: Mapping[str, tuple[str, ...]] = {  # a sandbox -> those that hold at least as well
    "none": ("none", "auto", "landlock", "required", "bwrap"),
    "auto": ("auto", "required", "bwrap"),
    "landlock": ("landlock", "required", "bwrap"),
    "required": ("required", "bwrap"),
    "bwrap": ("bwrap",),
}


def _weaker_sandbox(new: Value, old: Value) -> bool:
    return new not in AT_LEAST[str(old)]


LOOSER: Mapping[str, Looser] = {
    "proof.commands": _fewer,
    "proof.timeout": _more,
    "run.breakpoints": _fewer,
    "run.require_test_pass": _is(False),
    "run.review": _is_not("always"),
    "run.consensus": _is(False),
    "run.indicators": _longer,
    "run.commit": _is_not("branch"),
    "budget.usd": _more,
    "budget.tokens": _more,
    "budget.wall": _more,
    "budget.day_usd": _more,
    "budget.day_tokens": _more,
    "budget.week_usd": _more,
    "budget.week_tokens": _more,
    "budget.plan_percent": _more,
    "guard.policy": _differs,
    "guard.sandbox": _weaker_sandbox,
    "guard.processes": _more,
    "guard.network.agent": _wider,
    "guard.network.proof": _wider,
    "up.parallel": _more,
    "governance.files": _fewer,
    "notify.urls": _fewer,
}


# ---- the answers ----------------------------------------------------------------------------------------


def untrusted(asked: Iterable[Need], loaded: Loaded, root: Path, store: TrustStore) -> list[Need]:
    """The needs of files that nobody has agreed to as they stand."""
    return [need for need in asked if not store.trusted(root, need.file, loaded.files[need.file].sha256)]


def refusal(asked: Sequence[Need]) -> Untrusted:
    """The error for a run that cannot ask: which file, what it wants, and how to say yes."""
    by_file: dict[str, list[str]] = {}
    for need in asked:
        by_file.setdefault(need.file, []).append(need.sentence)
    told = "; ".join(f"{file} ({', and '.join(sentences)})" for file, sentences in by_file.items())
    return Untrusted(
        f"Not trusted yet: {told}. Read it, then say `flyball trust`, or give --trust to agree for this run."
    )


class TrustStore:
    """One small file for each answer, so that two processes never write the same one. Unreadable means no."""

    def __init__(self, state_dir: Path) -> None:
        self.folder = state_dir / "trust"

    def trusted(self, repo_root: Path, path: str, sha256: str) -> bool:
        """Whether a person has agreed to exactly these bytes at this place."""
        return self._read(self._file(repo_root, path, sha256)) == _answer(repo_root, path, sha256)

    def trust(self, repo_root: Path, path: str, sha256: str) -> None:
        """Keep the yes: whole or not at all, readable by the user alone."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(
                self._file(repo_root, path, sha256), json.dumps(_answer(repo_root, path, sha256)).encode()
            )
        except OSError as problem:
            raise ConfigError(
                f"The answer cannot be kept in {self.folder}: {problem.strerror}; make the folder writable."
            ) from None

    def forget(self, repo_root: Path) -> int:
        """Take back every yes for this repository; how many there were."""
        root, gone = _root(repo_root), 0
        for file in sorted(self.folder.glob("*.json")):
            if self._read(file).get("repo") == root:
                file.unlink(missing_ok=True)
                gone += 1
        return gone

    def _file(self, repo_root: Path, path: str, sha256: str) -> Path:
        name = "\0".join((_root(repo_root), path, sha256)).encode("utf-8", "surrogateescape")
        return self.folder / f"{hashlib.sha256(name).hexdigest()}.json"

    def _read(self, file: Path) -> dict[str, Any]:
        try:
            found: object = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _answer(repo_root: Path, path: str, sha256: str) -> dict[str, str]:
    return {"repo": _root(repo_root), "path": path, "sha256": sha256}


def _root(repo_root: Path) -> str:
    return str(repo_root.resolve())
