"""Python's syntax tree, read once and walked fast: most of what a verdict on tests costs is spent here."""

import ast
import warnings
from functools import cache

_WORDS = frozenset({"id", "ctx", "attr", "kind", "type_comment"})
_LEAVES = (ast.Name, ast.Constant)


def parsed(text: str) -> ast.Module | None:
    """The tree of a text, or None if it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def walk(*roots: ast.AST, but: tuple[type[ast.AST], ...] = ()) -> list[ast.AST]:
    """The roots and every node below them, level by level, without the marks `Load` and `Store`.

    `but`: nodes of these kinds are found, and what is within them is not.
    """
    found = list(roots)
    for node in found:
        for name in () if isinstance(node, but) else _fields(type(node)):
            value: ast.AST | list[object] | str | None = getattr(node, name, None)
            if isinstance(value, ast.AST):
                found.append(value)
            elif value and isinstance(value, list):
                found += [item for item in value if isinstance(item, ast.AST)]
    return found


@cache
def _fields(kind: type[ast.AST]) -> tuple[str, ...]:
    """The fields of a node that may hold other nodes; a name or a constant has none."""
    return () if kind in _LEAVES else tuple(name for name in kind._fields if name not in _WORDS)
