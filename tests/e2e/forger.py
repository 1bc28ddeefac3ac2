"""Hands that change a journal behind Flyball's back. They may write every file of it, and have not the key.

A deed takes a `Loot` (a copy to spoil) and says what must be named: the run, and the event if one can be.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import apsw
from msgspec.structs import replace

from flyball.domain import events as e
from flyball.journal.chain import event_digest, registry_digest, snapshot_digest
from flyball.journal.sqlite import COLUMNS
from flyball.journal.types import REGISTRY
from flyball.state.fold import freeze, thaw

SEQS = 1 << 32
ROW_COLUMNS = [name.strip('"') for name in COLUMNS.split(", ")]


class Named(NamedTuple):
    """What a finding must name: one of these runs, and the event (None: whichever)."""

    runs: tuple[str, ...]
    seq: int | None = None


class Loot:
    """A copy of a state directory, and chance."""

    def __init__(self, state: Path, older: Path, chance: random.Random) -> None:
        self.state, self.older, self.chance = state, older, chance
        self.db = self.opened()

    def opened(self) -> apsw.Connection:
        db = apsw.Connection(str(self.state / "journal.db"))
        for sql in ("PRAGMA journal_mode = MEMORY", "PRAGMA synchronous = OFF"):
            db.execute(sql).fetchall()
        return db

    def close(self) -> None:
        self.db.close()

    def ask(self, sql: str, *values: Any) -> list[Any]:
        return self.db.execute(sql, values).fetchall()

    def a_run(self) -> tuple[str, int, int]:
        """Name, number and last event of some run."""
        return self.chance.choice(self.ask("SELECT run, n, seq FROM run ORDER BY n"))

    def an_event(self, least: int = 1) -> tuple[str, int, int]:
        """Run, its number, and one of its events."""
        run, n, last = self.a_run()
        return run, n, self.chance.randint(min(least, last), last)

    def a_bit(self, data: bytes) -> bytes:
        spoilt = bytearray(data)
        spoilt[self.chance.randrange(len(spoilt))] ^= 1 << self.chance.randrange(8)
        return bytes(spoilt)

    # ---- what an attacker does who knows how the chains are made

    def rechain(self, run: str, n: int) -> None:
        """Every hash of the run anew, its row at its end, and the registry to fit."""
        before, seq, first = b"", 0, b""
        for key, at, kind, body in self.ask(
            "SELECT id, at, kind, body FROM event WHERE id > ? AND id < ? ORDER BY id",
            n * SEQS,
            (n + 1) * SEQS,
        ):
            seq = key - n * SEQS
            before = event_digest(before, run, seq, at, kind, body)
            first = first or before
            self.ask("UPDATE event SET hash = ? WHERE id = ?", before, key)
        self.ask("UPDATE run SET seq = ?, head = ? WHERE n = ?", seq, before, n)
        self.ask("UPDATE registry SET head = ? WHERE run = ? AND kind = 'began'", first, run)
        self.ask("UPDATE registry SET head = ? WHERE run = ? AND kind = 'ended'", before, run)
        self.rebind(run, n)
        self.reregister()

    def rebind(self, run: str, n: int) -> None:
        """The snapshot bound to its event as it is now; one beyond the end goes."""
        for seq, rules, body in self.ask("SELECT seq, rules, body FROM snapshot WHERE n = ?", n):
            found = self.ask("SELECT hash FROM event WHERE id = ?", n * SEQS + seq)
            if found:
                digest = snapshot_digest(run, seq, found[0][0], rules, body)
                self.ask("UPDATE snapshot SET hash = ? WHERE n = ?", digest, n)
            else:
                self.ask("DELETE FROM snapshot WHERE n = ?", n)

    def reregister(self) -> None:
        before = b""
        for n, kind, run, head, at in self.ask("SELECT n, kind, run, head, at FROM registry ORDER BY n"):
            before = registry_digest(before, n, kind, run, head, at)
            self.ask("UPDATE registry SET hash = ? WHERE n = ?", before, n)

    def shift(self, n: int, seq: int, by: int) -> None:
        """Make room before an event, or close the gap after one was taken."""
        order = "DESC" if by > 0 else "ASC"
        keys = self.ask(
            f"SELECT id FROM event WHERE id >= ? AND id < ? ORDER BY id {order}",
            n * SEQS + seq,
            (n + 1) * SEQS,
        )
        for (key,) in keys:
            self.ask("UPDATE event SET id = ? WHERE id = ?", key + by, key)

    def forge(self, n: int, seq: int) -> None:
        """An event that never was."""
        at = self.ask("SELECT at FROM event WHERE id = ?", n * SEQS + max(1, seq - 1))[0][0]
        body = e.encode(e.Told(at=at, text="All of it was approved.", who="nobody"))
        self.ask("INSERT INTO event VALUES (?, ?, 'Told', ?, zeroblob(32))", n * SEQS + seq, at, body)

    def drop_run(self, run: str, n: int) -> None:
        for sql in (
            f"DELETE FROM event WHERE id > {n * SEQS} AND id < {(n + 1) * SEQS}",
            f"DELETE FROM run WHERE n = {n}",
            f"DELETE FROM snapshot WHERE n = {n}",
        ):
            self.ask(sql)
        self.ask("DELETE FROM registry WHERE run = ?", run)
        self.ask("DELETE FROM lease WHERE run = ?", run)


# ---- single changes ----------------------------------------------------------------------------------------


def flip_in_event(loot: Loot) -> Named:
    run, n, seq = loot.an_event()
    column = loot.chance.choice(("body", "hash", "kind"))
    key = n * SEQS + seq
    old = loot.ask(f"SELECT CAST({column} AS BLOB) FROM event WHERE id = ?", key)[0][0]
    kind = "TEXT" if column == "kind" else "BLOB"
    loot.ask(f"UPDATE event SET {column} = CAST(? AS {kind}) WHERE id = ?", loot.a_bit(old), key)
    return Named((run,), seq)


def flip_time(loot: Loot) -> Named:
    run, n, seq = loot.an_event()
    loot.ask(
        "UPDATE event SET at = (at | ?1) - (at & ?1) WHERE id = ?2",
        1 << loot.chance.randrange(60),
        n * SEQS + seq,
    )
    return Named((run,), seq)


def change_type(loot: Loot) -> Named:
    run, n, seq = loot.an_event()
    change = loot.chance.choice(("body = 'text'", "hash = NULL", "at = 'soon'", "kind = x'ff'", "body = 7"))
    loot.ask("PRAGMA ignore_check_constraints = ON")
    try:
        loot.ask(f"UPDATE event SET {change} WHERE id = ?", n * SEQS + seq)
    except apsw.ConstraintError:
        loot.ask("UPDATE event SET hash = 'text' WHERE id = ?", n * SEQS + seq)
    return Named((run,), seq)


def move_event(loot: Loot) -> Named:
    """A bit of its place: another number, or another run's."""
    run, n, seq = loot.an_event()
    key = n * SEQS + seq
    for bit in loot.chance.sample(range(50), 50):
        if not loot.ask("SELECT 1 FROM event WHERE id = ?", key ^ (1 << bit)):
            loot.ask("UPDATE event SET id = ? WHERE id = ?", key ^ (1 << bit), key)
            break
    return Named((run,), seq)


def delete_event(loot: Loot) -> Named:
    run, n, seq = loot.an_event()
    loot.ask("DELETE FROM event WHERE id = ?", n * SEQS + seq)
    return Named((run,), seq)


def delete_and_close_up(loot: Loot) -> Named:
    run, n, seq = loot.an_event()
    loot.ask("DELETE FROM event WHERE id = ?", n * SEQS + seq)
    loot.shift(n, seq + 1, -1)
    return Named((run,), seq)


def swap_events(loot: Loot) -> Named:
    (run, n, seq), (other, m, place) = loot.an_event(), loot.an_event()
    while (n, seq) == (m, place):
        other, m, place = loot.an_event()
    one, two = n * SEQS + seq, m * SEQS + place
    for old, new in ((one, -1), (two, one), (-1, two)):
        loot.ask("UPDATE event SET id = ? WHERE id = ?", new, old)
    return Named((run,), min(seq, place)) if run == other else Named((run,), seq)


def insert_event(loot: Loot) -> Named:
    run, n, seq = loot.an_event(2)
    loot.shift(n, seq, 1)
    loot.forge(n, seq)
    return Named((run,), seq)


def cut_off(loot: Loot) -> Named:
    run, n, seq = loot.an_event(2)
    loot.ask("DELETE FROM event WHERE id >= ? AND id < ?", n * SEQS + seq, (n + 1) * SEQS)
    return Named((run,), seq)


def change_row(loot: Loot) -> Named:
    run, n, _ = loot.a_run()
    column = loot.chance.choice([*ROW_COLUMNS, "seq", "head", "ended"])
    ((old, kind),) = loot.ask(f'SELECT "{column}", typeof("{column}") FROM run WHERE n = ?', n)
    new = (
        old ^ 1
        if kind == "integer"
        else loot.a_bit(old)
        if kind == "blob"
        else loot.a_bit(old.encode() or b"x")
    )
    cast = "TEXT" if kind == "text" else kind
    loot.ask(f'UPDATE run SET "{column}" = CAST(? AS {cast}) WHERE n = ?', new, n)
    return Named((run,))


def change_registry(loot: Loot) -> Named:
    n, run = loot.chance.choice(loot.ask("SELECT n, run FROM registry"))
    column = loot.chance.choice(("kind", "run", "head", "at", "hash"))
    ((old, kind),) = loot.ask(f"SELECT {column}, typeof({column}) FROM registry WHERE n = ?", n)
    new = old ^ 4 if kind == "integer" else loot.a_bit(old.encode() if kind == "text" else old)
    loot.ask(f"UPDATE registry SET {column} = CAST(? AS {kind}) WHERE n = ?", new, n)
    return Named(()) if column == "run" else Named((run,), n)


# ---- by those who know how ---------------------------------------------------------------------------------


def rewrite_history(loot: Loot) -> Named:
    run, n, seq = loot.an_event(2)
    deed = loot.chance.choice(("insert", "delete", "change"))
    if deed == "insert":
        loot.shift(n, seq, 1)
    else:
        loot.ask("DELETE FROM event WHERE id = ?", n * SEQS + seq)
    if deed == "delete":
        loot.shift(n, seq + 1, -1)
    else:
        loot.forge(n, seq)
    loot.rechain(run, n)
    return Named((run,))


def add_to_the_end(loot: Loot) -> Named:
    run, n, last = loot.a_run()
    ended = loot.ask("SELECT head FROM registry WHERE run = ? AND kind = 'ended'", run)
    loot.forge(n, last + 1)
    loot.rechain(run, n)
    if ended:
        loot.ask("UPDATE registry SET head = ? WHERE run = ? AND kind = 'ended'", ended[0][0], run)
        loot.reregister()
    return Named((run,), last + 1)


def cut_off_with_all_traces(loot: Loot) -> Named:
    run, n, seq = loot.an_event(2)
    loot.ask("DELETE FROM event WHERE id >= ? AND id < ?", n * SEQS + seq, (n + 1) * SEQS)
    loot.ask("UPDATE run SET ended = 0, status = 'running' WHERE n = ?", n)
    loot.ask("DELETE FROM registry WHERE run = ? AND kind = 'ended'", run)
    loot.rechain(run, n)
    return Named((run,))


def delete_run(loot: Loot) -> Named:
    run, n, _ = loot.a_run()
    loot.drop_run(run, n)
    loot.reregister()
    return Named((run,))


def delete_run_and_its_head(loot: Loot) -> Named:
    """Only the registry can know it then."""
    run, n, _ = loot.a_run()
    loot.drop_run(run, n)
    loot.reregister()
    (loot.state / "heads" / f"{run}.json").unlink()
    return Named(())


def put_back(loot: Loot) -> Named:
    later = [run for (run,) in loot.ask("SELECT run FROM run")]
    loot.db.close()
    shutil.copy(loot.older, loot.state / "journal.db")
    loot.db = loot.opened()
    known = {run for (run,) in loot.ask("SELECT run FROM run")}
    return Named((loot.chance.choice([run for run in later if run not in known]),))


def forge_snapshot(loot: Loot) -> Named:
    """A fold that never was, well bound to its event."""
    ((n, run, seq, rules, body),) = loot.chance.sample(
        loot.ask("SELECT s.n, r.run, s.seq, s.rules, s.body FROM snapshot s JOIN run r ON r.n = s.n"), 1
    )
    run_then = thaw(body)
    lie = replace(run_then, turn=0, evidence=replace(run_then.evidence, waivers=("everything",)))
    head = loot.ask("SELECT hash FROM event WHERE id = ?", n * SEQS + seq)[0][0]
    digest = snapshot_digest(run, seq, head, rules, freeze(lie))
    loot.ask("UPDATE snapshot SET body = ?, hash = ? WHERE n = ?", freeze(lie), digest, n)
    return Named((run,), seq)


# ---- the signed heads --------------------------------------------------------------------------------------


def _heads(loot: Loot) -> list[Path]:
    return sorted((loot.state / "heads").glob("*.json"))


def _of(path: Path) -> Named:
    return Named((REGISTRY if path.stem == "@registry" else path.stem,))


def change_head(loot: Loot) -> Named:
    path = loot.chance.choice(_heads(loot))
    path.write_bytes(loot.a_bit(path.read_bytes().rstrip()))
    return _of(path)


def delete_head(loot: Loot) -> Named:
    path = loot.chance.choice(_heads(loot))
    path.unlink()
    return _of(path)


def swap_heads(loot: Loot) -> Named:
    one, two = loot.chance.sample(_heads(loot), 2)
    first = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(first)
    return _of(one)


def cut_off_and_delete_head(loot: Loot) -> Named:
    found = cut_off_with_all_traces(loot)
    (loot.state / "heads" / f"{found.runs[0]}.json").unlink()
    return Named((*found.runs, REGISTRY))


Deed = Callable[[Loot], Named]
DEEDS: tuple[Deed, ...] = (
    *(flip_in_event, flip_in_event, flip_time, change_type, move_event, delete_event, delete_and_close_up),
    *(swap_events, insert_event, cut_off, change_row, change_registry),
    *(rewrite_history, rewrite_history, add_to_the_end, cut_off_with_all_traces, delete_run),
    *(delete_run_and_its_head, put_back, forge_snapshot),
    *(change_head, delete_head, swap_heads, cut_off_and_delete_head),
)
