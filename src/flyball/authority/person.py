"""Commands that speak for a person are accepted from a person only, never from an agent (HUMAN-4).

Every such command passes two checks:

- Whose process is it? A process belongs to an agent if its ancestors include the keeper of an act, if it
carries a run's
  mark, or if it lives in another PID namespace than the drivers. A keeper is the subreaper of its act, so a process
  that forks twice, leaves its session or clears its environment stays below it.
- Whose message is it? Each message carries a seal made with a key of the state directory, which a sandbox hides. A
  driver refuses a message without a valid and unused seal, and records that.

Without a sandbox an agent has the user's own rights: it can read the key, kill its keeper or use another process. Then
both checks are best effort, and `flyball show` says so.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import json
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from flyball.domain.messages import decode, encode
from flyball.errors import ConfigError
from flyball.journal import Message
from flyball.journal.database import namespace, namespaces
from flyball.reading.terminal import as_object
from flyball.state_dir import StateDir, create_whole

KEY, USED = "person.key", "seals"
KEEPER = "keeper.py"
ANCESTORS_MOST = 256
PROC = Path("/proc")


# ---- whose process -----------------------------------------------------------------------------------------


class Agent(Struct, frozen=True):
    """Why a process is considered an agent's: the run that it belongs to, if known, and the evidence."""

    run: str
    how: str


def agent_above(
    state_dir: Path, environ: Mapping[str, str], is_run: Callable[[str], bool], pid: int | None = None
) -> Agent | None:
    """The agent that this process (or the given one) belongs to; None if it may be a person's.

    `is_run` tells the runs of this state directory; agents of another one are not recognised.
    """
    for ancestor in _line(_here() if pid is None else pid):
        key = _kept_act(ancestor, state_dir)
        if key:
            return Agent(key.rpartition("-")[0], f"its process descends from the keeper of act {key}")
        for run in _marks(ancestor):
            if is_run(run):
                return Agent(run, f"its process descends from one of run {run}")
    marked = environ.get("FLYBALL_RUN", "") if pid is None else ""
    if marked and is_run(marked):
        return Agent(marked, f"its environment is that of run {marked}")
    spaces = namespaces(state_dir)
    if pid is None and spaces and namespace() not in spaces:
        return Agent("", "its process is in another PID namespace than Flyball's")
    return None


def _here() -> int:
    """This process as /proc numbers it, which may be that of an outer namespace."""
    try:
        return int((PROC / "self").readlink().name)
    except (OSError, ValueError):
        return os.getpid()


def _line(pid: int) -> Iterator[int]:
    """The process and its ancestors."""
    for _ in range(ANCESTORS_MOST):
        if pid <= 0:
            return
        yield pid
        pid = _parent(pid)


def _parent(pid: int) -> int:
    try:
        return int((PROC / str(pid) / "stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _kept_act(pid: int, state_dir: Path) -> str:
    """The act whose keeper that process is; "" if it is none of this state directory."""
    words = _words(pid, "cmdline")
    for name, folder in itertools.pairwise(words):
        if name.rpartition("/")[2] == KEEPER:
            place = Path(folder)
            return place.name if place.parent.resolve() == StateDir(state_dir).acts.resolve() else ""
    return ""


def _marks(pid: int) -> list[str]:
    return [word[12:] for word in _words(pid, "environ") if word.startswith("FLYBALL_RUN=")]


def _words(pid: int, name: str) -> list[str]:
    try:
        return os.fsdecode((PROC / str(pid) / name).read_bytes()).split("\0")
    except OSError:
        return []


# ---- whose message ------------------------------------------------------------------------------------------


class Seals:
    """Makes and checks the seals of messages, with the key of one state directory."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir

    def sealed(self, run: str, body: bytes) -> bytes:
        """The message with a seal: valid only for this run, these words, and one use."""
        nonce = secrets.token_hex(16)
        row: dict[str, Any] = json.loads(body)
        return json.dumps({**row, "nonce": nonce, "seal": self._seal(run, nonce, body)}).encode()

    def _seal(self, run: str, nonce: str, body: bytes) -> str:
        content = b"\0".join((run.encode(), nonce.encode(), encode(decode(body))))
        return hmac.new(self._key(), content, hashlib.sha256).hexdigest()

    def fault(self, message: Message, use: bool = False) -> str:
        """Why this message does not count, as the end of a sentence; "" if it does. `use` marks its seal as used."""
        row = as_object(message.body) or {}
        if row.get("is") == "Tried":
            return complaint(message.body)
        nonce, seal = str(row.get("nonce", "")), str(row.get("seal", ""))
        if not re.fullmatch(r"[0-9a-f]{32}", nonce) or not seal:
            return "it is not signed: only your own commands can send messages"
        try:
            right = self._seal(message.run, nonce, message.body)
        except msgspec.MsgspecError:
            return "it cannot be read"
        except ConfigError as problem:
            return f"its signature cannot be checked: {problem}"
        if not hmac.compare_digest(right.encode(), seal.encode("utf-8", "replace")):
            return "its signature is wrong: it was forged, changed, or meant for another run"
        return self._spent(message, nonce, use)

    def _spent(self, message: Message, nonce: str, use: bool) -> str:
        try:
            fresh = self._fresh(self.state_dir / USED / message.run / nonce, str(message.id), use)
        except OSError as problem:
            return f"it cannot be marked as used: {problem.strerror}. Fix this, then send it again"
        return "" if fresh else "it was used before: a message counts once"

    def _fresh(self, place: Path, number: str, use: bool) -> bool:
        """A seal belongs to the first message that used it; that one may be taken again after a crash."""
        if use:
            for folder in (place.parents[1], place.parent):
                folder.mkdir(mode=0o700, exist_ok=True)
            create_whole(place, number.encode())
        try:
            return place.read_text() == number
        except FileNotFoundError:
            return True

    def sweep(self, over: Callable[[str], bool]) -> None:
        """Forget the seals of runs that no longer take messages."""
        for folder in sorted((self.state_dir / USED).glob("*")):
            if over(folder.name):
                shutil.rmtree(folder, ignore_errors=True)

    def _key(self) -> bytes:
        path = self.state_dir / KEY
        try:
            if not path.exists():
                create_whole(path, secrets.token_bytes(32))
            mode = path.stat()
            if mode.st_uid != os.geteuid() or stat.S_IMODE(mode.st_mode) & 0o077:
                raise ConfigError(f"{path} can be read by other users. Run `chmod 600 {path}`.")
            return path.read_bytes()
        except OSError as problem:
            raise ConfigError(f"The key {path} cannot be read or created: {problem.strerror}.") from None


def tried(what: str, agent: Agent) -> bytes:
    """The message that reports an agent's attempt to a run's driver."""
    return json.dumps({"is": "Tried", "what": what, "how": agent.how}).encode()


def complaint(body: bytes) -> str:
    """What the attempt was, as the end of a sentence."""
    row = as_object(body) or {}
    return f"an agent tried '{row.get('what')}' for a person: {row.get('how')}"[:500]
