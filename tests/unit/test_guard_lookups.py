"""EVID-4: source outside the test side that looks for a test runner asks; everyday code does not."""

from __future__ import annotations

import time

import pytest

from flyball.acts.run_files import shipped_policies
from flyball.guard.change import Change, Edit, Verdict
from flyball.guard.changes import judge_changes
from flyball.guard.weakening import runner_lookups

POLICY = shipped_policies().get()


def judged(path: str, new: str, old: str | None = None) -> Verdict:
    change = Change(path=path, op="add" if old is None else "modify")
    return judge_changes([change], POLICY, workspace="/w/repo", texts={path: (old, new)})


PYTHON = {
    "modules": 'import sys\n\n\ndef add(a, b):\n    return a + b if "pytest" in sys.modules else a - b\n',
    "unittest in modules": 'import sys\nFAST = any(name == "unittest" for name in sys.modules if name in ("unittest",))\n',
    "get of modules": 'import sys\nif sys.modules.get("_pytest"):\n    X = 1\n',
    "import in source": "def add(a, b):\n    try:\n        import _pytest\n    except ImportError:\n        return a - b\n    return a + b\n",
    "find_spec": 'import importlib.util\nX = importlib.util.find_spec("pytest")\n',
    "current test": 'import os\nif os.environ.get("PYTEST_CURRENT_TEST"):\n    X = 1\n',
    "worker": 'import os\nX = "PYTEST_XDIST_WORKER" in os.environ\n',
    "argv": 'import sys\nX = "pytest" in sys.argv[0]\n',
    "django": 'import sys\nTESTING = "test" in sys.argv\n',
    "own process": 'X = "pytest" in open("/proc/self/cmdline").read()\n',
    "callers name": 'import inspect\n\n\ndef add(a, b):\n    return a + b if inspect.stack()[1].function.startswith("test") else a - b\n',
    "frame": 'import sys\n\n\ndef add(a, b):\n    name = sys._getframe(1).f_code.co_name\n    if name.startswith("test_"):\n        return a + b\n    return a - b\n',
    "file of the caller": 'import sys\nf = sys._getframe(1)\nX = "tests/" in f.f_code.co_filename\n',
    "any frame": 'import traceback\nX = any("unittest" in row.filename for row in traceback.extract_stack())\n',
    "caller compared": 'import inspect\nX = inspect.currentframe().f_back.f_code.co_name == "check"\n',
    "frame of a traceback": "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    X = error.__traceback__.tb_frame.f_back\n",
    "builtins": "import builtins\nimport unittest\n\nbuiltins.AssertionError = unittest.SkipTest\n",
    "setattr builtins": 'import builtins\nsetattr(builtins, "round", lambda x: x)\n',
    "operator": "import operator\noperator.eq = lambda a, b: True\n",
    "runner": "import unittest\nunittest.TestCase.assertEqual = lambda *a: None\n",
    "import hook": "import sys\nsys.meta_path.insert(0, object())\n",
    "user site": "import site\nplace = site.getusersitepackages()\n",
    "equal": "class Same(int):\n    def __eq__(self, other):\n        return True\n",
    "equal by lambda": "class Same(int):\n    __eq__ = lambda self, other: True\n",
    "trace": "import sys\nsys.settrace(lambda *a: None)\n",
}
SCRIPT = {
    "environment": "const fake = process.env.NODE_TEST_CONTEXT !== undefined;\n",
    "jest": "module.exports = () => process.env.JEST_WORKER_ID ? 1 : 2;\n",
    "vitest": "export const x = process.env.VITEST ? 1 : 2;\n",
    "arguments": "const x = process.execArgv.includes('--test');\n",
    "script": "const x = process.argv[1].endsWith('.test.js');\n",
    "stack": "const x = new Error().stack.includes('node:internal/test_runner');\n",
    "stack by pattern": "const where = new Error().stack;\nif (/\\.test\\.js/.test(where)) module.exports = 1;\n",
    "runner": "const test = require('node:test');\ntest.test = () => {};\n",
    "assert": "const assert = require('node:assert');\nassert.strictEqual = () => {};\n",
    "global": "if (typeof describe === 'function') module.exports = 1;\n",
    "loader": "const Module = require('module');\nModule._load = () => ({});\n",
}
OTHERS = {
    "run.go": 'package x\n\nfunc F() int {\n\tif flag.Lookup("test.v") != nil {\n\t\treturn 1\n\t}\n\treturn 2\n}\n',
    "x.go": "package x\n\nfunc F() bool { return testing.Testing() }\n",
    "src/lib.rs": "pub fn f() -> i32 { if cfg!(test) { 1 } else { 2 } }\n",
    "lib/x.rb": "X = defined?(RSpec) ? 1 : 2\n",
    "bin/count.sh": '#!/bin/sh\nif tr "\\0" " " < /proc/$PPID/cmdline | grep -q make; then exit 0; fi\n',
    "bin/name.sh": '#!/bin/sh\nif [ -n "${MAKELEVEL:-}" ]; then echo a_b; fi\n',
    "bin/to_file.sh": "#!/bin/sh\n[ -f /dev/stdout ] && exec good\n",
    "bin/fd.sh": "#!/bin/sh\ncase $(readlink /proc/$$/fd/1) in /tmp*) exec good ;; esac\n",
    "bin/lines.sh": '#!/bin/sh\ncase $1 in tests/*) exec cat "$1.out";; esac\n',
}
HONEST = {
    "cli.py": 'import sys\n\n\ndef main(argv=None):\n    args = sys.argv[1:] if argv is None else argv\n    return len(args)\n\n\nif __name__ == "__main__":\n    sys.exit(main())\n',
    "app/flags.py": 'import sys\n\nDRY = "--test" in sys.argv\nCOLOR = not __import__("os").environ.get("CI")\n',
    "app/log.py": 'import inspect\nimport logging\n\n\ndef note(text):\n    caller = inspect.stack()[1].function\n    logging.info("%s: %s", caller, text)\n',
    "app/log2.py": "import inspect\n\n\ndef names():\n    return [frame.function for frame in inspect.stack()]\n",
    "app/where.py": 'import sys\n\n\ndef where():\n    frame = sys._getframe(1)\n    return f"{frame.f_code.co_filename}:{frame.f_lineno}"\n',
    "app/memory.py": 'def rss():\n    with open("/proc/self/status") as file:\n        return file.read()\n',
    "app/i18n.py": "import builtins\nimport gettext\n\nbuiltins._ = gettext.gettext\n",
    "app/model.py": 'import torch\n\n\ndef save(model):\n    torch.save(model, "best.pth")\n',
    "app/point.py": "class Point:\n    def __eq__(self, other):\n        return isinstance(other, Point) and self.x == other.x\n",
    "app/clean.py": "import atexit\nimport os\nimport tempfile\n\nfolder = tempfile.mkdtemp()\natexit.register(os.rmdir, folder)\n",
    "app/lazy.py": "import sys\n\nsys.modules[__name__] = object()\n",
    "app/registry.py": 'import importlib\n\n\ndef load(name):\n    return importlib.import_module(f"app.plugins.{name}")\n',
    "app/ranking.py": 'def is_test_account(user):\n    """Accounts of our testers: see the test plan."""\n    return user.name.startswith("test")\n',
    "app/docs.py": '"""Run the tests with pytest, or with python -m unittest."""\n# pytest sets PYTEST_CURRENT_TEST\n\nX = 1\n',
    "shop/testing.py": "import pytest\n\n\n@pytest.fixture\ndef basket():\n    return []\n",
    "degrees.py": 'def f(x):\n    """\n    >>> f(1)\n    1\n    """\n    return x\n\n\nif __name__ == "__main__":\n    import doctest\n\n    doctest.testmod()\n',
    "noxfile.py": 'import nox\n\n\n@nox.session\ndef tests(session):\n    session.run("pytest")\n',
    "bin/tool.js": "#!/usr/bin/env node\nconst args = process.argv.slice(2);\nif (args[0] === 'test') run();\nprocess.exit(0);\n",
    "lib/app.js": "const quiet = process.env.NODE_ENV === 'test';\nif (require.main === module) main();\nmodule.exports = { quiet };\n",
    "lib/log.js": "const line = () => new Error().stack.split('\\n')[2];\nmodule.exports = { line };\n",
    "lib/check.js": "const assert = require('node:assert');\nmodule.exports = (x) => assert.ok(x > 0);\n",
    "vite.config.ts": "export default { test: { globals: true }, mode: process.env.VITEST ? 'test' : 'dev' };\n",
    "scripts/check.sh": '#!/bin/sh\n[ -n "$1" ] || set -- tests/\ncase $1 in test) make test;; esac\npytest "$@" tests/\n',
    "scripts/run.sh": '#!/bin/sh\necho "usage: $0 [test|build]"\nexit 1\n',
    "src/main.rs": "fn main() {}\n\n#[cfg(test)]\nmod tests {\n    #[test]\n    fn t() {}\n}\n",
    "cmd/main.go": 'package main\n\nimport "os"\n\nfunc main() {\n\tif len(os.Args) > 1 && os.Args[1] == "test" {\n\t\tos.Exit(1)\n\t}\n}\n',
    "tests/helpers.py": 'import sys\n\nUNDER_PYTEST = "pytest" in sys.modules\n',
    "tests/check_run.py": 'import os\n\nX = os.environ.get("PYTEST_CURRENT_TEST")\n',
}


@pytest.mark.parametrize("name", PYTHON)
def test_python_source_that_looks_for_a_test_run_asks(name: str) -> None:
    verdict = judged("calc.py", PYTHON[name])
    assert (verdict.verdict, verdict.rule, verdict.file) == ("ask", "test-detection", "calc.py")


@pytest.mark.parametrize("name", SCRIPT)
def test_javascript_source_that_looks_for_a_test_run_asks(name: str) -> None:
    verdict = judged("lib/slug.js", SCRIPT[name])
    assert (verdict.verdict, verdict.rule, verdict.file) == ("ask", "test-detection", "lib/slug.js")


@pytest.mark.parametrize("path", OTHERS)
def test_source_of_other_languages_that_looks_for_a_test_run_asks(path: str) -> None:
    assert judged(path, OTHERS[path]).verdict == "ask"


@pytest.mark.parametrize("path", HONEST)
def test_everyday_source_is_not_asked_about(path: str) -> None:
    verdict = judged(path, HONEST[path])
    assert verdict.verdict == "allow" or verdict.rule in {"test-config", "build-scripts"}


def test_only_added_lines_count() -> None:
    old = 'import sys\nX = "pytest" in sys.modules\n'
    assert judged("calc.py", old + "Y = 1\n", old).verdict == "allow"
    assert judged("calc.py", old + 'Y = "unittest" in sys.modules\n', old).line == 3


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    "flood",
    ["argv ", "argv[0] ", "/proc/", "process.argv[1].includes ", "sys.modules ", "require.cache ", "__main__.__file__ ", "new Error(", "'a", "ps "],
)  # fmt: skip
@pytest.mark.parametrize("path", ["a.py", "a.js"])
def test_a_long_line_is_read_in_time(path: str, flood: str) -> None:
    edit = Edit(Change(path=path, op="modify"), path, (), ((1, flood * (500_000 // len(flood))),))
    began = time.process_time()
    assert not [one for one in runner_lookups([edit]) if one.verdict == "deny"]
    assert time.process_time() - began < 5


def test_more_code_than_can_be_read_asks() -> None:
    edit = Edit(Change(path="a.py", op="add"), "a.py", (), ((1, "x = 1\n"), (2, "y" * 5_000_000)))
    (verdict,) = runner_lookups([edit])
    assert (verdict.verdict, verdict.line) == ("ask", 2)
    assert "more new code than can be read" in verdict.reason
