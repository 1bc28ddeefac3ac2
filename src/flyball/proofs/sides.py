"""Which files judge the code: tests, their support files and data, snapshots, runner configuration, proof scripts.

A file is on the test side or it is source. Two kinds of file are both: configuration such as pyproject.toml, of which
only some sections speak to a runner, and source with tests inside (doctests, Rust's `#[cfg(test)]`). `exchanged`
gives such a file the tests of the other tree and leaves the rest alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Iterable, Sequence
from copy import copy

from flyball.guard.paths.globs import matches
from flyball.guard.test_files import is_near_test
from flyball.proofs.inline import config_sections, doctests, rust_tests

_FOLDER = re.compile(
    r"(?:^|/)(?:tests?|__tests__|specs?|e2e|integration[-_]tests?|unit[-_]tests?|testdata|test[-_]data|__snapshots__|snapshots"
    r"|__mocks__|fixtures|golden|goldens|cassettes|t|node_modules|site-packages|\.venv|[^/]+\.(?:egg|dist)-info)/",
    re.IGNORECASE,
)
_CONFIG = re.compile(
    r"(?:^|/)(?:\.?pytest\.(?:ini|toml)|\.npmrc|[^/]+\.mk|tox\.ini|conftest\.py|noxfile\.py|\.coveragerc|sitecustomize\.py|usercustomize\.py"
    r"|jest\.config\.\w+|jest\.setup\.\w+|vitest\.(?:config|workspace|setup)\.\w+|\.mocharc(?:\.\w+)?|karma\.conf\.\w+|ava\.config\.\w+"
    r"|playwright\.config\.\w+|cypress\.config\.\w+|phpunit\.xml(?:\.dist)?|\.rspec|nextest\.toml|ctest\w*\.cmake|[^/]+\.pth"
    r"|\.nycrc(?:\.\w+)?|\.c8rc(?:\.\w+)?|[^/]*\.snap|[^/]*\.ambr|[^/]*\.bats)$",
    re.IGNORECASE,
)
_SCRIPTS = {
    **dict.fromkeys(("make", "gmake"), ("Makefile", "makefile", "GNUmakefile")),
    **dict.fromkeys(("tox",), ("tox.ini",)),
    **dict.fromkeys(("nox",), ("noxfile.py",)),
    **dict.fromkeys(("just",), ("justfile", "Justfile")),
    **dict.fromkeys(("invoke", "inv"), ("tasks.py",)),
    **dict.fromkeys(("rake",), ("Rakefile",)),
}
MIXED = re.compile(r"(?:^|/)(?:pyproject\.toml|setup\.cfg|package\.json)$")


class Sides:
    """The test side of a run, from its proof commands and the user's own patterns."""

    def __init__(self, commands: Sequence[str], patterns: Sequence[str] = ()) -> None:
        self.commands = tuple(commands)
        self.scripts = frozenset(_scripts(commands))
        self.patterns = tuple(patterns)
        self.shadows: frozenset[str] = frozenset()

    def with_shadows(self, added: Iterable[str], standard: Collection[str] = ()) -> Sides:
        """The same with added files that take the place of a module or program that the tests use;
        `standard` are the names of Python's own modules."""
        sides = copy(self)
        sides.shadows = frozenset(path for path in added if shadows(path, standard))
        return sides

    def is_test(self, path: str) -> bool:
        """Whether the whole file is on the test side."""
        if MIXED.search(path):
            return False
        return (
            path in self.scripts
            or path in self.shadows
            or bool(_FOLDER.search(path) or _CONFIG.search(path))
            or is_near_test(path)
            or (bool(self.patterns) and matches(self.patterns, path))
        )


_RUNNERS = frozenset(
    (
        "pytest",
        "_pytest",
        "pluggy",
        "iniconfig",
        "packaging",
        "pygments",
        "xdist",
        "nose",
        "hypothesis",
        "coverage",
        "py",
    )
)
_MODULE = re.compile(r"(?:(?:src|lib)/)?(\w+)(?:\.py|\.pyc|\.so|/(?:__init__|__main__)\.py)")
_PROGRAMS = re.compile(
    r"(?:^|/)(?:bin|scripts|tools|sbin)/(?:\[|awk|basename|bash|cat|cmp|cut|date|diff|dirname|echo|env|expr|find|git|grep|head|jq|make"
    r"|mktemp|node|npm|npx|perl|printf|python[\d.]*|rm|sed|sh|sort|tail|test|tr|true|uniq|wc|xargs|pytest|tox|bats)$"
)


def shadows(path: str, standard: Collection[str]) -> bool:
    """A new file that stands before a standard module, a test runner or a program, or that pytest runs by itself."""
    module = _MODULE.fullmatch(path)
    name = module[1] if module else ""
    return name in standard or name in _RUNNERS or name == "__init__" or bool(_PROGRAMS.search(path))


_SEPARATOR = re.compile(r"&&|\|\||[;|&\n]")
_INTERPRETERS = re.compile(r"(?:(?:ba|da|z|k)?sh|python[\d.]*|node|ruby|perl|php|bash)")


def _scripts(commands: Iterable[str]) -> Iterable[str]:
    """Files that the proof commands run, and the files that their tools read."""
    for part in (part for command in commands for part in _SEPARATOR.split(command)):
        try:
            words = shlex.split(part, comments=True)
        except ValueError:
            words = part.split()
        words = words[next((n for n, word in enumerate(words) if "=" not in word), len(words)) :]
        program = words[0].rpartition("/")[2] if words else ""
        yield from _SCRIPTS.get(program, ())
        if (
            _INTERPRETERS.fullmatch(program)
            and len(words) > 1
            and not words[1].startswith(("-m", "-c", "-e"))
        ):
            yield next((word.removeprefix("./") for word in words[1:] if not word.startswith("-")), "")
        elif words:
            yield words[0].removeprefix("./")


def exchanged(path: str, text: str, other: str) -> str:
    """`text` with the tests of `other` (the same file in another tree) in the place of its own."""
    exchange: Callable[[str, str], str] | None = None
    if MIXED.search(path):
        exchange = config_sections(path)
    elif path.endswith(".py"):
        exchange = doctests
    elif path.endswith(".rs"):
        exchange = rust_tests
    return exchange(text, other) if exchange else text
