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
from flyball.guard.verdict import Verdict

ROOTS = ("", "src/", "lib/", "test/", "tests/")  # what runners put on their path
RUNNERS = (
    *("unittest", "pytest", "_pytest", "pluggy", "iniconfig", "xdist", "pytest_cov", "coverage", "doctest"),
    *("nose", "nose2", "tox", "nox", "trial", "twisted", "hypothesis", "mock", "pip", "setuptools"),
)
STANDARD = (  # imported by Python and the runners themselves before any test
    *(
        "abc",
        "argparse",
        "ast",
        "asyncio",
        "atexit",
        "bdb",
        "builtins",
        "codecs",
        "collections",
        "contextlib",
    ),
    *("copy", "dataclasses", "difflib", "dis", "encodings", "enum", "fnmatch", "functools", "gc", "getopt"),
    *(
        "glob",
        "heapq",
        "importlib",
        "inspect",
        "io",
        "itertools",
        "keyword",
        "linecache",
        "locale",
        "numbers",
    ),
    *(
        "opcode",
        "operator",
        "os",
        "pathlib",
        "pdb",
        "pkgutil",
        "posixpath",
        "pprint",
        "re",
        "reprlib",
        "runpy",
    ),
    *("shlex", "shutil", "site", "sre_compile", "stat", "subprocess", "sys", "sysconfig", "tempfile"),
    *("textwrap", "threading", "tokenize", "traceback", "typing", "warnings", "weakref"),
)
SHADOWED = frozenset((*RUNNERS, *STANDARD))
ENDS = re.compile(r"\b_exit\s*\(|\bos\.abort\s*\(|\bkill\s*\(\s*(?:os\.)?getpid\b|\braise_signal\s*\(")
MAY_END = re.compile(r"\b(?:exit|quit|SystemExit)\b")
NEEDED = ("exit", "abort", "kill", "raise_signal", "quit", "SystemExit")  # one of these is in every match
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
