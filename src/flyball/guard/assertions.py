"""How strong an assertion is: 3 an exact value, 2 a bound or a type, 1 that there is something, 0 nothing.

Read line by line: a line of Python from its syntax tree, other languages by patterns.
"""

import ast
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal

from flyball.guard import word_set
from flyball.guard.weakening_patterns import (
    COMMENT,
    EMPTY_LINE,
    MIDDLE_LINE,
    NOT_EXACT,
    STRONG_LINE,
    WEAK_LINE,
    Language,
)
from flyball.reading.terminal import Lazy

STRONG, MIDDLE, WEAK, EMPTY = 3, 2, 1, 0

_STRONG = (
    "assertEqual assertEquals assertDictEqual assertListEqual assertSetEqual assertTupleEqual assertCountEqual"
    " assertMultiLineEqual assertSequenceEqual assertIs assertIsNone assertRaisesRegex assertJSONEqual assertXMLEqual"
    " assertHTMLEqual assertQuerysetEqual assert_equal assert_array_equal assert_frame_equal assert_series_equal"
    " assert_called_once_with assert_called_with assert_has_calls assert_not_called assert_any_call assert_awaited_once_with"
)
_MIDDLE = (
    "assertIn assertNotIn assertAlmostEqual assertGreater assertLess assertGreaterEqual assertLessEqual assertRaises"
    " assertRegex assertNotRegex assertNotEqual assertIsInstance assertWarns assertLogs assertNoLogs assertContains"
    " assertRedirects assertNumQueries assert_allclose assert_almost_equal assert_called_once assert_awaited_once"
)
_WEAK = "assertTrue assertFalse assertIsNotNone assertIsNot assert_called assert_awaited assert_"
_METHODS = {
    name: worth
    for names, worth in ((_STRONG, STRONG), (_MIDDLE, MIDDLE), (_WEAK, WEAK))
    for name in names.split()
}
_ASSERTING_NAME = re.compile(r"_?(?:assert|expect|verify|check)(?:_|[A-Z])")


def line_strength(line: str, tongue: Language) -> int | None:
    """What an assertion on this line is worth; None if there is none."""
    if COMMENT.match(line):
        return None
    if tongue == "python":
        return _python_line(line)
    if not WEAK_LINE.search(line) and not MIDDLE_LINE.search(line):
        return None
    if EMPTY_LINE.search(line):
        return EMPTY
    if STRONG_LINE.search(line) and not NOT_EXACT.search(line):
        return STRONG
    return MIDDLE if MIDDLE_LINE.search(line) or (".not." in line and "toBeNull" not in line) else WEAK


# --- Python

_MAY_ASSERT = re.compile(r"assert|raises|warns|fail|expect|verify|check")


LINE_MOST = 2_000
"""A longer line is not parsed."""


def _python_line(line: str) -> int | None:
    if not _MAY_ASSERT.search(line):
        return None
    text = line.strip()
    if len(text) > LINE_MOST:
        return _python_words(text)
    endings = (text, text.rstrip(":,\\") + ": pass", text + ")", text.rstrip("([{,\\ "))
    tree = next((tree for ending in endings if (tree := parsed(ending))), None)
    if tree is None:
        return _python_words(text)
    return max((worth for node in ast.walk(tree) if (worth := _strength(node)) is not None), default=None)


def parsed(text: str) -> ast.Module | None:
    """The tree of a text, or None if it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _python_words(text: str) -> int | None:
    if re.match(r"assert\b", text):
        return STRONG if "==" in text else MIDDLE if re.search(r" in |<|>|!=", text) else WEAK
    match = re.search(r"\b(assert\w+)\(", text)
    return _METHODS.get(match.group(1), MIDDLE) if match else None


def _strength(node: ast.AST) -> int | None:
    if isinstance(node, ast.Assert):
        return _of_test(node.test)
    return _of_call(node) if isinstance(node, ast.Call) else None


def _of_test(test: ast.expr) -> int:
    """What `assert test` is worth."""
    if isinstance(test, ast.BoolOp):
        worths = [_of_test(value) for value in test.values]
        if isinstance(test.op, ast.And):
            return max(worths)
        return EMPTY if any(_is_constant(v) for v in test.values) else min(MIDDLE, *worths)
    if _is_constant(test):
        return EMPTY
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return MIDDLE if isinstance(test.operand, ast.Call) else WEAK
    if isinstance(test, ast.Compare):
        return _of_compare(test)
    if isinstance(test, ast.Call):
        name = called(test)
        if name == "isinstance" and len(test.args) == 2 and _mentions(test.args[1], "object"):
            return EMPTY
        return MIDDLE if name in ("isinstance", "all", "issubclass", "isclose", "allclose") else WEAK
    return WEAK


def _is_constant(node: ast.expr) -> bool:
    """A value known without running anything: `True`, `1 == 1`, a tuple that is not empty."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.Tuple | ast.List | ast.Dict | ast.Set | ast.Lambda | ast.JoinedStr):
        return not isinstance(node, ast.Tuple | ast.List) or bool(node.elts)
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        same = len({ast.dump(side) for side in sides}) == 1
        return same or all(isinstance(side, ast.Constant) for side in sides)
    return isinstance(node, ast.UnaryOp) and _is_constant(node.operand)


def _of_compare(test: ast.Compare) -> int:
    op, right = test.ops[0], test.comparators[-1]
    if isinstance(op, ast.Eq):
        return MIDDLE if _mentions(test, "approx", "ANY", "anything") else STRONG
    if isinstance(op, ast.Is):
        return STRONG
    if isinstance(op, ast.IsNot):
        return WEAK
    at_least_none = isinstance(op, ast.GtE) and isinstance(right, ast.Constant) and right.value == 0
    return EMPTY if at_least_none and _mentions(test.left, "len") else MIDDLE


def _mentions(node: ast.AST, *names: str) -> bool:
    return any(
        (isinstance(n, ast.Name) and n.id in names) or (isinstance(n, ast.Attribute) and n.attr in names)
        for n in ast.walk(node)
    )


def _of_call(node: ast.Call) -> int | None:
    name = called(node)
    if name in ("raises", "warns", "assertRaises", "assertRaisesRegex"):
        broad = bool(node.args) and _mentions(node.args[0], "Exception", "BaseException")
        exact = any(keyword.arg == "match" for keyword in node.keywords) or len(node.args) > 1
        return WEAK if broad and not exact else STRONG if exact else MIDDLE
    if name in ("fail", "assert_never"):
        return WEAK
    if name in ("assertTrue", "assertFalse", "assert_") and node.args:
        return _of_test(node.args[0])
    same = len(node.args) >= 2 and ast.dump(node.args[0]) == ast.dump(node.args[1])
    if name in ("assertEqual", "assertEquals") and same:
        return EMPTY
    return _METHODS.get(name, MIDDLE if _ASSERTING_NAME.match(name) else None)


def called(node: ast.Call) -> str:
    """The last name of what is called: `check` for `self.helper.check(…)`."""
    function = node.func
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


# --- numbers that an assertion compares with

Bound = tuple[str, str, Decimal]
"""The assertion without its number, `up` or `down` (where the number goes when it is loosened), the number."""

_TOLERANCES = word_set("abs rel delta atol rtol rel_tol abs_tol tolerance tol decimal places epsilon")
_DEFAULTS = {
    "approx": {"rel": "0.000001", "abs": "0.000001"},
    "isclose": {"rel_tol": "0.000000001", "abs_tol": "0", "rel": "0.000000001"},
    "allclose": {"rtol": "0.00001", "atol": "0.00000001"},
    "assert_allclose": {"rtol": "0.0000001", "atol": "0"},
    "assertAlmostEqual": {"places": "7", "delta": "0.0000001"},
}
"""The tolerances of comparisons that name none."""


def _bounds(lines: Sequence[str]) -> Iterator[Bound]:
    """The numbers in the assertions of these lines of Python."""
    for line in lines:
        text = line.strip()
        tree = parsed(text if text.startswith("assert") else f"assert {text.rstrip(':,')}")
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Compare) and len(node.ops) == 1:
                yield from _compared(node)
            elif isinstance(node, ast.Call):
                yield from _tolerated(node)


def _compared(node: ast.Compare) -> Iterable[Bound]:
    number, op = _number(node.comparators[0]), node.ops[0]
    side = "up" if isinstance(op, ast.Lt | ast.LtE) else "down" if isinstance(op, ast.Gt | ast.GtE) else ""
    if number is not None and side:
        yield f"{ast.dump(node.left)}{side}", side, number


def _tolerated(node: ast.Call) -> Iterable[Bound]:
    compared = called(node) + "".join(ast.dump(arg) for arg in node.args)
    given = {keyword.arg: _number(keyword.value) for keyword in node.keywords if keyword.arg in _TOLERANCES}
    usual = {name: Decimal(number) for name, number in _DEFAULTS.get(called(node), {}).items()}
    for name, number in (given or usual).items():
        if number is not None:
            side = "down" if name in ("places", "decimal") else "up"
            yield f"{compared}.{name}", side, number
            if given:
                yield f"{called(node)}.{name}", side, number


def _number(node: ast.expr) -> Decimal | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _number(node.operand)
        return None if inner is None else -inner
    value = node.value if isinstance(node, ast.Constant) else None
    return Decimal(repr(value)) if isinstance(value, int | float) and not isinstance(value, bool) else None


def table_lengths(lines: Sequence[str]) -> dict[str, int]:
    """`@pytest.mark.parametrize("x", [1, 2])` on one line: how many rows it has, by its names."""
    lengths: dict[str, int] = {}
    for line in lines:
        tree = parsed(line.strip().removeprefix("@")) if "parametrize" in line else None
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Call) and called(node) == "parametrize" and len(node.args) > 1:
                rows = node.args[1]
                if isinstance(rows, ast.List | ast.Tuple | ast.Set):
                    lengths[ast.dump(node.args[0])] = len(rows.elts)
    return lengths


# --- assertions that accept more than before


def accepts_more(removed: Sequence[str], added: Sequence[str], tongue: Language) -> bool:
    """Was a number moved so that an assertion passes more easily?"""
    return _wider(removed, added) if tongue == "python" else _looser_numbers(removed, added, tongue)


def _wider(removed: Sequence[str], added: Sequence[str]) -> bool:
    old: dict[str, list[Decimal]] = {}
    for key, _, number in _bounds(removed):
        old.setdefault(key, []).append(number)
    return bool(old) and any(
        number > max(old[key]) if side == "up" else number < min(old[key])
        for key, side, number in _bounds(added)
        if key in old
    )


_LOWER = Lazy(r"(?i)greater|>=?\s*#|_g[te]\(|atleast|at_least|closeto|minimum|be\.above")
_HIGHER = Lazy(
    r"(?i)less|<=?\s*#|_l[te]\(|atmost|at_most|delta|near|within|tolerance|epsilon|maximum|be\.below"
)
_NUMBER = Lazy(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")


def _looser_numbers(removed: Sequence[str], added: Sequence[str], tongue: Language) -> bool:
    """Is there the same assertion with one number changed so that it passes more easily?"""
    before = {_blank(line): _numbers(line) for line in removed if line_strength(line, tongue) is not None}
    for line in added:
        shape = _blank(line)
        moved = [(a, b) for a, b in zip(before.get(shape, ()), _numbers(line), strict=False) if a != b]
        lower = any(b < a for a, b in moved) and _LOWER.search(shape)
        if lower or (any(b > a for a, b in moved) and _HIGHER.search(shape)):
            return True
    return False


def _blank(line: str) -> str:
    return _NUMBER.sub("#", line.strip())


def _numbers(line: str) -> list[Decimal]:
    return [Decimal(number) for number in _NUMBER.findall(line)]
