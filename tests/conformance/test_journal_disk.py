"""A disk that fails, fills up, tears or forgets leaves what was acknowledged, or is refused in a sentence.

`Disk` is an APSW file system that keeps, beside each file, what a power cut would leave of it: the bytes at its
last sync, and the writes since.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import pytest

from flyball.errors import Corrupt, JournalError
from flyball.journal import Entry, Row, Write
from flyball.journal.sqlite import SqliteJournal
from flyball.testing.journal_suite import drafts, nobody

SECTOR = 512


class Disk(apsw.VFS):
    """Every write and sync is numbered; `trouble(number, deed)` may raise, or say "lie" for a sync not done."""

    def __init__(self, trouble: Callable[[int, str], str]) -> None:
        self.name = f"disk{id(self)}"
        self.trouble = trouble
        self.deeds = 0
        self.synced: dict[str, bytes] = {}
        self.since: dict[str, list[tuple[int, bytes | None]]] = {}
        super().__init__(self.name, "")

    def xOpen(self, name: Any, flags: list[int]) -> "DiskFile":  # noqa: N802
        return DiskFile(self, name, flags)

    def deed(self, what: str) -> str:
        self.deeds += 1
        return self.trouble(self.deeds, what)

    def power_cut(self, rng: random.Random) -> None:
        """Of each write since a file's last sync remains all, nothing, or some sectors."""
        for name, synced in self.synced.items():
            image = bytearray(synced)
            for offset, data in self.since[name]:
                survive(image, offset, data, rng)
            Path(name).write_bytes(image)


def survive(image: bytearray, offset: int, data: bytes | None, rng: random.Random) -> None:
    fate = rng.choice(("all", "nothing", "torn"))
    if fate == "nothing":
        return
    if data is None:
        del image[offset:]
        return
    kept = data if fate == "all" else data[: rng.randrange(len(data) // SECTOR + 1) * SECTOR]
    image.extend(bytes(max(0, offset + len(kept) - len(image))))
    image[offset : offset + len(kept)] = kept


class DiskFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self.disk = disk
        self.name = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if self.name not in disk.synced:
            path = Path(self.name)
            disk.synced[self.name] = path.read_bytes() if path.exists() else b""
            disk.since[self.name] = []
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self.disk.deed("write")
        super().xWrite(data, offset)
        self.disk.since[self.name].append((offset, bytes(data)))

    def xTruncate(self, size: int) -> None:  # noqa: N802
        super().xTruncate(size)
        self.disk.since[self.name].append((size, None))

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self.disk.deed("sync") == "lie":
            return
        super().xSync(flags)
        self.disk.synced[self.name] = Path(self.name).read_bytes()
        self.disk.since[self.name] = []


def fine(number: int, what: str) -> str:
    return ""


def work(journal: SqliteJournal, told: list[Entry], appends: int) -> None:
    """Append until done or until the disk says no; `told` holds what was acknowledged."""
    journal._database.ask("PRAGMA wal_autocheckpoint = 12")
    fence = journal.acquire("r", "d", nobody)
    for turn in range(appends):
        row = Row(run="r", state=f"s{turn % 3}", turns=turn)
        told += journal.append(
            [Write("r", len(told), drafts("a" * 700, "b"), row, fence, snapshot=b"x" * 2000)]
        )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "journal.db"
    SqliteJournal(path).close()
    return path


def live(path: Path, trouble: Callable[[int, str], str]) -> tuple[Disk, list[Entry], JournalError | None]:
    """Work on such a disk; what was acknowledged, and the sentence with which it ended."""
    disk, told, said = Disk(trouble), list[Entry](), None
    try:
        journal = SqliteJournal(path, disk.name)
    except JournalError as error:
        return disk, told, error
    try:
        work(journal, told, 12)
    except JournalError as error:
        said = error
    disk.trouble = broken_disk if said else fine
    with suppress(JournalError):
        journal.close()
    return disk, told, said


def broken_disk(number: int, what: str) -> str:
    raise apsw.IOError("the power is off")


def read(path: Path) -> list[Entry]:
    journal = SqliteJournal(path)
    entries = list(journal.read("r"))
    assert journal.faults() == []
    journal.close()
    return entries


def failing(at: int, error: type[apsw.Error], only: str = "") -> Callable[[int, str], str]:
    def trouble(number: int, what: str) -> str:
        if number >= at and only in ("", what):
            raise error("as told")
        return ""

    return trouble


def seeds() -> Iterator[int]:
    return iter(range(1, 60, 2))


def test_a_disk_without_trouble_holds_everything(path: Path) -> None:
    disk, told, said = live(path, fine)
    assert (said, len(told), read(path)) == (None, 24, told)
    assert disk.deeds > 60


@pytest.mark.parametrize("error", [apsw.FullError, apsw.IOError])
def test_a_disk_that_fails_from_some_write_on_loses_nothing_acknowledged(
    path: Path, error: type[apsw.Error]
) -> None:
    fresh = path.read_bytes()
    for at in seeds():
        restart(path, fresh)
        _, told, said = live(path, failing(at, error))
        assert said is not None and str(path) in str(said)
        assert error is not apsw.FullError or "full" in str(said)
        assert read(path)[: len(told)] == told


def test_a_sync_that_fails_is_not_acknowledged(path: Path) -> None:
    fresh = path.read_bytes()
    for at in seeds():
        restart(path, fresh)
        disk, told, said = live(path, failing(at, apsw.IOError, "sync"))
        assert said is not None
        disk.power_cut(random.Random(at))
        forget_index(path)
        assert read(path)[: len(told)] == told


def test_a_power_cut_tears_only_what_was_not_acknowledged(path: Path) -> None:
    fresh = path.read_bytes()
    for at in seeds():
        restart(path, fresh)
        disk, told, _ = live(path, failing(at, apsw.IOError))
        disk.power_cut(random.Random(at))
        forget_index(path)
        assert read(path)[: len(told)] == told


def test_a_disk_that_lies_about_syncs_leaves_a_prefix_or_is_refused(path: Path) -> None:
    fresh, prefixes, refusals = path.read_bytes(), 0, 0
    for at in seeds():
        restart(path, fresh)
        disk, told, _ = live(path, lying_until(at + 20))
        disk.power_cut(random.Random(at))
        forget_index(path)
        try:
            kept = read_or_refuse(path)
        except Corrupt:
            refusals += 1
            continue
        assert kept == told[: len(kept)] or kept[: len(told)] == told
        prefixes += 1
    assert prefixes and prefixes + refusals == len(list(seeds()))


def lying_until(end: int) -> Callable[[int, str], str]:
    def trouble(number: int, what: str) -> str:
        if number >= end:
            raise apsw.IOError("the power is off")
        return "lie" if what == "sync" else ""

    return trouble


def read_or_refuse(path: Path) -> list[Entry]:
    journal = SqliteJournal(path)
    try:
        if found := journal.faults():
            raise Corrupt(found[0].message)
        return list(journal.read("r"))
    finally:
        journal.close()


def restart(path: Path, fresh: bytes) -> None:
    for companion in ("-wal", "-shm"):
        path.with_name(path.name + companion).unlink(missing_ok=True)
    path.write_bytes(fresh)


def forget_index(path: Path) -> None:
    """The shared-memory index does not outlive the power."""
    path.with_name(f"{path.name}-shm").unlink(missing_ok=True)
