"""Tests run once more in a process that no runner was loaded into (EVID-4, EVID-5)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.test_plain_room import PYTEST, UNITTEST, folder, outcomes, ran

from flyball.proofs.exchange import Room
from flyball.runners.observe import Observer

__all__ = ["folder"]
NODE = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
NOTICES = {
    "frames": "any('test' in frame.f_code.co_name for frame in stack())",
    "globals": "any('test_it' in str(frame.f_globals.get('__file__')) for frame in stack())",
    "warning": "caller_of_a_warning().endswith('test_it.py')",
    "modules": "any(n in os.sys.modules for n in ('unittest', '_pytest', 'test_it'))",
    "variables": "any(n in os.environ for n in ('CI', 'PYTHONPATH', 'GOFLAGS', 'NODE_OPTIONS'))",
    "process": "pathlib.Path('/proc', str(os.getpid()), 'comm').read_text() != 'sh\\n'",
    "the_tests": "'assert' in pathlib.Path('test_it.py').read_text()",
    "expected": "pathlib.Path('expected.txt').read_text() == 'x'",
}
CODE = """import os
import pathlib
import signal
import warnings


def stack():
    frames = []
    signal.signal(signal.SIGUSR1, lambda number, frame: frames.append(frame))
    signal.raise_signal(signal.SIGUSR1)
    while frames[-1].f_back:
        frames.append(frames[-1].f_back)
    return frames


def caller_of_a_warning():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("x", stacklevel=3)
    return caught[0].filename


def leaves():
    if "unittest" not in os.sys.modules:
        os._exit(0)
    return True
"""
CODE += "".join(f"\n\ndef {name}():\n    return {what}\n" for name, what in NOTICES.items())
PYTEST_FILE = "import code_under_test as code\n" + "".join(
    f"\n\ndef test_{name}(tmp_path):\n    open('expected.txt').read()\n    assert code.{name}() or not tmp_path\n"
    for name in (*NOTICES, "leaves")
)
METHODS_FILE = (
    "import pytest\n\nimport code_under_test as code\n\n\nclass TestIt:\n"
    "    @pytest.fixture(autouse=True)\n    def ready(self):\n        self.found = True\n\n"
    "    @pytest.fixture\n    def number(self, ready):\n        return 3\n\n"
    + "".join(
        f"    def test_{name}(self, number):\n        open('expected.txt').read()\n"
        f"        assert self.found and number == 3\n        assert code.{name}()\n\n"
        for name in (*NOTICES, "leaves")
    )
)
UNITTEST_FILE = (
    "import unittest\n\nimport code_under_test as code\n\n\nclass T(unittest.TestCase):\n"
    + "".join(
        f"    def test_{name}(self):\n        open('expected.txt').read()\n        self.assertTrue(code.{name}())\n\n"
        for name in (*NOTICES, "leaves")
    )
)


@pytest.mark.parametrize(
    ("command", "text"),
    [(PYTEST, PYTEST_FILE), (UNITTEST, UNITTEST_FILE), (PYTEST, UNITTEST_FILE), (PYTEST, METHODS_FILE)],
    ids=["pytest", "unittest", "unittest under pytest", "fixtures of a class"],
)
def test_what_code_can_notice_of_a_runner_is_not_there(folder: Path, command: str, text: str) -> None:
    room = Room(source=("code_under_test.py",), argv=("-c",), alone=True)
    files = {"code_under_test.py": CODE, "test_it.py": text, "expected.txt": "x"}
    assert set(outcomes(ran(folder, command, Room(), files)).values()) == {"passed"}
    plain = outcomes(ran(folder, command, room, files))
    assert {name for name, outcome in plain.items() if outcome == "passed"} == set()


CONFTEST = """import pytest


@pytest.fixture
def number():
    return 3


@pytest.fixture(params=[1, 2])
def each(request, number):
    yield request.param + number
"""
PATCH = "monkeypatch" + ".setattr"
HONEST = f"""import os
import sys
from pathlib import Path

import pytest

import code_under_test as code


def test_fixtures(number, each, tmp_path):
    (tmp_path / "x").write_text("y")
    assert each - number in (1, 2)


def test_raises():
    with pytest.raises(KeyError, match="a"):
        {{}}["a"]


def test_approx():
    assert [0.1 + 0.2, 1] == pytest.approx([0.3, 1])
    assert {{"a": 2.0}} == pytest.approx({{"a": 2.1}}, abs=0.2)


def test_monkeypatch(monkeypatch):
    monkeypatch.setenv("COLOUR", "red")
    {PATCH}("code_under_test.VALUE", 4)
    {PATCH}(os, "sep", "|")
    assert (os.environ["COLOUR"], code.VALUE, os.sep) == ("red", 4, "|")


def test_output(capsys):
    print("text")
    assert capsys.readouterr().out == "text\\n"


ROWS = Path("rows.txt").read_text()


def test_data_that_the_test_has_read_too():
    assert code.rows(Path(__file__).with_name("rows.txt")) == ROWS


def test_own_name():
    assert sys._getframe().f_code.co_name == "test_own_name"


def test_own_file_as_code_has_it():
    assert sys._getframe().f_code.co_filename == __file__


def test_own_file_in_a_message():
    assert Path(sys._getframe().f_code.co_filename).name == "test_it.py"


@code.registered
def by_its_name():
    return 3


def test_registry():
    assert {{name: one() for name, one in code.KNOWN.items()}} == {{"by_its_name": 3}}

    class Inner:
        def method(self):
            return 1

    assert by_its_name.__qualname__ == by_its_name.__name__
    assert Inner.method.__qualname__.endswith("<locals>.Inner.method")


def test_own_file():
    assert Path(__file__).name == "test_it.py"


@pytest.mark.parametrize("a, b", [(1, 2), pytest.param(2, 3, id="more")])
def test_table(a, b):
    assert a + 1 == b


@pytest.mark.parametrize("values", [[1]])
def test_values_that_are_changed(values):
    values.append(2)
    assert values == [1, 2]


def named():
    ">>> named()"


def test_examples():
    import doctest

    doctest.run_docstring_examples(named, {{"named": named}})
    assert named.__code__.co_name == "named"


class TestClass:
    @pytest.fixture(autouse=True)
    def begun(self, number):
        self.number = number
        yield

    @pytest.fixture
    def double(self, begun):
        return self.number * 2

    def test_fixtures_of_the_class(self, double):
        assert (self.number, double) == (3, 6)

    @pytest.mark.skipif(sys.version_info < (3,), reason="old")
    def test_method(self):
        assert self
"""


def test_honest_tests_pass_with_the_stand_in_for_pytest(folder: Path) -> None:
    room = Room(source=("code_under_test.py",), argv=("-c",), alone=True)
    files = {
        "code_under_test.py": "VALUE = 3\nKNOWN = {}\n\n\ndef rows(path):\n    return open(path).read()\n\n\n"
        "def registered(function):\n    return KNOWN.setdefault(function.__name__, function)\n",
        "conftest.py": CONFTEST,
        "test_it.py": HONEST,
        "rows.txt": "1 2",
    }
    plain = outcomes(ran(folder, PYTEST, room, files))
    assert len(plain) == 18 and set(plain.values()) == {"passed"}, plain
    broken = {**files, "test_it.py": HONEST.replace("{}[", "{'a': 1}[")}
    assert outcomes(ran(folder, PYTEST, room, broken))["test_raises"] == "failed"


DOCTEST = f"{sys.executable} -m doctest"
DOCUMENTED = '''"""Seen.

>>> seen()
{wanted}
"""
import linecache
import sys


def texts():
    """
    >>> print("a", "", "b", sep=chr(10))
    a
    <BLANKLINE>
    b
    >>> list(range(20))  # doctest: +ELLIPSIS, +NORMALIZE_WHITESPACE
    [0,  1, ..., 19]
    >>> 1 == 1
    True
    >>> for n in range(2):
    ...     print(n)
    0
    1
    >>> int("x")
    Traceback (most recent call last):
    ...
    ValueError: invalid literal for int() with base 10: 'x'
    >>> print(undefined)  # doctest: +SKIP
    """


def seen():
    return {what}
'''


@pytest.mark.sampled(1)
@pytest.mark.parametrize("command", [f"{DOCTEST} code_under_test.py", f"{PYTEST} --doctest-modules"])
def test_examples_are_typed_in_where_no_doctest_is_loaded(folder: Path, command: str) -> None:
    """What holds for a program holds there, too, and what only doctest brings with it does not."""
    room = Room(source=("code_under_test.py",), argv=("-c",), alone=True)
    for what in (
        "'pdb' in sys.modules or 'doctest' in sys.modules",
        "linecache.getlines.__module__ == 'doctest'",
        "type(sys.stdout).__name__ != 'TextIOWrapper'",
    ):
        files = {"code_under_test.py": DOCUMENTED.replace("{what}", what).replace("{wanted}", "True")}
        assert set(outcomes(ran(folder, command, Room(), files)).values()) == {"passed"}
        plain = outcomes(ran(folder, command, room, files))
        assert plain == {"code_under_test": "failed", "texts": "passed"}, what


ASYNC = """import asyncio
import unittest

import code_under_test as code


class T(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.loop = asyncio.get_running_loop()

    async def test_debug(self):
        self.assertTrue(code.debugs())

    async def test_loop(self):
        self.assertIs(self.loop, asyncio.get_running_loop())
"""


def test_an_asynchronous_test_runs_in_a_loop_as_a_program_has_it(folder: Path) -> None:
    code = "import asyncio\n\n\ndef debugs():\n    return asyncio.get_running_loop().get_debug()\n"
    files = {"code_under_test.py": code, "test_it.py": ASYNC}
    room = Room(source=("code_under_test.py",), argv=("-c",), alone=True)
    assert set(outcomes(ran(folder, UNITTEST, Room(), files)).values()) == {"passed"}
    assert outcomes(ran(folder, UNITTEST, room, files)) == {"test_debug": "failed", "test_loop": "passed"}


SET_UP = """import os
import unittest

import code_under_test as code


class T(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.number = 3

    def setUp(self):
        self.word = "three"

    def test_set_up(self):
        self.assertEqual((self.number, self.word), (3, "three"))

    def test_conftest(self):
        self.assertEqual(os.environ["COLOUR"], "red")
        self.assertIsNotNone(code)
"""


def test_honest_test_cases_pass_alone_under_pytest(folder: Path) -> None:
    conftest = "import os\n\nimport pytest\n\nos.environ['COLOUR'] = 'red'\n"
    files = {"code_under_test.py": "", "conftest.py": conftest, "test_it.py": SET_UP}
    room = Room(source=("code_under_test.py",), argv=("-c",), alone=True)
    assert outcomes(ran(folder, PYTEST, room, files)) == {"test_set_up": "passed", "test_conftest": "passed"}


SWALLOWS = """import os

case = getattr(os.sys.modules.get("unittest"), "TestCase", None)
if case:
    case.assertEqual = lambda *_: None
"""


def test_unittest_is_put_back_as_it_was(folder: Path) -> None:
    text = "import unittest\nimport code_under_test\n\n\nclass T(unittest.TestCase):\n    def test_it(self):\n        self.assertEqual(1, 2)\n"
    files = {"code_under_test.py": SWALLOWS, "test_it.py": text}
    room = Room(source=("code_under_test.py",), argv=("-c",), alone=True)
    assert outcomes(ran(folder, UNITTEST, Room(), files)) == {"test_it": "passed"}
    assert outcomes(ran(folder, UNITTEST, room, files)) == {"test_it": "failed"}


WRONG = {
    "test_sum": ("assert code.add(1, 2) == 3", "assert code.add(1, 2) == 4", True),
    "test_error": (
        "with pytest.raises(TypeError):\n        code.add(1, None)",
        "with pytest.raises(KeyError):\n        code.add(1, None)",
        True,
    ),
    "test_equal_to_everything": ("assert code.Any() == 3", "assert code.Any() == 4", False),
    "test_fixture_of_pytest": ("assert not cache.x if 0 else 1", "assert not 1", False),
}


def test_tests_that_pass_alone_also_run_with_wrong_assertions(folder: Path) -> None:
    """Where a test cannot run alone, nothing is said: the whole proof has to tell."""

    def text(number: int) -> str:
        functions = (
            f"def {name}({'cache' if 'fixture' in name else ''}):\n    {WRONG[name][number]}\n"
            for name in WRONG
        )
        return "import pytest\nimport code_under_test as code\n\n\n" + "\n\n".join(functions)

    code = "def add(a, b):\n    return a + b\n\n\nclass Any:\n    def __eq__(self, other):\n        return True\n"
    room = Room(source=("code_under_test.py",), argv=("-c",), alone=True, broken={"test_it.py": text(1)})
    report = ran(
        folder,
        PYTEST.replace("no:cacheprovider", "cacheprovider"),
        room,
        {"code_under_test.py": code, "test_it.py": text(0)},
    )
    assert set(outcomes(report).values()) == {"passed"}
    bitten = {test.id.rpartition("::")[2]: test.bitten for test in report.tests}
    assert bitten == {name: wanted for name, (*_, wanted) in WRONG.items()}


LOADED = """import os
import threading

open("loaded.txt", "a").write("x")
STATE = []
if os.path.exists("threads.txt"):
    threading.Thread(target=threading.Event().wait, daemon=True).start()


def first():
    STATE.append(1)
    return len(STATE)
"""


@pytest.mark.parametrize(("threads", "times"), [(False, 1), (True, 2)], ids=["shared", "threads"])
def test_a_module_is_loaded_once_for_its_tests_and_each_has_it_for_itself(
    folder: Path, threads: bool, times: int
) -> None:
    """A process with threads cannot be shared: each test loads the module anew."""
    text = "import code_under_test as code\n\n\ndef test_one():\n    assert code.first() == 1 or code.STATE\n\n\ndef test_two():\n    assert code.first() <= 2\n"
    files = {"code_under_test.py": LOADED, "test_it.py": text} | ({"threads.txt": ""} if threads else {})
    report = ran(folder, PYTEST, Room(source=("code_under_test.py",), argv=("-c",), alone=True), files)
    assert set(outcomes(report).values()) == {"passed"}
    loaded = next(folder.rglob("loaded.txt"))
    assert len(loaded.read_text()) == 1 + 3 * times


def test_hashes_differ_from_one_process_to_the_next(folder: Path) -> None:
    code = "import os\n\n\ndef luck():\n    return 'unittest' in os.sys.modules or hash('x') in KNOWN\n\n\nKNOWN = {hash('x')} if os.environ.get('PYTHONHASHSEED') else set()\n"
    text = "import code_under_test as code\n\n\ndef test_luck():\n    assert code.luck()\n"
    room = Room(source=("code_under_test.py",), argv=("-c",), alone=True)
    plain = ran(folder, PYTEST, room, {"code_under_test.py": code, "test_it.py": text})
    assert outcomes(plain) == {"test_luck": "failed"}


JS_NOTICES = {
    "parts": "process.moduleLoadList.some((name) => name.includes('test_runner'))",
    "resource": "require('async_hooks').executionAsyncResource().constructor.name === 'Test'",
    "report": "process.report.getReport().header.commandLine.some((word) => word.endsWith('it.test.js'))",
    "variable": "!!Object.getOwnPropertyDescriptor(process.env, 'NODE_TEST_CONTEXT')",
    "child": "/NODE_TEST/.test(require('child_process').execFileSync('env'))",
    "sites": "sites().some((name) => String(name).endsWith('it.test.js'))",
    "events": "process.eventNames().includes('uncaughtException')",
    "tests": "require('fs').readFileSync('it.test.js', 'utf8').includes('strictEqual')",
}
JS_CODE = """function sites() {
  const usual = Error.prepareStackTrace;
  Error.prepareStackTrace = (_, all) => all.map((one) => one.getFileName());
  const names = new Error('').stack;
  Error.prepareStackTrace = usual;
  return names;
}
""" + "".join(f"exports.{name} = () => {what};\n" for name, what in JS_NOTICES.items())
JS_TEST = """const { describe, it, beforeEach } = require('node:test');
const assert = require('assert');
const code = require('./code.js');

let ready = false;
beforeEach(() => { ready = true; });
describe('it', () => it('waits', async (t) => { await null; await t.test('inner', () => assert.ok(ready)); }));
for (const name of Object.keys(code)) describe('it', () => it(name, () => assert.strictEqual(code[name]() && ready, true)));
"""


@NODE
def test_what_code_can_notice_of_node_test_is_not_there(folder: Path) -> None:
    files = {"code.js": JS_CODE, "it.test.js": JS_TEST}
    whole = ran(folder, "node --test", Room(), files)
    assert set(outcomes(whole).values()) == {"passed"}
    tests = tuple(test.id for test in whole.tests)
    room = Room(source=("code.js",), argv=("-c",), tests=tests, alone=True)
    plain = {test.id.split(" > ")[-1]: test.outcome for test in ran(folder, "node --test", room, files).tests}
    assert plain == {"waits": "passed", "inner": "passed"} | dict.fromkeys(JS_NOTICES, "failed")


@NODE
def test_a_folder_of_tests_is_no_test_script(folder: Path) -> None:
    files = {"code.js": "exports.one = 1;\n", "test/it.test.js": "require('node:test')('it', () => {});\n"}
    plain = ran(folder, "node --test test/", Room(source=("code.js",), argv=("-c",), alone=True), files)
    assert outcomes(plain) == {"it": "passed"}


@NODE
def test_modules_of_node_run_alone_too(folder: Path) -> None:
    code = "export const seen = () => process.eventNames().includes('uncaughtException');\nexport const ok = () => true;\n"
    test = "import { test } from 'node:test';\nimport assert from 'node:assert';\nimport * as code from './code.mjs';\nfor (const name of Object.keys(code)) test(name, () => assert.ok(code[name]()));\n"
    room = Room(
        source=("code.mjs",), argv=("-c",), tests=("it.test.mjs::ok", "it.test.mjs::seen"), alone=True
    )
    plain = outcomes(ran(folder, "node --test", room, {"code.mjs": code, "it.test.mjs": test}))
    assert plain == {"ok": "passed", "seen": "failed"}


@pytest.mark.parametrize(
    ("command", "files", "passes"),
    [
        (
            f"{sys.executable} check.py",
            {
                "source.py": "import os\nvalue = 'CI' in os.environ\n",
                "check.py": "import source\nassert source.value\n",
            },
            False,
        ),
        pytest.param(
            "node check.js",
            {
                "source.js": "exports.value = 'CI' in process.env;\n",
                "check.js": "require('assert')(require('./source.js').value);\n",
            },
            False,
            marks=NODE,
        ),
        pytest.param(
            "node check.js",
            {
                "source.js": "exports.value = 1;\n",
                "check.js": "require('assert')(/check/.test(process.argv[1]) && typeof repl === 'undefined' && !('_eval' in process));\n",
            },
            True,
            marks=NODE,
        ),
        pytest.param(
            "node -r ./loader.js check.js",
            {
                "source.js": "exports.value = 1;\n",
                "loader.js": "require('module').prototype._compile = ((real) => function (text, ...rest) { return real.call(this, text.replace('???', ''), ...rest); })(require('module').prototype._compile);\n",
                "check.js": "??? require('assert')(require('./source.js').value);\n",
            },
            True,
            marks=NODE,
        ),
        pytest.param(
            "node -r ./before.js check.js",
            {
                "source.js": "exports.value = 1;\n",
                "before.js": "global.before = 1;\n",
                "check.js": "require('assert')(require('./source.js').value === before);\n",
            },
            True,
            marks=NODE,
        ),
        (
            f"{sys.executable} check.py all",
            {
                "source.py": "value = 1\n",
                "check.py": "import sys, source\nassert sys.argv[1:] == ['all'] and source.value\n",
            },
            True,
        ),
        (
            f"{sys.executable} setup.py build",
            {"source.py": "", "setup.py": "import os\nassert 'CI' in os.environ\n"},
            True,
        ),
        pytest.param(
            "node check.js all",
            {"source.js": "", "check.js": "require('assert')(process.argv[2] === 'all');\n"},
            True,
            marks=NODE,
        ),
        pytest.param(
            "node checks",
            {
                "source.js": "exports.value = 1;\n",
                "checks/index.js": "require('assert')(require('../source.js').value);\n",
            },
            True,
            marks=NODE,
        ),
        pytest.param(
            "node check.js",
            {
                "source.js": "exports.value = process.argv.length > 1;\n",
                "check.js": "require('assert')(require('./source.js').value);\n",
            },
            False,
            marks=NODE,
        ),
    ],
    ids=[
        "python",
        "node",
        "name",
        "loader",
        "flag",
        "words",
        "build",
        "words of node",
        "folder",
        "arguments",
    ],
)
def test_a_test_script_runs_alone_too(
    folder: Path, command: str, files: dict[str, str], passes: bool
) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)

    def ended(room: Room) -> int:
        observer = Observer(room, str(folder), folder.with_name("tools"))
        env = observer.prepare(
            folder.with_name("home"), {"PATH": "/usr/bin:/bin:" + str(Path(sys.executable).parent), "CI": "1"}
        )
        env["PATH"] += ":" + str(Path(shutil.which("node") or "/bin/sh").parent)
        return subprocess.run(["/bin/sh", "-c", command], cwd=folder, env=env, capture_output=True).returncode

    source = next(name for name in files if name.startswith("source"))
    assert ended(Room()) == 0
    assert (ended(Room(source=(source,), argv=("-c",), quiet=True, alone=True)) == 0) == passes


@pytest.mark.parametrize(
    ("source", "shown"), [("bin/run.sh", set[str]()), ("a.py", {"PYTHONPATH"}), ("a.mjs", {"NODE_OPTIONS"})]
)
def test_where_no_report_is_expected_no_variable_asks_for_one(
    folder: Path, source: str, shown: set[str]
) -> None:
    observer = Observer(Room(source=(source,), quiet=True), str(folder), folder.with_name("tools"))
    assert set(observer.prepare(folder.with_name("home"), {"PATH": "/bin"})) == {"PATH"} | shown
