"""The app rules that a machine can check."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SRC = ROOT / "src" / "flyball"
SOURCES = sorted(SRC.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# The rooms, lowest first: a room imports from itself and from those before it.
ORDER = (
    *("errors", "domain", "core", "reading", "views", "guard", "proofs"),  # pure
    *("state_dir", "machines", "config", "journal", "workspace", "agents", "runners"),
    *("authority", "evidence", "acts", "runtime", "system"),
    *("testing", "lab", "cli", "web"),
)
RANK = {name: rank for rank, name in enumerate(ORDER)}
PURE = ("domain", "core", "reading", "views", "guard", "proofs")
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


def room(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def imports(path: Path) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SRC)))
def test_imports_go_one_way(path: Path) -> None:
    here = room(path)
    if here in ("__init__", "__main__"):
        return
    assert here in RANK, f"{here} has no rank: say where it stands in tests/test_tidy.py"
    for name in imports(path):
        parts = name.split(".")
        if parts[0] != "flyball" or len(parts) < 2 or parts[1] not in RANK:
            continue
        assert RANK[parts[1]] <= RANK[here], f"{here} imports {name}, which stands above it"


@pytest.mark.parametrize(
    "path", [p for p in SOURCES if room(p) in PURE], ids=lambda p: str(p.relative_to(SRC))
)
def test_pure_rooms_do_no_input_or_output(path: Path) -> None:
    for name in imports(path):
        assert name.split(".")[0] in INERT, f"{path.name} imports {name}: this room does no I/O"
    calls = {
        n.func.id
        for n in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(n, ast.Call) and isinstance(n.func, ast.Name)
    }
    assert not calls & {"open", "print", "input", "exec", "eval"}


@pytest.mark.parametrize("path", sorted((SRC / "machines").glob("*.toml")), ids=lambda p: p.stem)
def test_a_machine_fits_a_screen(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 50


LONGER = {  # functions that are still over 40 lines, and by how much; no others may be
    **dict.fromkeys(("anthropic", "_openai_faults", "gemini"), 59),
    **dict.fromkeys(("_fault", "enclosed", "_spec"), 47),
}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SRC)))
def test_files_and_functions_stay_small(path: Path) -> None:
    text = path.read_text("utf-8")
    assert text.count("\n") <= 520, f"{path.name} is too long to read at a sitting"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            most = LONGER.get(node.name, 40)
            assert lines <= most, f"{path.name}:{node.lineno} {node.name} has {lines} lines"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(SRC)))
def test_every_module_says_its_law(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not text.strip() or ast.get_docstring(ast.parse(text)), f"{path.name} does not say what it is for"


@pytest.mark.parametrize("path", TESTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_no_mocks_and_no_hidden_skips(path: Path) -> None:
    if path.name == "test_tidy.py":
        return
    text = path.read_text("utf-8")
    assert not re.search(r"\bunittest\.mock\b|\bMagicMock\b|\bmonkeypatch\.setattr\b", text), (
        "fakes are shipped adapters, not mocks"
    )
    assert not re.search(r"pytest\.skip\(\s*\)|mark\.skip\b(?!if)(?!\(reason)", text), "a skip needs a reason"


def test_nothing_names_a_host_or_a_path_of_a_machine() -> None:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    assert "http://" not in lock and "https://" not in lock


def test_the_public_names_are_few() -> None:
    import flyball

    assert len(getattr(flyball, "__all__", [])) <= 25
