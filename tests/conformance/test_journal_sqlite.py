"""What only a journal on disk can get wrong: files, versions, other processes, sudden death."""

import multiprocessing
import os
import shutil
import signal
import stat
import subprocess
import sys
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import apsw
import pytest

from flyball.errors import Conflict, Corrupt, Fenced, JournalError
from flyball.journal import Draft, Row, Write, database
from flyball.journal.database import APPLICATION
from flyball.journal.sqlite import SqliteJournal, rows_query
from flyball.journal.types import RowFilter
from flyball.testing.journal_suite import begin, drafts, everyone, nobody, refused, write

processes = multiprocessing.get_context("spawn")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "journal.db"


# The file.


def test_the_file_and_its_directory_are_the_users_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        journal = SqliteJournal(path)
        begin(journal, "r")
    finally:
        os.umask(before)
    modes = {item.name: stat.S_IMODE(item.stat().st_mode) for item in path.parent.iterdir()}
    assert modes == {"journal.db": 0o600, "journal.db-wal": 0o600, "journal.db-shm": 0o600}
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    journal.close()


def test_a_commit_is_a_full_sync(path: Path) -> None:
    journal = SqliteJournal(path)
    asked = ("journal_mode", "synchronous", "foreign_keys", "application_id", "user_version")
    settings = [journal._database.ask(f"PRAGMA {name}")[0][0] for name in asked]
    assert settings == ["wal", 2, 0, APPLICATION, 4]
    journal.close()


def test_a_reopened_journal_holds_everything(path: Path) -> None:
    journal = SqliteJournal(path)
    fence = begin(journal, "r", "a", "b", state="s")
    journal.append([Write("r", 2, drafts("c"), Row(run="r", state="t"), fence, snapshot=b"x")])
    message = journal.post("r", 1, b"hello")
    entries, snapshot = list(journal.read("r")), journal.latest_snapshot("r")
    journal.close()
    again = SqliteJournal(path)
    assert (list(again.read("r")), again.latest_snapshot("r"), again.row("r")) == (
        entries,
        snapshot,
        Row(run="r", state="t"),
    )
    assert (again.acquire("r", "d1", bool), [m.id for m in again.mail("r")]) == (fence, [message])
    again.append([write("r", 3, fence, "d")])
    assert again.faults() == []
    again.close()


def test_a_newer_journal_is_refused_and_left_alone(path: Path) -> None:
    SqliteJournal(path).close()
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 999")
    connection.close()
    before = path.read_bytes()
    error = refused(JournalError, lambda: SqliteJournal(path))
    assert "newer Flyball" in str(error) and str(path) in str(error)
    assert path.read_bytes() == before


def test_another_programs_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    before = path.read_bytes()
    assert "another program" in str(refused(Corrupt, lambda: SqliteJournal(path)))
    assert path.read_bytes() == before


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"Dear diary, " * 500)
    error = refused(Corrupt, lambda: SqliteJournal(path))
    assert str(path) in str(error) and "move it away" in str(error)
    assert path.read_bytes() == b"Dear diary, " * 500


def filled(path: Path) -> None:
    journal = SqliteJournal(path)
    for run in range(30):
        begin(journal, f"run{run}", *("k" * 50 for _ in range(40)), repo="/r" * 50)
    journal.close()


@pytest.mark.parametrize("part", [0.02, 0.3, 0.9])
def test_a_truncated_journal_is_a_sentence(path: Path, part: float) -> None:
    filled(path)
    os.truncate(path, int(path.stat().st_size * part))
    assert sentences(path)


@pytest.mark.parametrize("part", [0.1, 0.35, 0.6, 0.95])
def test_an_overwritten_page_is_a_sentence(path: Path, part: float) -> None:
    filled(path)
    with path.open("r+b") as file:
        file.seek(int(path.stat().st_size * part) // 4096 * 4096)
        file.write(b"\xa5" * 4096)
    assert sentences(path)


def sentences(path: Path) -> list[str]:
    """What opening, reading and auditing says; any error that is not ours fails the test."""
    try:
        journal = SqliteJournal(path)
    except Corrupt as error:
        return [str(error)]
    said = [fault.message for fault in journal.faults()]
    for run in range(30):
        try:
            list(journal.read(f"run{run}"))
        except Corrupt as error:
            said.append(str(error))
    journal.close()
    return said


def test_a_place_where_no_file_can_be_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "file" / "journal.db", tmp_path, tmp_path / "file" / "deep" / "journal.db"):
        error = refused(JournalError, lambda path=path: SqliteJournal(path))
        assert str(tmp_path) in str(error)


def test_a_journal_that_may_not_be_written_is_a_sentence(path: Path) -> None:
    journal = SqliteJournal(path)
    fence = begin(journal, "r")
    journal._database.ask("PRAGMA query_only = ON")
    assert str(path) in str(refused(JournalError, lambda: journal.append([write("r", 1, fence, "a")])))
    assert str(path) in str(refused(JournalError, lambda: journal.post("r", 1, b"x")))
    journal._database.ask("PRAGMA query_only = OFF")
    journal.append([write("r", 1, fence, "a")])
    journal.close()


def test_a_full_journal_is_a_sentence_and_loses_nothing(path: Path) -> None:
    journal = SqliteJournal(path)
    fence = begin(journal, "r")
    pages = journal._database.number("PRAGMA page_count")
    journal._database.ask(f"PRAGMA max_page_count = {pages + 2}")
    big = Write("r", 1, drafts(*("x" * 4000 for _ in range(20))), Row(run="r", state="new"), fence)
    error = refused(JournalError, lambda: journal.append([big]))
    assert "full" in str(error) and str(path) in str(error)
    assert (journal.head("r")[0], journal.row("r"), journal.faults()) == (1, Row(run="r"), [])
    journal._database.ask("PRAGMA max_page_count = 100000")
    journal.append([big])
    assert journal.head("r")[0] == 21
    journal.close()


def test_a_closed_journal_is_a_sentence(path: Path) -> None:
    journal = SqliteJournal(path)
    journal.close()
    assert "closed" in str(refused(JournalError, lambda: journal.head("r")))


# Queries.

ASKED = [
    RowFilter(),
    RowFilter(repo="/r"),
    RowFilter(status="running"),
    RowFilter(state="testing"),
    RowFilter(machine="task"),
    RowFilter(root="r"),
    RowFilter(parent="r"),
    RowFilter(parent=""),
    RowFilter(ticket="T1"),
    RowFilter(ticket="T1", repo="/r"),
    RowFilter(repo="/r", status="waiting"),
    RowFilter(repo="/r", state="testing", machine="task"),
    RowFilter(machine="task", state="cto_intervention"),
    RowFilter(open_question=True),
    RowFilter(open_question=True, repo="/r", status="waiting"),
    RowFilter(late_at=5),
    RowFilter(late_at=5, machine="task"),
    RowFilter(failures=2),
    RowFilter(failures=0),
]


@pytest.mark.parametrize("asked", ASKED, ids=str)
def test_every_query_goes_through_its_index(path: Path, asked: RowFilter) -> None:
    """An index is walked from end to end only where it holds nothing but what is asked for."""
    journal = SqliteJournal(path)
    sql, values = rows_query(asked, 10)
    plan = [str(step[-1]) for step in journal._database.ask(f"EXPLAIN QUERY PLAN {sql}", values)]
    journal.close()
    reads = [step for step in plan if "run" in step]
    everything = asked.get("open_question") or asked in (RowFilter(), RowFilter(failures=0))
    wanted = "SCAN run USING INDEX" if everything else "SEARCH run USING INDEX"
    assert reads and all(step.startswith(wanted) for step in reads), plan


# Other processes.


def grow(path: str, run: str, times: int, ready: Barrier) -> None:
    ready.wait()
    journal = SqliteJournal(path)
    fence = begin(journal, run, driver=run)
    for seq in range(1, times):
        journal.append([write(run, seq, fence, "k", turns=seq)])
    journal.close()


def race(path: str, fence: int, times: int, wins: "Queue[list[int]]") -> None:
    journal = SqliteJournal(path)
    mine: list[int] = []
    while (seq := journal.head("r")[0]) < times:
        try:
            journal.append([write("r", seq, fence, f"by {os.getpid()}")])
            mine.append(seq + 1)
        except Conflict:
            continue
    wins.put(mine)
    journal.close()


def together(target: object, *arguments: tuple[object, ...]) -> None:
    crew = [processes.Process(target=target, args=each) for each in arguments]  # type: ignore[arg-type]
    for one in crew:
        one.start()
    for one in crew:
        one.join()
    assert [one.exitcode for one in crew] == [0] * len(crew)


def test_four_processes_share_one_new_journal(path: Path) -> None:
    ready = processes.Barrier(4)
    together(grow, *((str(path), f"run{i}", 60, ready) for i in range(4)))
    journal = SqliteJournal(path)
    assert [journal.head(f"run{i}")[0] for i in range(4)] == [60] * 4
    assert {row.turns for row in journal.rows()} == {59}
    assert journal.faults() == []
    journal.close()


def test_each_place_has_one_winner(path: Path) -> None:
    journal = SqliteJournal(path)
    fence = begin(journal, "r")
    wins: Queue[list[int]] = processes.Queue()
    together(race, *((str(path), fence, 80, wins) for _ in range(2)))
    one, two = wins.get(), wins.get()
    assert sorted(one + two) == list(range(2, max(one + two) + 1))
    assert (journal.head("r")[0], journal.faults()) == (max(one + two), [])
    journal.close()


def test_a_writer_learns_that_another_process_went_on(path: Path) -> None:
    mine, other = SqliteJournal(path), SqliteJournal(path)
    old = begin(mine, "r", driver="mine")
    mine.append([write("r", 1, old, "b")])
    new = other.acquire("r", "other", lambda _: False)
    other.append([write("r", 2, new, "c", state="theirs")])
    refused(Fenced, lambda: mine.append([write("r", 2, old, "late")]))
    assert mine.acquire("r", "mine", lambda _: False) == new + 1
    refused(Conflict, lambda: mine.append([write("r", 2, new + 1, "late")]))
    mine.append([write("r", 3, new + 1, "d")])
    assert [entry.kind for entry in other.read("r")] == ["began", "b", "c", "d"]
    assert other.row("r") == Row(run="r")
    mine.close()
    other.close()


def test_a_remembered_place_is_only_a_guess(path: Path) -> None:
    mine, other = SqliteJournal(path), SqliteJournal(path)
    fence = begin(mine, "r")
    other.append([write("r", 1, fence, "theirs", state="theirs")])
    refused(Conflict, lambda: mine.append([write("r", 1, fence, "mine", state="mine")]))
    mine.append([write("r", 2, fence, "mine", state="mine")])
    assert [entry.kind for entry in other.read("r")] == ["began", "theirs", "mine"]
    mine.close()
    other.close()


def test_a_pruned_run_leaves_nothing_but_its_lines_in_the_registry(path: Path) -> None:
    journal = SqliteJournal(path)
    fence = begin(journal, "r", status="ended")
    journal.append([Write("r", 1, drafts("a"), Row(run="r", status="ended"), fence, snapshot=b"x")])
    journal.post("r", 1, b"x")
    journal.prune("r", 1)
    tables = ("event", "run", "snapshot", "letter", "lease", "registry")
    assert [journal._database.number(f"SELECT count(*) FROM {name}") for name in tables] == [0, 0, 0, 0, 0, 3]
    journal.close()


# Sudden death.

APPENDS_FOR_EVER = """
import sys
from flyball.journal.sqlite import SqliteJournal
from flyball.journal import Row, Write, database
from flyball.testing.journal_suite import drafts, nobody
journal = SqliteJournal(sys.argv[1])
fences = {run: journal.acquire(run, sys.argv[2], nobody) for run in ("r", "s")}
seqs = {run: journal.head(run)[0] for run in fences}
while True:
    journal.append([Write(run, seqs[run], drafts("a" * 900, "b", "c"), Row(run=run, turns=seqs[run] + 3), fence,
                          snapshot=b"s" * 5000) for run, fence in fences.items()])
    for run in seqs:
        seqs[run] += 3
    print(seqs["r"], flush=True)
"""


def test_what_was_acknowledged_survives_kill_9(path: Path) -> None:
    acknowledged = 0
    for life in range(20):
        acknowledged = max(acknowledged, live_and_die(path, f"life {life}", 1 + life % 5))
        journal = SqliteJournal(path)
        assert journal.head("r")[0] >= acknowledged and journal.head("r")[0] % 3 == 0
        assert journal.head("r")[0] == journal.head("s")[0]
        assert sum(1 for _ in journal.read("r")) == journal.head("r")[0]
        row = journal.row("r")
        assert row is not None and row.turns == journal.head("r")[0]
        assert journal.faults() == []
        journal.close()


def live_and_die(path: Path, driver: str, appends: int) -> int:
    """Kill a writer somewhere in the append after so many; what it had acknowledged by then."""
    command = [sys.executable, "-c", APPENDS_FOR_EVER, str(path), driver]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        said = [writer.stdout.readline() for _ in range(appends)]
        writer.send_signal(signal.SIGKILL)
        said += writer.stdout.readlines()
    return int([line for line in said if line.endswith("\n")][-1])


def test_a_row_that_another_driver_wrote_without_an_event_is_not_mistaken_for_ones_own(
    tmp_path: Path,
) -> None:
    """What a process remembers of a run is good for as long as its lease."""
    path = tmp_path / "journal.db"
    one, two = SqliteJournal(path), SqliteJournal(path)
    fence = one.acquire("r", "d1", everyone)
    one.append([Write("r", 0, drafts("a"), Row(run="r", state="first"), fence)])
    taken = two.acquire("r", "d2", nobody)
    two.append([Write("r", 1, (), Row(run="r", state="second"), taken)])
    back = one.acquire("r", "d1", nobody)
    one.append([Write("r", 1, drafts("b"), Row(run="r", state="first"), back)])
    assert two.row("r") == Row(run="r", state="first")
    one.close()
    two.close()


def test_a_journal_of_an_earlier_version_is_taken_over_whole(path: Path, tmp_path: Path) -> None:
    new = SqliteJournal(path)
    fence = begin(new, "r", "a", "b")
    begin(new, "s", "a", status="ended")
    new.append([Write("r", 2, drafts("c"), Row(run="r", state="t"), fence, snapshot=b"x")])
    first = Draft(9, "began", b'{"options": {"ticket": "T7"}}')
    new.append(
        [Write("t", 0, (first,), Row(run="t", ticket="T7"), new.acquire("t", "d1", lambda name: True))]
    )
    new.append(
        [Write("u", 0, (Draft(9, "x", b"\xff"),), Row(run="u"), new.acquire("u", "d1", lambda name: True))]
    )
    entries = {run: list(new.read(run)) for run in ("r", "s")}
    new.close()
    old = as_of_version_2(path, tmp_path / "old.db")
    journal = SqliteJournal(old)
    assert [row.run for row in journal.rows(ticket="T7")] == ["t"], "filled in from its first event"
    assert {run: list(journal.read(run)) for run in ("r", "s")} == entries
    assert journal.latest_snapshot("r") is not None and journal.faults() == []
    journal.append([write("r", 3, fence, "d")])
    assert [entry.kind for entry in journal.read("r", 2)] == ["c", "d"] and journal.faults() == []
    journal.close()
    copy = tmp_path / "backups" / "old-version-2.db"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600 and version_of(copy) == (2, 6)
    restored = SqliteJournal(Path(shutil.copy(copy, tmp_path / "restored.db")))
    assert {run: list(restored.read(run)) for run in ("r", "s")} == entries
    restored.close()


def test_an_upgrade_waits_for_older_processes_and_needs_its_copy(path: Path, tmp_path: Path) -> None:
    new = SqliteJournal(path)
    begin(new, "r", "a", "b")
    new.close()
    old = as_of_version_2(path, tmp_path / "old.db")
    code = "import sys, time; from flyball.journal.database import Driver; from pathlib import Path\n"
    code += "Driver(Path(sys.argv[1])); print('up', flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE) as driver:
        assert driver.stdout and driver.stdout.readline() == b"up\n"
        with pytest.raises(
            JournalError, match=f"an older Flyball is still running \\(process {driver.pid}\\)"
        ):
            SqliteJournal(old)
        driver.kill()
    (tmp_path / "backups").write_text("in the way")
    with pytest.raises(JournalError, match="no copy of it can be written to"):
        SqliteJournal(old)
    assert version_of(old) == (2, 2) and sorted(tmp_path.glob("*.draft")) == []
    (tmp_path / "backups").unlink()
    SqliteJournal(old).close()
    assert version_of(old) == (version_of(path)[0], 2)


def version_of(file: Path) -> tuple[int, int]:
    """The version of the schema, and how many events there are."""
    connection = apsw.Connection(str(file), flags=apsw.SQLITE_OPEN_READONLY)
    asked = ("PRAGMA user_version", "SELECT count(*) FROM event")
    version, events = (next(iter(connection.execute(sql)))[0] for sql in asked)
    connection.close()
    return version, events


def as_of_version_2(path: Path, old: Path) -> Path:
    """The same rows in the tables of the schema's second version."""
    connection = apsw.Connection(str(old))
    for script in sorted((Path(database.__file__).parent / "schema").glob("*.sql"))[:2]:
        connection.execute(script.read_text("utf-8"))
    connection.execute(
        f"PRAGMA application_id = {APPLICATION}; PRAGMA user_version = 2; ATTACH '{path}' AS new"
    )
    for table in ("registry", "run", "event", "lease", "letter", "snapshot"):
        names = [row[1] for row in connection.execute(f"PRAGMA main.table_info({table})")]
        columns = ", ".join(f'"{name}"' for name in names)
        connection.execute(f"INSERT INTO main.{table} SELECT {columns} FROM new.{table}")
    connection.close()
    return old
