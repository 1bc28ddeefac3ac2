"""The rules of the code base that a test can check."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "flyball"
SOURCES = sorted(SRC.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# The packages, lowest first: a package imports from itself and from those before it.
ORDER = (
    *("errors", "domain", "state", "core", "reading", "views", "guard", "proofs"),  # pure
    *("state_dir", "machines", "config", "journal", "workspace", "forge", "agents", "runners"),
    *("authority", "evidence", "acts", "runtime", "system"),
    *("testing", "lab", "web", "cli"),
)
RANK = {name: rank for rank, name in enumerate(ORDER)}
PURE = ("domain", "state", "core", "reading", "views", "guard", "proofs")
INERT = {
    *(
        "__future__",
        "ast",
        "bisect",
        "collections",
        "dataclasses",
        "datetime",
        "decimal",
        "difflib",
        "enum",
        "fnmatch",
    ),
    *(
        "functools",
        "hashlib",
        "html",
        "importlib",
        "pkgutil",
        "itertools",
        "json",
        "math",
        "operator",
        "posixpath",
        "re",
        "shlex",
    ),
    *("string", "textwrap", "tomllib", "typing", "unicodedata", "urllib", "zoneinfo", "msgspec", "flyball"),
    *(
        "tree_sitter",
        "tree_sitter_bash",
        "configparser",
        "base64",
        "binascii",
        "graphlib",
        "calendar",
        "copy",
        "codecs",
        "contextlib",
        "xml",
        "warnings",
    ),
}


def package(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def test_every_source_file_keeps_the_rules() -> None:
    """Imports go one way, pure packages do no I/O, files and functions stay small, modules say what they are for."""
    wrong = [f"{path.relative_to(SRC)}: {sentence}" for path in SOURCES for sentence in faults(path)]
    assert not wrong, "\n".join(wrong)


def faults(path: Path) -> Iterator[str]:
    text = path.read_text("utf-8")
    tree = ast.parse(text)
    nodes = list(ast.walk(tree))
    if text.count("\n") > 650:
        yield "it has more than 650 lines"
    if tree.body and not ast.get_docstring(tree):
        yield "it has no module docstring"
    yield from long_functions(nodes)
    yield from wrong_imports(package(path), imports(nodes))
    if package(path) in PURE:
        yield from effects(nodes)


def imports(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def wrong_imports(here: str, names: Iterable[str]) -> Iterator[str]:
    if here in ("__init__", "__main__"):
        return
    if here not in RANK:
        yield f"{here} has no rank: add it to ORDER in tests/test_tidy.py"
    for name in names:
        if name.startswith("flyball.") and RANK.get(name.split(".")[1], 0) > RANK.get(here, 0):
            yield f"it imports {name}, which is above it in ORDER"
        if here in PURE and name.split(".")[0] not in INERT:
            yield f"it imports {name}: this package does no I/O"


def effects(nodes: list[ast.AST]) -> Iterator[str]:
    calls = {n.func.id for n in nodes if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)}
    for name in calls & {"open", "print", "input", "exec", "eval"}:
        yield f"it calls {name}: this package does no I/O"


def long_functions(nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > 40:
                yield f"line {node.lineno}: {node.name} has {lines} lines"


def test_a_machine_fits_a_screen() -> None:
    lines = {
        path.name: len(path.read_text("utf-8").splitlines()) for path in (SRC / "machines").glob("*.toml")
    }
    assert len(lines) == 5 and max(lines.values()) <= 50, lines


def test_no_mocks_and_no_hidden_skips() -> None:
    mocks = re.compile(r"\bunittest\.mock\b|\bMagicMock\b|\bmonkeypatch\.setattr\b")
    skips = re.compile(r"pytest\.skip\(\s*\)|mark\.skip\b(?!if)(?!\(reason)")
    texts = {str(path): path.read_text("utf-8") for path in TESTS if path.name != "test_tidy.py"}
    assert not [name for name, text in texts.items() if mocks.search(text)], "fakes are shipped adapters"
    assert not [name for name, text in texts.items() if skips.search(text)], "a skip needs a reason"


def test_nothing_names_a_host_or_a_path_of_a_machine() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    assert "http://" not in lock and "https://" not in lock


def test_the_public_names_are_few() -> None:
    import flyball

    assert len(getattr(flyball, "__all__", [])) <= 25
