"""Small wrongs in a module's code: another comparison, the other branch, one more, nothing returned.

A site is one such wrong at one place. Messages, docstrings, annotations and assertions are left alone: only what
decides is made wrong.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


class Site(NamedTuple):
    """The `number`-th wrong of a module, and how it reads."""

    module: str
    number: int
    line: int
    was: str
    now: str


def sites(path: Path, module: str) -> list[Site]:
    tree = ast.parse(path.read_text("utf-8"))
    found: list[Site] = []
    for number, (node, wrong) in enumerate(_wrongs(tree)):
        was = ast.unparse(node)
        changed = copy.deepcopy(node)
        wrong(changed)
        found.append(Site(module, number, _line(node), _brief(was), _brief(ast.unparse(changed))))
    return found


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0) or getattr(getattr(node, "target", None), "lineno", 0)


def _brief(text: str) -> str:
    """The first line of a statement."""
    return text.splitlines()[0][:140]


def mutant(path: Path, number: int) -> ast.Module:
    """The whole module with that one wrong in it."""
    tree = ast.parse(path.read_text("utf-8"))
    for n, (node, wrong) in enumerate(_wrongs(tree)):
        if n == number:
            wrong(node)
            return ast.fix_missing_locations(tree)
    raise IndexError(number)


Wrong = Callable[[ast.AST], None]


def _wrongs(tree: ast.Module) -> Iterator[tuple[ast.AST, Wrong]]:
    """Every place and what can be made wrong there, in the same order each time."""
    for node in list(_deciding(tree)):
        match node:
            case ast.Compare():
                yield from ((node, _compare(n)) for n, op in enumerate(node.ops) if type(op) in COMPARED)
            case ast.BoolOp():
                yield node, _and_or
            case ast.BinOp() if type(node.op) in COUNTED and not _texts(node):
                yield node, _operator
            case ast.UnaryOp(op=ast.Not()):
                yield node, _not_not
            case ast.If() | ast.IfExp() | ast.While():
                yield node, _other_branch
            case ast.comprehension() if node.ifs:
                yield node, _other_filter
            case ast.Constant(value=bool()):
                yield node, _flip
            case ast.Constant(value=int()):
                yield node, _one_more
            case ast.Return(value=ast.expr()) if not _empty(node.value):
                yield node, _nothing
            case _:
                pass


def _deciding(node: ast.AST) -> Iterator[ast.AST]:
    """Everything but annotations, docstrings, assertions, what is raised and what is imported."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list") or (
            isinstance(node, ast.ClassDef) and name in ("bases", "keywords")
        ):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST) and not _silent(child):
                yield child
                yield from _deciding(child)


def _silent(node: ast.AST) -> bool:
    text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    return (
        text
        or typing
        or isinstance(node, ast.Assert | ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr)
    )


def _texts(node: ast.BinOp) -> bool:
    """Joined messages, and unions of types."""
    sides = (node.left, node.right)
    text = any(
        isinstance(s, ast.JoinedStr) or (isinstance(s, ast.Constant) and isinstance(s.value, str))
        for s in sides
    )
    types = isinstance(node.op, ast.BitOr) and all(
        isinstance(s, ast.Name | ast.Attribute | ast.BinOp | ast.Constant) for s in sides
    )
    return text or types


def _empty(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Constant) and not value.value


def _compare(n: int) -> Wrong:
    def wrong(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops[n] = COMPARED[type(node.ops[n])]()

    return wrong


def _and_or(node: ast.AST) -> None:
    assert isinstance(node, ast.BoolOp)
    node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()


def _operator(node: ast.AST) -> None:
    assert isinstance(node, ast.BinOp)
    node.op = COUNTED[type(node.op)]()


def _not_not(node: ast.AST) -> None:
    assert isinstance(node, ast.UnaryOp)
    node.op = ast.Not()
    node.operand = ast.UnaryOp(ast.Not(), node.operand)


def _other_branch(node: ast.AST) -> None:
    assert isinstance(node, ast.If | ast.While | ast.IfExp)
    node.test = ast.UnaryOp(ast.Not(), node.test)


def _other_filter(node: ast.AST) -> None:
    assert isinstance(node, ast.comprehension)
    node.ifs[0] = ast.UnaryOp(ast.Not(), node.ifs[0])


def _flip(node: ast.AST) -> None:
    assert isinstance(node, ast.Constant)
    node.value = not node.value


def _one_more(node: ast.AST) -> None:
    assert isinstance(node, ast.Constant) and isinstance(node.value, int)
    node.value += 1


def _nothing(node: ast.AST) -> None:
    assert isinstance(node, ast.Return)
    node.value = ast.Constant(None)
