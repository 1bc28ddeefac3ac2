"""How strong an assertion is: 3 an exact value, 2 a bound or a type, 1 that there is something, 0 nothing.

Read from the syntax tree in Python and from the line in other languages.
"""

import ast
import re

from flyball.guard.python_syntax import parsed, walk
from flyball.guard.test_files import Language
from flyball.reading.lazy import Lazy

STRONG, MIDDLE, WEAK, EMPTY = 3, 2, 1, 0

_METHODS = {
    **dict.fromkeys(
        (
            *(
                "assertEqual",
                "assertEquals",
                "assertDictEqual",
                "assertListEqual",
                "assertSetEqual",
                "assertTupleEqual",
            ),
            *("assertCountEqual", "assertMultiLineEqual", "assertSequenceEqual", "assertIs", "assertIsNone"),
            *(
                "assertRaisesRegex",
                "assert_called_once_with",
                "assert_called_with",
                "assert_has_calls",
                "assert_not_called",
            ),
            *(
                "assert_equal",
                "assert_array_equal",
                "assert_frame_equal",
                "assert_series_equal",
                "assert_any_call",
            ),
            *(
                "assertJSONEqual",
                "assertQuerysetEqual",
                "assertXMLEqual",
                "assertHTMLEqual",
                "assert_awaited_once_with",
            ),
        ),
        STRONG,
    ),
    **dict.fromkeys(
        (
            *(
                "assertIn",
                "assertNotIn",
                "assertAlmostEqual",
                "assertGreater",
                "assertLess",
                "assertGreaterEqual",
            ),
            *(
                "assertLessEqual",
                "assertRaises",
                "assertRegex",
                "assertNotEqual",
                "assertIsInstance",
                "assertWarns",
            ),
            *("assertLogs", "assertContains", "assertRedirects", "assert_allclose", "assert_almost_equal"),
            *(
                "assert_called_once",
                "assert_awaited_once",
                "assertNotRegex",
                "assertNoLogs",
                "assertNumQueries",
            ),
        ),
        MIDDLE,
    ),
    **dict.fromkeys(
        (
            "assertTrue",
            "assertFalse",
            "assertIsNotNone",
            "assertIsNot",
            "assert_called",
            "assert_awaited",
            "assert_",
        ),
        WEAK,
    ),
}


def strength(node: ast.AST) -> int | None:
    """What an assertion in the tree is worth; None if the node is not an assertion."""
    if isinstance(node, ast.Assert):
        return of_test(node.test)
    if isinstance(node, ast.Call):
        return _of_call(node)
    return None


def of_test(test: ast.expr) -> int:
    """What `assert test` is worth."""
    if isinstance(test, ast.BoolOp):
        worths = [of_test(value) for value in test.values]
        if isinstance(test.op, ast.And):
            return max(worths)
        return EMPTY if any(_is_constant(v) for v in test.values) else min(MIDDLE, *worths)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return (
            EMPTY
            if _is_constant(test.operand)
            else WEAK
            if not isinstance(test.operand, ast.Call)
            else MIDDLE
        )
    if _is_constant(test):
        return EMPTY
    return _of_compare(test) if isinstance(test, ast.Compare) else _of_truth(test)


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
    if (
        isinstance(op, ast.GtE)
        and isinstance(right, ast.Constant)
        and right.value == 0
        and _mentions(test.left, "len")
    ):
        return EMPTY
    return MIDDLE


def _of_truth(test: ast.expr) -> int:
    if isinstance(test, ast.Call):
        name = called(test)
        if name == "isinstance" and len(test.args) == 2 and _mentions(test.args[1], "object"):
            return EMPTY
        return MIDDLE if name in ("isinstance", "all", "issubclass", "isclose", "allclose") else WEAK
    return WEAK


def _mentions(node: ast.AST, *names: str) -> bool:
    known = names_in(node)
    return any(name in known for name in names)


def names_in(node: ast.AST) -> set[str]:
    """Every name and attribute of an expression."""
    return {
        n.id if isinstance(n, ast.Name) else n.attr
        for n in walk(node)
        if isinstance(n, ast.Name | ast.Attribute)
    }


def _of_call(node: ast.Call) -> int | None:
    name = called(node)
    if name in ("raises", "warns", "assertRaises", "assertRaisesRegex"):
        return _of_raises(node)
    if name in ("fail", "assert_never"):
        return WEAK
    if name in ("assertTrue", "assertFalse", "assert_") and node.args:
        return of_test(node.args[0])
    if (
        name in ("assertEqual", "assertEquals")
        and len(node.args) >= 2
        and ast.dump(node.args[0]) == ast.dump(node.args[1])
    ):
        return EMPTY
    if name in _METHODS:
        return _METHODS[name]
    return MIDDLE if re.match(r"_?(?:assert|expect|verify|check)(?:_|[A-Z])", name) else None


def _of_raises(node: ast.Call) -> int:
    broad = bool(node.args) and _mentions(node.args[0], "Exception", "BaseException")
    exact = any(keyword.arg == "match" for keyword in node.keywords) or len(node.args) > 1
    return WEAK if broad and not exact else STRONG if exact else MIDDLE


def called(node: ast.Call) -> str:
    """The last name of what is called: `check` for `self.helper.check(…)`."""
    function = node.func
    return (
        function.attr
        if isinstance(function, ast.Attribute)
        else function.id
        if isinstance(function, ast.Name)
        else ""
    )


# ---------------------------------------------------------------- other languages, by the line

_EMPTY_LINE = Lazy(
    r"expect\(\s*(?:true|1|'?\"?ok)\s*\)\s*\.(?:toBe|toEqual|toBeTruthy|to\.be\.true|to\.equal)|"
    r"assert(?:!|\.ok|\.isTrue|True|_true)?\s*\(\s*true\b|"
    r"assert\(\s*1\s*\)|assert_eq!\(\s*(\w+)\s*,\s*\1\s*\)|assertEquals?\(\s*(\w+)\s*,\s*\2\s*\)|"
    r"\bassert\s+true\b|\|\|\s*true\b|expect\(true\)\.to\b|"
    r"(?:EXPECT|ASSERT)_TRUE\(\s*true\s*\)|toBeGreaterThanOrEqual\(0\)|Assert\.True\(true\)|Assert\.Pass\("
)
_STRONG_LINE = Lazy(
    r"\.(?:toBe|toEqual|toStrictEqual|toHaveBeenCalledWith|toHaveBeenCalledTimes|"
    r"toHaveBeenNthCalledWith|toHaveLength|toHaveProperty|"
    r"toMatchInlineSnapshot|toBeNull|toBeUndefined|toThrowErrorMatchingSnapshot|toHaveTextContent|"
    r"toHaveValue)\(|\.toThrow(?:Error)?\(\s*[^\s)]|\.(?:to\.)?(?:deep\.)?(?:equals?|eql)\(|"
    r"\.to\.be\.(?:null|undefined|false|true)\b|assert\.(?:equal|strictEqual|deepEqual|deepStrictEqual|"
    r"same|exactly|Equal|EqualValues|Equalf|JSONEq|"
    r"ElementsMatch|ErrorIs|EqualError|Len|Exactly)\b|require\.(?:Equal|EqualValues|JSONEq|"
    r"ElementsMatch|ErrorIs|EqualError|Len|Exactly)\b|"
    r"assert_eq!|assertEquals?\b|assertSame\b|assertArrayEquals|assertIterableEquals|isEqualTo\(|"
    r"isSameAs\(|containsExactly|hasSize\(|"
    r"Assert\.(?:Equal|AreEqual|Same|Collection|Single|Empty|Null|StrictEqual)\b|"
    r"\.Should\(\)\.Be(?:EquivalentTo|Null)?\(|(?:EXPECT|ASSERT)_(?:EQ|STREQ|DOUBLE_EQ)|REQUIRE\(.*==|"
    r"XCTAssertEqual|XCTAssertNil|assert_equal|assert_nil|\.to\s+(?:eq|eql|equal|be)\b(?!_)|"
    r"\.to\s+match_array|assertNull\b|assertCount|assert\s.*==|assert!\(.*==|shouldBe\b|must_equal|"
    r"matches!\(|\.should\(\s*['\"](?:not\.)?(?:have\.(?:text|value|length|attr|css|html|prop)|equal|eq|deep\.equal|be\.(?:empty|null|true|false))|\.rejects\.toThrow\(\s*[^\s)]|assertThrowsExactly|assertSnapshot"
)
_MIDDLE_LINE = Lazy(
    r"\.(?:toContain|toContainEqual|toMatch|toMatchObject|toMatchSnapshot|toBeCloseTo|toBeGreaterThan|"
    r"toBeGreaterThanOrEqual|toBeLessThan|toBeLessThanOrEqual|"
    r"toBeInstanceOf|toThrow|toThrowError|toHaveBeenCalledOnce|toBeInTheDocument|toBeVisible|"
    r"toBeDisabled|toHaveClass)\b|assert_ne!|assertThrows|assertNotEquals|"
    r"(?:assert|require)\.(?:Contains|NoError|Error|ErrorContains|Greater|Less|InDelta|NotEqual|Regexp|"
    r"throws|rejects|match|include|instanceOf|IsType|Panics)\b|"
    r"\b[tb]\.(?:Error|Errorf|Fatal|Fatalf|Fail|FailNow)\(|isInstanceOf|contains\(|hasMessage|"
    r"isGreaterThan|isLessThan|Assert\.(?:Contains|Throws|InRange|IsType|NotEqual|ThrowsAsync|"
    r"StartsWith)|"
    r"(?:EXPECT|ASSERT)_(?:NE|LT|LE|GT|GE|NEAR|THROW|FLOAT_EQ)|XCTAssertThrows|XCTAssertGreater|"
    r"XCTAssertLess|assert_includes|assert_in_delta|assert_raises|assert_match|raise_error|"
    r"\.to\s+(?:include|match|contain|be_within|be_a|be_an|start_with|change|raise)|expectException|"
    r"\.should\(\s*['\"](?:contain|include|match|be\.(?:visible|disabled|checked|enabled)|have\.class)|"
    r"assertStringContains|assertInstanceOf|assertGreater|assertLess|assert_raise|assert_receive"
)
_WEAK_LINE = Lazy(
    r"\bexpect\s*\(|\bexpect\s*\{|\bassert(?:!|\.\w+|[A-Z]\w*|_\w+)?\s*\(|\b(?:debug_)?assert\w*!|"
    r"\bAssert\.\w+\(|(?:EXPECT|ASSERT|CHECK|REQUIRE)(?:_\w+)?\(|XCT(?:Assert|Fail)\w*\(|"
    r"\.should\b|\.Should\(\)|\bassert\s|\bassert_\w+\s|\brefute\b|\bverify\(|\brequire\.\w+\(|"
    r"\bmust_\w+|\bpanic!\(|\bis_expected\b|assertThat\("
)
_COMMENT = Lazy(r"^\s*(?://|#(?!\[)|\*|/\*|--\s|<!--)")


def line_strength(line: str, tongue: Language) -> int | None:
    """What an assertion on this line is worth; None if there is none."""
    if _COMMENT.match(line):
        return None
    if tongue == "python":
        return _python_line(line)
    if not _WEAK_LINE.search(line) and not _MIDDLE_LINE.search(line):
        return None
    if _EMPTY_LINE.search(line):
        return EMPTY
    if _STRONG_LINE.search(line) and not re.search(
        r"expect\.(?:any|anything)\b|\.not\.toBe(?:Null|Undefined)\(|\.not\.(?:toBe|toEqual)\(", line
    ):
        return STRONG
    return MIDDLE if _MIDDLE_LINE.search(line) or (".not." in line and "toBeNull" not in line) else WEAK


def _python_line(line: str) -> int | None:
    text = line.strip()
    tree = (
        parsed(text)
        or parsed(text.rstrip(":,\\") + ": pass")
        or parsed(text + ")")
        or parsed(text.rstrip("([{,\\ "))
    )
    if tree is None:
        return _python_words(text)
    worths = [worth for node in walk(tree) if (worth := strength(node)) is not None]
    return max(worths) if worths else None


def _python_words(text: str) -> int | None:
    if re.match(r"assert\b", text):
        return STRONG if "==" in text else MIDDLE if re.search(r" in |<|>|!=", text) else WEAK
    match = re.search(r"\b(assert\w+)\(", text)
    return _METHODS.get(match.group(1), MIDDLE) if match else None
