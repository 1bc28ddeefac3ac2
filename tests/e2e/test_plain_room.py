"""A room where the code under test sees an ordinary program, with real runners (EVID-4, EVID-5)."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from flyball.proofs.examination import disagreement
from flyball.proofs.exchange import Repeats, Room, repeats
from flyball.reading.test_report import TestReport
from flyball.runners.observe import Observer, collect

KEY = b"k" * 32
UNITTEST = f"{sys.executable} -m unittest -q"
PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:xdist"
TEST = """import os
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import code_under_test as code
import helper_of_tests


class StagedTest(unittest.TestCase):
    def test_arguments_of_a_test(self):
        with mock.patch.object(sys, "argv", ["program", "word"]):
            self.assertEqual(code.words(), ["program", "word"])


    def test_a_program_that_looks_for_its_own_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("part.py", "import code_under_test as code; files = code.files()"), ("program.py", "import part; print(*part.files)")):
                open(os.path.join(folder, name), "w").write(text)
            env = {**os.environ, "PYTHONPATH": os.pathsep.join((os.getcwd(), os.environ["PYTHONPATH"]))}
            ran = subprocess.run([sys.executable, os.path.join(folder, "program.py")], capture_output=True, text=True, env=env)
        self.assertEqual(ran.stdout, "code_under_test.py part.py program.py\\n", ran.stderr)


def of(name):
    return lambda self: self.assertTrue(getattr(code, name)())


for name in vars(code).copy():
    if name.startswith("sees_"):
        setattr(StagedTest, "test_" + name, of(name))
"""
STAGED = {
    "arguments": "sys.argv[0] not in ('-c', 'main.py')",
    "modules": "'unittest' in sys.modules",
    "many_modules": "len(sys.modules) > 150",
    "a_helper_of_the_tests": "'helper_of_tests' in sys.modules",
    "frame": "sys._getframe(2) is not None and 'test' in sys._getframe(2).f_code.co_filename",
    "stack": "any('test' in row.filename for row in inspect.stack())",
    "traceback": "any('test' in row.filename for row in traceback.extract_stack())",
    "main": "'test' in getattr(__main__, '__file__', '')",
    "an_import_by_name": "'unittest' in importlib.import_module('sys').modules",
    "variable": "'CI' in os.environ",
    "streams": "type(sys.stdin).__name__ != 'TextIOWrapper' or type(sys.stdout).__name__ != 'TextIOWrapper'",
    "log_handlers": "len(logging.getLogger().handlers) > 0",
    "import_hooks": "any('Rewrit' in type(one).__name__ for one in sys.meta_path)",
    "filters": "warnings.filters[0][2] is not DeprecationWarning",
    "its_process": "'-m' in open('/proc/self/cmdline').read()",
    "its_open_files": "len(os.listdir('/dev/fd')) > 4",
}
CODE = "import __main__, importlib, inspect, logging, os, sys, traceback, warnings\n\n\ndef words():\n    return sys.argv\n"
CODE += """

def files():
    frames = [sys._getframe()]
    while frames[-1].f_back:
        frames.append(frames[-1].f_back)
    paths = (frame.f_code.co_filename for frame in frames)
    return [os.path.basename(path) for path in paths if os.path.exists(path)]
"""
CODE += "".join(f"\n\ndef sees_{name}():\n    return {what}\n" for name, what in STAGED.items())
CODE += "\n\ndef sees_itself():\n    return 'code_under_test' in sys.modules and __name__ in sys.modules\n"
CODE += (
    "\n\ndef sees_its_output():\n    return sys.stdout.write('text') == 4 and sys.stdout.flush() is None\n"
)
CODE += """

def sees_its_import_hook_work():
    asked = []
    hook = type("Hook", (), {"find_spec": lambda self, name, *rest: asked.append(name)})()
    sys.meta_path.insert(0, hook)
    try:
        importlib.import_module("not_there")
    except ImportError:
        sys.meta_path.remove(hook)
    return asked == ["not_there"] and hook not in sys.meta_path
"""
FILES = {"code_under_test.py": CODE, "helper_of_tests.py": "", "test_it.py": TEST}


def ran(folder: Path, command: str, room: Room, files: dict[str, str]) -> TestReport:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    home = folder.with_name("home")
    observer = Observer(room, str(folder), folder.with_name("tools"), KEY)
    env = observer.prepare(home, {"PATH": os.environ["PATH"], "CI": "1"})
    line = observer.line(command)
    ended = subprocess.run(["/bin/sh", "-c", line], cwd=folder, env=env, capture_output=True, text=True)
    report = collect(home, folder, str(folder), ended.stdout + ended.stderr, KEY)
    assert report is not None, ended.stderr
    return report


def outcomes(report: TestReport) -> dict[str, str]:
    return {re.split(r"::|\.", test.id)[-1]: test.outcome for test in report.tests}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


@pytest.mark.parametrize("command", [UNITTEST, PYTEST], ids=["unittest", "pytest"])
def test_the_source_sees_no_test_run_and_the_tests_do(folder: Path, command: str) -> None:
    (room,) = repeats([*FILES][:2], (), Repeats(1), node=False)
    plain = outcomes(ran(folder, command, room, FILES))
    honest = dict.fromkeys(
        (
            "test_sees_itself",
            "test_sees_its_output",
            "test_sees_its_import_hook_work",
            "test_arguments_of_a_test",
            "test_a_program_that_looks_for_its_own_file",
        ),
        "passed",
    )
    assert plain == honest | {f"test_sees_{name}": "failed" for name in STAGED}


NOTICES = """import sys


def test_how_much_memory_a_runner_takes():
    assert sys.getallocatedblocks() > 80_000


def test_with_a_fixture(tmp_path):
    assert tmp_path.is_dir() and sys.getallocatedblocks() > 80_000
"""
HONEST = """import unittest

import pytest


@pytest.mark.parametrize("number", [1, 2])
def test_table(number):
    assert number < 3


class Test:
    def test_method(self):
        assert self


class OldTest(unittest.TestCase):
    def test_it(self):
        self.assertTrue(True)
"""


def test_a_test_that_needs_nothing_of_its_runner_has_to_pass_without_it(folder: Path) -> None:
    room = Room(source=("code.py",), argv=("-c",), alone=True)
    files = {"test_notices.py": NOTICES, "test_honest.py": HONEST}
    plain = outcomes(ran(folder, PYTEST, room, files))
    assert plain.pop("test_how_much_memory_a_runner_takes") == plain.pop("test_with_a_fixture") == "failed"
    assert len(plain) == 4 and set(plain.values()) == {"passed"}
    assert set(outcomes(ran(folder, PYTEST, Room(), files)).values()) == {"passed"}


@pytest.mark.parametrize("command", [UNITTEST, PYTEST], ids=["unittest", "pytest"])
def test_only_the_tests_that_are_asked_for_run_again(folder: Path, command: str) -> None:
    whole = ran(folder, command, Room(), FILES)
    one = next(test.id for test in whole.tests if "arguments_of" in test.id)
    assert [test.id for test in ran(folder, command, Room(only=(one,)), FILES).tests] == [one]
    assert len(ran(folder, command, Room(only=(one, "unknown")), FILES).tests) == len(whole.tests)


ORDER = """import unittest
from pathlib import Path

COUNT = Path("count")


class AgainTest(unittest.TestCase):
    def setUp(self):
        COUNT.write_text(COUNT.read_text() + "." if COUNT.exists() else ".")

    def test_every_time(self):
        self.assertTrue(COUNT.exists())

    def test_only_the_first_times(self):
        self.assertLess(len(COUNT.read_text()), {most})

    def test_other(self):
        self.assertTrue(False)
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("command", [UNITTEST, PYTEST], ids=["unittest", "pytest"])
def test_a_test_that_has_to_pass_twice_is_reported_once_with_the_worse_result(
    folder: Path, command: str
) -> None:
    other = (
        "import unittest\n\n\nclass AnotherTest(unittest.TestCase):\n    def test_it(self):\n        pass\n"
    )
    files = {"test_it.py": ORDER.format(most=4), "test_another.py": other}
    whole = ran(folder, command, Room(), files)
    only = tuple(test.id for test in whole.tests if "_times" in test.id or "_time" in test.id)
    (folder / "count").unlink()
    again = outcomes(ran(folder, command, Room(only=only, times=2), files))
    assert again == {"test_every_time": "passed", "test_only_the_first_times": "failed"}
    by_file = outcomes(ran(folder, command, Room(files=("test_another.py",)), files))
    assert by_file == {"test_it": "passed"}
    ended = outcomes(ran(folder, command, Room(one_failure=True), files))
    assert list(ended.values()).count("failed") == 1


SUBTESTS = """import unittest


class SubTest(unittest.TestCase):
    def test_one_part_is_skipped(self):
        for part in ("a", "b", "c"):
            with self.subTest(part):
                if part == "b":
                    self.skipTest("not today")

    def test_one_part_fails(self):
        for part in ("a", "b"):
            with self.subTest(part):
                self.skipTest("not today") if part == "b" else self.fail()

    def test_all_is_skipped(self):
        with self.subTest("a"):
            pass
        self.skipTest("not today")
"""


@pytest.mark.parametrize("command", [UNITTEST, PYTEST], ids=["unittest", "pytest"])
def test_a_skipped_subtest_does_not_make_its_test_a_skipped_one(folder: Path, command: str) -> None:
    whole = ran(folder, command, Room(), {"test_it.py": SUBTESTS})
    found = {test.id.split(".")[-1].split("::")[-1]: (test.outcome, test.skips) for test in whole.tests}
    assert found == {
        "test_one_part_is_skipped": ("passed", 1),
        "test_one_part_fails": ("failed", 1),
        "test_all_is_skipped": ("skipped", 0),
    }


NESTED = """import subprocess
import sys
import unittest
from pathlib import Path


class OuterTest(unittest.TestCase):
    def test_a_runner_that_ends_early(self):
        Path("inner.py").write_text("import os, unittest\\nclass T(unittest.TestCase):\\n"
                                    "    def test_inner(self): os._exit(3)\\n")
        done = subprocess.run([sys.executable, "-m", *{runner!r}, "inner.py"])
        self.assertEqual(done.returncode, 3)
"""


@pytest.mark.parametrize("inner", [["unittest"], ["pytest", "-q"]], ids=["unittest", "pytest"])
@pytest.mark.parametrize("command", [UNITTEST, PYTEST], ids=["unittest", "pytest"])
def test_a_runner_that_a_test_starts_is_a_part_of_that_test(
    folder: Path, command: str, inner: list[str]
) -> None:
    report = ran(folder, command, Room(), {"test_it.py": NESTED.format(runner=inner)})
    assert (outcomes(report), report.complete) == ({"test_a_runner_that_ends_early": "passed"}, True)


FORGER = """import atexit
import json
import os
import pathlib

own, = [pathlib.Path(p).parent / "room.json" for p in os.environ["PYTHONPATH"].split(":") if p.endswith("probes")]
reports = pathlib.Path(json.loads(own.read_text())["report"])


def passing():
    for file in reports.glob("*.jsonl"):
        file.write_text(file.read_text().replace("failed", "passed").replace('"exit": 1', '"exit": 0'))


def removed():
    for file in reports.glob("*.jsonl"):
        file.unlink()


def early():
    rows = [
        {"kind": "begin", "runner": "unittest"},
        {"kind": "test", "id": "test_it.T.test_it", "outcome": "passed"},
        {"kind": "end", "runner": "unittest", "exit": 0},
    ]
    (reports / "python-1-0.jsonl").write_text("".join(json.dumps(row) + chr(10) for row in rows))
    os._exit(0)


"""
FORGED = "import unittest\nimport forger\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.fail()\n"


@pytest.mark.parametrize("deed", ["atexit.register(passing)", "atexit.register(removed)", "early()"])
@pytest.mark.parametrize("command", [UNITTEST, PYTEST], ids=["unittest", "pytest"])
def test_a_report_that_the_code_under_test_has_changed_is_not_believed(
    folder: Path, command: str, deed: str
) -> None:
    files = {"test_it.py": FORGED, "forger.py": FORGER + deed + "\n"}
    report = ran(folder, command, Room(), files)
    assert disagreement(report, 0, None) and not report.ids("passed")


JS_TEST = """const test = require('node:test');
const assert = require('assert');
const code = require('./code.js');

for (const name of Object.keys(code)) test(name, () => assert.strictEqual(code[name](), true));
"""
JS_STAGED = {
    "arguments": "process.argv.length > 1",
    "variable": "process.env.NODE_TEST_CONTEXT !== undefined",
    "keys": "Object.keys(process.env).includes('CI')",
    "main": "require.main !== undefined",
    "listeners": "process.listenerCount('uncaughtException') > 0",
    "its_process": "require('fs').readFileSync('/proc/self/cmdline', 'utf8').length > 0",
    "modules": "Object.keys(require.cache).some((name) => name.endsWith('.test.js'))",
    "stack": "new Error('x').stack.includes('it.test.js')",
    "parent": "module.parent.filename.endsWith('test.js')",
    "assertions": "(require('assert').strictEqual = () => {}, false)",
    "iterator": "(Array.prototype[Symbol.iterator] = () => {}, false)",
}


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_javascript_sees_no_test_run(folder: Path) -> None:
    code = "".join(f"exports.{name} = () => {what};\n" for name, what in JS_STAGED.items())
    files = {"code.js": f"{code}exports.itself = () => process.pid > 0;\n", "it.test.js": JS_TEST}
    (room,) = repeats(["code.js"], (), Repeats(1), node=True)
    plain = outcomes(ran(folder, "node --test", room, files))
    assert plain == {"itself": "passed"} | dict.fromkeys(JS_STAGED, "failed")


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_node_runs_only_the_files_that_are_asked_for(folder: Path) -> None:
    files = {f"{name}.test.js": f"require('node:test')('{name}', () => {{}});\n" for name in "ab"}
    assert outcomes(ran(folder, "node --test", Room(only=("a.test.js::a",)), files)) == {"a": "passed"}
    assert outcomes(ran(folder, "node --test", Room(files=("b.test.js",)), files)) == {"b": "passed"}
    assert len(ran(folder, "node --test", Room(only=("c.test.js::c",)), files).tests) == 2


@pytest.mark.skipif(shutil.which("mocha") is None, reason="mocha is not installed")
def test_javascript_sees_no_mocha(folder: Path) -> None:
    (folder / "node_modules").symlink_to(Path(shutil.which("mocha") or "").resolve().parents[2])
    staged = {
        **JS_STAGED,
        "arguments": "process.argv.join().includes('mocha')",
        "variable": "!!process.env.CI",
    }
    code = "".join(f"exports.{name} = () => {what};\n" for name, what in staged.items())
    test = JS_TEST.replace("require('node:test')", "it")
    files = {"code.js": f"{code}exports.itself = () => process.pid > 0;\n", "it.test.js": test}
    (room,) = repeats(["code.js"], (), Repeats(1), node=True)
    plain = outcomes(ran(folder, "node_modules/.bin/mocha it.test.js", room, files))
    assert plain == {"itself": "passed"} | dict.fromkeys(staged, "failed")
