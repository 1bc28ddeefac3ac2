"""How a project's tests are run: the test command, taken apart far enough to run single tests in a process of ours."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from flyball.config.detect import detect

RUNNERS = {"pytest": "pytest", "py.test": "pytest", "unittest": "unittest"}
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")


class Suite(NamedTuple):
    runner: str  # pytest or unittest
    python: tuple[str, ...]  # the command that starts the project's Python
    args: tuple[str, ...]  # what the runner is given
    folder: str = "."  # where, from the top of the project
    env: tuple[tuple[str, str], ...] = ()
    here_on_path: bool = True  # `python -m` puts the folder on the path, a plain `pytest` does not

    @property
    def shown(self) -> str:
        return shlex.join((*self.python, "-m", self.runner, *self.args))


def suite_here(root: Path, proofs: Iterable[str], path: str) -> Suite | None:
    """From the proof commands; where none of them is a test runner's, from what is in the folder.

    `path` is the PATH to look for programs on.
    """
    likely = detect(root, path=path).tests
    return suite_of(root, (*proofs, *(test.command for test in likely)))


def suite_of(root: Path, commands: Iterable[str]) -> Suite | None:
    """The first of these commands that runs pytest or unittest; None if none does."""
    return next((suite for command in commands for suite in _suites(root, command)), None)


def _suites(root: Path, command: str) -> Iterator[Suite]:
    folder, env = ".", dict[str, str]()
    for words in _parts(command):
        while words and (ASSIGNMENT.match(words[0]) or words[0] in ("env", "export")):
            name, equals, value = words.pop(0).partition("=")
            env |= {name: value} if equals else {}
        if words[:1] == ["cd"] and len(words) == 2:
            folder = os.path.normpath(Path(folder, words[1]))
        elif words and (suite := _suite(root, words)):
            yield suite._replace(folder=str(folder), env=tuple(env.items()))


def _parts(command: str) -> Iterator[list[str]]:
    """The simple commands of a line, without pipes and redirections."""
    try:
        lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return
    part, skip = list[str](), 0
    for word in words:
        if word in ("&&", ";", "||"):
            yield part
            part, skip = [], 0
        elif word[:1] in "|&()":
            skip = len(words)
        elif word[:1] in "<>":
            part, skip = part[:-1] if part and part[-1].isdigit() else part, max(skip, 1)
        elif skip:
            skip -= 1
        else:
            part.append(word)
    yield part


def _suite(root: Path, words: list[str]) -> Suite | None:
    for at, word in enumerate(words):
        runner = RUNNERS.get(Path(word).name, "")
        module = at > 0 and words[at - 1] == "-m"
        if not runner or (runner == "unittest" and not module):
            continue
        before = _without_coverage(words[: at - 1] if module else words[:at])
        python = _python(root, before, word, module)
        return Suite(runner, tuple(python), tuple(words[at + 1 :]), here_on_path=module)
    return None


def _without_coverage(words: list[str]) -> list[str]:
    """`coverage run` and its options stand between the Python and the runner."""
    names = [Path(word).name for word in words]
    if "coverage" not in names:
        return words
    at = names.index("coverage")
    return words[: at - 1] if at and words[at - 1] == "-m" else words[:at]


def _python(root: Path, before: list[str], program: str, module: bool) -> list[str]:
    """What starts the Python that the runner belongs to: `uv run pytest` is `uv run python`."""
    if before and not module:
        return [*before, "python"]
    if not before:
        return [
            _shebang(root, program) or shutil.which("python3") or shutil.which("python") or sys.executable
        ]
    first, *rest = before
    return [str(root / first) if "/" in first and not Path(first).is_absolute() else first, *rest]


def _shebang(root: Path, program: str) -> str:
    """The Python that an installed program such as .venv/bin/pytest names in its first line."""
    path = shutil.which(str(root / program) if "/" in program else program)
    try:
        with Path(path or "").open("rb") as file:
            line = file.readline(500).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    python = line.removeprefix("#!").strip().split(" ")[0]
    return python if line.startswith("#!") and "python" in Path(python).name else ""
