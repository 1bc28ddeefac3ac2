"""What every journal must do. A store's own tests inherit `JournalSuite` and give it the fixture `journal`.

class TestMine(JournalSuite):
    @pytest.fixture
    def journal(self): ...
"""

from collections.abc import Callable
from typing import Any, TypeVar

from flyball.errors import AlreadyRunning, Conflict, Fenced, FlyballError, JournalError, NotFound
from flyball.journal import Checkpoint, Draft, Journal, Row, Snapshot, Write

E = TypeVar("E", bound=FlyballError)


def drafts(*kinds: str, at: int = 1) -> tuple[Draft, ...]:
    """Drafts of these kinds, a microsecond apart."""
    return tuple(Draft(at + i, kind, f'"{kind}"'.encode()) for i, kind in enumerate(kinds))


def write(run: str, after: int, fence: int, *kinds: str, **row: Any) -> Write:
    """A write of these kinds, with these columns of the row."""
    return Write(run, after, drafts(*kinds, at=after + 1), Row(run=run, **row), fence)


def begin(journal: Journal, run: str, *kinds: str, driver: str = "d1", **row: Any) -> int:
    """Lease a run and write its first events; the fence."""
    fence = journal.acquire(run, driver, everyone)
    journal.append([write(run, 0, fence, *(kinds or ("began",)), **row)])
    return fence


def refused(kind: type[E], call: Callable[[], object]) -> E:
    """The error with which a call is refused."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"{kind.__name__} was expected")


def everyone(_: str) -> bool:
    """All drivers are alive."""
    return True


def nobody(_: str) -> bool:
    """All drivers are dead."""
    return False


def names(rows: list[Row]) -> list[str]:
    """The runs of some rows."""
    return [row.run for row in rows]


class JournalSuite:
    """The laws of a journal, each a test."""

    # Appending and reading.

    def test_what_was_appended_is_read_in_order(self, journal: Journal) -> None:
        fence = begin(journal, "r", "a", "b")
        entries = journal.append([write("r", 2, fence, "c")])
        stored = list(journal.read("r"))
        assert [(e.seq, e.kind, e.body, e.at) for e in stored] == [
            (1, "a", b'"a"', 1),
            (2, "b", b'"b"', 2),
            (3, "c", b'"c"', 3),
        ]
        assert stored[2:] == entries == list(journal.read("r", 2))
        assert journal.head("r") == (3, entries[0].hash) == (3, journal.hash_at("r", 3))

    def test_an_unknown_run_is_empty(self, journal: Journal) -> None:
        assert journal.head("no") == (0, "")
        assert (list(journal.read("no")), journal.row("no"), journal.latest_snapshot("no")) == (
            [],
            None,
            None,
        )
        assert (journal.holder("no"), journal.mail("no"), journal.hash_at("no", 1)) == ("", [], "")

    def test_bytes_come_back_as_they_went_in(self, journal: Journal) -> None:
        body = bytes(range(256)) * 500
        fence = journal.acquire("r", "d", everyone)
        journal.append(
            [Write("r", 0, (Draft(-5, "päck 'n\0", body), Draft(2**62, "", b"")), Row(run="r"), fence)]
        )
        assert [(e.at, e.kind, e.body) for e in journal.read("r")] == [
            (-5, "päck 'n\0", body),
            (2**62, "", b""),
        ]

    def test_a_long_run_is_read_whole(self, journal: Journal) -> None:
        fence = begin(journal, "r", *("k" for _ in range(2_500)))
        begin(journal, "s", "other")
        journal.append([write("r", 2_500, fence, "last")])
        assert [e.seq for e in journal.read("r")] == list(range(1, 2_502))
        assert [e.seq for e in journal.read("r", 1_999)] == list(range(2_000, 2_502))

    def test_appending_while_reading_is_safe(self, journal: Journal) -> None:
        fence = begin(journal, "r", *("k" for _ in range(1_500)))
        count = 0
        for _ in journal.read("r"):
            count += 1
            if count == 700:
                journal.append([write("r", 1_500, fence, "new")])
        assert count >= 1_500
        assert journal.head("r")[0] == 1_501

    def test_the_same_events_give_the_same_head_and_any_other_another(self, journal: Journal) -> None:
        for run, kinds in (("r", ("a", "b")), ("s", ("a", "b")), ("t", ("ab",))):
            begin(journal, run, *kinds)
        heads = {journal.head(run)[1] for run in "rst"}
        assert len(heads) == 3
        assert journal.head("r")[1] == "709bf61ad720e9ae00383b35bc899201d217095ea7cf9eb1bc5a0d81a350868d"

    def test_a_write_at_the_wrong_place_is_refused_whole(self, journal: Journal) -> None:
        fence = begin(journal, "r", "a", "b", state="one")
        for after in (0, 1, 3):
            error = refused(
                Conflict, lambda at=after: journal.append([write("r", at, fence, "x", state="two")])
            )
            assert "at event 2" in str(error)
        assert (journal.head("r")[0], journal.row("r")) == (2, Row(run="r", state="one"))

    def test_one_bad_write_refuses_all(self, journal: Journal) -> None:
        r, s = begin(journal, "r"), begin(journal, "s")
        before = journal.head("r"), journal.head("s"), journal.registry_head()
        message = journal.post("r", 1, b"x")
        good = Write("r", 1, drafts("a"), Row(run="r", status="ended"), r, messages=(message,), snapshot=b"s")
        refused(Conflict, lambda: journal.append([good, write("s", 7, s, "b")]))
        assert (journal.head("r"), journal.head("s"), journal.registry_head()) == before
        assert ([m.id for m in journal.mail("r")], journal.latest_snapshot("r")) == ([message], None)
        assert journal.row("r") == Row(run="r")
        journal.append([good, write("s", 1, s, "b")])
        assert (journal.head("r")[0], journal.head("s")[0]) == (2, 2)

    def test_two_writes_of_one_run_follow_each_other(self, journal: Journal) -> None:
        fence = journal.acquire("r", "d", everyone)
        entries = journal.append([write("r", 0, fence, "a"), write("r", 1, fence, "b", "c", state="s")])
        assert [e.seq for e in entries] == [1, 2, 3]
        assert journal.row("r") == Row(run="r", state="s")
        refused(Conflict, lambda: journal.append([write("r", 3, fence, "d"), write("r", 3, fence, "e")]))
        assert list(journal.read("r")) == entries

    def test_nothing_is_appended_for_nothing(self, journal: Journal) -> None:
        assert journal.append([]) == []
        assert journal.registry_head() == (0, "")

    def test_a_write_that_means_nothing_is_refused(self, journal: Journal) -> None:
        fence = journal.acquire("r", "d", everyone)
        for bad in (
            Write("r", 0, (), Row(run="r"), fence),
            Write("r", 0, drafts("a"), Row(run="s"), fence),
            Write("r", -1, drafts("a"), Row(run="r"), fence),
            Write("", 0, drafts("a"), Row(run=""), fence),
        ):
            refused(JournalError, lambda bad=bad: journal.append([bad]))
        assert (journal.head("r"), journal.registry_head()) == ((0, ""), (0, ""))

    # Leases.

    def test_only_the_holder_of_the_lease_may_append(self, journal: Journal) -> None:
        refused(Fenced, lambda: journal.append([write("r", 0, 0, "a")]))
        refused(Fenced, lambda: journal.append([write("r", 0, 1, "a")]))
        old = begin(journal, "r")
        new = journal.acquire("r", "d2", nobody)
        assert new > old
        error = refused(Fenced, lambda: journal.append([write("r", 1, old, "b")]))
        assert "r" in str(error) and str(old) in str(error)
        assert journal.head("r")[0] == 1
        journal.append([write("r", 1, new, "b")])

    def test_a_second_driver_is_refused_by_name(self, journal: Journal) -> None:
        fence = journal.acquire("r", "process 7", everyone)
        names: list[str] = []
        error = refused(
            AlreadyRunning, lambda: journal.acquire("r", "process 8", lambda d: bool(names.append(d)) or True)
        )
        assert names == ["process 7"] and "process 7" in str(error)
        assert journal.acquire("r", "process 7", everyone) == fence
        assert journal.holder("r") == "process 7"

    def test_a_lease_given_back_is_free_and_its_number_never_returns(self, journal: Journal) -> None:
        first = begin(journal, "r")
        journal.release("r", "someone else")
        assert journal.holder("r") == "d1"
        journal.release("r", "d1")
        assert journal.holder("r") == ""
        refused(Fenced, lambda: journal.append([write("r", 1, first, "late")]))
        second = journal.acquire("r", "d2", everyone)
        third = journal.acquire("r", "d3", nobody)
        assert first < second < third
        journal.release("no such run", "d")

    # Mail.

    def test_a_message_waits_until_it_is_taken_with_an_event(self, journal: Journal) -> None:
        fence = begin(journal, "r")
        one, two, three = journal.post("r", 5, b"1"), journal.post("s", 6, b"2"), journal.post("r", 7, b"3")
        assert [(m.id, m.run, m.at, m.body, m.taken) for m in journal.mail("r")] == [
            (one, "r", 5, b"1", False),
            (three, "r", 7, b"3", False),
        ]
        assert [m.id for m in journal.mail_all(["s", "r", "t"])] == [one, two, three]
        assert [m.id for m in journal.mail_all(["s"])] == [two]
        journal.append([Write("r", 1, drafts("got"), Row(run="r"), fence, messages=(one,))])
        assert [m.id for m in journal.mail("r")] == [three]

    def test_a_message_is_taken_once_and_by_its_own_run(self, journal: Journal) -> None:
        fence = begin(journal, "r")
        mine, other = journal.post("r", 1, b"x"), journal.post("s", 1, b"y")
        taking = Write("r", 1, drafts("a"), Row(run="r"), fence, messages=(mine,))
        for messages in ((mine, mine), (other,), (999,)):
            bad = Write("r", 1, drafts("a"), Row(run="r"), fence, messages=messages)
            refused(Conflict, lambda bad=bad: journal.append([bad]))
        journal.append([taking])
        again = Write("r", 2, drafts("a"), Row(run="r"), fence, messages=(mine,))
        refused(Conflict, lambda: journal.append([again]))
        assert (journal.head("r")[0], [m.id for m in journal.mail("s")]) == (2, [other])

    # Snapshots and rows.

    def test_the_latest_snapshot_comes_back_with_its_place(self, journal: Journal) -> None:
        fence = begin(journal, "r")
        journal.append([Write("r", 1, drafts("a"), Row(run="r"), fence, snapshot=b"one", rules="1")])
        journal.append([write("r", 2, fence, "b")])
        assert journal.latest_snapshot("r") == Snapshot("r", 2, "1", b"one")
        journal.append([Write("r", 3, (), Row(run="r"), fence, snapshot=b"two", rules="2")])
        assert journal.latest_snapshot("r") == Snapshot("r", 3, "2", b"two")
        assert journal.faults() == []

    def test_finished_acts_of_all_runs_are_found_by_their_instant(self, journal: Journal) -> None:
        begin(journal, "a", "began", "ActFinished", "moved", "ActFinished")
        begin(journal, "b", "began", "began", "ActFinished")
        assert len(journal.finished(0)) == 3
        assert journal.finished(3) == [b'"ActFinished"'] * 2
        assert journal.finished(5) == []

    def test_a_row_is_what_was_written_last(self, journal: Journal) -> None:
        row = Row(
            "r",
            "R",
            "p",
            "/repo",
            "task",
            "title",
            "s",
            "running",
            "c",
            "e",
            "q",
            "a",
            "x",
            1,
            2,
            3,
            4,
            5,
            6,
            7,
            8,
            9,
        )
        fence = journal.acquire("r", "d", everyone)
        journal.append([Write("r", 0, drafts("a"), row, fence)])
        assert journal.row("r") == row and journal.rows() == [row]
        changed = Row(
            "r", "R2", "p2", "/x", "loop", "t", "s2", "paused", "", "", "", "b", "", 9, 8, 7, 6, 5, 6, 3, 2, 1
        )
        journal.append([Write("r", 1, drafts("b"), changed, fence)])
        assert journal.row("r") == changed and journal.rows(state="s") == []
        assert journal.rows(state="s2", repo="/x") == [changed]

    def test_rows_are_found_by_every_column_newest_first(self, journal: Journal) -> None:
        _many(journal)
        assert names(journal.rows()) == ["e", "d", "c", "b", "a"]
        assert names(journal.rows(limit=2)) == ["e", "d"]
        assert names(journal.rows(limit=0)) == []
        assert names(journal.rows(repo="/one")) == ["d", "b", "a"]
        assert names(journal.rows(status="waiting")) == ["c", "b"]
        assert names(journal.rows(repo="/one", status="waiting")) == ["b"]
        assert names(journal.rows(state="testing")) == ["c", "b"]
        assert names(journal.rows(repo="/two", state="testing")) == ["c"]
        assert names(journal.rows(machine="task", state="testing")) == ["c"]
        assert names(journal.rows(machine="task")) == ["d", "c", "a"]
        assert names(journal.rows(root="a")) == ["c", "b", "a"]
        assert names(journal.rows(parent="a")) == ["c", "b"]
        assert names(journal.rows(parent="")) == ["e", "d", "a"]
        assert names(journal.rows(parent="a", repo="/one", machine="build", limit=1)) == ["b"]
        assert names(journal.rows(ticket="T1")) == names(journal.rows(ticket="T1", repo="/one")) == ["a"]
        assert names(journal.rows(repo="/none")) == []

    def test_tasks_are_found_by_what_is_wrong_with_them(self, journal: Journal) -> None:
        _many(journal)
        assert names(journal.rows(open_question=True)) == ["d", "b"]
        assert names(journal.rows(open_question=True, repo="/one", status="waiting")) == ["b"]
        assert [names(journal.rows(late_at=now)) for now in (49, 50, 70)] == [[], ["b"], ["c", "b"]]
        assert names(journal.rows(late_at=70, machine="task")) == ["c"]
        assert names(journal.rows(failures=2)) == ["d", "c"]
        assert names(journal.rows(failures=3, limit=1)) == ["d"]
        assert names(journal.rows(failures=0)) == ["e", "d", "c", "b", "a"]

    def test_runs_are_counted_by_state(self, journal: Journal) -> None:
        _many(journal)
        assert journal.tally() == {"": 1, "cto_intervention": 1, "done": 1, "testing": 2}
        assert journal.tally(machine="task") == {"cto_intervention": 1, "done": 1, "testing": 1}

    def test_runs_of_one_instant_are_ordered_by_when_they_began(self, journal: Journal) -> None:
        for run in ("z", "a", "m"):
            begin(journal, run, created_at=1)
        assert names(journal.rows()) == ["m", "a", "z"]

    def test_a_prefix_finds_its_runs(self, journal: Journal) -> None:
        for run in ("ab1", "ab2", "b", "a%", "a_"):
            begin(journal, run)
        assert journal.resolve("ab") == ["ab1", "ab2"]
        assert journal.resolve("ab1") == ["ab1"]
        assert journal.resolve("a%") == ["a%"]
        assert journal.resolve("c") == []
        assert journal.resolve("") == ["a%", "a_", "ab1", "ab2", "b"]

    # The registry, pruning and the audit.

    def test_the_registry_says_who_began_and_ended_once(self, journal: Journal) -> None:
        fence = begin(journal, "r", "a", "b")
        begin(journal, "s", "a", status="ended")
        journal.append([write("r", 2, fence, "c", status="ended")])
        journal.append([write("r", 3, fence, "landed", status="ended")])
        lines = list(journal.registered())
        assert [(x.n, x.kind, x.run, x.at) for x in lines] == [
            (1, "began", "r", 1),
            (2, "began", "s", 1),
            (3, "ended", "s", 1),
            (4, "ended", "r", 3),
        ]
        assert (lines[0].head, lines[3].head) == (journal.hash_at("r", 1), journal.hash_at("r", 3))
        assert journal.registry_head() == (4, lines[3].hash)
        assert journal.faults() == []

    def test_a_pruned_run_leaves_a_chained_tombstone(self, journal: Journal) -> None:
        fence = begin(journal, "r", "a", "b", status="ended", state="s", question="q", failures=3, alert_at=1)
        begin(journal, "s", "a", root="s")
        journal.append([Write("r", 2, drafts("c"), Row(run="r", status="ended"), fence, snapshot=b"x")])
        journal.post("r", 1, b"unread")
        head = journal.head("r")[1]
        journal.prune("r", 77)
        assert (journal.head("r"), list(journal.read("r")), journal.row("r")) == ((0, ""), [], None)
        assert (names(journal.rows()), journal.resolve(""), journal.mail("r")) == (["s"], ["s"], [])
        assert journal.latest_snapshot("r") is None
        last = list(journal.registered())[-1]
        assert (last.kind, last.run, last.head, last.at) == ("pruned", "r", head, 77)
        assert journal.faults([Checkpoint("r", 2, "old", 1)]) == []

    def test_the_id_of_a_pruned_run_is_not_used_again(self, journal: Journal) -> None:
        begin(journal, "r", status="ended")
        journal.prune("r", 1)
        fence = journal.acquire("r", "d9", everyone)
        refused(Conflict, lambda: journal.append([write("r", 0, fence, "a")]))
        refused(NotFound, lambda: journal.prune("r", 2))

    def test_only_an_ended_run_is_pruned(self, journal: Journal) -> None:
        begin(journal, "r", status="waiting")
        assert "r" in str(refused(JournalError, lambda: journal.prune("r", 1)))
        assert "nope" in str(refused(NotFound, lambda: journal.prune("nope", 1)))
        assert journal.head("r")[0] == 1 and journal.faults() == []

    def test_a_journal_that_nobody_touched_has_no_faults(self, journal: Journal) -> None:
        marks: list[Checkpoint] = []
        for run in ("r", "s", "t"):
            fence = begin(journal, run, "a", "b")
            marks.append(Checkpoint(run, *journal.head(run), 1))
            journal.append([write(run, 2, fence, "c", status="ended")])
        marks.append(Checkpoint("", *journal.registry_head(), 1))
        begin(journal, "u")
        assert journal.faults(marks) == []

    def test_a_head_that_the_journal_does_not_know_is_a_fault(self, journal: Journal) -> None:
        begin(journal, "r", "a", "b")
        marks = [
            Checkpoint("r", 5, "ab" * 32, 1),
            Checkpoint("r", 1, "cd" * 32, 1),
            Checkpoint("gone", 3, "ab" * 32, 1),
            Checkpoint("", 9, "ab" * 32, 1),
        ]
        faults = journal.faults(marks)
        assert [(f.run, f.seq) for f in faults] == [("", 9), ("r", 5), ("r", 1), ("gone", 3)]
        assert "truncated or replaced" in faults[1].message and "rewritten" in faults[2].message
        assert all(f.message.endswith(".") for f in faults)


SHARED = {"root": "a", "parent": "a", "state": "testing", "status": "waiting"}
MANY: dict[str, dict[str, Any]] = {  # runs that differ in every column that is asked for
    "a": {"root": "a", "repo": "/one", "machine": "task", "state": "done", "status": "ended", "ticket": "T1"},
    "b": {**SHARED, "repo": "/one", "machine": "build", "question": "q1", "failures": 1, "alert_at": 50},
    "c": {**SHARED, "repo": "/two", "machine": "task", "failures": 2, "alert_at": 70},
    "d": {
        "root": "d",
        "repo": "/one",
        "machine": "task",
        "state": "cto_intervention",
        "question": "q2",
        "failures": 3,
    },
    "e": {"root": "e", "repo": "/three", "machine": "loop"},
}


def _many(journal: Journal) -> None:
    for number, (run, columns) in enumerate(MANY.items(), 1):
        row: dict[str, Any] = {"status": "running", **columns, "created_at": 10 * number}
        begin(journal, run, **row)
