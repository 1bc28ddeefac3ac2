"""Python tests, from the syntax tree: what each test asserts, and what keeps it from failing."""

import ast
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from itertools import chain

import msgspec

from flyball.guard.assertions import called, names_in, strength
from flyball.guard.python_syntax import parsed, walk

Function = ast.FunctionDef | ast.AsyncFunctionDef
Within = Mapping[Function, Sequence[ast.AST]]
"""The nodes of each function, itself the first."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)

INNER = (*FUNCTIONS, ast.Lambda, ast.ClassDef)
"""What has a body of its own: it runs when it is called, if ever."""

SKIPS = frozenset({"skip", "xfail", "expectedFailure", "SkipTest"})
CONDITIONS = frozenset({"skipif", "skipIf", "skipUnless", "importorskip"})
FLAKES = frozenset({"flaky", "rerun", "reruns"})
TOLERANCES = frozenset(
    {
        "abs",
        "rel",
        "delta",
        "atol",
        "rtol",
        "rel_tol",
        "abs_tol",
        "tolerance",
        "tol",
        "decimal",
        "places",
        "epsilon",
    }
)


REPEATS_MOST = 50


class Test(msgspec.Struct, frozen=True):
    """One test, as it matters here. `dodges` are the ways in which it avoids failing."""

    name: str
    line: int
    worths: tuple[int, ...]
    rows: int
    dodges: frozenset[str]
    calls: frozenset[str]
    is_open: bool = False
    """How often it runs is decided by a table that cannot be read here."""
    bounds: tuple[tuple[str, str, Decimal], ...] = ()
    """Number asserted against: the assertion without it, the direction, the number."""

    @property
    def weight(self) -> int:
        return sum(self.worths) * max(1, self.rows)


_ASSERTING = frozenset({ast.Assert, ast.Call})
_TELLING = frozenset({ast.Assign, ast.Call, *FUNCTIONS})


class Module(msgspec.Struct, frozen=True):
    tests: dict[str, Test]
    dodges: dict[str, int]
    """Ways in which the whole file avoids failing, with the line."""


@lru_cache(maxsize=64)
def read(text: str) -> Module | None:
    """The tests of a file; None if it is not Python.

    Each turn starts from the text that the last one left, so recent results are cached.
    """
    tree = parsed(text)
    if tree is None:
        return None
    outside = walk(tree, but=FUNCTIONS)
    within = {node: walk(node) for node in outside if isinstance(node, FUNCTIONS)}
    helpers, tables = _helpers(tree, within), _tables(tree)
    tests: dict[str, Test] = {}
    for owner, function in _functions(tree.body, ""):
        if function.name.startswith("test"):
            name = f"{owner}{function.name}"
            tests[name] = _test(name, function, within[function], helpers, tables)
    telling = [node for node in chain(outside, *within.values()) if type(node) in _TELLING]
    return Module(tests, dict(_module_dodges(tree, telling)))


def _functions(body: Sequence[ast.stmt], owner: str) -> Iterable[tuple[str, Function]]:
    for node in body:
        if isinstance(node, FUNCTIONS):
            yield owner, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{owner}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _functions(node.body, owner)


def _helpers(tree: ast.Module, within: Within) -> dict[str, int]:
    """Functions that assert for a test, with what one call of them is worth."""
    helpers: dict[str, int] = {}
    for _, function in _functions(tree.body, ""):
        if not function.name.startswith("test"):
            asserting = [node for node in within[function] if type(node) in _ASSERTING]
            worth = sum(w for node in asserting if (w := strength(node)) is not None)
            if worth or function.name.startswith(("assert", "check", "verify", "expect")):
                helpers[function.name] = worth
    return helpers


def _tables(tree: ast.Module) -> dict[str, int]:
    """Lists written at the top of the file, with their lengths."""
    return {
        name: len(value.elts)
        for node in tree.body
        for name, value in _assigned(node)
        if isinstance(value, ast.List | ast.Tuple | ast.Set)
    }


def _test(
    name: str, function: Function, nodes: Sequence[ast.AST], helpers: dict[str, int], tables: dict[str, int]
) -> Test:
    worths: list[int] = []
    calls: set[str] = set()
    times = _repeats(nodes, tables)
    for node in nodes:
        if isinstance(node, ast.Call):
            calls.add(called(node))
            if called(node) in helpers:
                worths += [helpers[called(node)]] * times.get(node, 1)
                continue
        worth = strength(node)
        if worth is not None:
            worths += [worth] * times.get(node, 1)
    rows, is_open = _rows(function.decorator_list, tables)
    return Test(
        name=name,
        line=function.lineno,
        worths=tuple(worths),
        rows=rows,
        is_open=is_open,
        dodges=frozenset(_dodges(function)),
        calls=frozenset(calls),
        bounds=tuple(_bounds(nodes)),
    )


def _repeats(nodes: Sequence[ast.AST], tables: dict[str, int]) -> dict[ast.AST, int]:
    """How often a node runs that stands in a loop over a written table."""
    times: dict[ast.AST, int] = {}
    for loop in nodes:
        count = _length(loop.iter, tables) if isinstance(loop, ast.For) else None
        for node in walk(*loop.body) if isinstance(loop, ast.For) and count is not None else ():
            times[node] = min(times.get(node, 1) * (count or 0), REPEATS_MOST)
    return times


def _rows(decorators: Sequence[ast.expr], tables: dict[str, int]) -> tuple[int, bool]:
    """How often a parametrised test runs, and whether part of that cannot be read."""
    rows, is_open = 1, False
    for node in decorators:
        if isinstance(node, ast.Call) and called(node) in ("parametrize", "expand", "data") and node.args:
            count = _length(node.args[-1] if called(node) != "parametrize" else node.args[1:2], tables)
            rows, is_open = rows * max(1, count or 1), is_open or count is None
    return rows, is_open


def _length(table: ast.expr | list[ast.expr], tables: dict[str, int]) -> int | None:
    node = table[0] if isinstance(table, list) and table else table
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        return len(node.elts)
    return tables.get(node.id) if isinstance(node, ast.Name) else None


def _dodges(function: Function) -> Iterable[str]:
    for node in function.decorator_list:
        yield from _marked(node)
    body = [n for n in function.body if not _is_docstring(n)]
    if all(isinstance(node, ast.Pass) or _is_ellipsis(node) for node in body):
        yield "empty"
    for node in walk(*function.body, but=INNER):
        if isinstance(node, ast.Try) and _swallows(node):
            yield "swallowed"
        if isinstance(node, ast.Call) and called(node) in ("skip", "xfail", "skipTest", "importorskip"):
            yield "skipped"
        if isinstance(node, ast.With | ast.AsyncWith) and _suppresses(node):
            yield "swallowed"
        if isinstance(node, ast.If | ast.While) and _guards_assertions(node):
            yield "conditional"
        if isinstance(node, ast.Raise) and node.exc is not None and "SkipTest" in ast.dump(node.exc):
            yield "skipped"
    if any(isinstance(node, ast.Return) and node.value is None for node in function.body):
        yield "returns early"


def _marked(node: ast.expr) -> Iterable[str]:
    names = names_in(node)
    if names & SKIPS or (names & CONDITIONS and _is_always(node)):
        yield "skipped"
    elif names & CONDITIONS:
        yield "skipped conditionally"
    if names & FLAKES:
        yield "retried until it passes"


def _is_always(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and bool(node.args) and isinstance(node.args[0], ast.Constant)


def _swallows(node: ast.Try) -> bool:
    if not any(strength(n) is not None or isinstance(n, ast.Call) for part in node.body for n in walk(part)):
        return False
    return any(
        _is_broad(h) and not any(isinstance(n, ast.Raise | ast.Assert) or _fails(n) for n in walk(h))
        for h in node.handlers
    )


def _is_broad(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    names = {n.id for n in walk(handler.type) if isinstance(n, ast.Name)}
    return bool(names & {"Exception", "BaseException", "AssertionError"})


def _fails(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and called(node) == "fail"


def _suppresses(node: ast.With | ast.AsyncWith) -> bool:
    calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
    broad = [c for c in calls if called(c) == "suppress" and any(_is_broad_name(a) for a in c.args)]
    return bool(broad)


def _is_broad_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("Exception", "BaseException", "AssertionError")


def _guards_assertions(node: ast.If | ast.While) -> bool:
    """A constant or the environment decides whether the assertions run."""
    text = ast.dump(node.test)
    decides = (
        isinstance(node.test, ast.Constant) or "environ" in text or "getenv" in text or "'platform'" in text
    )
    return decides and any(strength(n) is not None for part in node.body for n in walk(part))


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _is_ellipsis(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and node.value.value is ...


def _bounds(nodes: Iterable[ast.AST]) -> Iterable[tuple[str, str, Decimal]]:
    for node in nodes:
        if isinstance(node, ast.Assert):
            yield from bounds_of(node)


def bounds_of(node: ast.Assert) -> Iterable[tuple[str, str, Decimal]]:
    """Numbers in an assertion that could be loosened: (the rest of it, `up` or `down`, the number)."""
    for part in walk(node):
        if isinstance(part, ast.Compare) and len(part.ops) == 1:
            number = number_of(part.comparators[0])
            side = _direction(part.ops[0])
            if number is not None and side:
                yield f"{ast.dump(part.left)}{side}", side, number
        if isinstance(part, ast.Call):
            for keyword in part.keywords:
                number = number_of(keyword.value)
                if keyword.arg in TOLERANCES and number is not None:
                    side = "down" if keyword.arg in ("places", "decimal") else "up"
                    yield f"{called(part)}.{keyword.arg}", side, number
                    yield f"{_compares(part)}.{keyword.arg}", side, number
            yield from _usual(part)


_USUAL = {
    "approx": {"rel": "0.000001", "abs": "0.000001"},
    "isclose": {"rel_tol": "0.000000001", "abs_tol": "0", "rel": "0.000000001"},
    "allclose": {"rtol": "0.00001", "atol": "0.00000001"},
    "assert_allclose": {"rtol": "0.0000001", "atol": "0"},
    "assertAlmostEqual": {"places": "7", "delta": "0.0000001"},
}
"""The default tolerances of comparisons."""


def _usual(node: ast.Call) -> Iterable[tuple[str, str, Decimal]]:
    """The tolerances of a comparison that names none."""
    if not any(keyword.arg in TOLERANCES for keyword in node.keywords):
        for name, number in _USUAL.get(called(node), {}).items():
            yield f"{_compares(node)}.{name}", "down" if name == "places" else "up", Decimal(number)


def _compares(node: ast.Call) -> str:
    return called(node) + "".join(ast.dump(arg) for arg in node.args)


def _direction(op: ast.cmpop) -> str:
    """Which way the number moves when the assertion is loosened."""
    if isinstance(op, ast.Lt | ast.LtE):
        return "up"
    return "down" if isinstance(op, ast.Gt | ast.GtE) else ""


def number_of(node: ast.expr) -> Decimal | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = number_of(node.operand)
        return None if inner is None else -inner
    if (
        isinstance(node, ast.Constant)
        and isinstance(node.value, int | float)
        and not isinstance(node.value, bool)
    ):
        return Decimal(repr(node.value))
    return None


def _module_dodges(tree: ast.Module, nodes: Iterable[ast.AST]) -> Iterable[tuple[str, int]]:
    yield from _overwritten(tree)
    for node in tree.body:
        if _is_call(node, "skip", "importorskip", "exit"):
            yield "the whole file is skipped", node.lineno
        for name, value in _assigned(node):
            if name == "pytestmark" and any(True for _ in _marked(value)):
                yield "the whole file is skipped", node.lineno
            if name == "__test__" and isinstance(value, ast.Constant) and not value.value:
                yield "the tests are hidden from the runner", node.lineno
            if name.startswith("test") and isinstance(value, ast.Constant | ast.Lambda):
                yield f"{name} is overwritten", node.lineno
            if name in ("collect_ignore", "collect_ignore_glob"):
                yield "files are hidden from the runner", node.lineno
        if isinstance(node, ast.ClassDef):
            yield from _class_dodges(node)
        if isinstance(node, ast.Delete) and any("test" in ast.dump(target) for target in node.targets):
            yield "a test is deleted at run time", node.lineno
    if any(True for _ in _tampering(nodes)):
        yield from _tampering(walk(tree))  # again, level by level, so that the deepest comes last


def _overwritten(tree: ast.Module) -> Iterable[tuple[str, int]]:
    """A test whose name is later assigned to something else: it never runs."""
    tests: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            bound = {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
            taken = tests if "*" in bound else tests & bound
        else:
            taken = tests & {name for name, _ in _assigned(node)}
        for name in sorted(taken):
            yield f"{name} is overwritten", node.lineno
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and node.name.lower().startswith("test"):
            tests.add(node.name)


def _is_call(node: ast.stmt, *names: str) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and called(node.value) in names


def _class_dodges(node: ast.ClassDef) -> Iterable[tuple[str, int]]:
    if any(True for decorator in node.decorator_list for _ in _marked(decorator)):
        yield f"{node.name} is skipped", node.lineno
    for inner in node.body:
        for name, value in _assigned(inner):
            if (name == "pytestmark" and any(True for _ in _marked(value))) or name == "__test__":
                yield f"{node.name} is skipped", inner.lineno


def _assigned(node: ast.stmt) -> Iterable[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            if isinstance(target, ast.Attribute) and target.attr.startswith(("assert", "test")):
                yield target.attr, node.value


def _tampering(nodes: Iterable[ast.AST]) -> Iterable[tuple[str, int]]:
    """The assertion itself is replaced."""
    for node in nodes:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                replaced = isinstance(target, ast.Attribute) and target.attr.startswith("assert")
                if replaced or (isinstance(target, ast.Name) and target.id == "AssertionError"):
                    yield "an assertion is replaced", node.lineno
        if isinstance(node, ast.Call) and called(node) == "setattr" and _names_assertion(node):
            yield "an assertion is replaced", node.lineno
        if isinstance(node, FUNCTIONS) and node.name.startswith(("assert_", "check_", "verify_", "expect_")):
            body = [n for n in node.body if not _is_docstring(n)]
            if all(isinstance(n, ast.Pass | ast.Return) or _is_ellipsis(n) for n in body):
                yield f"{node.name} asserts nothing", node.lineno


def _names_assertion(node: ast.Call) -> bool:
    return any(isinstance(a, ast.Constant) and str(a.value).startswith("assert") for a in node.args)
