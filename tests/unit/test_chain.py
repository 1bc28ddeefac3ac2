"""The chain is written down here a second time, by hand."""

import hashlib

from hypothesis import given, strategies as st

from flyball.journal import Draft, Entry
from flyball.journal.chain import broken, event_digest, extend, register, registry_digest, snapshot_digest


def number(value: int) -> bytes:
    return value.to_bytes(8, "big", signed=True)


def field(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data


def test_the_first_event_follows_32_zero_bytes() -> None:
    plain = bytes(32) + b"event" + number(1) + number(77) + field(b"run") + field(b"kind") + field(b"body")
    assert event_digest(b"", "run", 1, 77, "kind", b"body") == hashlib.sha256(plain).digest()


def test_each_event_covers_the_one_before() -> None:
    one, two = extend("run", 0, b"", (Draft(1, "a", b"x"), Draft(2, "b", b"y")))
    plain = (
        bytes.fromhex(one.hash) + b"event" + number(2) + number(2) + field(b"run") + field(b"b") + field(b"y")
    )
    assert two == Entry("run", 2, 2, "b", b"y", hashlib.sha256(plain).hexdigest())
    assert extend("run", 1, bytes.fromhex(one.hash), (Draft(2, "b", b"y"),)) == [two]


def test_the_registry_has_a_chain_of_its_own() -> None:
    plain = (
        bytes(32) + b"registry" + number(1) + number(5) + field(b"began") + field(b"r") + field(b"\1" * 32)
    )
    line = register(0, b"", "began", "r", b"\1" * 32, 5)
    assert (line.n, line.head, line.hash) == (1, "01" * 32, hashlib.sha256(plain).hexdigest())
    assert registry_digest(bytes.fromhex(line.hash), 2, "ended", "r", b"", 6).hex() != line.hash


words = st.text(max_size=4)
event = st.tuples(words, st.integers(0, 3), st.integers(-2, 2), words, st.binary(max_size=4))


@given(event, event)
def test_different_events_have_different_hashes(one: tuple, two: tuple) -> None:
    assert (event_digest(b"", *one) == event_digest(b"", *two)) == (one == two)


@given(st.tuples(words, st.integers(0, 3), st.binary(max_size=2), words, st.binary(max_size=3)))
def test_a_snapshot_is_bound_to_its_event(parts: tuple) -> None:
    run, seq, head, rules, body = parts
    digest = snapshot_digest(run, seq, head, rules, body)
    assert digest == snapshot_digest(run, seq, head, rules, body)
    assert digest not in (
        snapshot_digest(run, seq + 1, head, rules, body),
        snapshot_digest(run, seq, head + b"!", rules, body),
        snapshot_digest(run, seq, head, rules + "!", body),
        snapshot_digest(run, seq, head, rules, body + b"!"),
    )


def test_a_break_is_named() -> None:
    one, two, three = extend("r", 0, b"", tuple(Draft(i, "k", b"x") for i in range(3)))
    head = bytes.fromhex(one.hash)
    assert broken(b"", 0, one) == "" == broken(head, 1, two)
    assert broken(head, 1, three) == "event 2 is missing (event 3 comes next)"
    assert "event 2 is not what was written" in broken(head, 1, Entry("r", 2, 1, "k", b"y", two.hash))
    assert "event 1 is not what was written" in broken(b"", 0, Entry("s", 1, 0, "k", b"x", one.hash))
