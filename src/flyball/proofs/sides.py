"""Which files judge the code: tests, their support files and data, snapshots, runner configuration, proof scripts.

A file is on the test side or it is source. Two kinds of file are both: configuration such as pyproject.toml, of which
only some sections speak to a runner, and source with tests inside (doctests, Rust's `#[cfg(test)]`). `exchanged`
gives such a file the tests of the other tree and leaves the rest alone. A text that cannot be read stays as it is: the
proof then says what is wrong with it.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from typing import Any, cast

from flyball.guard.policy import matches
from flyball.guard.weakening import is_near_test

_PYTEST_SECTIONS = re.compile(
    r"(?:tool:pytest|tool\.pytest.*|tool\.tox.*|tool\.nox.*|tool\.coverage.*|coverage:.*|tool\.hatch\.envs.*)"
)
_PACKAGE_KEYS = ("jest", "mocha", "ava", "vitest", "nyc", "c8", "tap")


# ---- doctests ----


def doctests(text: str, other: str) -> str:
    """The docstrings with examples are the other's, where both have the same function, class or module; one that is
    missing is put in, and one that is assigned afterwards is not."""
    theirs, ours = _docstrings(other), _docstrings(text)
    edits = [
        (start, end, theirs[name][2] + gap)
        for name, (start, end, literal, gap) in ours.items()
        if name in theirs and ">>>" in theirs[name][2] and theirs[name][2] != literal
    ]
    if not list(_assigned_docs(other)):
        edits += [(start, end, "pass") for start, end in _assigned_docs(text)]
    for start, end, literal in sorted(edits, reverse=True):
        text = text[:start] + literal + text[end:]
    return text


def _docstrings(text: str) -> dict[str, tuple[int, int, str, str]]:
    """Qualified name -> where its docstring's literal stands, the literal, and what comes behind one that is put in."""
    tree, starts = _parsed(text), _line_starts(text)
    docs: dict[str, tuple[int, int, str, str]] = {}
    for name, node in _named(tree, "") if tree else ():
        if not node.body:
            continue
        first = node.body[0]
        start, end = _span(text, starts, first)
        if (
            isinstance(first, ast.Expr)
            and isinstance(first.value, ast.Constant)
            and isinstance(first.value.value, str)
        ):
            docs[name] = (start, end, text[start:end], "")
        else:
            docs[name] = (start, start, "", "\n" + " " * first.col_offset)
    return docs


def _assigned_docs(text: str) -> Iterator[tuple[int, int]]:
    """Where `f.__doc__ = …` and `__test__ = …` stand."""
    tree, starts = _parsed(text), _line_starts(text)
    for node in ast.walk(tree) if tree else ():
        for target in node.targets if isinstance(node, ast.Assign) else ():
            if getattr(target, "attr", getattr(target, "id", "")) in ("__doc__", "__test__"):
                yield _span(text, starts, cast("ast.Assign", node))


def _parsed(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _span(text: str, starts: list[int], node: ast.stmt) -> tuple[int, int]:
    start = _offset(text, starts, node.lineno, node.col_offset)
    return start, _offset(text, starts, node.end_lineno or 0, node.end_col_offset or 0)


Definition = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def _named(node: Definition, name: str) -> Iterator[tuple[str, Definition]]:
    yield name, node
    yield from _named_in(node.body, name)


def _named_in(body: list[ast.stmt], name: str) -> Iterator[tuple[str, Definition]]:
    for child in body:
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _named(child, f"{name}.{child.name}")
        elif isinstance(child, ast.If | ast.Try | ast.With | ast.For | ast.While):
            yield from _named_in(child.body, name)
            yield from _named_in(getattr(child, "orelse", []), name)


def _line_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer("\n", text))]


def _offset(text: str, starts: list[int], line: int, column: int) -> int:
    """ast counts columns in UTF-8 bytes."""
    start = starts[line - 1]
    head = text[start : start + column].encode()[:column]
    return start + len(head.decode("utf-8", "ignore"))


# ---- Rust ----

_CFG_TEST = re.compile(
    r"^[ \t]*#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*(?:pub(?:\([^)]*\))? )?mod \w+ \{", re.M
)


def rust_tests(text: str, other: str) -> str:
    """The `#[cfg(test)]` modules are the other's."""
    ours, theirs = list(_test_modules(text)), list(_test_modules(other))
    if not theirs or [text[a:b] for a, b in ours] == [other[a:b] for a, b in theirs]:
        return text
    for start, end in reversed(ours):
        text = text[:start] + text[end:]
    return text.rstrip("\n") + "\n\n" + "\n\n".join(other[a:b] for a, b in theirs) + "\n"


def _test_modules(text: str) -> Iterator[tuple[int, int]]:
    for match in _CFG_TEST.finditer(text):
        end = _closing_brace(text, match.end())
        if end:
            yield match.start(), end


def _closing_brace(text: str, start: int) -> int:
    """Where the block ends that was opened just before `start`; 0 if it does not. Strings and comments are passed over."""
    depth = 1
    for token in re.finditer(
        r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'|[{}]', text[start:], re.S
    ):
        depth += {"{": 1, "}": -1}.get(token.group(), 0)
        if depth == 0:
            return start + token.end()
    return 0


# ---- shared configuration ----


def config_sections(path: str, words: Collection[str] = ()) -> Callable[[str, str], str]:
    """`words` are those of the proof commands: a script that they name is a proof script."""
    if path.endswith("package.json"):
        return lambda text, other: _package_json(text, other, words)
    return _pyproject if path.endswith("pyproject.toml") else _ini_sections


def _package_json(text: str, other: str, words: Collection[str]) -> str:
    try:
        ours, theirs = json.loads(text), json.loads(other)
    except ValueError:
        return text
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return text
    mixed = _with_tests_of(cast("dict[str, Any]", ours), cast("dict[str, Any]", theirs), words)
    return text if mixed == ours else json.dumps(mixed, indent=2, ensure_ascii=False) + "\n"


def _with_tests_of(ours: dict[str, Any], theirs: dict[str, Any], words: Collection[str]) -> dict[str, Any]:
    mixed = {key: value for key, value in ours.items() if key not in _PACKAGE_KEYS}
    mixed.update({key: theirs[key] for key in _PACKAGE_KEYS if key in theirs})
    scripts, others = ours.get("scripts"), theirs.get("scripts")
    if isinstance(scripts, dict) and isinstance(others, dict):
        scripts, others = cast("dict[str, Any]", scripts), cast("dict[str, Any]", others)
        started = {word for key, value in others.items() if _tests(key) for word in str(value).split()}
        started |= set(words)
        names = {
            key: re.sub("^(?:pre|post)", "", key) for key in (*scripts, *others)
        }  # npm runs these around it
        tests = {key for key, name in names.items() if _tests(name) or {key, name} & started}
        own = {key: value for key, value in scripts.items() if key not in tests}
        mixed["scripts"] = own | {key: value for key, value in others.items() if key in tests}
    return {key: mixed[key] for key in (*ours, *mixed) if key in mixed}


def _tests(script: str) -> bool:
    return "test" in script or script in ("check", "ci", "verify", "coverage")


def _ini_sections(text: str, other: str) -> str:
    """TOML and INI alike: whole sections, as text, so that comments and order stay."""
    ours, theirs = _sections(text), _sections(other)
    sections = [body for name, body in theirs if _PYTEST_SECTIONS.fullmatch(name)]
    if [body for name, body in ours if _PYTEST_SECTIONS.fullmatch(name)] == sections:
        return text
    own = [body for name, body in ours if not _PYTEST_SECTIONS.fullmatch(name)]
    return "".join(body if body.endswith("\n") else body + "\n" for body in (*own, *sections))


def _pyproject(text: str, other: str) -> str:
    """Where sections do not tell (dotted keys, inline tables), the whole file is the other's."""
    mixed = _ini_sections(text, other)
    return mixed if _runner_tables(mixed) == _runner_tables(other) else other


def _runner_tables(text: str) -> dict[str, Any] | None:
    try:
        tool = tomllib.loads(text).get("tool", {})
    except tomllib.TOMLDecodeError:
        return None
    return {key: value for key, value in tool.items() if key in ("pytest", "tox", "nox", "coverage")}


_SECTION = re.compile(r"^\[+\s*([^\]\n]+?)\s*\]+\s*(?:[#;][^\n]*)?$", re.M)


def _sections(text: str) -> list[tuple[str, str]]:
    heads = list(_SECTION.finditer(text))
    starts = [0, *(head.start() for head in heads)]
    names = ["", *(head[1].replace('"', "").replace("'", "") for head in heads)]
    ends = [*starts[1:], len(text)]
    return [(name, text[a:b]) for name, a, b in zip(names, starts, ends, strict=True) if text[a:b]]


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

    def is_runners(self, path: str) -> bool:
        """Whether it says how tests are run: configuration or a proof script."""
        return path in self.scripts or bool(MIXED.search(path) or _CONFIG.search(path))


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


def exchanged(path: str, text: str, other: str, words: Collection[str] = ()) -> str:
    """`text` with the tests of `other` (the same file in another tree) in the place of its own; `words` are those of
    the proof commands."""
    exchange: Callable[[str, str], str] | None = None
    if MIXED.search(path):
        exchange = config_sections(path, words)
    elif path.endswith(".py"):
        exchange = doctests
    elif path.endswith(".rs"):
        exchange = rust_tests
    return exchange(text, other) if exchange else text
