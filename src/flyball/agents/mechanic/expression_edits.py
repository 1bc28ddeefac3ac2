"""Edits of expressions: another operator, constant, name, method or argument, one more or one less, and so on.

Each function takes a node and yields (kind, weight, spans). The weights say what to try first and nothing more.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import combinations, pairwise

from flyball.agents.mechanic.constant_edits import Change, constants, f_strings, put
from flyball.agents.mechanic.scene import Scene, nearest, similar
from flyball.agents.mechanic.source import Function, Source

COMPARE = {
    "<": ("<=", ">", ">=", "!=", "=="),
    "<=": ("<", ">=", ">", "==", "!="),
    ">": (">=", "<", "<=", "!=", "=="),
    ">=": (">", "<=", "<", "==", "!="),
    "==": ("!=", "<=", ">=", "in", "<", ">"),
    "!=": ("==", "<", ">", "not in", "<=", ">="),
    "in": ("not in", "=="),
    "not in": ("in", "!="),
    "is": ("is not", "=="),
    "is not": ("is", "!="),
}
BINARY = {
    "+": ("-", "*", "/", "//", "%"),
    "-": ("+", "*", "/", "//", "%"),
    "*": ("+", "/", "**", "//", "-", "%"),
    "/": ("*", "//", "%", "+", "-"),
    "//": ("/", "*", "%", "-", "+"),
    "%": ("//", "/", "*", "+", "-"),
    "**": ("*", "+"),
    "<<": (">>",),
    ">>": ("<<",),
    "&": ("|", "^"),
    "|": ("&", "^"),
    "^": ("|", "&"),
}
FALLING = (1.0, 0.9, 0.7, 0.5, 0.4, 0.3)  # the first replacement of a row is the likeliest
COMPARING = re.compile(r"\bis\s+not\b|\bnot\s+in\b|\bis\b|\bin\b|<=|>=|==|!=|<|>")
OPERATING = re.compile(r"\*\*|//|<<|>>|[-+*/%&|^@]")
JOINING = re.compile(r"\band\b|\bor\b")
SIMILAR = [  # functions and methods that are easily taken for one another
    *(
        ("min", "max"),
        ("any", "all"),
        ("floor", "ceil", "trunc"),
        ("int", "float", "round", "str"),
        ("sum", "len", "max"),
    ),
    *(
        ("sorted", "list", "reversed"),
        ("list", "set", "tuple"),
        ("append", "extend", "add", "insert"),
        ("pop", "popleft"),
    ),
    *(
        ("append", "appendleft"),
        ("remove", "discard", "pop"),
        ("keys", "values", "items"),
        ("get", "pop", "setdefault"),
    ),
    *(
        ("lower", "upper", "title", "capitalize"),
        ("strip", "lstrip", "rstrip"),
        ("find", "rfind", "index", "rindex"),
    ),
    *(
        ("split", "rsplit", "splitlines"),
        ("partition", "rpartition"),
        ("ljust", "rjust", "center"),
        ("startswith", "endswith"),
    ),
    *(
        ("isdigit", "isalpha", "isalnum", "isdecimal", "isspace"),
        ("islower", "isupper"),
        ("match", "search", "fullmatch"),
    ),
    *(("union", "intersection", "difference"), ("issubset", "issuperset"), ("removeprefix", "removesuffix")),
    *(
        ("sqrt", "pow"),
        ("day", "month", "year"),
        ("hour", "minute", "second"),
        ("days", "seconds"),
        ("heappush", "heappop"),
    ),
    *(
        ("isinstance", "issubclass"),
        ("ord", "chr"),
        ("abs", "round"),
        ("zip", "product"),
        ("read", "readline", "readlines"),
    ),
]
METHODS_MOST = 25
CALLED = {
    "lower",
    "upper",
    "strip",
    "split",
    "copy",
    "keys",
    "values",
    "items",
    "sort",
    "pop",
    "clear",
    "close",
}


def expression_edits(scene: Scene, node: ast.expr) -> Iterator[Change]:
    for kind, edits in KINDS.items():
        if isinstance(node, kind):
            for edit in edits:
                yield from edit(scene, node)


def _falling(options: Iterable[str]) -> Iterator[tuple[str, float]]:
    return zip(options, FALLING, strict=False)


# ---- operators -------------------------------------------------------------------------------------------------


def _operator_at(
    source: Source, left: ast.expr, right: ast.expr, pattern: re.Pattern[str]
) -> tuple[int, int, str] | None:
    start, end = source.span(left)[1], source.span(right)[0]
    match = pattern.search(source.between(start, end))
    return (start + match.start(), start + match.end(), match.group()) if match else None


def _comparisons(scene: Scene, node: ast.Compare) -> Iterator[Change]:
    operands = [node.left, *node.comparators]
    for left, right in pairwise(operands):
        place = _operator_at(scene.source, left, right, COMPARING)
        if place is None:
            continue
        start, end, operator = place
        for other, weight in _falling(COMPARE.get(" ".join(operator.split()), ())):
            yield "comparison", weight, ((start, end, other),)
    for operand in operands:
        yield from _one_off(scene, operand, 0.5)


def _operators(scene: Scene, node: ast.BinOp) -> Iterator[Change]:
    source = scene.source
    place = _operator_at(source, node.left, node.right, OPERATING)
    if place is None:
        return
    start, end, operator = place
    idle = {1: ("*", "/", "//", "**"), 0: ("+", "-")}  # `x * 1`: leaving the operand out is the edit for that
    number = node.right.value if isinstance(node.right, ast.Constant) else None
    for other, weight in _falling(BINARY.get(operator, ())):
        if not (isinstance(number, int) and other in idle.get(number, ())):
            yield "operator", weight, ((start, end, other),)
    left, right = source.text(node.left), source.text(node.right)
    if operator not in ("*", "&", "|", "^"):
        yield "swapped operands", 0.5, (*put(source, node.left, right), *put(source, node.right, left))
    yield "operand", 0.35, put(source, node, _alone(source, node, node.left))
    yield "operand", 0.35, put(source, node, _alone(source, node, node.right))
    yield from _groupings(source, node)


def _alone(source: Source, node: ast.expr, part: ast.expr) -> str:
    return source.text(part) if source.loose(node) else source.atom(part)


def _groupings(source: Source, node: ast.BinOp) -> Iterator[Change]:
    """`a + b * c` as `(a + b) * c`, and `(a + b) * c` without its parentheses."""
    if isinstance(node.right, ast.BinOp):
        (start, _), (_, end) = source.span(node), source.span(node.right.left)
        yield "parentheses", 0.4, ((start, start, "("), (end, end, ")"))
    for part in (node.left, node.right):
        start, end = source.span(part)
        if (
            isinstance(part, ast.BinOp)
            and source.between(start - 1, start) + source.between(end, end + 1) == "()"
        ):
            yield "parentheses", 0.4, ((start - 1, start, ""), (end, end + 1, ""))


def _one_off(scene: Scene, node: ast.expr, weight: float) -> Iterator[Change]:
    """One more, one less; constants have their own edits."""
    if isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.BinOp):
        text = scene.source.text(node)
        for more in (" + 1", " - 1"):
            if text.endswith({" + 1": " - 1", " - 1": " + 1"}[more]):
                continue
            yield "off by one", weight, put(scene.source, node, text + more)


def _signs(scene: Scene, node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, ast.Not):
        yield "negation", 1.0, put(scene.source, node, _alone(scene.source, node, node.operand))
    elif isinstance(node.op, ast.UAdd):
        yield "sign", 0.9, put(scene.source, node, f"-{scene.source.text(node.operand)}")
    elif isinstance(node.op, ast.USub | ast.Invert):
        yield "sign", 0.8, put(scene.source, node, _alone(scene.source, node, node.operand))


def _and_or(scene: Scene, node: ast.BoolOp) -> Iterator[Change]:
    source = scene.source
    for left, right in pairwise(node.values):
        place = _operator_at(source, left, right, JOINING)
        if place:
            yield "and/or", 0.95, ((place[0], place[1], "or" if place[2] == "and" else "and"),)
    for at, value in enumerate(node.values):
        first = at == 0
        start = source.span(value)[0] if first else source.span(node.values[at - 1])[1]
        end = source.span(node.values[1])[0] if first else source.span(value)[1]
        yield "condition", 0.5, ((start, end, ""),)
        if not isinstance(value, ast.Compare | ast.UnaryOp):
            yield "negation", 0.5, put(source, value, f"not {source.atom(value)}")


def _choices(scene: Scene, node: ast.IfExp) -> Iterator[Change]:
    source = scene.source
    body, other = source.text(node.body), source.text(node.orelse)
    yield "swapped branches", 0.6, (*put(source, node.body, other), *put(source, node.orelse, body))
    yield from conditions(scene, node.test)


def conditions(scene: Scene, test: ast.expr) -> Iterator[Change]:
    """Of what decides in an if, while or comprehension: turned round, or with one more condition."""
    source = scene.source
    simple = isinstance(test, ast.Compare) and len(test.ops) == 1
    if not simple and not isinstance(test, ast.UnaryOp):
        yield "negation", 0.8, put(source, test, f"not {source.atom(test)}")
    text = source.text(test)
    inner = f"({text})" if isinstance(test, ast.BoolOp | ast.IfExp | ast.Lambda) else text
    for condition in scene.conditions(test):
        if condition not in text:
            yield "missing condition", 0.22, put(source, test, f"{inner} and {condition}")
            yield "missing condition", 0.2, put(source, test, f"{inner} or {condition}")


# ---- names, attributes -----------------------------------------------------------------------------------------


def _names(scene: Scene, node: ast.Name) -> Iterator[Change]:
    source, above = scene.source, scene.source.parents.get(node)
    called = isinstance(above, ast.Call) and above.func is node
    if called:
        for other, weight in _callables(scene, node.id):
            yield "name", weight, put(source, node, other)
        return
    if not isinstance(node.ctx, ast.Load):
        for other in (
            nearest(node.id, scene.names(node), 4) if isinstance(above, ast.Assign | ast.AugAssign) else ()
        ):
            yield "name", 0.3, put(source, node, other)
        return
    names = scene.names(node)
    for at, other in enumerate(nearest(node.id, names)):
        yield "name", 0.6 - at * 0.03, put(source, node, other)
    attributes = scene.attributes(node)
    for other in nearest(node.id, attributes, 5):
        yield "name", 0.3, put(source, node, f"self.{other}")
    if node.id in attributes:
        yield "name", 0.7, put(source, node, f"self.{node.id}")
    for other in (
        nearest(node.id, [*scene.functions, *scene.classes], 3) if node.id in scene.functions else ()
    ):
        yield "name", 0.3, put(source, node, other)
    yield from (
        (k, w, put(source, node, t)) for k, w, t in (("constant", 0.25, "0"), ("constant", 0.25, "1"))
    )


def _callables(scene: Scene, name: str) -> Iterator[tuple[str, float]]:
    for group in SIMILAR:
        if name in group:
            yield from ((other, 0.85) for other in group if other != name)
    if name in scene.functions or name in scene.classes:
        yield from ((other, 0.45) for other in nearest(name, [*scene.functions, *scene.classes], 6))


def _attributes(scene: Scene, node: ast.Attribute) -> Iterator[Change]:
    end = scene.source.span(node)[1]
    start = end - len(node.attr.encode())
    others = dict[str, float]()
    for group in SIMILAR:
        if node.attr in group:
            others |= dict.fromkeys(group, 0.85)
    for other in nearest(node.attr, scene.methods, 8):
        others.setdefault(other, 0.25 + 0.35 * similar(node.attr, other))
    for other in scene.methods[:METHODS_MOST]:
        others.setdefault(other, 0.22)
    for other, weight in others.items():
        if other != node.attr:
            yield "name", weight, ((start, end, other),)
    above = scene.source.parents.get(node)
    called = isinstance(above, ast.Call) and above.func is node
    if (
        not called
        and isinstance(node.ctx, ast.Load)
        and (node.attr in CALLED or node.attr in scene.functions)
    ):
        yield "missing call", 0.5, ((end, end, "()"),)
    if isinstance(node.value, ast.Name) and node.value.id == "self" and node.attr in scene.names(node):
        yield "name", 0.4, put(scene.source, node, node.attr)


# ---- calls -----------------------------------------------------------------------------------------------------


def _calls(scene: Scene, node: ast.Call) -> Iterator[Change]:
    source, args = scene.source, node.args
    for (i, one), (j, other) in combinations(enumerate(args[:5]), 2):
        spans = (*put(source, one, source.text(other)), *put(source, other, source.text(one)))
        yield "swapped arguments", 0.75 if j == i + 1 else 0.4, spans
    parts = [*args, *node.keywords]
    for at, part in enumerate(parts):
        if at or len(parts) > 1:
            start = source.span(parts[at - 1])[1] if at else source.span(part)[0]
            end = source.span(part)[1] if at else source.span(parts[1])[0]
            yield "argument", 0.35, ((start, end, ""),)
    if len(args) == 1 and not node.keywords and not isinstance(args[0], ast.GeneratorExp | ast.Starred):
        yield "call", 0.3, put(source, node, _alone(source, node, args[0]))
    if isinstance(node.func, ast.Attribute):
        yield "call", 0.3, put(source, node, source.text(node.func.value))
        if not parts:
            yield "call", 0.3, put(source, node, source.text(node.func))
    for keyword_, other in combinations(node.keywords[:4], 2):
        one, two = source.text(keyword_.value), source.text(other.value)
        yield "swapped arguments", 0.5, (*put(source, keyword_.value, two), *put(source, other.value, one))
    for arg in args:
        yield from _one_off(scene, arg, 0.75 if _name_of(node) == "range" else 0.35)
    yield from _more_arguments(scene, node)


def _name_of(call: ast.Call) -> str:
    func = call.func
    return func.id if isinstance(func, ast.Name) else func.attr if isinstance(func, ast.Attribute) else ""


def _more_arguments(scene: Scene, node: ast.Call) -> Iterator[Change]:
    end = scene.source.span(node)[1] - 1
    start = scene.source.span(node.args[0])[0] if node.args else end
    comma = ", " if node.args or node.keywords else ""
    name, count = _name_of(node), len(node.args)
    if name == "range" and count == 1:
        yield "argument", 0.7, ((start, start, "1, "),)
    if name in ("sorted", "sort"):
        yield "argument", 0.4, ((end, end, f"{comma}reverse=True"),)
    usual = {
        "pop": ("0", "None"),
        "get": ("0", "None", '""', "[]"),
        "round": ("2", "1"),
        "split": ('","', '" "'),
        "next": ("None",),
    }
    for text in usual.get(name, ()):
        yield "argument", 0.35, ((end, end, comma + text),)
    function = scene.functions.get(name)
    if function is not None and count < _takes(function) and not node.keywords:
        for text in (*scene.names(node)[:6], "True", "False", "None", "0", "1"):
            yield "argument", 0.4, ((end, end, comma + text),)


def _takes(function: Function) -> int:
    names = [arg.arg for arg in (*function.args.posonlyargs, *function.args.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


# ---- subscripts, tuples, comprehensions ------------------------------------------------------------------------


def _subscripts(scene: Scene, node: ast.Subscript) -> Iterator[Change]:
    source, index = scene.source, node.slice
    if isinstance(index, ast.Slice):
        yield from _slices(scene, node, index)
        return
    yield from _one_off(scene, index, 0.7)
    if isinstance(node.value, ast.Subscript) and not isinstance(node.value.slice, ast.Slice):
        inner, outer = source.text(node.value.slice), source.text(index)
        yield "swapped indices", 0.65, (*put(source, node.value.slice, outer), *put(source, index, inner))
    if isinstance(node.ctx, ast.Load) and isinstance(index, ast.Name | ast.Constant):
        end = source.span(node)[1]
        start = source.span(node.value)[1]
        for default in ("0", "None", '""', "[]"):
            yield "missing key", 0.2, ((start, end, f".get({source.text(index)}, {default})"),)


def _slices(scene: Scene, node: ast.Subscript, index: ast.Slice) -> Iterator[Change]:
    source = scene.source
    start, end = source.span(node.value)[1], source.span(node)[1]
    low, high, step = (source.text(part) if part else "" for part in (index.lower, index.upper, index.step))
    bounds = [(low, high), ("", high), (low, ""), ("1", high), (low, "-1"), (high, low)]
    for bound, at in ((low, 0), (high, 1)):
        if bound and not bound.lstrip("-").isdigit():
            for other in (f"{bound} + 1", f"{bound} - 1"):
                bounds.append((other, high) if at == 0 else (low, other))
    steps = [(low, high, step)] + ([(low, high, "")] if step else [("", "", "-1")])
    slices = [(one, two, step) for one, two in dict.fromkeys(bounds[1:])] + steps[1:]
    for one, two, three in slices:
        yield "slice", 0.65, ((start, end, f"[{one}:{two}{':' + three if three else ''}]"),)


def _tuples(scene: Scene, node: ast.Tuple | ast.List) -> Iterator[Change]:
    source = scene.source
    for one, other in combinations(node.elts[:3], 2):
        weight = 0.5 if isinstance(node, ast.Tuple) else 0.25
        yield (
            "swapped values",
            weight,
            (*put(source, one, source.text(other)), *put(source, other, source.text(one))),
        )


def _comprehensions(
    scene: Scene, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp
) -> Iterator[Change]:
    source = scene.source
    for loop in node.generators:
        yield from _one_off_loop(scene, loop.iter)
        for test in loop.ifs:
            yield from conditions(scene, test)
            start = source.data.rfind(b"if", 0, source.span(test)[0])
            yield (
                "condition",
                0.35,
                ((source.span(loop.iter)[1] if len(loop.ifs) == 1 else start, source.span(test)[1], ""),),
            )
        if not loop.ifs:
            end = source.span(loop.iter)[1]
            for name in [n.id for n in ast.walk(loop.target) if isinstance(n, ast.Name)][:2]:
                yield "missing condition", 0.3, ((end, end, f" if {name}"),)
    if isinstance(node, ast.DictComp):
        key, value = source.text(node.key), source.text(node.value)
        yield "swapped values", 0.5, (*put(source, node.key, value), *put(source, node.value, key))


def _one_off_loop(scene: Scene, node: ast.expr) -> Iterator[Change]:
    """`for x in xs` as `for x in xs[1:]` or `xs[:-1]`."""
    if isinstance(node, ast.Name | ast.Attribute):
        end = scene.source.span(node)[1]
        for text in ("[1:]", "[:-1]"):
            yield "slice", 0.3, ((end, end, text),)


KINDS: dict[
    type[ast.expr] | tuple[type[ast.expr], ...], tuple[Callable[[Scene, ast.AST], Iterator[Change]], ...]
] = {  # pyright: ignore[reportAssignmentType]
    ast.Compare: (_comparisons,),
    ast.BinOp: (_operators,),
    ast.UnaryOp: (_signs,),
    ast.BoolOp: (_and_or,),
    ast.IfExp: (_choices,),
    ast.Constant: (constants,),
    ast.JoinedStr: (f_strings,),
    ast.Name: (_names,),
    ast.Attribute: (_attributes,),
    ast.Call: (_calls,),
    ast.Subscript: (_subscripts,),
    (ast.Tuple, ast.List): (_tuples,),
    (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp): (_comprehensions,),
}
