"""Whatever is done to the file behind the journal's back is found, and named with its run and number."""

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from flyball.errors import Corrupt
from flyball.journal import Checkpoint, Row, Write
from flyball.journal.chain import extend
from flyball.journal.memory import MemoryJournal
from flyball.journal.sqlite import SqliteJournal
from flyball.journal.types import REGISTRY
from flyball.testing.journal_suite import begin, drafts, refused, write

SEQS = 1 << 32
FIVE = ("a", "b", "c", "d", "e")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Three runs: r (number 1) goes on, s (2) has ended (3), t (4) was pruned (6) after its end (5)."""
    path = tmp_path / "journal.db"
    journal = SqliteJournal(path)
    fence = begin(journal, "r", *FIVE)
    begin(journal, "s", *FIVE, status="ended")
    begin(journal, "t", "a", status="ended")
    journal.prune("t", 9)
    journal.append([Write("r", 5, drafts("f", at=6), Row(run="r"), fence, snapshot=b"fold", rules="1")])
    journal.close()
    return path


def tamper(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement).fetchall()
    connection.close()


def found(path: Path, *marks: Checkpoint) -> list[tuple[str, int]]:
    journal = SqliteJournal(path)
    faults = journal.faults(marks)
    journal.close()
    assert all(fault.message.endswith(".") and fault.run in fault.message for fault in faults)
    return [(fault.run, fault.seq) for fault in faults]


def marks(path: Path) -> list[Checkpoint]:
    journal = SqliteJournal(path)
    heads = [Checkpoint(run, *journal.head(run), 1) for run in ("r", "s")]
    heads.append(Checkpoint(REGISTRY, *journal.registry_head(), 1))
    journal.close()
    return heads


def event(n: int, seq: int) -> int:
    return n * SEQS + seq


def test_an_untouched_journal_has_no_faults(path: Path) -> None:
    assert found(path, *marks(path)) == []


@pytest.mark.parametrize("column", ["at = at + 1", "kind = 'x'", "body = x'22612023'", "hash = zeroblob(32)"])
def test_a_changed_event_is_named(path: Path, column: str) -> None:
    tamper(path, f"UPDATE event SET {column} WHERE id = {event(1, 3)}")
    assert found(path) == [("r", 3)]


def test_a_removed_event_is_named(path: Path) -> None:
    tamper(path, f"DELETE FROM event WHERE id = {event(1, 2)}")
    assert found(path) == [("r", 2)]


def test_swapped_events_are_named(path: Path) -> None:
    tamper(
        path,
        f"UPDATE event SET id = -1 WHERE id = {event(1, 3)}",
        f"UPDATE event SET id = {event(1, 3)} WHERE id = {event(1, 4)}",
        f"UPDATE event SET id = {event(1, 4)} WHERE id = -1",
    )
    assert found(path) == [("r", 3)]


def test_an_inserted_event_is_named(path: Path) -> None:
    tamper(
        path,
        f"INSERT INTO event SELECT {event(1, 7)}, at, kind, body, hash FROM event WHERE id = {event(1, 6)}",
    )
    assert found(path) == [("r", 7)]


def test_events_cut_off_are_named(path: Path) -> None:
    tamper(path, f"DELETE FROM event WHERE id IN ({event(2, 4)}, {event(2, 5)})")
    assert found(path) == [("s", 4), ("s", 3)]


def test_events_cut_off_with_their_row_are_known_from_the_registry_and_from_heads(path: Path) -> None:
    known = marks(path)
    for n, keep in ((1, 4), (2, 3)):
        tamper(
            path,
            f"DELETE FROM event WHERE id > {event(n, keep)} AND id < {event(n + 1, 0)}",
            f"UPDATE run SET seq = {keep}, head = (SELECT hash FROM event WHERE id = {event(n, keep)}) WHERE n = {n}",
            f"DELETE FROM snapshot WHERE n = {n}",
        )
    assert found(path) == [("s", 3)]
    assert found(path, *known) == [("r", 6), ("s", 5), ("s", 3)]


def test_a_row_at_another_place_than_its_events_is_named(path: Path) -> None:
    tamper(
        path, f"UPDATE run SET seq = 2, head = (SELECT hash FROM event WHERE id = {event(2, 2)}) WHERE n = 2"
    )
    assert found(path) == [("s", 5)]


def test_a_row_with_a_wrong_head_is_named(path: Path) -> None:
    tamper(path, "UPDATE run SET head = zeroblob(32) WHERE n = 2")
    assert found(path) == [("s", 5)]


def test_a_deleted_run_is_named(path: Path) -> None:
    tamper(
        path,
        "DELETE FROM run WHERE n = 2",
        f"DELETE FROM event WHERE id BETWEEN {event(2, 0)} AND {event(3, 0)}",
    )
    assert found(path) == [("s", 0), ("s", 0)]


def test_a_deleted_row_is_named(path: Path) -> None:
    tamper(path, "DELETE FROM run WHERE n = 2")
    assert found(path) == [("s", 5)]


def test_a_run_deleted_with_its_registry_lines_is_named(path: Path) -> None:
    known = marks(path)
    tamper(
        path,
        "DELETE FROM run WHERE n = 2",
        f"DELETE FROM event WHERE id BETWEEN {event(2, 0)} AND {event(3, 0)}",
        "DELETE FROM registry WHERE run = 's'",
    )
    assert found(path) == [("t", 4)]
    assert found(path, *known) == [("t", 4), ("s", 5)]


def test_a_run_under_anothers_registry_line_is_named(path: Path) -> None:
    tamper(path, "UPDATE run SET run = 'x' WHERE n = 2")
    assert [run for run, _ in found(path)] == ["s", "x", "x"]


def test_events_that_nobody_began_are_named(path: Path) -> None:
    tamper(
        path,
        f"INSERT INTO event SELECT {event(3, 1)}, at, kind, body, hash FROM event WHERE id = {event(1, 1)}",
    )
    assert found(path) == [("run number 3", 0)]


def test_a_changed_tombstone_is_named(path: Path) -> None:
    tamper(path, "UPDATE registry SET at = 10 WHERE kind = 'pruned'")
    assert found(path) == [("t", 6)]


def test_a_removed_tombstone_is_named(path: Path) -> None:
    known = marks(path)
    tamper(path, "DELETE FROM registry WHERE kind = 'pruned'")
    assert found(path, *known) == [(REGISTRY, 6), ("t", 0), ("t", 0)]


def test_a_tombstone_that_was_forged_is_named(path: Path) -> None:
    tamper(path, "UPDATE registry SET kind = 'pruned' WHERE n = 3")
    assert found(path) == [("s", 3), ("s", 1)]


def test_a_journal_put_back_to_an_older_copy_is_named(path: Path, tmp_path: Path) -> None:
    shutil.copy(path, tmp_path / "older.db")
    journal = SqliteJournal(path)
    fence = journal.acquire("r", "d1", bool)
    journal.append([write("r", 6, fence, "g")])
    begin(journal, "u")
    journal.close()
    known = [*marks(path), Checkpoint("u", *_head(path, "u"), 1)]
    assert found(path, *known) == []
    shutil.copy(tmp_path / "older.db", path)
    assert found(path, *known) == [(REGISTRY, 7), ("r", 7), ("u", 1)]


def _head(path: Path, run: str) -> tuple[int, str]:
    journal = SqliteJournal(path)
    head = journal.head(run)
    journal.close()
    return head


def test_a_changed_snapshot_is_named_and_not_used(path: Path) -> None:
    tamper(path, "UPDATE snapshot SET body = x'66'")
    assert found(path) == [("r", 6)]
    journal = SqliteJournal(path)
    assert journal.latest_snapshot("r") is None
    journal.close()


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE event SET body = x'00' WHERE id = {event(1, 3)}",
        f"DELETE FROM event WHERE id = {event(1, 3)}",
        f"DELETE FROM event WHERE id >= {event(1, 3)} AND id < {event(2, 0)}",
    ],
)
def test_a_reader_is_not_given_what_was_not_written(path: Path, statement: str) -> None:
    tamper(path, statement)
    journal = SqliteJournal(path)
    error = refused(Corrupt, lambda: list(journal.read("r")))
    assert "run r" in str(error) and "event 3" in str(error) and str(path) in str(error)
    assert [entry.seq for entry in journal.read("s")] == [1, 2, 3, 4, 5]
    journal.close()


def test_an_event_in_the_next_ones_place_stops_the_writer(path: Path) -> None:
    tamper(
        path,
        f"INSERT INTO event SELECT {event(1, 7)}, at, kind, body, hash FROM event WHERE id = {event(1, 6)}",
    )
    journal = SqliteJournal(path)
    fence = journal.acquire("r", "d1", bool)
    refused(Corrupt, lambda: journal.append([write("r", 6, fence, "g")]))
    assert journal.head("r")[0] == 6
    journal.close()


@pytest.mark.parametrize("table", ["registry", "event", "run"])
def test_rows_out_of_order_are_a_fault_and_the_audit_ends(path: Path, table: str) -> None:
    """Swap the last two pointers of the table's page: each row is then found after the other, for ever."""
    connection = apsw.Connection(str(path))
    page = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (table,)).fetchall()[0][0]
    connection.close()
    data = bytearray(path.read_bytes())
    start = (page - 1) * 4096
    assert data[start] == 13  # a leaf
    end = start + 8 + 2 * int.from_bytes(data[start + 3 : start + 5], "big")
    data[end - 4 : end] = data[end - 2 : end] + data[end - 4 : end - 2]
    path.write_bytes(data)
    journal = SqliteJournal(path)
    assert any("out of order" in fault.message for fault in journal.faults())
    journal.close()


@pytest.mark.parametrize(
    "change",
    ["UPDATE run SET head = 'text' WHERE n = 1", "UPDATE event SET kind = x'ff' WHERE id = 4294967298"],
)
def test_a_value_of_another_type_is_a_sentence(path: Path, change: str) -> None:
    tamper(path, change)
    journal = SqliteJournal(path)
    assert str(path) in str(refused(Corrupt, lambda: list(journal.read("r"))))
    assert any("another type" in fault.message for fault in journal.faults())
    journal.close()


def change_body(journal: MemoryJournal) -> None:
    entries = journal._events["r"]
    entries[1] = type(entries[1])("r", 2, 2, "b", b"other", entries[1].hash)


def rewrite(journal: MemoryJournal) -> None:
    journal._events["r"] = extend("r", 0, b"", drafts("a", "B", "c", "d", "e", at=9))


def end_what_never_began(journal: MemoryJournal) -> None:
    journal._register("ended", "x", "00" * 32, 1)


def end_twice(journal: MemoryJournal) -> None:
    journal._register("ended", "s", journal.head("s")[1], 1)


def begin_twice(journal: MemoryJournal) -> None:
    journal._register("began", "r", journal.hash_at("r", 1), 1)


def cut_off(journal: MemoryJournal) -> None:
    del journal._events["s"][2:]


def forget_line(journal: MemoryJournal) -> None:
    del journal._registry[1]


@pytest.mark.parametrize(
    ("deed", "named"),
    [
        (change_body, ("r", 2)),
        (rewrite, ("r", 1)),
        (cut_off, ("s", 2)),
        (forget_line, ("s", 3)),
        (begin_twice, ("r", 4)),
        (end_twice, ("s", 4)),
        (end_what_never_began, ("x", 4)),
    ],
)
def test_one_auditor_serves_every_store(
    deed: Callable[[MemoryJournal], None], named: tuple[str, int]
) -> None:
    journal = MemoryJournal()
    begin(journal, "r", *FIVE)
    begin(journal, "s", *FIVE, status="ended")
    assert journal.faults() == []
    deed(journal)
    assert (journal.faults()[0].run, journal.faults()[0].seq) == named
