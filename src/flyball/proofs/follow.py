"""Honest changes to tests: a test that moved or was renamed is followed by its content, and a base test is pointed at
the new name of what it tests. What cannot be told this way is asked.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Mapping

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


def renames(base: Mapping[str, str], run: Mapping[str, str], moved: Mapping[str, str]) -> dict[str, str]:
    """Old name -> new name of modules (from moved files) and of functions and classes whose body stayed the same."""
    names: dict[str, str] = {}
    for old, new in moved.items():
        names.update(_module_names(old, new))
    before, after = _definitions(base), _definitions(run)
    gone = {name: body for name, body in before.items() if name not in after}
    fresh: dict[str, list[str]] = {}
    for name, body in after.items():
        if name not in before:
            fresh.setdefault(body, []).append(name)
    for name, body in gone.items():
        if len(fresh.get(body, [])) == 1:
            names[name] = fresh[body][0]
    return names


def _module_names(old: str, new: str) -> dict[str, str]:
    """`src/shop/price.py` moved to `src/shop/prices.py`: the dotted name, the path, and the last part."""
    stems = [path.rpartition(".")[0] or path for path in (old, new)]
    dotted = [stem.removeprefix("src/").removesuffix("/__init__").replace("/", ".") for stem in stems]
    pairs = {dotted[0]: dotted[1], stems[0]: stems[1]}
    last = [stem.rpartition("/")[2] for stem in stems]
    if last[0] != last[1]:
        pairs[last[0]] = last[1]
    return pairs


def _definitions(texts: Mapping[str, str]) -> dict[str, str]:
    """Top-level functions and classes of Python files, and what they consist of besides their name."""
    bodies: dict[str, str] = {}
    for path, text in texts.items():
        if not path.endswith(".py"):
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError):
            continue
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                bodies[node.name] = re.sub(rf"\b{re.escape(node.name)}\b", "·", ast.dump(node))
    return bodies


def renamed(text: str, names: Mapping[str, str]) -> str:
    """The text with every old name, as a whole word or path, in its new form."""
    if not names:
        return text
    longest = sorted(names, key=len, reverse=True)
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest))})(?![\w-])")
    return pattern.sub(lambda match: names[match.group()], text)
