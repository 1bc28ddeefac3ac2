"""A source file with the place of everything in it, so that an edit replaces a few characters and nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

Span = tuple[int, int, str]  # from, to (in bytes), and the text that takes their place

Function = ast.FunctionDef | ast.AsyncFunctionDef
LOOSE = (
    ast.stmt,
    ast.Call,
    ast.keyword,
    ast.Slice,
    ast.Subscript,
    ast.List,
    ast.Tuple,
    ast.Dict,
    ast.comprehension,
    ast.ListComp,
    ast.SetComp,
    ast.GeneratorExp,
    ast.FormattedValue,
)


class Edit(NamedTuple):
    """One small change: what kind it is, where, and how likely it is to be the right one before any test has run."""

    file: str
    line: int
    kind: str
    spans: tuple[Span, ...]
    weight: float


class Source:
    def __init__(self, name: str, data: bytes) -> None:
        """Raises SyntaxError or UnicodeDecodeError for what is no Python in UTF-8."""
        self.name, self.data = name, data
        data.decode("utf-8")
        self.tree = ast.parse(data)
        self.starts = [0]
        for line in data.split(b"\n"):
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.parents = {child: node for node in ast.walk(self.tree) for child in ast.iter_child_nodes(node)}

    def span(self, node: ast.AST) -> tuple[int, int]:
        place = (
            node
            if isinstance(node, ast.expr | ast.stmt | ast.excepthandler | ast.arg | ast.keyword)
            else None
        )
        assert place is not None and place.end_lineno is not None and place.end_col_offset is not None
        return self.at(place.lineno, place.col_offset), self.at(place.end_lineno, place.end_col_offset)

    def at(self, line: int, column: int) -> int:
        return self.starts[line - 1] + column

    def text(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return self.data[start:end].decode("utf-8", "replace")

    def between(self, start: int, end: int) -> str:
        return self.data[start:end].decode("utf-8", "replace")

    def line_text(self, line: int) -> str:
        return self.between(self.starts[line - 1], self.starts[line] - 1).rstrip("\r")

    def indent(self, node: ast.stmt) -> str:
        return self.between(self.starts[node.lineno - 1], self.at(node.lineno, node.col_offset))

    def atom(self, node: ast.expr) -> str:
        """Its text, in parentheses where something next to it could tear it apart."""
        whole = isinstance(
            node, ast.Name | ast.Constant | ast.Call | ast.Attribute | ast.Subscript | ast.List | ast.Dict
        )
        return self.text(node) if whole else f"({self.text(node)})"

    def loose(self, node: ast.expr) -> bool:
        """Whether it is alone: no operator next to it binds tighter."""
        return isinstance(self.parents.get(node), LOOSE)

    def at_its_place(self, node: ast.expr) -> bool:
        """Older Pythons are wrong about places inside f-strings: believe only what reads back the same."""
        try:
            return ast.dump(ast.parse(self.text(node), mode="eval").body) == ast.dump(node)
        except (SyntaxError, ValueError):
            return False

    def enclosing(self, node: ast.AST, kinds: type[ast.AST] | tuple[type[ast.AST], ...]) -> ast.AST | None:
        above = self.parents.get(node)
        while above is not None and not isinstance(above, kinds):
            above = self.parents.get(above)
        return above


def statements(tree: ast.AST) -> Iterator[ast.stmt]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.stmt))


def own_expressions(statement: ast.stmt) -> Iterator[ast.expr]:
    """The expressions of a statement itself: not those of statements inside it, and no annotation or docstring."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    stack: list[ast.AST] = list(_children(statement))
    while stack:
        node = stack.pop()
        if isinstance(node, ast.expr):
            yield node
        stack += _children(node)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for name, value in ast.iter_fields(node):
        if name in (
            "annotation",
            "returns",
            "body",
            "orelse",
            "finalbody",
            "handlers",
            "cases",
        ) and isinstance(node, ast.stmt | ast.arg | ast.excepthandler):
            continue
        for child in value if isinstance(value, list) else [value]:  # pyright: ignore[reportUnknownVariableType]
            if isinstance(child, ast.AST) and not isinstance(child, ast.stmt):
                yield child
