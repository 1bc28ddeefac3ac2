"""Edits of statements: a missing return, a wrong place in or out of a block, a guard that is missing, and so on."""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Callable, Iterator

from flyball.agents.mechanic.constant_edits import Change, put
from flyball.agents.mechanic.expression_edits import conditions
from flyball.agents.mechanic.scene import Scene, local_names
from flyball.agents.mechanic.source import Function, Source

ASSIGNING = {
    "+=": ("-=", "=", "*="),
    "-=": ("+=", "=", "*="),
    "*=": ("/=", "+=", "//=", "="),
    "/=": ("*=", "//=", "="),
    "//=": ("/=", "%=", "*="),
    "%=": ("//=", "-="),
    "**=": ("*=",),
    "|=": ("&=", "^=", "="),
    "&=": ("|=", "="),
    "^=": ("|=", "&="),
    "<<=": (">>=",),
    ">>=": ("<<=",),
}
ASSIGNMENT = re.compile(r"(?:\*\*|//|<<|>>|[-+*/%&|^@])=")
EARLY = (ast.Return, ast.Raise, ast.Continue, ast.Break)
DONORS_MOST = 8
SIMPLE = (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.Return, ast.Break, ast.Continue)


def statement_edits(scene: Scene, node: ast.stmt) -> Iterator[Change]:
    for kind, edits in KINDS.items():
        if isinstance(node, kind):
            for edit in edits:
                yield from edit(scene, node)


def after(source: Source, node: ast.stmt, text: str, indent: str) -> tuple[tuple[int, int, str], ...]:
    """The text as a new line behind the statement."""
    end = source.starts[node.end_lineno or node.lineno] - 1
    end = min(end, len(source.data))
    return ((end, end, f"\n{textwrap.indent(text, indent)}"),)


def before(source: Source, node: ast.stmt, text: str) -> tuple[tuple[int, int, str], ...]:
    start = source.starts[node.lineno - 1]
    return ((start, start, f"{textwrap.indent(text, source.indent(node))}\n"),)


def first_on_its_line(source: Source, node: ast.stmt) -> bool:
    return not source.indent(node).strip()


# ---- assignments -----------------------------------------------------------------------------------------------


def _augmented_assignments(scene: Scene, node: ast.AugAssign) -> Iterator[Change]:
    source = scene.source
    start, end = source.span(node.target)[1], source.span(node.value)[0]
    match = ASSIGNMENT.search(source.between(start, end))
    if match:
        for at, other in enumerate(ASSIGNING.get(match.group(), ())):
            yield "assignment", 1.0 - at * 0.2, ((start + match.start(), start + match.end(), other),)


def _assignments(scene: Scene, node: ast.Assign) -> Iterator[Change]:
    source, target = scene.source, node.targets[0]
    if len(node.targets) == 1 and isinstance(target, ast.Name | ast.Attribute | ast.Subscript):
        equals = source.data.find(b"=", source.span(target)[1])
        for other in ("+=", "-="):
            yield "assignment", 0.4, ((equals, equals + 1, other),)
        yield from _one_more(scene, node.value, 0.35)
    if isinstance(target, ast.Name) and isinstance(scene.function(node), Function):
        attributes = scene.attributes(node)
        if target.id in attributes:
            yield "name", 0.6, put(source, target, f"self.{target.id}")


def _one_more(scene: Scene, value: ast.expr, weight: float) -> Iterator[Change]:
    if isinstance(value, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.BinOp):
        text = scene.source.text(value)
        for more in (" + 1", " - 1"):
            yield "off by one", weight, put(scene.source, value, text + more)
    if isinstance(value, ast.Name | ast.Attribute | ast.Subscript):
        text = scene.source.text(value)
        for around in (
            "list({})",
            "len({})",
            "abs({})",
            "sorted({})",
            "int({})",
            "str({})",
            "-{}",
            "{}.copy()",
            "{}.strip()",
        ):
            yield "missing call", 0.22, put(scene.source, value, around.format(text))


# ---- returns, raises, loops ------------------------------------------------------------------------------------


def _returns(scene: Scene, node: ast.Return) -> Iterator[Change]:
    source, value = scene.source, node.value
    names = [*scene.names(node)[:8], *(f"self.{name}" for name in scene.attributes(node)[:5])]
    if value is None:
        for text in (*names, "None", "True", "False"):
            yield "return value", 0.5, put(source, node, f"return {text}")
        return
    yield from _one_more(scene, value, 0.45)
    if not isinstance(value, ast.Name | ast.Attribute | ast.UnaryOp | ast.BinOp | ast.Tuple):
        yield "negation", 0.45, put(source, value, f"not {source.atom(value)}")
    if isinstance(value, ast.Constant):
        for text in names:
            yield "return value", 0.35, put(source, value, text)
    yield from _moves(scene, node)


def _dropped_values(scene: Scene, node: ast.Expr) -> Iterator[Change]:
    """A value that is computed and dropped: it was to be returned or raised."""
    if isinstance(node.value, ast.Constant):
        return
    start = scene.source.span(node)[0]
    own = scene.function(node)
    body: list[ast.stmt] = getattr(own, "body", [])
    last = bool(body) and body[-1] is node
    if own is not None:
        yield "missing return", 0.85 if last else 0.45, ((start, start, "return "),)
    call = node.value.func if isinstance(node.value, ast.Call) else None
    if isinstance(call, ast.Name) and call.id in scene.errors:
        yield "missing raise", 0.9, ((start, start, "raise "),)


def _missing_returns(scene: Scene, node: ast.FunctionDef) -> Iterator[Change]:
    """A function that ends without a return: the values that it could return."""
    if isinstance(node.body[-1], ast.Return | ast.Raise) or not first_on_its_line(
        scene.source, node.body[-1]
    ):
        return
    indent = scene.source.indent(node.body[0])
    stores = list(dict.fromkeys(reversed(list(local_names(node)))))
    others = [*scene.attributes(node.body[0])[:3]]
    valued = any(isinstance(n, ast.Return) and n.value for n in ast.walk(node))
    weight = 0.5 if valued else 0.75
    for at, text in enumerate([*stores[:6], "True", "False", *(f"self.{name}" for name in others), "self"]):
        yield (
            "missing return",
            weight - at * 0.03,
            after(scene.source, node.body[-1], f"return {text}", indent),
        )


def _jumps(scene: Scene, node: ast.Break | ast.Continue) -> Iterator[Change]:
    yield "jump", 0.9, put(scene.source, node, "continue" if isinstance(node, ast.Break) else "break")
    yield "jump", 0.4, put(scene.source, node, "pass")


def _loops(scene: Scene, node: ast.For) -> Iterator[Change]:
    if isinstance(node.iter, ast.Name | ast.Attribute):
        end = scene.source.span(node.iter)[1]
        for text in ("[1:]", "[:-1]"):
            yield "slice", 0.3, ((end, end, text),)
        text = scene.source.text(node.iter)
        for around in ("reversed({})", "sorted({})", "list({})", "enumerate({})", "{}.items()", "range({})"):
            yield "missing call", 0.25, put(scene.source, node.iter, around.format(text))


def _raises(scene: Scene, node: ast.Raise) -> Iterator[Change]:
    exception = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
    if isinstance(exception, ast.Name):
        for at, other in enumerate(o for o in scene.errors if o != exception.id):
            yield "exception", max(0.3, 0.7 - at * 0.05), put(scene.source, exception, other)
    yield "missing raise", 0.2, put(scene.source, node, "return None")


def _handlers(scene: Scene, node: ast.Try) -> Iterator[Change]:
    for handler in node.handlers:
        kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
        for kind in kinds:
            if isinstance(kind, ast.Name):
                for at, other in enumerate(o for o in (*scene.errors, "Exception") if o != kind.id):
                    yield "exception", max(0.3, 0.7 - at * 0.05), put(scene.source, kind, other)


# ---- conditions and blocks -------------------------------------------------------------------------------------


def _conditions(scene: Scene, node: ast.If | ast.While) -> Iterator[Change]:
    yield from conditions(scene, node.test)
    source, start = scene.source, scene.source.span(node)[0]
    word = source.between(start, start + 6)
    if isinstance(node, ast.If) and word.startswith("elif"):
        yield "condition", 0.4, ((start, start + 4, "if"),)
    elif isinstance(node, ast.If) and word.startswith("if"):
        yield "loop", 0.3, ((start, start + 2, "while"),)
        above = source.parents.get(node)
        body: list[ast.stmt] = getattr(above, "body", [])
        at = body.index(node) if node in body else 0
        if at and isinstance(body[at - 1], ast.If):
            yield "condition", 0.3, ((start, start, "el"),)
    elif isinstance(node, ast.While):
        yield "loop", 0.3, ((start, start + 5, "if"),)


def _lines(source: Source, node: ast.stmt) -> tuple[int, int]:
    """The bytes of the statement's whole lines, with the last end of line."""
    return source.starts[node.lineno - 1], min(
        source.starts[node.end_lineno or node.lineno], len(source.data)
    )


def _moves(scene: Scene, node: ast.stmt) -> Iterator[Change]:
    """The last statement of a block, one level further out, or the one behind a block inside it."""
    source = scene.source
    above = source.parents.get(node)
    if not first_on_its_line(source, node) or not isinstance(above, ast.stmt):
        return
    start, end = _lines(source, node)
    body: list[ast.stmt] = getattr(above, "body", [])
    if (
        isinstance(above, ast.For | ast.While | ast.If | ast.With | ast.Try)
        and len(body) > 1
        and body[-1] is node
    ):
        inner, outer = source.indent(node), source.indent(above)
        yield "indentation", 0.6, ((start, end, _reindent(source.between(start, end), inner, outer)),)
    at = body.index(node) if node in body else 0
    block = body[at - 1] if at else None
    if (
        isinstance(block, ast.For | ast.While | ast.If)
        and first_on_its_line(source, block)
        and block.body[0].lineno > block.lineno
    ):
        inner = source.indent(block.body[0])
        yield (
            "indentation",
            0.5,
            ((start, end, _reindent(source.between(start, end), source.indent(node), inner)),),
        )


def _reindent(text: str, old: str, new: str) -> str:
    return "".join(
        new + line[len(old) :] if line.startswith(old) else line for line in text.splitlines(keepends=True)
    )


def _deletions(scene: Scene, node: ast.stmt) -> Iterator[Change]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    yield "statement", 0.3, put(scene.source, node, "pass")


def _missing_statements(scene: Scene, node: ast.stmt) -> Iterator[Change]:
    """A condition that the statement lacks, or a statement of the same file that is missing before or behind it."""
    source = scene.source
    if not first_on_its_line(source, node) or scene.function(node) is None:
        return
    start, end = source.span(node)
    text, indent = source.between(start, end), source.indent(node)
    if "\n" not in text:
        for condition in scene.conditions(node)[:6]:
            yield "missing condition", 0.16, ((start, end, f"if {condition}:\n{indent}    {text}"),)
    for donor in _donors(scene, node):
        yield "missing statement", 0.2, before(source, node, donor)
        if not isinstance(node, EARLY):
            yield "missing statement", 0.18, after(source, node, donor, indent)


def _donors(scene: Scene, node: ast.stmt) -> list[str]:
    """Short statements of the same function, then of the same class or file, whose names are in scope."""
    own, above = scene.function(node), scene.class_of(node)
    in_scope = {
        *scene.names(node),
        *scene.functions,
        *scene.classes,
        *scene.errors,
        "self",
        "len",
        "min",
        "max",
        "int",
        "str",
    }
    donors = list[str]()
    for place in (own, above or scene.source.tree):
        for one in ast.walk(place) if place else ():
            guard = (
                isinstance(one, ast.If)
                and len(one.body) == 1
                and not one.orelse
                and isinstance(one.body[0], EARLY)
            )
            if one is node or not (isinstance(one, SIMPLE) or guard) or isinstance(one, ast.Return):
                continue
            text = (
                textwrap.dedent(scene.source.indent(one) + scene.source.text(one))
                if isinstance(one, ast.stmt)
                else ""
            )
            names = {n.id for n in ast.walk(one) if isinstance(n, ast.Name)}
            if text and text.count("\n") <= 1 and names <= in_scope and '"""' not in text:
                donors.append(text)
    counts = [f"{name} {sign}= 1" for name in scene.names(node)[:3] for sign in "+-"]
    return [*list(dict.fromkeys(donors))[:DONORS_MOST], *counts]


# ---- definitions -----------------------------------------------------------------------------------------------


def _defaults(scene: Scene, node: ast.FunctionDef) -> Iterator[Change]:
    """A list or dictionary as a default is shared by all calls."""
    source, args = scene.source, node.args
    parameters = [*args.posonlyargs, *args.args]
    first = node.body[0]
    for arg, default in zip(parameters[len(parameters) - len(args.defaults) :], args.defaults, strict=True):
        if isinstance(default, ast.List | ast.Dict | ast.Set) and first_on_its_line(source, first):
            text = f"if {arg.arg} is None:\n    {arg.arg} = {source.text(default)}"
            docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
            place = (
                after(source, first, text, source.indent(first)) if docstring else before(source, first, text)
            )
            yield "default", 0.8, (*put(source, default, "None"), *place)
    stores = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    outer = scene.function(node)
    around = set(local_names(outer)) if outer else set(scene.globals)
    for name in sorted(stores & around)[:4]:
        word = "nonlocal" if outer else "global"
        yield (
            "scope",
            0.5,
            before(source, first, f"{word} {name}") if first_on_its_line(source, first) else (),
        )


KINDS: dict[
    type[ast.stmt] | tuple[type[ast.stmt], ...], tuple[Callable[[Scene, ast.AST], Iterator[Change]], ...]
] = {  # pyright: ignore[reportAssignmentType]
    ast.AugAssign: (_augmented_assignments, _moves),
    ast.Assign: (_assignments,),
    ast.Return: (_returns,),
    ast.Expr: (_dropped_values, _moves),
    (ast.FunctionDef, ast.AsyncFunctionDef): (_missing_returns, _defaults),
    (ast.Break, ast.Continue): (_jumps,),
    ast.For: (_loops,),
    ast.Raise: (_raises,),
    ast.Try: (_handlers,),
    (ast.If, ast.While): (_conditions,),
    (ast.Expr, ast.Assign, ast.AugAssign, ast.Raise, ast.If): (_deletions,),
    (ast.Expr, ast.Assign, ast.AugAssign, ast.Return, ast.Raise, ast.Pass): (_missing_statements,),
}
