"""Changes that make a proof pass without running the tests.

The proof runs in a checkout of the tree. A file there with the name of a module that the test runner imports is
imported instead, and a process that exits with code 0 before the tests have run looks as if they passed.
"""

import ast
import re
from collections.abc import Iterable, Mapping, Sequence

from flyball.guard.change import Change
from flyball.guard.paths.folding import fold_path
from flyball.guard.python_syntax import parsed
from flyball.guard.test_files import is_near_test, language
from flyball.guard.verdict import Verdict
from flyball.guard.word_set import word_set

ROOTS = ("", "src/", "lib/", "test/", "tests/")  # what runners put on their path
SHADOWED = word_set(  # the runners, and what Python and they import before any test
    "unittest pytest _pytest pluggy iniconfig xdist pytest_cov coverage doctest nose nose2 tox nox trial twisted hypothesis mock"
    " pip setuptools packaging pygments exceptiongroup"
    " abc argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 calendar cmd code codecs codeop collections"
    " contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib dis email encodings enum fcntl fnmatch"
    " fractions functools gc genericpath getopt getpass gettext glob gzip hashlib heapq html importlib inspect io ipaddress"
    " itertools json keyword linecache locale logging lzma math ntpath numbers opcode operator os pathlib pdb pkgutil platform"
    " posixpath pprint pyexpat queue quopri random re readline reprlib runpy select selectors shlex shutil signal site socket"
    " sre_compile stat string struct subprocess sys sysconfig tempfile textwrap threading token tokenize traceback types typing"
    " unicodedata urllib uuid warnings weakref xml zipfile zipimport zlib zoneinfo"
)
ENDS = re.compile(r"\b_exit\s*\(|\bos\.abort\s*\(|\bkill\s*\(\s*(?:os\.)?getpid\b|\braise_signal\s*\(")
MAY_END = re.compile(r"\b(?:exit|quit|SystemExit)\b")
NEEDED = ("exit", "abort", "kill", "raise_signal", "quit", "SystemExit")  # one of these is in every match
EXITS = re.compile(r"^(?:globalThis\.)?process\.(?:exit|reallyExit|abort|kill)\s*\(", re.MULTILINE)
PROGRAM = re.compile(
    r"(?:^|/)(?:bin|scripts?|tools?)/|(?:^|/)(?:cli|main|index|server|app|build|gulpfile|[\w-]*\.config)\.\w+$"
)
ENDING = ("exit", "quit", "_exit")

Texts = Mapping[str, tuple[str | None, str | None]]


def judge_tricks(changes: Sequence[Change], files: Sequence[str], texts: Texts) -> Iterable[Verdict]:
    """`files` are the real paths of the changes, in their order."""
    for change, file in zip(changes, files, strict=True):
        if change.op == "delete":
            continue
        if change.op in ("add", "rename", "symlink") and _shadows(fold_path(file)):
            yield Verdict(
                "ask", "shadowed-module", f"{file} replaces a module that the test runner imports.", file
            )
        if file.endswith(".py"):
            yield from _early_end(file, change, texts.get(change.path, (None, None)))
        elif language(file) == "js" and _script_end(file, change, texts.get(change.path, (None, None))):
            yield Verdict("ask", "early-end", f"{file} ends the process as soon as it is loaded.", file)


def _shadows(folded: str) -> bool:
    for root in ROOTS:
        first, slash, rest = folded.removeprefix(root).partition("/")
        name = first.removesuffix(".py")
        if (
            folded.startswith(root)
            and name in SHADOWED
            and (rest == "__init__.py" if slash else first != name)
        ):
            return True
    return False


def _early_end(file: str, change: Change, text: tuple[str | None, str | None]) -> Iterable[Verdict]:
    old, new = text
    added = new if new is not None else "\n".join(change.added or ())
    if not any(word in added for word in NEEDED):
        return
    if len(ENDS.findall(added)) > len(ENDS.findall(old or "")):
        yield Verdict("ask", "early-end", f"{file} can end a test run early.", file)
    elif MAY_END.search(added) and _ends_at_import(added) and not _ends_at_import(old or ""):
        yield Verdict("ask", "early-end", f"{file} ends the process as soon as it is imported.", file)


def _script_end(file: str, change: Change, text: tuple[str | None, str | None]) -> bool:
    """A module that exits when it is loaded. Programs (`bin/`, `cli.js`, a `#!` line) may."""
    old, new = text
    added = new if new is not None else "\n".join(change.added or ())
    if added.startswith("#!") or PROGRAM.search(file) or is_near_test(file):
        return False
    return len(EXITS.findall(added)) > len(EXITS.findall(old or ""))


def _ends_at_import(text: str) -> bool:
    tree = parsed(text)
    return tree is not None and any(_ends(node) for node in _at_import(tree.body))


def _at_import(body: Sequence[ast.stmt]) -> Iterable[ast.stmt]:
    """Statements that run when the module is imported; not those under `if __name__ == "__main__"`."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_main(node):
            continue
        yield node
        for field in ("body", "orelse", "finalbody"):
            yield from _at_import(getattr(node, field, []))


def _is_main(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "__name__" in ast.dump(node.test)


def _ends(node: ast.stmt) -> bool:
    if isinstance(node, ast.Raise):
        return node.exc is not None and "SystemExit" in ast.dump(node.exc)
    called = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(called, ast.Call):
        return False
    name = called.func.attr if isinstance(called.func, ast.Attribute) else getattr(called.func, "id", "")
    return name in ENDING
