"""What would make a proof pass without a test being run is asked about; everyday code is not."""

from __future__ import annotations

import pytest

from flyball.acts.run_files import shipped_policies
from flyball.guard.change import Change
from flyball.guard.changes import judge_changes


def ruled(path: str, new: str, old: str | None = None) -> str:
    change = Change(path=path, op="modify" if old is not None else "add", lines_added=new.count("\n"))
    texts = {path: (old, new)}
    return judge_changes([change], shipped_policies().get(), workspace="/w", texts=texts).rule


@pytest.mark.parametrize(
    "path",
    [
        "unittest.py",
        "Unittest.py",
        "pytest/__init__.py",
        "src/os.py",
        "tests/warnings.py",
        "test/site.py",
        "re.py",
    ],
)
def test_a_module_in_the_place_of_one_that_tests_run_on_is_asked_about(path: str) -> None:
    assert ruled(path, "x = 1\n") == "shadowed-module"


@pytest.mark.parametrize(
    "path",
    [
        "app/types.py",
        "src/app/logging.py",
        "app/io.py",
        "tests/unit/re.py",
        "docs/os.md",
        "os/README.md",
        "calc.py",
    ],
)
def test_a_module_of_a_package_may_be_called_what_it_likes(path: str) -> None:
    assert ruled(path, "x = 1\n") == "ordinary"


@pytest.mark.parametrize(
    "text",
    [
        "import os\nos._exit(0)\n",
        "from os import _exit\ndef f():\n    _exit(0)\n",
        "import sys\nsys.exit(0)\n",
        "exit()\n",
        "quit()\n",
        "raise SystemExit(0)\n",
        "import os, signal\nos.kill(os.getpid(), 9)\n",
    ],
)
def test_code_that_ends_the_run_early_is_asked_about(text: str) -> None:
    assert ruled("calc.py", text) == "early-end"
    assert ruled("calc.py", text, old=text) == "ordinary"


@pytest.mark.parametrize(
    "text",
    [
        "import sys\ndef main():\n    sys.exit(1)\nif __name__ == '__main__':\n    sys.exit(main())\n",
        "def stop():\n    raise SystemExit(2)\n",
        "# sys.exit(0)\nx = 'exit()'\n",
        "import os\nprint(os.getpid())\n",
        "def exit_code():\n    return 0\n",
    ],
)
def test_a_program_may_end_itself(text: str) -> None:
    assert ruled("tool.py", text) == "ordinary"
