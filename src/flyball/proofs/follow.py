"""Honest changes to tests: a test that moved or was renamed is followed by its content, and a base test is pointed at
the new name of what it tests. What cannot be told this way is asked.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec import Struct

_ASSERTION = re.compile(
    r"\b(?:assert|expect|should|refute)\w*|\bt\.(?:is|not|true|false|truthy|falsy|ok|same|equal|deepEqual|throws)\b|>>>"
)
_IMPORT = re.compile(r"import\b|from\b|#|//|(?:const|let|var)\b.*\brequire\b|use\b")
_LITERAL = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|\b\d+(?:\.\d+)?\b")
_CALLEE = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_NOT_TESTED = re.compile(r"(?:assert|expect|should|refute|require|test|it|describe|to[A-Z])\w*", re.I)


def followed(removed: Iterable[str], base: Mapping[str, str], run: Mapping[str, str]) -> frozenset[str]:
    """Those of the removed tests whose assertions all stand in the run's tests: `base` and `run` are the texts of
    the test files by path."""
    have = Counter(line for text in run.values() for line in _assertions(text))
    added = _literals(text for path, text in run.items() if base.get(path) != text)
    callees = {name for text in run.values() for name in _CALLEE.findall(text)}
    files: dict[str, bool] = {}
    for path, text in base.items():
        wanted = Counter(_assertions(text))
        missing = [line for line, count in wanted.items() if have[line] < count]
        files[path] = all(_parametrized(line, added, callees) for line in missing)
    return frozenset(test for test in removed if files.get(_file_of(test, base), False))


def _file_of(test: str, base: Mapping[str, str]) -> str:
    """The file of a test id: `file::name`, or `package.module.Class.test` of unittest."""
    if "::" in test:
        return test.partition("::")[0]
    named = (path for path in base if test.startswith(path.removesuffix(".py").replace("/", ".") + "."))
    return next(named, "")


def _assertions(text: str) -> list[str]:
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line.rstrip(";,") for line in lines if _ASSERTION.search(line) and not _IMPORT.match(line)]


def _literals(texts: Iterable[str]) -> list[str]:
    """The literals of each line, as one string, to look for rows of a table in."""
    return [" ".join(_LITERAL.findall(line)) for text in texts for line in text.splitlines()]


def _parametrized(line: str, rows: list[str], callees: set[str]) -> bool:
    """An assertion became a row of a table: its literals stand in one row, in order, and what it calls is still called."""
    literals = " ".join(_LITERAL.findall(line))
    called = {name for name in _CALLEE.findall(line) if not _NOT_TESTED.fullmatch(name)}
    return bool(literals) and called <= callees and any(literals in row for row in rows)


# ---- names that changed ----


class Renames(Struct, frozen=True):
    """Old name -> new name. A path or a dotted name is clear by itself; what a single word means depends on its place."""

    paths: dict[str, str] = {}
    modules: dict[str, str] = {}
    definitions: dict[str, str] = {}


def renames(base: Mapping[str, str], run: Mapping[str, str], moved: Mapping[str, str]) -> Renames:
    """The new names of modules (from moved files) and of functions and classes whose body stayed the same."""
    paths: dict[str, str] = {}
    modules: dict[str, str] = {}
    for old, new in moved.items():
        for before, after in _module_names(old, new):
            (paths if "." in before or "/" in before else modules)[before] = after
    before, after = _definitions(base), _definitions(run)
    fresh: dict[str, list[str]] = {}
    for name, body in after.items():
        if name not in before:
            fresh.setdefault(body, []).append(name)
    gone = {name: fresh.get(body, []) for name, body in before.items() if name not in after}
    return Renames(paths, modules, {name: names[0] for name, names in gone.items() if len(names) == 1})


def _module_names(old: str, new: str) -> Iterable[tuple[str, str]]:
    """`src/shop/price.py` moved to `src/shop/prices.py`: the dotted name, the path, and the last part."""
    stems = [path.rpartition(".")[0] or path for path in (old, new)]
    dotted = [stem.removeprefix("src/").removesuffix("/__init__").replace("/", ".") for stem in stems]
    last = [stem.rpartition("/")[2] for stem in stems]
    yield dotted[0], dotted[1]
    yield stems[0], stems[1]
    if last[0] != last[1]:
        yield last[0], last[1]


_JS = re.compile(r"\.[cm]?[jt]sx?$")
_JS_DEFINITION = re.compile(
    r"^(?:export\s+(?:default\s+)?)?"
    r"(?:(?:async\s+)?function\s*\*?\s*(\w+)|class\s+(\w+)|(?:const|let|var)\s+(\w+)\s*=\s*(?:async\s*)?(?:function\b|\(|\w+\s*=>))"
    r"(?:[^\n]*;$|[^\n]*\n(?:(?:[ \t][^\n]*)?\n)*[})\]][^\n]*$)",
    re.M,
)


def _definitions(texts: Mapping[str, str]) -> dict[str, str]:
    """Top-level functions and classes, and methods, and what they consist of besides their name."""
    bodies: dict[str, str] = {}
    for path, text in texts.items():
        for name, body in (
            _python(text) if path.endswith(".py") else _javascript(text) if _JS.search(path) else ()
        ):
            bodies[name] = re.sub(rf"\b{re.escape(name)}\b", "·", body)
    return bodies


def _python(text: str) -> Iterable[tuple[str, str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, ast.dump(node)
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                yield inner.name, ast.dump(inner)


def _javascript(text: str) -> Iterable[tuple[str, str]]:
    return ((match[1] or match[2] or match[3], match[0]) for match in _JS_DEFINITION.finditer(text))


def renamed(text: str, names: Renames) -> str:
    """The text with every old name in its new form."""
    return "".join(_renamed_line(line, names) for line in text.splitlines(keepends=True))


_STRING = re.compile(r"('(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`[^`\n]*`)")
_PYTHON_IMPORT = re.compile(r"(\s*(?:from\s+[\w.]+\s+import\b|import\b(?=\s+\w)))")
_WORD = r"(?<![\w-])(?:{})(?![\w-])"
_FILE = r"(?<=/)(?:{})(?=\.\w+['\"`]|['\"`])"  # the last part of a path in quotes
_OWNER = r"(?<![\w.-])(?:{})(?=\.[A-Za-z_])"  # a module before the name of what it holds


def _renamed_line(line: str, names: Renames) -> str:
    line = _replaced(line, names.paths, _WORD)
    head = _PYTHON_IMPORT.match(line)
    if head:
        rest = _replaced(line[head.end() :], names.modules, _WORD)
        if "from" in head[0]:
            rest = _replaced(rest, names.definitions, _WORD)
        return _replaced(head[0], names.modules, _WORD) + rest
    parts = _STRING.split(_replaced(_replaced(line, names.modules, _FILE), names.modules, _OWNER))
    parts[::2] = (_replaced(code, names.definitions, _WORD) for code in parts[::2])
    return "".join(parts)


def _replaced(text: str, names: Mapping[str, str], pattern: str) -> str:
    if not names:
        return text
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(pattern.replace("{}", words), lambda match: names[match.group()], text)
