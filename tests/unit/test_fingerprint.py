"""The same error, whenever and wherever it happens; the same call, as long as nothing changes."""

import pytest

from flyball.reading.calls import Call, CallLimits, CallWatch, FiredRule, fired, observe
from flyball.reading.terminal import error_fingerprint, message_fingerprint, normalise

SAME = [
    (
        'File "/home/a/x.py", line 12, in f\nValueError: boom',
        'File "/srv/b/y/x.py", line 98, in f\nValueError: boom',
    ),
    ("2026-01-02T03:04:05Z ERROR boom", "2027-11-12T13:14:15.123Z ERROR boom"),
    ("[12:00:01] boom", "[23:59:59] boom"),
    ("<Foo object at 0x7f00aa>", "<Foo object at 0x7fbeef12>"),
    ("1 failed, 2 passed in 0.12s", "1 failed, 2 passed in 14.50s"),
    ("took 12 ms", "took 904ms"),
    ("request id: req_abc123", "request id: req_zzz999"),
    ("run 6f1c2f3a-1111-2222-3333-444455556666 failed", "run 00000000-aaaa-bbbb-cccc-ddddeeeeffff failed"),
    ("commit deadbeef12 is bad", "commit 0123abc is bad"),
    ("/tmp/pytest-of-me/pytest-12/test_a0/out.txt missing", "/tmp/xyz/other.txt missing"),
    ("\x1b[31mboom\x1b[0m", "boom"),
    ("src/a.ts(12,5): error TS2322: no", "src/b.ts(99,1): error TS2322: no"),
    ("src/a.ts:12:5 - error TS2322: no", "lib/deep/b.ts:7:41 - error TS2322: no"),
    ("process 4711 died", "process 12 died"),
    ("==123== invalid read", "==98765== invalid read"),
    ("connect to 127.0.0.1:5432 refused", "connect to 10.0.0.7:6543 refused"),
    ("GET http://localhost:1234/a failed", "GET http://localhost:9/b failed"),
    ("boom   at\n\n  once", "boom at\nonce"),
    ("C:\\Users\\me\\x.py: boom", "D:\\work\\y\\z.py: boom"),
]

DIFFERENT = [
    ("assert 1 == 2", "assert 1 == 3"),
    ("ValueError: boom", "KeyError: boom"),
    ("1 failed, 2 passed in 0.1s", "2 failed, 1 passed in 0.1s"),
    ("error TS2322: no", "error TS2345: no"),
    ("NameError: name 'x' is not defined", "NameError: name 'y' is not defined"),
    ("missing module foo", "missing module bar"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_an_error_is_the_same_wherever_and_whenever_it_happens(one: str, other: str) -> None:
    assert normalise(one) == normalise(other)
    assert error_fingerprint(one) == error_fingerprint(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_what_says_what_went_wrong_is_kept(one: str, other: str) -> None:
    assert error_fingerprint(one) != error_fingerprint(other)


def test_a_fingerprint_is_sixteen_hex_digits_and_nothing_has_none() -> None:
    assert len(error_fingerprint("boom")) == 16
    assert int(error_fingerprint("boom"), 16) >= 0
    assert error_fingerprint(" \n ") == ""


def test_normalising_twice_changes_nothing() -> None:
    once = normalise('File "/a/b.py", line 3\n2026-01-01 10:00:00 pid 12 took 3s id=abcd1234')
    assert normalise(once) == once


def test_a_message_is_the_same_whatever_its_marks_and_counters() -> None:
    assert message_fingerprint("**Iteration**: 4\n- Fixed it.") == message_fingerprint(
        "Iteration: 5\n* fixed   it."
    )
    assert message_fingerprint("Fixed a.py") != message_fingerprint("Fixed b.py")


def test_a_huge_output_is_cut_to_its_end() -> None:
    assert error_fingerprint("x" * 3_000_000 + "\nboom") == error_fingerprint("x" * 2_000_000 + "\nboom")


# ── calls ───────────────────────────────────────────────────────────────────────────────────────────────────


def watched(*calls: Call) -> CallWatch:
    watch = CallWatch()
    for call in calls:
        watch = observe(watch, call)
    return watch


def after(*calls: Call) -> str | None:
    found = fired(watched(*calls))
    return found.code if found else None


LOOK = Call(tool="Bash", input="pytest", result="1 failed in 0.1s")
EDIT = Call(tool="Edit", input="a.py", result="ok", writes=True)


def test_the_same_call_with_the_same_result_fires_at_the_fourth() -> None:
    assert after(LOOK, LOOK, LOOK) is None
    found = fired(watched(LOOK, LOOK, LOOK, LOOK))
    assert found == FiredRule(
        code="loop.same_action",
        level="halt",
        rule="the same call with the same result in a row",
        threshold=3,
        observed=4,
        evidence="Bash pytest",
    )


def test_only_times_differ_in_the_same_result() -> None:
    assert after(*(Call("Bash", "pytest", f"1 failed in 0.{n}s") for n in range(4))) == "loop.same_action"


def test_another_result_is_another_call() -> None:
    results = ("1 failed", "2 failed", "0 failed", "ok")
    assert after(*(Call("Bash", "pytest", result) for result in results * 3)) is None


def test_another_call_between_breaks_the_row() -> None:
    assert after(LOOK, LOOK, LOOK, Call("Read", "a.py", "text"), LOOK) is None


def test_work_between_the_same_calls_is_no_loop() -> None:
    edits = [Call("Edit", f"edit {n}", "ok", writes=True) for n in range(20)]
    assert after(*(call for edit in edits for call in (edit, LOOK))) is None


def test_the_same_write_over_and_over_is_a_loop() -> None:
    assert after(EDIT, EDIT, EDIT, EDIT) == "loop.same_action"


def test_the_same_error_fires_at_the_sixth_whatever_is_between() -> None:
    bad = [Call("Bash", f"try {n}", "ModuleNotFoundError: foo", error=True) for n in range(6)]
    assert after(*(call for one in bad[:5] for call in (one, EDIT))) is None
    assert after(*(call for one in bad for call in (one, EDIT))) == "loop.same_error"


def test_looking_for_a_file_in_many_places_is_no_loop() -> None:
    assert (
        after(*(Call("Read", f"/src/{n}.py", f"no such file: /src/{n}.py", error=True) for n in range(20)))
        is None
    )


def test_a_cycle_of_calls_with_the_same_results_fires() -> None:
    cycle = [Call("Bash", name, "") for name in "ABC"]
    assert after(*cycle * 4) is None
    assert after(*cycle * 5) == "loop.same_action"


def test_a_cycle_that_changes_its_arguments_is_no_loop() -> None:
    calls = [call for n in range(12) for call in (Call("Read", f"f{n}", ""), Call("Bash", "build", ""))]
    assert after(*calls) is None


def test_waiting_and_looking_again_is_no_cycle() -> None:
    wait, look = Call("Bash", "sleep 60", ""), Call("Bash", "gh run view", "in progress")
    assert after(*[wait, look] * 20) is None


def test_many_calls_warn_and_too_many_halt() -> None:
    calls = [Call("Read", str(n), str(n)) for n in range(601)]
    assert fired(watched(*calls[:300])) is None
    warned, halted = fired(watched(*calls[:301])), fired(watched(*calls))
    assert warned is not None and (warned.code, warned.level) == ("limit.actions", "warn")
    assert halted is not None and (halted.code, halted.level, halted.observed) == (
        "limit.actions",
        "halt",
        601,
    )


def test_the_limits_are_configurable() -> None:
    assert fired(watched(LOOK, LOOK), CallLimits(same_call=1)) is not None
    assert fired(watched(*[LOOK] * 9), CallLimits(same_call=9)) is None


def test_a_watch_stays_small() -> None:
    watch = watched(*(Call("Bash", str(n), f"error {n}", error=True) for n in range(1000)))
    assert len(watch.recent) <= 100
    assert len(watch.errors) <= 100
