"""Signed heads, kept outside the journal: they can be behind it, never ahead of it.

So a journal that was cut off, rewritten or put back to an older copy is found out: it does not know a head
that was once durable. One file a run and one for the registry, replaced whole. A head is noted after its
commit and written at most once a second a run and ten times a second in all; `flush` writes the rest. The
first and the last of a run are written at once: a run that has gone on has a head, or somebody took it away.
"""

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import quote, unquote

import msgspec

from flyball.errors import JournalError
from flyball.journal.signing import Signer, verify
from flyball.journal.types import REGISTRY, Checkpoint, Entry, Fault, Journal
from flyball.state_dir import write_whole

RUN_PAUSE_US = 1_000_000
PAUSE_US = 100_000


class _Signed(msgspec.Struct, frozen=True):
    head: Checkpoint
    signature: str


class Heads:
    """The signed heads in one directory. Time comes in with what is noted."""

    def __init__(self, directory: Path, signer: Signer) -> None:
        self.directory = directory
        self._signer = signer
        self._waiting: dict[str, Checkpoint] = {}
        self._written_at: dict[str, int] = {}
        self._last_at = -PAUSE_US

    def note(self, run: str, seq: int, head: str, at: int, *, at_once: bool = False) -> None:
        """Remember a head that is durable, and write it if it is time. `REGISTRY` is the registry's name."""
        self._waiting[run] = Checkpoint(run, seq, head, at)
        if at_once or self._due(run, at):
            self._write(self._waiting.pop(run))

    def note_all(self, entries: Sequence[Entry], journal: Journal) -> None:
        """After a commit: the last event of each run. Where a run began or ended, at once, with the registry's head."""
        turning = {entry.run for entry in entries if entry.kind in ("RunBegan", "Ended")}
        for entry in {entry.run: entry for entry in entries}.values():
            self.note(entry.run, entry.seq, entry.hash, entry.at, at_once=entry.run in turning)
        if turning:
            self.note(REGISTRY, *journal.registry_head(), entries[-1].at, at_once=True)

    def _due(self, run: str, at: int) -> bool:
        """A clock that was put back does not hold heads up."""
        if 0 <= at - self._last_at < PAUSE_US:  # nearly always
            return False
        return not 0 <= at - self._written_at.get(run, at - RUN_PAUSE_US) < RUN_PAUSE_US

    def flush(self) -> None:
        """Write every head that waits: a run stops, or the process ends."""
        while self._waiting:
            self._write(self._waiting.pop(next(iter(self._waiting))))

    def forget(self, run: str) -> None:
        """Drop the head of a run that was pruned."""
        self._waiting.pop(run, None)
        self._path(run).unlink(missing_ok=True)

    def load(self) -> tuple[list[Checkpoint], list[Fault]]:
        """The heads that our key signed, and a fault for each file that it did not."""
        heads: list[Checkpoint] = []
        found: list[Fault] = []
        for path in sorted(self.directory.glob("*.json")):
            head = self._read(path)
            if head is None:
                found.append(Fault(_run_of(path), 0, f"{path} is not a head that this journal's key signed."))
            else:
                heads.append(head)
        return heads, found

    def of(self, run: str) -> Checkpoint | None:
        """The head of one run; None if there is none that our key signed."""
        return self._read(self._path(run))

    def rolled_back(self, run: str, journal: Journal) -> Fault | None:
        """Before a run goes on: whether the journal lacks a head that the run once had."""
        path = self._path(run)
        if not path.exists():
            return None
        head = self._read(path)
        if head is None:
            return Fault(run, 0, f"{path} is not a head that this journal's key signed.")
        if journal.hash_at(run, head.seq) == head.hash:
            return None
        text = (
            f"Run {run} does not hold event {head.seq} as it once did: the journal was cut off or put back."
        )
        return Fault(run, head.seq, text)

    def _read(self, path: Path) -> Checkpoint | None:
        """The head in a file, if our key signed it, byte for byte as we write it, and it lies under its own name."""
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
        """A head with a higher number stays: it may be all that tells of a journal put back."""
        self._written_at[head.run] = self._last_at = head.at
        path = self._path(head.run)
        before = self._read(path)
        if before is not None and before.seq >= head.seq:
            return
        signed = _Signed(head, self._signer.sign(_payload(head)))
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
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
