"""One user's records in the state directory: the journal, the signing key, the signed heads, and runs by name.

This is all that is needed to look at runs. `runtime.app.App` adds what executes them.

Signed heads are kept outside the journal: they can be behind it, never ahead of it. So a journal that was cut off,
rewritten or replaced by an older copy is noticed: a head that was once durable is missing from it. There is one file
for each run and one for the registry, always replaced as a whole. A head is noted after its commit and written at most
once a second for each run and ten times a second in all; `flush` writes the rest. The first and the last head of a run
are written at once: if a run that has continued has no head, somebody removed it.

The cryptography library is imported when a key is first used, so that read-only commands do not wait for it.
"""

from __future__ import annotations

import stat
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

import msgspec

from flyball.errors import ConfigError, JournalError, NotFound, UserError
from flyball.journal.database import alive
from flyball.journal.sqlite import SqliteJournal
from flyball.journal.types import REGISTRY, Checkpoint, Entry, Fault, Journal
from flyball.reading.terminal import whole
from flyball.state_dir import StateDir, create_whole, private_folder, write_whole
from flyball.views.text import day_and_clock

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    from flyball.state.run import Run


from collections.abc import Mapping

from msgspec import Struct

from flyball.core.family import Changed, Family
from flyball.core.stops import alert_time_us
from flyball.domain import events as e
from flyball.domain.settings import HOUR
from flyball.journal.types import Draft, Row, Write
from flyball.state.fold import fold, freeze, thaw
from flyball.state.run import Run

KEY_FILE = "signing.key"


class Signer:
    """Signs bytes."""

    def __init__(self, key: Ed25519PrivateKey) -> None:
        self._key = key

    @property
    def public_key_hex(self) -> str:
        """The public key in hex."""
        return self._key.public_key().public_bytes_raw().hex()

    def sign(self, data: bytes) -> str:
        """The signature of `data`, in hex."""
        return self._key.sign(data).hex()


def verify(public_key_hex: str, data: bytes, signature: str) -> bool:
    """Whether the holder of that key signed exactly this data."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key_hex))
        key.verify(bytes.fromhex(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def load_or_create(directory: Path) -> Signer:
    """The key in this directory. Several processes may ask for a new one at once: all get the same one."""
    path = directory / KEY_FILE
    try:
        if not path.exists():
            _create_key(path)
        _refuse_loose(path)
        return Signer(_load_key(path))
    except OSError as error:
        raise ConfigError(
            f"The signing key {path} cannot be read or created ({error.strerror or error}). "
            "Check that it and its directory are yours and writable."
        ) from error


def _refuse_loose(path: Path) -> None:
    """A key that others may read or replace proves nothing. (Landlock cannot stop an agent from changing file
    modes.)
    """
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ConfigError(
            f"The signing key {path} is open to other users (mode {mode:o}). If you did not change that, look at what "
            f"ran last. Close it with `chmod 600 {path}`."
        )


def _create_key(path: Path) -> None:
    private_folder(path.parent)
    create_whole(path, _new_pem())


def _new_pem() -> bytes:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _load_key(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (ValueError, TypeError) as error:
        key = error
    if not isinstance(key, Ed25519PrivateKey):
        raise ConfigError(
            f"{path} does not hold an Ed25519 key. Restore a backup, or move it away to make a new one "
            "(what the old one signed can then not be checked)."
        )
    return key


RUN_PAUSE_US = 1_000_000
PAUSE_US = 100_000


class _Signed(msgspec.Struct, frozen=True):
    head: Checkpoint
    signature: str


class Heads:
    """The signed heads in one directory. The time comes in with each note."""

    def __init__(self, directory: Path, signer: Signer) -> None:
        self.directory = directory
        self._signer = signer
        self._waiting: dict[str, Checkpoint] = {}
        self._written_at: dict[str, int] = {}
        self._last_at = -PAUSE_US

    def note(self, run: str, seq: int, head: str, at: int, *, at_once: bool = False) -> None:
        """Remember a head that is durable, and write it if it is due. `REGISTRY` is the registry's name."""
        self._waiting[run] = Checkpoint(run, seq, head, at)
        if at_once or self._due(run, at):
            self._write(self._waiting.pop(run))

    def note_all(self, entries: Sequence[Entry], journal: Journal) -> None:
        """After a commit: the last event of each run. If a run began or ended: at once, with the registry's head."""
        turning = {entry.run for entry in entries if entry.kind in ("RunBegan", "Ended")}
        for entry in {entry.run: entry for entry in entries}.values():
            self.note(entry.run, entry.seq, entry.hash, entry.at, at_once=entry.run in turning)
        if turning:
            self.note(REGISTRY, *journal.registry_head(), entries[-1].at, at_once=True)

    def _due(self, run: str, at: int) -> bool:
        """A clock that was set back must not delay heads."""
        if 0 <= at - self._last_at < PAUSE_US:  # nearly always
            return False
        return not 0 <= at - self._written_at.get(run, at - RUN_PAUSE_US) < RUN_PAUSE_US

    def flush(self) -> None:
        """Write every head that is not written yet: a run has stopped, or the process ends."""
        while self._waiting:
            self._write(self._waiting.pop(next(iter(self._waiting))))

    def forget(self, run: str) -> None:
        """Drop the head of a run that was pruned."""
        self._waiting.pop(run, None)
        self._path(run).unlink(missing_ok=True)

    def load(self) -> tuple[list[Checkpoint], list[Fault]]:
        """The heads signed by our key, and a fault for each file that is not."""
        heads: list[Checkpoint] = []
        faults: list[Fault] = []
        for path in sorted(self.directory.glob("*.json")):
            head = self._read(path)
            if head is None:
                faults.append(Fault(_run_of(path), 0, f"{path} was not signed with this journal's key."))
            else:
                heads.append(head)
        return heads, faults

    def of(self, run: str) -> Checkpoint | None:
        """The head of one run; None if there is none signed by our key."""
        return self._read(self._path(run))

    def rolled_back(self, run: str, journal: Journal) -> Fault | None:
        """Before a run continues: whether the journal lacks a head that the run once had."""
        path = self._path(run)
        if not path.exists():
            return None
        head = self._read(path)
        if head is None:
            return Fault(run, 0, f"{path} was not signed with this journal's key.")
        if journal.hash_at(run, head.seq) == head.hash:
            return None
        text = f"Run {run} no longer has event {head.seq} as it was signed: the journal was truncated or replaced by an older copy."
        return Fault(run, head.seq, text)

    def _read(self, path: Path) -> Checkpoint | None:
        """The head in a file, if our key signed exactly these bytes and the file has the right name."""
        try:
            data = path.read_bytes()
            signed = msgspec.json.decode(data, type=_Signed)
        except (msgspec.DecodeError, ValueError, OSError):
            return None
        ours = (
            data.rstrip(b"\n") == msgspec.json.encode(signed) and signed.signature == signed.signature.lower()
        )
        good = verify(self._signer.public_key_hex, _payload(signed.head), signed.signature)
        return signed.head if good and ours and path == self._path(signed.head.run) else None

    def _write(self, head: Checkpoint) -> None:
        """A head with a higher number stays: it may be the only evidence of a journal replaced by an older copy."""
        self._written_at[head.run] = self._last_at = head.at
        path = self._path(head.run)
        before = self._read(path)
        if before is not None and before.seq >= head.seq:
            return
        signed = _Signed(head, self._signer.sign(_payload(head)))
        try:
            private_folder(self.directory)
            write_whole(path, msgspec.json.encode(signed) + b"\n")
        except OSError as error:
            raise JournalError(
                f"The signed head {path} cannot be written ({error.strerror or error}). "
                "Check the disk and that the directory is yours and writable."
            ) from error

    def _path(self, run: str) -> Path:
        return self.directory / ("@registry.json" if run == REGISTRY else f"{quote(run, safe='')}.json")


def _run_of(path: Path) -> str:
    return REGISTRY if path.stem == "@registry" else unquote(path.stem)


def _payload(head: Checkpoint) -> bytes:
    return b"flyball head\n" + msgspec.json.encode(head)


class Records:
    def __init__(self, state_dir: Path, here: Callable[[], str] = str) -> None:
        self.state_dir, self.dirs = state_dir, StateDir(state_dir)
        self.here = here  # the repository of the current folder, "" for none
        self._journal: SqliteJournal | None = None
        self._heads: Heads | None = None

    @property
    def journal(self) -> SqliteJournal:
        if self._journal is None:
            try:
                self.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as problem:
                raise UserError(
                    f"Cannot create the state directory {self.state_dir}: {problem.strerror}. Set FLYBALL_STATE_DIR."
                ) from None
            self._journal = SqliteJournal(self.dirs.journal)
        return self._journal

    @property
    def heads(self) -> Heads:
        if self._heads is None:
            self._heads = Heads(self.dirs.heads, self.signer)
        return self._heads

    @property
    def signer(self) -> Signer:
        return load_or_create(self.state_dir)

    @property
    def has_key(self) -> bool:
        """Whether there is a signing key; `signer` would create one."""
        return (self.state_dir / KEY_FILE).exists()

    def close(self) -> None:
        if self._heads:
            self._heads.flush()
        if self._journal:
            self._journal.close()

    # ---- runs by name ----

    def find(self, name: str) -> str:
        """A run by its id, a unique prefix, or @last (of this repository; outside of any, of all)."""
        if name == "@last":
            return self._last()
        name = whole(name)  # a terminal may send any bytes
        matches = self.journal.resolve(name) if name else []
        if name in matches or len(matches) == 1:
            return name if name in matches else matches[0]
        if not matches and name and (at := self.journal.pruned_at(name)):
            raise NotFound(
                f"Run {name} was removed on {day_and_clock(at)}. Only a line in the journal's registry is kept; "
                "`flyball verify FILE` still checks a certificate that you exported."
            )
        if not matches:
            hint = "Did you mean @last?" if name.startswith("@") else "`flyball ls` lists the runs."
            raise NotFound(f"There is no run '{name}'. {hint}")
        raise NotFound(
            f"'{name}' matches {len(matches)} runs: {', '.join(matches[:5])}. Give more of the id."
        )

    def _last(self) -> str:
        here = self.here()
        rows = self.journal.rows(repo=here or None, parent="", limit=1)
        if not rows and here:
            raise NotFound(
                "No runs in this repository yet. Start one with `flyball run TASK`, or name a run: `flyball ls --all` "
                "lists those of all repositories."
            )
        if not rows:
            raise NotFound("There are no runs yet. Start one with `flyball run TASK`.")
        return rows[0].run

    def find_known(self, name: str) -> str:
        """Like `find`, but also a run that is missing from the journal and still has a signed head."""
        try:
            return self.find(name)
        except NotFound:
            exists = name and not self.journal.pruned_at(name) and self.has_key and self.heads.of(name)
            if not exists:
                raise
            return name

    def read(self, run_id: str) -> Run:

        return load(self.journal, run_id)[0]

    def driven(self, run_id: str) -> bool:
        """Whether a living process drives the run."""
        holder = self.journal.holder(run_id)
        return bool(holder) and alive(self.state_dir, holder)


# ---- a run and its child runs ----------------------------------------------------------------------------


def root_of(records: Records, run_id: str) -> str:
    """The top-level run that a run belongs to."""
    row = records.journal.row(run_id)
    return row.root if row and row.root else run_id


def family(records: Records, run: Run) -> list[Run]:
    """The run, its current child run, that one's child run …"""
    members = [run]
    while members[-1].child and records.journal.row(members[-1].child):
        members.append(records.read(members[-1].child))
    return members


def asking(records: Records, run: Run) -> Run | None:
    """The run with the open question: this one or a child run."""
    return next((member for member in family(records, run) if member.question), None)


def continues_with(records: Records, run: Run) -> str:
    """The command that continues a run that is not running; lanes and the steps of their plans are continued by
    `up`.
    """
    top = records.journal.row(run.began.root or run.id)
    of_lane = run.machine.standing or (top is not None and bool(top.parent))
    return "flyball up" if of_lane else f"flyball resume {run.began.root or run.id}"


# ---- runs: loading, writing, and what all of them spent ------------------------------------------------------


DAY_US = 24 * HOUR
WEEK_US = 7 * DAY_US
SNAPSHOT_EVERY = 64


def load(journal: Journal, run_id: str) -> tuple[Run, int]:
    """A run as its events add up to now, and its position; starts from the last snapshot if that was made by these
    rules.
    """
    snapshot = journal.latest_snapshot(run_id)
    run, seq = (thaw(snapshot.body), snapshot.seq) if snapshot and snapshot.rules == e.RULES else (None, 0)
    for entry in journal.read(run_id, seq):
        run, seq = fold(run, [e.decode(entry.body)]), entry.seq
    if run is None:
        raise NotFound(f"There is no run '{run_id}'. `flyball ls` lists the runs.")
    return run, seq


# ---- writing down what changed -----------------------------------------------------------------------------------


class DrivenRun(Struct):
    """A run in its driver's memory: the fold, its position in the journal, and the lease."""

    run: Run
    seq: int
    fence: int


class Messages(Struct):
    """The messages that a run takes, and whose mailbox they are in if it is not the run's own."""

    taken: list[int]
    mailbox: str = ""


class Batch(Family):
    """What one transaction will write: events of one or many runs, and the messages that they take."""

    def __init__(self, driven: Mapping[str, DrivenRun]) -> None:
        super().__init__(driven)
        self._driven = driven
        self._new: dict[str, int] = {}  # the leases of the runs that begin
        self._messages: dict[str, Messages] = {}

    def start(self, event: e.RunBegan, fence: int) -> None:
        """A run begins, with this lease."""
        self.begin(event)
        self._new[event.run] = fence

    def take(self, run_id: str, messages: Sequence[int], mailbox: str = "") -> None:
        """The run takes messages, from its own mailbox or a shared one."""
        self.touch(run_id)
        mine = self._messages.setdefault(run_id, Messages([]))
        mine.taken.extend(messages)
        mine.mailbox = mailbox or mine.mailbox

    def writes(self) -> list[Write]:
        changed = self.changed.items()
        return [self._write(name, one) for name, one in changed if one.events or name in self._messages]

    def after(self) -> dict[str, DrivenRun]:
        """The runs as they will be once everything is written."""
        return {name: self._after(name, one) for name, one in self.changed.items()}

    def _after(self, run_id: str, changed: Changed) -> DrivenRun:
        seq, fence = self._before(run_id)
        return DrivenRun(changed.run, seq + len(changed.events), fence)

    def _before(self, run_id: str) -> tuple[int, int]:
        if run_id in self._new:
            return 0, self._new[run_id]
        driven = self._driven[run_id]
        return driven.seq, driven.fence

    def _write(self, run_id: str, changed: Changed) -> Write:
        seq, fence = self._before(run_id)
        messages = self._messages.get(run_id)
        drafts = tuple(
            Draft(at=event.at, kind=e.kind(event), body=e.encode(event)) for event in changed.events
        )
        after = seq + len(drafts)
        due = after // SNAPSHOT_EVERY > seq // SNAPSHOT_EVERY
        return Write(
            run=run_id,
            after=seq,
            drafts=drafts,
            row=row_of(changed.run),
            fence=fence,
            messages=tuple(messages.taken) if messages else (),
            mailbox=messages.mailbox if messages else "",
            snapshot=freeze(changed.run) if due else b"",
            rules=e.RULES if due else "",
        )


def row_of(run: Run) -> Row:
    """The run's row in the table of runs."""
    began = run.began
    alert = alert_time_us(run) if run.status != "ended" else 0
    return Row(
        run=run.id,
        root=began.root or run.id,
        parent=began.parent,
        repo=began.repo,
        machine=run.machine.name,
        task=began.task[:200],
        state=run.state,
        status=run.status,
        code=run.stop.code if run.stop else "",
        end=run.end,
        question=run.question.id if run.question else "",
        agent=run.act.agent if run.act else "",
        actor=run.here.of,
        turns=run.turns,
        cost_uusd=run.spent.cost_uusd,
        tokens=run.spent.tokens,
        failures=run.path.failures.get(run.state, 0),
        cto_attempts=run.path.interventions,
        created_at=began.at,
        updated_at=run.at,
        entered_at=run.entered_at,
        alert_at=run.entered_at + alert if alert else 0,
        ticket=str(began.options.get("ticket", "")),
    )


# ---- what all runs spent (GUARD-4) -----------------------------------------------------------------------------


class _Result(msgspec.Struct):
    kind: str = ""
    usage: e.Usage = e.Usage()


class _Finished(msgspec.Struct):
    at: int
    result: _Result


_decoder = msgspec.json.Decoder(_Finished)


def windows(journal: Journal, now: int, since: int = 0) -> e.WindowSeen:
    """What was spent in the last day and week up to now, but not before `since`.

    What a child run used is counted once, in the child run.
    """
    day, week = e.Usage(), e.Usage()
    acts = (_decoder.decode(body) for body in journal.finished(max(now - WEEK_US, since)))
    for act in (act for act in acts if act.result.kind == "turn"):
        week = week.plus(act.result.usage)
        if act.at >= now - DAY_US:
            day = day.plus(act.result.usage)
    return e.WindowSeen(
        at=now,
        day_uusd=day.cost_uusd,
        day_tokens=day.tokens,
        week_uusd=week.cost_uusd,
        week_tokens=week.tokens,
    )
