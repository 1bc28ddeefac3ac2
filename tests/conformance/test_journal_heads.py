"""Signed heads outside the journal, and the key that signs them."""

import multiprocessing
import stat
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from flyball.errors import ConfigError, JournalError
from flyball.journal import Checkpoint
from flyball.journal.memory import MemoryJournal
from flyball.journal.records import Heads, load_or_create, verify
from flyball.journal.types import REGISTRY
from flyball.testing.journal_suite import begin, refused, write

processes = multiprocessing.get_context("spawn")
SECOND = 1_000_000


@pytest.fixture
def heads(tmp_path: Path) -> Heads:
    return Heads(tmp_path / "heads", load_or_create(tmp_path / "keys"))


def known(heads: Heads) -> dict[str, int]:
    """What another process reads from the files."""
    found, faults = heads.load()
    assert faults == []
    return {head.run: head.seq for head in found}


# The key.


def test_a_key_signs_and_only_its_public_half_verifies(tmp_path: Path) -> None:
    one, two = load_or_create(tmp_path / "one"), load_or_create(tmp_path / "two")
    signature = one.sign(b"data")
    assert verify(one.public_key_hex, b"data", signature)
    assert not verify(one.public_key_hex, b"Data", signature)
    assert not verify(two.public_key_hex, b"data", signature)
    assert not verify(one.public_key_hex, b"data", "no hex")
    assert not verify("", b"data", signature)


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    first = load_or_create(tmp_path / "keys").public_key_hex
    assert load_or_create(tmp_path / "keys").public_key_hex == first
    files = list((tmp_path / "keys").iterdir())
    assert [(f.name, stat.S_IMODE(f.stat().st_mode)) for f in files] == [("signing.key", 0o600)]
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


def tell_key(directory: str, told: "Queue[str]", ready: Barrier) -> None:
    ready.wait()
    told.put(load_or_create(Path(directory)).public_key_hex)


def test_processes_that_ask_at_once_get_one_key(tmp_path: Path) -> None:
    told: Queue[str] = processes.Queue()
    ready = processes.Barrier(4)
    crew = [processes.Process(target=tell_key, args=(str(tmp_path / "keys"), told, ready)) for _ in range(4)]
    for one in crew:
        one.start()
    keys = {told.get() for _ in crew}
    for one in crew:
        one.join()
    assert keys == {load_or_create(tmp_path / "keys").public_key_hex}


@pytest.mark.parametrize("mode", [0o644, 0o660, 0o602])
def test_a_key_that_is_open_to_others_is_refused_with_what_to_do(tmp_path: Path, mode: int) -> None:
    load_or_create(tmp_path)
    (tmp_path / "signing.key").chmod(mode)
    assert f"mode {mode:o}" in str(refused(ConfigError, lambda: load_or_create(tmp_path)))
    (tmp_path / "signing.key").chmod(0o600)
    load_or_create(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"not a key", b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----"]
)
def test_a_spoilt_key_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "signing.key").write_bytes(content)
    (tmp_path / "signing.key").chmod(0o600)
    assert "does not hold an Ed25519 key" in str(refused(ConfigError, lambda: load_or_create(tmp_path)))
    assert (tmp_path / "signing.key").read_bytes() == content


def test_a_place_where_no_key_can_be_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "signing.key" in str(refused(ConfigError, lambda: load_or_create(tmp_path / "file" / "keys")))


# The heads.


def test_a_head_is_written_at_most_once_a_second(heads: Heads) -> None:
    for seq, at in ((1, 0), (2, SECOND // 2), (3, SECOND - 1)):
        heads.note("r", seq, f"{seq:064}", at)
    assert known(heads) == {"r": 1}
    heads.note("r", 4, "04", SECOND)
    assert known(heads) == {"r": 4}


def test_many_runs_do_not_make_many_writes(heads: Heads) -> None:
    for run in range(50):
        heads.note(f"r{run}", 1, "00", SECOND + run)
    assert known(heads) == {"r0": 1}
    heads.note("r7", 2, "00", 2 * SECOND)
    assert known(heads) == {"r0": 1, "r7": 2}


def test_a_stop_writes_every_head(heads: Heads) -> None:
    for seq in (1, 2, 3):
        heads.note("r", seq, "0a", 5)
        heads.note("s", seq, "0b", 5)
        heads.note(REGISTRY, seq, "0c", 5)
    heads.flush()
    assert known(heads) == {"r": 3, "s": 3, REGISTRY: 3}


def test_a_clock_put_back_does_not_hold_heads_up(heads: Heads) -> None:
    heads.note("r", 1, "0a", 100 * SECOND)
    heads.note("r", 2, "0b", 1 * SECOND)
    assert known(heads) == {"r": 2}


def test_a_head_never_goes_back(heads: Heads) -> None:
    heads.note("r", 5, "0a", 0)
    heads.note("r", 4, "0b", 9 * SECOND)
    heads.note("r", 5, "0c", 18 * SECOND)
    assert heads.load()[0] == [Checkpoint("r", 5, "0a", 0)]


def test_a_run_of_any_name_has_a_file_in_the_directory(heads: Heads) -> None:
    names = ["../up", "a/b", "..", "@registry", "%40registry", "ä ö", ""]
    for name in names:
        heads.note(name, 1, "0a", 0)
    heads.flush()
    assert known(heads) == dict.fromkeys(names, 1)
    assert all(path.parent == heads.directory for path in heads.directory.parent.rglob("*.json"))


def test_a_forgotten_head_is_gone(heads: Heads) -> None:
    heads.note("r", 1, "0a", 0)
    heads.note("r", 2, "0b", 1)
    heads.forget("r")
    heads.flush()
    assert known(heads) == {}


def test_every_changed_byte_of_a_head_is_found(heads: Heads) -> None:
    heads.note("r", 7, "0a", 0)
    (path,) = heads.directory.iterdir()
    good = path.read_bytes()
    for place in range(len(good) - 1):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        found, faults = heads.load()
        assert (found, len(faults)) == ([], 1), place
    assert str(path) in faults[0].message


def test_a_head_under_another_runs_name_is_found(heads: Heads) -> None:
    heads.note("r", 7, "0a", 0)
    (path,) = heads.directory.iterdir()
    path.rename(path.with_name("s.json"))
    assert [len(part) for part in heads.load()] == [0, 1]


def test_a_head_that_cannot_be_written_is_a_sentence(heads: Heads) -> None:
    heads.directory.write_text("in the way")
    assert str(heads.directory) in str(refused(JournalError, lambda: heads.note("r", 1, "0a", 0)))


def test_a_journal_put_back_is_found_before_the_run_goes_on(heads: Heads) -> None:
    journal, older = MemoryJournal(), MemoryJournal()
    fence = begin(journal, "r", "a", "b")
    begin(older, "r", "a", "b")
    assert heads.rolled_back("r", journal) is None
    journal.append([write("r", 2, fence, "c")])
    heads.note("r", *journal.head("r"), 0)
    assert heads.rolled_back("r", journal) is None
    fault = heads.rolled_back("r", older)
    assert fault is not None and (fault.run, fault.seq) == ("r", 3)
    assert [(f.run, f.seq) for f in older.faults(heads.load()[0])] == [("r", 3)]
    older.append([write("r", 2, 1, "x", "y")])
    assert heads.rolled_back("r", older) is not None


def test_a_changed_head_is_found_before_the_run_goes_on(heads: Heads) -> None:
    journal = MemoryJournal()
    begin(journal, "r")
    heads.note("r", *journal.head("r"), 0)
    (path,) = heads.directory.iterdir()
    path.write_bytes(path.read_bytes().replace(b'"seq":1', b'"seq":0'))
    assert heads.rolled_back("r", journal) is not None
