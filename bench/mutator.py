"""Makes one small bug in a Python file, chosen by a seed. It shares no code with mechanic and knows nothing of its edits.

Every kind of bug is equally likely, then every place for it. The file is written anew from its syntax tree.
"""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator

Deed = Callable[[], None]
Site = tuple[str, Deed]

COMPARE = [ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq]
ARITHMETIC = [ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod]
METHODS = [
    "lower",
    "upper",
    "strip",
    "lstrip",
    "rstrip",
    "append",
    "remove",
    "pop",
    "get",
    "keys",
    "items",
    "values",
]
METHODS += [
    "find",
    "index",
    "split",
    "join",
    "startswith",
    "endswith",
    "isdigit",
    "isalpha",
    "isalnum",
    "ljust",
    "rjust",
]
ERRORS = ["ValueError", "KeyError", "IndexError", "TypeError"]


def mutant(text: str, seed: int) -> tuple[str, str]:
    """The text with one bug, and the kind of bug."""
    rng = random.Random(seed)
    tree = ast.parse(text)
    sites = list(_sites(tree, rng))
    kinds = sorted({kind for kind, _ in sites})
    kind = rng.choice(kinds)
    rng.choice([deed for name, deed in sites if name == kind])()
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n", kind


def _sites(tree: ast.Module, rng: random.Random) -> Iterator[Site]:
    for node in ast.walk(tree):
        for kind in (_operators, _constants, _conditions, _calls, _statements, _names):
            yield from kind(node, tree, rng)


def _operators(node: ast.AST, tree: ast.Module, rng: random.Random) -> Iterator[Site]:
    if isinstance(node, ast.Compare):
        at = rng.randrange(len(node.ops))
        if isinstance(node.ops[at], tuple(COMPARE)):
            others = [kind for kind in COMPARE if not isinstance(node.ops[at], kind)]
            yield "comparison", _put_in(node.ops, at, rng.choice(others)())
        else:
            flipped = {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
            yield "comparison", _put_in(node.ops, at, flipped[type(node.ops[at])]())
    if isinstance(node, ast.BinOp | ast.AugAssign):
        others = [kind for kind in ARITHMETIC if not isinstance(node.op, kind)]
        name = "operator" if isinstance(node, ast.BinOp) else "assignment"
        yield name, _set(node, op=rng.choice(others)())
    if isinstance(node, ast.BoolOp):
        yield "and/or", _set(node, op=ast.Or() if isinstance(node.op, ast.And) else ast.And())
        yield "dropped condition", _delete(node.values, rng.randrange(len(node.values)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "sign", _set(node, op=ast.UAdd())


def _constants(node: ast.AST, tree: ast.Module, rng: random.Random) -> Iterator[Site]:
    if not isinstance(node, ast.Constant):
        return
    if isinstance(node.value, bool):
        yield "constant", _set(node, value=not node.value)
    elif isinstance(node.value, int | float):
        changed = rng.choice([node.value + 1, node.value - 1, node.value * 2 or 1, 0 if node.value else 1])
        yield "number", _set(node, value=changed)
    elif isinstance(node.value, str) and not any(
        node is getattr(_docstring(d), "value", None) for d in ast.walk(tree)
    ):
        yield (
            "text",
            _set(
                node,
                value=rng.choice([f"XX{node.value}", node.value[:-1], node.value + " ", node.value.upper()]),
            ),
        )


def _docstring(node: ast.AST) -> ast.AST | None:
    body = getattr(node, "body", None)
    return body[0] if isinstance(body, list) and body and isinstance(body[0], ast.Expr) else None


def _conditions(node: ast.AST, tree: ast.Module, rng: random.Random) -> Iterator[Site]:
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield "inverted condition", _set(node, test=ast.UnaryOp(ast.Not(), node.test))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "inverted condition", _set(node, op=ast.Not(), operand=ast.UnaryOp(ast.Not(), node.operand))
    if isinstance(node, ast.If):
        yield "constant condition", _set(node, test=ast.Constant(rng.random() < 0.5))
    if isinstance(node, ast.comprehension) and node.ifs:
        yield "dropped condition", _set(node, ifs=[])
    if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and isinstance(node.exc.func, ast.Name):
        others = [name for name in ERRORS if name != node.exc.func.id]
        yield "exception", _set(node.exc.func, id=rng.choice(others))


def _calls(node: ast.AST, tree: ast.Module, rng: random.Random) -> Iterator[Site]:
    if isinstance(node, ast.Call):
        if len(node.args) > 1:
            one, other = rng.sample(range(len(node.args)), 2)
            yield "swapped arguments", _swap(node.args, one, other)
            yield "dropped argument", _delete(node.args, rng.randrange(len(node.args)))
        if isinstance(node.func, ast.Name) and node.func.id in ("min", "max", "any", "all"):
            other_name = {"min": "max", "max": "min", "any": "all", "all": "any"}[node.func.id]
            yield "function", _set(node.func, id=other_name)
    if isinstance(node, ast.Attribute) and node.attr in METHODS:
        yield "method", _set(node, attr=rng.choice([name for name in METHODS if name != node.attr]))
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        bound = rng.choice(["lower", "upper"])
        old = getattr(node.slice, bound)
        new = (
            ast.BinOp(old, rng.choice([ast.Add, ast.Sub])(), ast.Constant(1))
            if old
            else ast.Constant(rng.choice([1, -1]))
        )
        yield "slice", _set(node.slice, **{bound: new})
    elif isinstance(node, ast.Subscript):
        yield (
            "index",
            _set(node, slice=ast.BinOp(node.slice, rng.choice([ast.Add, ast.Sub])(), ast.Constant(1))),
        )


def _statements(node: ast.AST, tree: ast.Module, rng: random.Random) -> Iterator[Site]:
    if isinstance(node, ast.Return) and node.value is not None:
        yield "return value", _set(node, value=ast.Constant(None))
    if isinstance(node, ast.Break):
        yield "jump", _become(node, ast.Continue)
    if isinstance(node, ast.Continue):
        yield "jump", _become(node, ast.Break)
    body = getattr(node, "body", None)
    if isinstance(node, ast.stmt) and isinstance(body, list):
        for at, inner in enumerate(body):
            if isinstance(inner, ast.Assign | ast.AugAssign) or (
                isinstance(inner, ast.Expr) and isinstance(inner.value, ast.Call)
            ):
                yield "deleted statement", _put_in(body, at, ast.Pass())
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield "missing return", _put_in(body, at, ast.Expr(inner.value))
    if isinstance(node, ast.AugAssign):
        target = copy.deepcopy(node.target)
        yield "assignment", _become(node, ast.Assign, targets=[target], value=node.value)


def _names(node: ast.AST, tree: ast.Module, rng: random.Random) -> Iterator[Site]:
    if not isinstance(node, ast.FunctionDef):
        return
    names = sorted({arg.arg for arg in node.args.args} | {n.id for n in ast.walk(node) if _stored(n)} - {"_"})
    for inner in ast.walk(node):
        if (
            isinstance(inner, ast.Name)
            and isinstance(inner.ctx, ast.Load)
            and inner.id in names
            and len(names) > 1
        ):
            yield "name", _set(inner, id=rng.choice([name for name in names if name != inner.id]))
    for at, default in enumerate(node.args.defaults):
        if isinstance(default, ast.Constant) and isinstance(default.value, int):
            yield (
                "default",
                _put_in(node.args.defaults, at, ast.Constant(default.value + rng.choice([1, -1]))),
            )


def _stored(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)


# ---- deeds


def _set(node: ast.AST, **fields: object) -> Deed:
    return lambda: vars(node).update(fields)


def _become(node: ast.AST, kind: type[ast.AST], **fields: object) -> Deed:
    def deed() -> None:
        node.__class__ = kind
        vars(node).update(fields)

    return deed


def _put_in(items: list, at: int, value: ast.AST) -> Deed:
    return lambda: items.__setitem__(at, value)


def _swap(items: list, one: int, other: int) -> Deed:
    def deed() -> None:
        items[one], items[other] = items[other], items[one]

    return deed


def _delete(items: list, at: int) -> Deed:
    return lambda: items.pop(at)
