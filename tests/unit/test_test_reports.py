"""Which tests ran, by id: every form of report and of printed lines, and what is made of broken ones."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from flyball.proofs.examination import disagreement
from flyball.reading.test_output import read_lines
from flyball.reading.test_report import TestReport, read_reports

ROOT = "/w/repo"


def lines(*rows: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def outcomes(report: TestReport | None) -> dict[str, str]:
    assert report is not None
    return {test.id: test.outcome for test in report.tests}


PYTEST = lines(
    {"kind": "begin", "runner": "pytest", "root": ROOT},
    {
        "kind": "test",
        "id": "tests/test_a.py::test_ok",
        "outcome": "passed",
        "file": "tests/test_a.py",
        "took": 0.25,
    },
    {"kind": "test", "id": "tests/test_a.py::T::test_bad[1]", "outcome": "failed", "file": "tests/test_a.py"},
    {"kind": "test", "id": "tests/test_a.py::test_x", "outcome": "skipped", "detail": "xfail"},
    {"kind": "end", "runner": "pytest", "exit": 1, "deselected": 2},
)
UNITTEST = lines(
    {"kind": "begin", "runner": "unittest"},
    {"kind": "test", "id": "tests.test_a.T.test_sub", "outcome": "failed", "file": f"{ROOT}/tests/test_a.py"},
    {"kind": "test", "id": "tests.test_a.T.test_sub", "outcome": "passed", "file": f"{ROOT}/tests/test_a.py"},
    {"kind": "end", "runner": "unittest", "exit": 1},
)
NODE = lines(
    {"kind": "begin", "runner": "node:test"},
    {"kind": "test", "id": "group > inner", "outcome": "passed", "file": f"{ROOT}/test/a.test.js"},
    {"kind": "test", "id": "one", "outcome": "passed", "file": f"{ROOT}/test/a.test.js"},
    {"kind": "test", "id": "one", "outcome": "passed", "file": f"{ROOT}/test/a.test.js"},
    {"kind": "end", "runner": "node:test", "exit": 0},
)
JEST = json.dumps({
    "success": False,
    "testResults": [
        {
            "name": f"{ROOT}/src/a.test.js",
            "status": "failed",
            "assertionResults": [
                {"ancestorTitles": ["g"], "title": "one", "status": "passed", "duration": 3},
                {"ancestorTitles": ["g"], "title": "two", "status": "failed", "failureMessages": ["no"]},
                {"ancestorTitles": [], "title": "later", "status": "todo"},
            ],
        },
        {"name": f"{ROOT}/src/b.test.js", "status": "failed", "message": "does not load"},
    ],
}).encode()  # fmt: skip
JUNIT = b"""<?xml version="1.0"?><testsuites><testsuite name="pytest">
<testcase classname="tests.test_a.TestMore" name="test_in" file="tests/test_a.py" time="0.5"/>
<testcase classname="com.example.CalcTest" name="adds" time="1,234.5"><failure message="5 != 6">trace</failure></testcase>
<testcase classname="com.example.CalcTest" name="later"><skipped/></testcase></testsuite></testsuites>"""
TRX = b"""<TestRun><Results><UnitTestResult testName="N.C.M" outcome="Passed"/>
<UnitTestResult testName="N.C.F" outcome="Failed"/></Results></TestRun>"""
RSPEC = json.dumps({
    "examples": [
        {"full_description": "A works", "file_path": "./spec/a_spec.rb", "status": "passed"},
        {"full_description": "A later", "file_path": "./spec/a_spec.rb", "status": "pending"},
    ]
}).encode()  # fmt: skip


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        (
            {"python-1-0.jsonl": PYTEST},
            {"tests/test_a.py::test_ok": "passed", "tests/test_a.py::T::test_bad[1]": "failed", "tests/test_a.py::test_x": "skipped"},
        ),
        ({"python-1-0.jsonl": UNITTEST}, {"tests.test_a.T.test_sub": "failed"}),
        (
            {"node-1.jsonl": NODE},
            {"test/a.test.js::group > inner": "passed", "test/a.test.js::one": "passed", "test/a.test.js::one #2": "passed"},
        ),
        (
            {"jest-9.json": JEST, "jest-9.json.begun": b""},
            {
                "src/a.test.js::g > one": "passed",
                "src/a.test.js::g > two": "failed",
                "src/a.test.js::later": "skipped",
                "src/b.test.js::(file)": "failed",
            },
        ),
        (
            {"target/surefire-reports/TEST-a.xml": JUNIT},
            {"tests/test_a.py::TestMore::test_in": "passed", "com.example.CalcTest::adds": "failed", "com.example.CalcTest::later": "skipped"},
        ),
        ({"a.trx": TRX}, {"N.C.M": "passed", "N.C.F": "failed"}),
        ({"rspec.json": RSPEC}, {"spec/a_spec.rb::A works": "passed", "spec/a_spec.rb::A later": "skipped"}),
    ],
)  # fmt: skip
def test_a_report_says_which_tests_ran(files: dict[str, bytes], expected: dict[str, str]) -> None:
    report = read_reports(files, ROOT)
    assert outcomes(report) == expected
    assert report is not None and report.complete


def test_a_test_that_fails_without_its_runner_has_failed() -> None:
    ids = [
        name
        for name, outcome in outcomes(read_reports({"python-1-0.jsonl": PYTEST}, ROOT)).items()
        if outcome == "passed"
    ]
    row = msgspec.json.encode({"kind": "alone", "id": ids[0], "file": ids[0].partition("::")[0]})
    report = read_reports(
        {"python-1-0.jsonl": PYTEST, "python-2-1.jsonl": b'{"kind": "helper"}\n' + row}, ROOT
    )
    assert report is not None and report.complete
    assert outcomes(report)[ids[0]] == "failed"


def test_reports_of_several_runners_add_up() -> None:
    report = read_reports({"python-1-0.jsonl": PYTEST, "node-1.jsonl": NODE}, ROOT)
    assert report is not None
    assert (report.runners, len(report.tests), report.failed, report.deselected) == (
        ("node:test", "pytest"),
        6,
        True,
        2,
    )


@pytest.mark.parametrize(
    "files",
    [
        {"python-1-0.jsonl": PYTEST.rsplit(b"\n", 2)[0]},  # no end: the process was ended early
        {"jest-9.json.begun": b""},
        {"jest-9.json": b"{"},
        {"pytest.xml": JUNIT[:100]},
        {"pytest.xml": b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>'},
        {"rspec.json": b"["},
    ],
)
def test_a_report_without_an_end_is_incomplete(files: dict[str, bytes]) -> None:
    report = read_reports(files, ROOT)
    assert report is not None and not report.complete
    assert disagreement(report, 0, None)


@pytest.mark.parametrize("files", [{}, {"notes.txt": b"1 passed"}, {"python-1-0.jsonl": b"\xff\n[]\n"}])
def test_no_report_is_none(files: dict[str, bytes]) -> None:
    assert read_reports(files, ROOT) is None


GO = """=== RUN   TestOne
--- PASS: TestOne (0.00s)
--- FAIL: TestTwo (0.10s)
    --- PASS: TestTwo/sub (0.00s)
FAIL
FAIL\texample.com/x\t0.003s
--- SKIP: TestOther (0.00s)
ok  \texample.com/y\t0.001s
"""
CARGO = """     Running unittests src/lib.rs (target/debug/deps/x-1)

running 2 tests
test tests::one ... ok
test tests::bad ... FAILED

test result: FAILED. 1 passed; 1 failed; 0 ignored
   Doc-tests x
test src/lib.rs - add (line 12) ... ok
test result: ok. 1 passed; 0 failed
"""
CARGO_APART = """
running 2 tests
test tests::one ... ok
test tests::bad ... FAILED

test result: FAILED. 1 passed; 1 failed; 0 ignored

running 1 test
test src/lib.rs - add (line 12) ... ok

test result: ok. 1 passed; 0 failed
     Running unittests src/lib.rs (target/debug/deps/x-1)
   Doc-tests x
"""
NEXTEST = """        PASS [   0.004s] x tests::one
        FAIL [   0.005s] x tests::bad
     Summary [   0.010s] 2 tests run: 1 passed, 1 failed, 0 skipped
"""
CTEST = """1/2 Test #1: good .............................   Passed    0.00 sec
2/2 Test #2: bad ..............................***Failed    0.01 sec

50% tests passed, 1 tests failed out of 2
"""


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (GO, {"example.com/x::TestOne": "passed", "example.com/x::TestTwo": "failed", "example.com/x::TestTwo/sub": "passed", "example.com/y::TestOther": "skipped"}),
        (CARGO, {"src/lib.rs::tests::one": "passed", "src/lib.rs::tests::bad": "failed", "doc x::src/lib.rs - add": "passed"}),
        (CARGO_APART, {"src/lib.rs::tests::one": "passed", "src/lib.rs::tests::bad": "failed", "doc x::src/lib.rs - add": "passed"}),
        (NEXTEST, {"x tests::one": "passed", "x tests::bad": "failed"}),
        (CTEST, {"good": "passed", "bad": "failed"}),
    ],
)  # fmt: skip
def test_printed_lines_say_which_tests_ran(output: str, expected: dict[str, str]) -> None:
    report = read_lines(output)
    assert outcomes(report) == expected
    assert report is not None and report.complete and report.failed
    cut = read_lines("\n".join(output.splitlines()[:2]))
    assert cut is None or not cut.complete or len(cut.tests) < len(expected)


def test_other_output_names_no_tests() -> None:
    assert read_lines("hello\nok then\n" * 1000) is None


@pytest.mark.parametrize(
    ("rows", "exit_code", "counted", "agrees"),
    [
        (PYTEST, 1, 1, True),  # a failing command is failing, whatever its report says
        (PYTEST, 0, 0, False),
        (NODE, 0, 0, True),
        (NODE, 0, None, True),
        (NODE, 0, 2, False),
    ],
)
def test_report_summary_and_exit_code_must_agree(
    rows: bytes, exit_code: int, counted: int | None, agrees: bool
) -> None:
    report = read_reports({"x-1.jsonl": rows}, ROOT)
    assert (disagreement(report, exit_code, counted) == "") is agrees
