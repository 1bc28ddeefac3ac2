"""Failing tests are counted from the runner's own summary."""

import pytest

from flyball.reading.test_output import failing, failing_names, passing

SUREFIRE_CLASS = (
    "[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 0, Time elapsed: 0.1 s <<< FAILURE! - in a.B"
)

CASES: list[tuple[str, str, int | None]] = [
    ("pytest", "==== 2 failed, 3 passed, 1 warning in 0.12s ====", 2),
    ("pytest errors", "== 1 failed, 3 passed, 2 errors in 1.12s (0:00:01) ==", 3),
    ("pytest quiet", "...F\n1 failed, 3 passed in 0.12s", 1),
    ("pytest green", "5 passed in 0.01s", 0),
    ("pytest collection", "!!! Interrupted: 1 error during collection !!!\n=== 1 error in 0.20s ===", 1),
    ("pytest twice", "1 failed in 0.1s\n2 failed, 1 passed in 0.2s", 3),
    (
        "pytest xdist colour",
        "\x1b[31m=== \x1b[1m1 failed\x1b[0m, \x1b[32m2 passed\x1b[0m\x1b[31m in 0.1s ===\x1b[0m",
        1,
    ),
    ("pytest nothing", "no tests ran in 0.01s", None),
    ("unittest", "Ran 5 tests in 0.001s\n\nFAILED (failures=1, errors=2, skipped=1)", 3),
    ("unittest green", "Ran 5 tests in 0.001s\n\nOK", 0),
    ("jest", "Test Suites: 1 failed, 1 total\nTests:       2 failed, 3 passed, 5 total\n", 2),
    ("jest green", "Test Suites: 1 passed, 1 total\nTests:       3 passed, 3 total\n", 0),
    ("jest broken file", "Test Suites: 1 failed, 1 total\nTests:       0 total\n", 1),
    ("vitest", " Test Files  1 failed (1)\n      Tests  1 failed | 2 passed (3)\n", 1),
    ("vitest green", " Test Files  1 passed (1)\n      Tests  3 passed (3)\n", 0),
    ("mocha", "  3 passing (20ms)\n  1 failing\n", 1),
    ("mocha green", "  3 passing (20ms)\n", 0),
    (
        "go",
        "--- FAIL: TestA (0.00s)\n    a_test.go:3: x\nFAIL\nFAIL\texample.com/a\t0.01s\nok  \texample.com/b\t0.02s\n",
        1,
    ),
    (
        "go subtests",
        "--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\nFAIL\texample.com/a\t0.01s\n",
        1,
    ),
    (
        "go, several",
        "--- FAIL: TestA (0.00s)\n--- FAIL: TestB (0.00s)\nFAIL\texample.com/a\t0.01s\nFAIL\texample.com/b [build failed]\n",
        3,
    ),
    ("go build", "FAIL\texample.com/a [build failed]\nok  \texample.com/b\t0.02s\n", 1),
    ("go green", "ok  \texample.com/a\t(cached)\n?   \texample.com/c\t[no test files]\n", 0),
    (
        "cargo",
        "test result: FAILED. 3 passed; 1 failed; 0 ignored\ntest result: ok. 2 passed; 0 failed; 0 ignored",
        1,
    ),
    ("nextest", "     Summary [   0.1s] 5 tests run: 4 passed, 1 failed, 0 skipped", 1),
    ("nextest green", "     Summary [   0.1s] 5 tests run: 5 passed, 0 skipped", 0),
    ("rspec", "5 examples, 2 failures, 1 pending", 2),
    ("rspec outside", "0 examples, 0 failures, 1 error occurred outside of examples", 1),
    ("minitest", "5 runs, 10 assertions, 1 failures, 1 errors, 0 skips", 2),
    ("exunit", "3 doctests, 5 tests, 1 failure", 1),
    ("phpunit", "FAILURES!\nTests: 5, Assertions: 10, Failures: 1, Errors: 2.", 3),
    ("phpunit green", "OK (5 tests, 10 assertions)", 0),
    (
        "node:test",
        "TAP version 13\nnot ok 1 - a\nok 2 - b\n1..2\n# tests 2\n# pass 1\n# fail 1\n# cancelled 0\n",
        1,
    ),
    ("node:test spec", "ℹ tests 2\nℹ pass 2\nℹ fail 0\n", 0),
    ("TAP, several", "1..3\nnot ok 1 - a\nnot ok 2 - b\nok 3 - c # TODO later\n", 2),
    ("TAP", "1..3\nok 1 - a\nnot ok 2 - b\nnot ok 3 - c # TODO later\n", 1),
    ("dotnet", "Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3", 1),
    ("dotnet green", "Passed!  - Failed:     0, Passed:     2, Skipped:     0, Total:     2", 0),
    ("vstest", "Total tests: 3\n     Passed: 2\n     Failed: 1\n", 1),
    (
        "maven",
        f"{SUREFIRE_CLASS}\n[ERROR] Tests run: 5, Failures: 1, Errors: 1, Skipped: 0\n",
        2,
    ),
    ("gradle", "12 tests completed, 3 failed", 3),
    ("ctest", "90% tests passed, 1 tests failed out of 10", 1),
    ("deno", "FAILED | 4 passed | 1 failed (10ms)", 1),
    ("xctest", "\t Executed 5 tests, with 1 failure (0 unexpected) in 0.1 seconds", 1),
    ("two runners", "1 failed, 2 passed in 0.1s\nTests:       2 failed, 3 total\n", 3),
    ("windows line ends", "Ran 1 test in 0.001s\r\n\r\nFAILED (failures=1)\r\n", 1),
    ("nothing known", "make: *** [all] Error 2", None),
    ("prose", "I fixed it; 3 failed before, all passed now.", None),
    ("empty", "", None),
]


@pytest.mark.parametrize(("output", "count"), [pytest.param(o, c, id=name) for name, o, c in CASES])
def test_the_runners_summary_is_counted(output: str, count: int | None) -> None:
    assert failing(output) == count


@pytest.mark.parametrize(
    ("output", "names"),
    [
        (
            "FAILED tests/a.py::test_x[a b] - assert 1\nERROR tests/b.py - boom\n",
            ("tests/a.py::test_x[a b]", "tests/b.py"),
        ),
        ("FAIL: test_x (m.C)\nERROR: test_y (m.C)\n", ("test_x (m.C)", "test_y (m.C)")),
        ("--- FAIL: TestA (0.00s)\n    --- FAIL: TestA/x (0.00s)\n", ("TestA", "TestA/x")),
        ("test a::b ... FAILED\ntest a::c ... ok\n", ("a::b",)),
        ("rspec ./spec/x_spec.rb:3 # does\n", ("./spec/x_spec.rb:3",)),
        ("  ● math › adds\n\n  ● math › adds\n", ("math › adds",)),
        (
            "not ok 1 - adds\nok 2 - b\nnot ok 3 - test/c.js # time=4.2ms\nnot ok 4 - d # TODO\n",
            ("adds", "test/c.js"),
        ),
        ("1) App\\MathTest::testAdds\n", ("App\\MathTest::testAdds",)),
        ("\t  3 - adds (Failed)\n", ("adds",)),
        ("all good", ()),
    ],
)
def test_failing_tests_are_named_once(output: str, names: tuple[str, ...]) -> None:
    assert failing_names(output) == names


@pytest.mark.parametrize(
    ("output", "count"),
    [
        ("==== 2 failed, 3 passed, 1 warning in 0.12s ====", 3),
        ("5 passed, 540 skipped in 1.01s (0:00:01)", 5),
        ("1 passed in 0.1s\n2 failed, 1 passed in 0.2s", 2),
        ("Ran 7 tests in 0.001s\n\nFAILED (failures=1, errors=2, skipped=1)", 3),
        ("Ran 5 tests in 0.001s\n\nOK", 5),
        ("Test Suites: 1 failed, 1 total\nTests:       2 failed, 13 passed, 15 total\n", 13),
        (" Test Files  1 passed (1)\n      Tests  3 passed (3)\n", 3),
        ("  12 passing (3ms)\n  1 failing\n", 12),
        ("# tests 3\n# pass 2\n# fail 1\n", 2),
        ("test result: ok. 4 passed; 0 failed;\ntest result: ok. 2 passed; 0 failed;\n", 6),
        ("all good", None),
    ],
)
def test_passing_tests_are_counted(output: str, count: int | None) -> None:
    assert passing(output) == count


def test_only_the_end_of_a_huge_output_is_read() -> None:
    assert failing("x\n" * 3_000_000 + "1 failed in 0.1s") == 1
    assert len(failing_names("\n".join(f"FAILED a.py::test_{n}" for n in range(5000)))) == 200


def test_hostile_output_is_read_in_time() -> None:
    assert failing("1 passed, " * 20_000 + "\n" + "not ok 1 #" * 20_000 + "\n" + "=" * 100_000) is None


def test_the_summary_of_unittest_is_no_name() -> None:
    log = "FAIL: test_add (test_calc.T.test_add)\n\nRan 1 test in 0.001s\n\nFAILED (failures=1)\n"
    assert failing_names(log) == ("test_add (test_calc.T.test_add)",)
