"""Edits of constants: numbers, texts, True and False, None, and the formats in f-strings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from flyball.agents.mechanic.scene import Scene, similar
from flyball.agents.mechanic.source import Source, Span

PUNCTUATION = (" ", "", ",", ".", ":", ";", "-", "_", "/", "|", "!", "?", "+", "*", "=", "#")
Change = tuple[str, float, tuple[Span, ...]]  # kind, weight, spans


def put(source: Source, node: ast.AST, text: str) -> tuple[Span, ...]:
    return ((*source.span(node), text),)


def constants(scene: Scene, node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", 1.0, put(scene.source, node, str(not value))
    elif isinstance(value, int | float):
        yield from _numbers(scene, node, value)
    elif isinstance(value, str) and not isinstance(scene.source.parents.get(node), ast.JoinedStr | ast.Expr):
        yield from _strings(scene, node, value)
    elif value is None:
        names = [*scene.names(node)[:6], *(f"self.{name}" for name in scene.attributes(node)[:4])]
        for text in ("0", '""', "[]", "{}", "True", "False", "1", *names):
            yield "constant", 0.25, put(scene.source, node, text)


def _numbers(scene: Scene, node: ast.Constant, value: int | float) -> Iterator[Change]:
    above = scene.source.parents.get(node)
    minus = isinstance(above, ast.UnaryOp) and isinstance(above.op, ast.USub)
    near: list[tuple[int | float, float]] = [(value + 1, 0.95), (value - 1, 0.95)]
    usual: list[tuple[int | float, float]] = [(0, 0.55), (1, 0.55), (-value, 0.5), (-1, 0.5), (2, 0.4)]
    scaled: list[tuple[int | float, float]] = [
        (value * 10, 0.3),
        (value * 2, 0.3),
        (value + 2, 0.3),
        (value - 2, 0.3),
    ]
    scaled += (
        [(value // 10, 0.3), (value // 2, 0.3)]
        if isinstance(value, int)
        else [(value / 10, 0.3), (value / 2, 0.3)]
    )
    pool = [(other, 0.45 - at * 0.01) for at, other in enumerate(scene.numbers(node))]
    excluded = {repr(value), *_without_effect(scene.source.parents.get(node))}
    for other, weight in (*near, *usual, *pool, *scaled):
        if repr(other) in excluded or (minus and other < 0):
            continue
        excluded.add(repr(other))
        text = repr(other)
        yield (
            "constant",
            weight,
            put(scene.source, node, f"({text})" if other < 0 and not scene.source.loose(node) else text),
        )


def _without_effect(above: ast.AST | None) -> tuple[str, ...]:
    """`x + 0` and `x * 1` say nothing: leaving the operand out is the edit for that."""
    if not isinstance(above, ast.BinOp):
        return ()
    return (
        ("0",)
        if isinstance(above.op, ast.Add | ast.Sub)
        else ("1",)
        if isinstance(above.op, ast.Mult | ast.Div)
        else ()
    )


def _strings(scene: Scene, node: ast.Constant, value: str) -> Iterator[Change]:
    text = scene.source.text(node)
    quote = text[-1:]
    if not value.isprintable() or quote not in "'\"" or text.endswith(quote * 3) or text[:1] not in "'\"rR":
        return
    raw = text[0] in "rR"
    excluded = {value}
    for other, weight in _texts(scene, value):
        if other in excluded or quote in other or (raw and other.endswith("\\")):
            continue
        excluded.add(other)
        body = other if raw else other.replace("\\", "\\\\").replace("\n", "\\n").replace("\t", "\\t")
        yield "constant", weight, put(scene.source, node, f"{'r' if raw else ''}{quote}{body}{quote}")


def _texts(scene: Scene, value: str) -> Iterator[tuple[str, float]]:
    for other in scene.words(value):
        yield other, 0.3 + 0.55 * similar(value, other)
    for other in {"": (" ", ",", ", ", "\n", "-"), " ": ("", "\n", "  ")}.get(value, ()):
        yield other, 0.5
    for other in PUNCTUATION if len(value) == 1 and not value.isalnum() else ():
        yield other, 0.4
    for other in (
        value.strip(),
        f"{value} ",
        f" {value}",
        value.lower(),
        value.upper(),
        value.capitalize(),
        value.swapcase(),
    ):
        yield other, 0.45
    for match in re.finditer(r"\d+", value):
        for step in (1, -1):
            yield f"{value[: match.start()]}{max(0, int(match.group()) + step)}{value[match.end() :]}", 0.45
    for old, new in (
        ("+", "*"),
        ("*", "+"),
        ("-", "_"),
        ("_", "-"),
        ("<", ">"),
        (">", "<"),
        (".", ","),
        (r"\d", r"\w"),
    ):
        if old in value:
            yield value.replace(old, new, 1), 0.35
    yield from ((other, 0.3) for other in (value[1:], value[:-1], value[1:-1], value[2:-2], value[::-1]))


def f_strings(scene: Scene, node: ast.JoinedStr) -> Iterator[Change]:
    """Numbers of its formats, and small changes of what stands between its values."""
    text, start = scene.source.text(node), scene.source.span(node)[0]
    if "{{" in text or "\n" in text or not text.isascii():
        return
    for match in re.finditer(r"(?<=[:.<>^0, ])\d+(?=[a-z%]?\})", text):
        for step in (1, -1):
            number = str(max(0, int(match.group()) + step))
            yield "constant", 0.6, ((start + match.start(), start + match.end(), number),)
    for match in re.finditer(r"[<>^](?=\d+\})", text):
        for other in "<>^".replace(match.group(), ""):
            yield "constant", 0.4, ((start + match.start(), start + match.end(), other),)
    for match in re.finditer(r"\}([^{}]*)(?=[{\"'])", text):
        for other in ("", " ", ", ", ",", ":", ": ", "-", ".", "/"):
            if other != match.group(1) and len(match.group(1)) <= 3:
                yield "constant", 0.25, ((start + match.start(1), start + match.end(1), other),)
