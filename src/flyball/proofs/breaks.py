"""Breaks code on purpose, to see whether a proof notices. Text in, text out; a file that cannot be broken stays as
it is.

Three ways: every function raises, only the changed functions raise, or the expected values of tests are changed.
A proof that passes anyway did not test what it claims.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from difflib import SequenceMatcher

from msgspec import Struct

WORDS = "broken on purpose"
ARGUMENTS_MOST = 10_000  # signs of one call
_BRACES = {  # endings -> what is put at the start of each function's body
    **dict.fromkeys(
        ("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts"), f'if (true) throw new Error("{WORDS}");'
    ),
    **dict.fromkeys(("java", "kt", "scala", "cs"), f'if (true) throw new RuntimeException("{WORDS}");'),
    "cs": f'if (true) throw new System.Exception("{WORDS}");',
    "kt": f'if (true) throw RuntimeException("{WORDS}");',
    "php": f'if (true) throw new \\RuntimeException("{WORDS}");',
    "go": f'if true {{ panic("{WORDS}") }};',
    "rs": f'if true {{ panic!("{WORDS}"); }}',
}
_FUNCTION_HEADS = {
    "js": r"\bfunction\b\s*\*?\s*\w*\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*(?::[^={;]+)?\{|=>\s*\{"
    r"|^[ \t]*(?:(?:static|async|get|set|public|private|protected)\s+)*\*?#?(?!if\b|for\b|while\b|switch\b|catch\b|with\b|function\b|return\b)\w+"
    r"\s*\([^()]*\)\s*(?::[^={;]+)?\{",
    "go": r"\bfunc\b[^{}\n]*\)[^{}\n]*\{$",
    "rs": r"\bfn\s+\w+[^{};]*\{",
    "java": r"^[ \t]*(?:[\w@<>\[\],.?]+\s+)+(?!if\b|for\b|while\b|switch\b|catch\b)\w+\s*\([^()]*\)\s*(?:throws [\w., ]+)?\{",
    "php": r"\bfunction\b[^{};]*\{",
}
_HEAD_OF = {**dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts"), "js"),
            **dict.fromkeys(("java", "kt", "scala", "cs"), "java"), "go": "go", "rs": "rs", "php": "php"}  # fmt: skip
Lines = Collection[int]
Function = ast.FunctionDef | ast.AsyncFunctionDef


def can_break(path: str) -> bool:
    return _ending(path) in ("py", "sh", "bash", "rb", *_HEAD_OF)


def is_watched(path: str) -> bool:
    """Whether a proof that executes this file is seen to do so (`runners/probes`)."""
    return _ending(path) == "py" or _HEAD_OF.get(_ending(path)) == "js"


def functions_raise(path: str, text: str, lines: Lines | None = None) -> str:
    """Every function raises, or only those that have one of these lines (counted from 1)."""
    ending = _ending(path)
    if ending == "py":
        return _python(text, lines)
    if ending in ("sh", "bash"):
        return _shell(text)
    if ending == "rb":
        return _ruby(text, lines)
    return _braces(text, ending, lines) if ending in _HEAD_OF else text


def changed_lines(path: str, old: str, new: str) -> list[int]:
    """Lines of the new text (counted from 1) that are not in the old one, or next to removed lines."""
    if _ending(path) == "py":
        return _changed_functions(old, new)
    matcher = SequenceMatcher(None, old.splitlines(), new.splitlines(), autojunk=False)
    spans = [(start, end) for tag, _, _, start, end in matcher.get_opcodes() if tag != "equal"]
    return [line + 1 for start, end in spans for line in range(start, max(end, start + 1))]


def _ending(path: str) -> str:
    return path.rpartition(".")[2].lower() if "." in path else ""


def _python(text: str, lines: Lines | None) -> str:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    broken = text.splitlines(keepends=True)
    for node in sorted(_functions(tree, lines), key=lambda node: -node.body[0].lineno):
        first = node.body[1] if _is_docstring(node.body[0]) and len(node.body) > 1 else node.body[0]
        number, indent = first.lineno - 1, first.col_offset
        raising = f'raise RuntimeError("{WORDS}")'
        head = broken[number].encode()[:indent].decode("utf-8", "ignore")
        if head.strip():  # `def f(): return 1`, or a docstring and more on one line
            broken[number] = f"{head}{raising}; {broken[number].encode()[indent:].decode('utf-8', 'ignore')}"
        else:
            broken.insert(_above_decorators(first) - 1, f"{head}{raising}\n")
    return "".join(broken)


def _above_decorators(node: ast.stmt) -> int:
    decorators = getattr(node, "decorator_list", [])
    return min([node.lineno, *(one.lineno for one in decorators)])


def _functions(tree: ast.Module, lines: Lines | None) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (
            lines is None or any(node.lineno <= line <= (node.end_lineno or node.lineno) for line in lines)
        ):
            yield node


def _changed_functions(old: str, new: str) -> list[int]:
    """The lines on which changed functions of a Python file begin. Changes of types and docstrings do not count:
    no test can notice them.
    """
    before, after = _bodies(old), _bodies(new)
    return [line for name, (line, body) in after.items() if name not in before or before[name][1] != body]


def _bodies(text: str) -> dict[str, tuple[int, str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return {}
    return {name: (node.lineno, _code(node)) for name, node in _named_functions(tree.body, "")}


def _code(function: Function) -> str:
    plain = ast.parse(ast.unparse(function))
    for node in ast.walk(plain):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
            if _is_docstring(node.body[0]):
                del node.body[0]
        elif isinstance(node, ast.arg):
            node.annotation = None
    return ast.dump(plain)


def _named_functions(body: list[ast.stmt], owner: str) -> Iterator[tuple[str, Function]]:
    """Functions and methods as `Class::name`."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield f"{owner}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from _named_functions(node.body, f"{owner}{node.name}::")
        elif isinstance(node, ast.If | ast.Try):
            yield from _named_functions(node.body, owner)


def _is_docstring(node: ast.stmt) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


def _shell(text: str) -> str:
    head, newline, rest = text.partition("\n") if text.startswith("#!") else ("", "", text)
    return f"{head}{newline}echo '{WORDS}' >&2; exit 97\n{rest}"


def _ruby(text: str, lines: Lines | None) -> str:
    return _after(text, re.compile(r"^[ \t]*def [^\n=;]+$", re.M), f'\nraise "{WORDS}"', lines)


def _braces(text: str, ending: str, lines: Lines | None) -> str:
    pattern = re.compile(_FUNCTION_HEADS[_HEAD_OF[ending]], re.M)
    return _after(text, pattern, f" {_BRACES[ending]} ", lines)


def _after(text: str, head: re.Pattern[str], words: str, lines: Lines | None) -> str:
    """The words after each function's head. With `lines`: after the last head above each of them."""
    ends = [match.end() for match in head.finditer(_masked(text))]
    if lines is not None:
        starts = [0, *(match.end() for match in re.finditer("\n", text))]
        places = [starts[min(line, len(starts)) - 1] for line in lines]
        line_ends = [text.find("\n", place) if text.find("\n", place) >= 0 else len(text) for place in places]
        ends = sorted({max((end for end in ends if end <= stop), default=-1) for stop in line_ends} - {-1})
    for end in reversed(ends):
        text = text[:end] + words + text[end:]
    return text


_NOT_CODE = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`", re.S
)


def _masked(text: str) -> str:
    """The text with comments and strings blanked out, as long as before."""
    return _NOT_CODE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)


# ---- the end of a script ----

_OWN_EXIT = re.compile(r"\b(?:exit|exec)\b(?!\s*\(?\s*[1-9])")  # one that may end it well


def end_fails(path: str, text: str) -> str:
    """A check script that fails after its last line, as its own checks do; one with an exit of its own stays as it is."""
    ending = _ending(path)
    if _OWN_EXIT.search(text):
        return text
    js = _HEAD_OF.get(ending) == "js"
    last = f'raise AssertionError("{WORDS}")' if ending == "py" else _js_failure(text) if js else "exit 97"
    separator = "" if text.endswith("\n") else "\n"
    return f"{text}{separator}{last}\n" if js or ending in ("py", "sh", "bash") else text


_JS_ASSERTION = re.compile(r"\b\w+\.(?:strictEqual|deepStrictEqual|deepEqual|equal)(?=\s*\()")


def _js_failure(text: str) -> str:
    """A failing assertion like the last one of the script: code under test may have replaced that function."""
    calls = _JS_ASSERTION.findall(_masked(text))
    return f"{calls[-1]}(1, 2);" if calls else f'throw new Error("{WORDS}");'


# ---- expectations ----

_JS_EXPECTED = re.compile(
    r"\b(?:(?P<first>toBe|toEqual|toStrictEqual|eql)|(?P<second>equal|strictEqual|deepEqual|deepStrictEqual|is))\s*\("
)
_CHAIN = re.compile(
    r"\.(?:(?P<chai>to|should)\.)?(?:[a-z]+\.)*$"
)  # what stands before the name of an assertion
CHAIN_MOST = 60
_JS_OTHER = (
    "(v => typeof v === 'number' ? v + 1 : typeof v === 'string' ? v + ' broken' : typeof v === 'boolean' ? !v"
    " : typeof v === 'bigint' ? v + 1n : Array.isArray(v) ? [...v, 'broken'] : 'broken')("
)


class WrongAssertions(Struct, frozen=True):
    """Tests whose assertions were changed so that they must fail."""

    text: str
    tests: frozenset[str] | None = None  # `Class::function` of each; None where they are not known


def expectations_wrong(path: str, text: str) -> WrongAssertions:
    """What assertions compare with is another value of the same type, so that a result equal to every number or text
    is noticed too; other assertions are negated."""
    if _ending(path) == "py":
        wrong = _python_expectations(text)
        examples = _examples_wrong(wrong.text)
        return wrong if examples == wrong.text else WrongAssertions(examples, None)
    if _HEAD_OF.get(_ending(path)) == "js":
        wrong = _JS_THROWS.sub(_js_no_throw, _js_wrong(text))
        return WrongAssertions(wrong if wrong == text else _js_negated(wrong))
    if _ending(path) in ("md", "rst", "txt"):
        return WrongAssertions(_examples_wrong(text))
    return WrongAssertions(text)


_EXAMPLE = re.compile(
    r"^([ \t]*)>>> [^\n]*\n(?:\1\.\.\.[^\n]*\n)*\1(?!>>>|[ \t]*(?:\n|$|\"\"\"|'''))[^\n]+", re.M
)


def _examples_wrong(text: str) -> str:
    """What the examples of doctests print first is something else."""
    return _EXAMPLE.sub(lambda match: f"{match.group()} {WORDS}", text)


_JS_THROWS = re.compile(r"\bassert\.(?P<assert>throws|rejects)\s*\(|\)\.(?P<expect>toThrow\w*)\s*\(")
_JS_MATCHER = re.compile(
    r"(?P<not>\.not)?\.(?P<name>to(?:Be|Equal|StrictEqual|(?:Be[A-Z]|Match|Contain|Have|Satisfy)\w*))(?=\s*\()"
)
_CHAI = re.compile(r"(?P<not>\.not)?\.(?P<name>to|should)(?P<then>\.not)?(?=\.(?P<rest>\w+(?:\.\w+)*))")
_TRUTH = re.compile(r"(?:\.(?:ok|notOk|true|false|truthy|falsy|isTrue|isFalse)|(?<![\w.])assert)\s*\(")


def _js_no_throw(match: re.Match[str]) -> str:
    negated = {"throws": "doesNotThrow", "rejects": "doesNotReject"}
    return f"assert.{negated[match['assert']]}(" if match["assert"] else f").not.{match['expect']}("


def _js_negated(text: str) -> str:
    """The assertions that compare with no value are negated: a snapshot, what something contains, or whether it is true."""
    masked = _masked(text)
    spans = [_arguments(masked, match.end())[:1] for match in _TRUTH.finditer(masked)]
    for start, end in reversed([span for first in spans for span in first if span[0] < span[1]]):
        text = f"{text[:start]}!({text[start:end].strip()}){text[end:]}"
    return _CHAI.sub(_chai_negated, _JS_MATCHER.sub(_matcher_negated, text))


def _matcher_negated(match: re.Match[str]) -> str:
    if match["not"] or match["name"] in ("toBe", "toEqual", "toStrictEqual"):
        return f".{match['name']}"
    return f".not.{match['name']}"


def _chai_negated(match: re.Match[str]) -> str:
    """`expect(a).to.be.true`; those that end in equal compare with another value."""
    positive = f".{match['name']}"
    if match["not"] or match["then"]:
        return positive
    return positive if match["rest"].endswith(("equal", "eql")) else f"{positive}.not"


def _js_wrong(text: str) -> str:
    """The expected argument of each comparison is another value of its type."""
    masked, spans = _masked(text), list[tuple[int, int]]()
    for match in _JS_EXPECTED.finditer(masked):
        chain = _CHAIN.search(masked, max(0, match.start() - CHAIN_MOST), match.start())
        if chain and "not." in chain.group():
            continue
        arguments = _arguments(masked, match.end())
        number = 0 if match["first"] or (chain and chain["chai"]) else 1
        if len(arguments) > number:
            spans.append(arguments[number])
    for start, end in reversed(spans):
        text = f"{text[:start]} {_JS_OTHER}{text[start:end].strip()}){text[end:]}"
    return text


def _arguments(text: str, start: int) -> list[tuple[int, int]]:
    """Where the arguments of a call stand whose parenthesis was opened just before `start`."""
    depth, begin, spans = 0, start, list[tuple[int, int]]()
    for match in re.finditer(r"[()\[\]{},]", text[start : start + ARGUMENTS_MOST]):
        sign, place = match.group(), start + match.start()
        if depth == 0 and sign in ",)":
            spans.append((begin, place))
            begin = place + 1
            if sign == ")":
                return spans
        depth += (sign in "([{") - (sign in ")]}")
    return []


def _python_expectations(text: str) -> WrongAssertions:
    return _with_spots(text, _asserted)


# The value of a number, text or list, whatever its class says of equality. A test may have its own `next`, and classes
# with an equality of its own.
_PLAIN = (
    "(lambda v, b=__import__('builtins'): b.next((plain(v) for base, plain in ((b.int, b.int.__int__), "
    "(b.float, b.float.__float__), (b.str, b.str.__str__), (b.list, lambda v: b.list.__getitem__(v, b.slice(None))), "
    "(b.tuple, lambda v: b.tuple.__getitem__(v, b.slice(None))), (b.dict, b.dict.copy)) "
    "if b.issubclass(b.type(v), base) and (b.type(v).__eq__, b.type(v).__ne__) != (base.__eq__, base.__ne__) "
    "and b.getattr(b.type(v).__eq__, '__globals__', None) is not b.globals()), v))("
)


def values_plain(path: str, text: str) -> str:
    """What assertions compare is the plain value of what the code returned."""
    return _with_spots(text, _compared).text if _ending(path) == "py" else text


def _compared(node: ast.AST) -> Iterator[Spot]:
    if isinstance(node, ast.Compare):
        if isinstance(node.ops[0], ast.Eq | ast.NotEq):
            yield node.left, _PLAIN, ")"
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        if name in _SAME and len(node.args) >= 2:
            yield node.args[0], _PLAIN, ")"


Spot = tuple[ast.expr, str, str]  # an expression, what is put before and after it; no after: in its place


def _with_spots(text: str, spots_of: Callable[[ast.AST], Iterable[Spot]]) -> WrongAssertions:
    """The functions of a Python text with some expressions wrapped or replaced."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return WrongAssertions(text)
    data = text.encode()
    starts = [0, *(match.end() for match in re.finditer(b"\n", data))]
    spots: set[tuple[int, int, str, str]] = set()
    tests: set[str] = set()
    for name, function in _named_functions(tree.body, ""):
        for node in ast.walk(function):
            for expression, before, after in spots_of(node):
                begin = starts[expression.lineno - 1] + expression.col_offset
                end = starts[(expression.end_lineno or 1) - 1] + (expression.end_col_offset or 0)
                spots.add((begin, end, before, after))
                tests.add(name)
    for begin, end, before, after in sorted(spots, reverse=True):
        own = data[begin:end] if after else b""
        data = data[:begin] + before.encode() + own + after.encode() + data[end:]
    return WrongAssertions(data.decode("utf-8", "replace"), frozenset(tests))


_SAME_TYPE = (  # another value of the same type where that is simple, else one that equals nothing
    "(lambda v: (not v) if type(v) is bool else v + 1 if type(v) in (int, float) else v + type(v)([0]) if type(v) in "
    "(list, bytes) else v + 'broken' if type(v) is str else v + (0,) if type(v) is tuple else object())("
)
OTHER = (_SAME_TYPE, ")")
NEVER_RAISED = 'type("Never", (Exception,), {})'
NEGATED = ("not (", ")")
_SAME = ("assertEqual", "assertEquals", "assertListEqual", "assertDictEqual", "assertSequenceEqual")


def _asserted(node: ast.AST) -> Iterator[Spot]:
    if isinstance(node, ast.Assert):
        test = node.test
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], ast.Eq):
            yield test.comparators[0], *OTHER
        else:
            yield test, *NEGATED
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
        name = node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        if name in _SAME and len(node.args) >= 2:
            yield node.args[1], *OTHER
        elif name in ("assertTrue", "assertFalse") and node.args:
            yield node.args[0], *NEGATED
        elif name in ("raises", "assertRaises", "assertRaisesRegex") and node.args:
            yield node.args[0], NEVER_RAISED, ""
