"""All edits that are worth trying on some source files, the likeliest first."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Collection, Iterable, Iterator

from flyball.agents.mechanic.constant_edits import Change
from flyball.agents.mechanic.expression_edits import expression_edits
from flyball.agents.mechanic.scene import Scene
from flyball.agents.mechanic.source import Edit, Span, own_expressions, statements
from flyball.agents.mechanic.statement_edits import statement_edits
from flyball.agents.mechanic.suspects import Scores

HEADER = re.compile(r"\s*(?:if|elif|else|for|while|def|class|with|try|except|finally|async)\b")


CROWDED = 0.985  # each further edit of one statement counts a little less: a long table is not tried to its end first
NAMED = 4.0  # the error message names what the edit replaces


def edits(scenes: Iterable[Scene], scores: Scores, complaints: Collection[str] = ()) -> list[Edit]:
    """In the order in which to try them: suspicion of the statement times the weight of the edit.

    `complaints` are the names that error messages complain of."""
    every = [edit for scene in scenes for edit in _of_a_file(scene, scores, complaints)]
    return sorted(every, key=lambda edit: -edit.weight)


def _of_a_file(scene: Scene, scores: Scores, complaints: Collection[str]) -> Iterator[Edit]:
    visited = set[tuple[Span, ...]]()
    for node in statements(scene.source.tree):
        score = scores.get(node, 0.0)
        changes = list(_changes(scene, node)) if score else []
        weights = [weight * _hint(scene, spans, complaints) for _, (_, weight, spans) in changes]
        for rank, at in enumerate(sorted(range(len(changes)), key=lambda at: -weights[at])):
            line, (kind, _, spans) = changes[at]
            if spans not in visited:
                visited.add(spans)
                yield Edit(scene.source.name, line, kind, spans, weights[at] * score * CROWDED**rank)


def _hint(scene: Scene, spans: tuple[Span, ...], complaints: Collection[str]) -> float:
    return (
        NAMED
        if complaints and any(scene.source.between(start, end) in complaints for start, end, _ in spans)
        else 1.0
    )


def _changes(scene: Scene, node: ast.stmt) -> Iterator[tuple[int, Change]]:
    yield from ((node.lineno, change) for change in statement_edits(scene, node))
    for part in own_expressions(node):
        inside = scene.source.enclosing(part, ast.JoinedStr) is not None
        if not inside or scene.source.at_its_place(part):
            yield from ((part.lineno, change) for change in expression_edits(scene, part))


def compiles(data: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(data, "edit", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        return False
    return True


def syntax_edits(name: str, data: bytes) -> list[Edit]:
    """For a file that does not compile: what is often forgotten on the line of the error or the one before."""
    try:
        compile(data, name, "exec", dont_inherit=True)
    except SyntaxError as problem:
        number = problem.lineno or 1
    except ValueError:
        return []
    else:
        return []
    starts = [0]
    for line in data.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    lines = [n for n in (number, number - 1, number + 1) if 0 < n < len(starts)]
    return [
        Edit(name, n, "syntax", ((starts[n - 1], starts[n] - 1, text),), 1.0 - at * 0.1)
        for at, n in enumerate(lines)
        for text in _syntax_repairs(data[starts[n - 1] : starts[n] - 1].decode("utf-8", "replace"))
        if compiles(data[: starts[n - 1]] + text.encode() + data[starts[n] - 1 :])
    ]


def _syntax_repairs(line: str) -> Iterator[str]:
    code, comment = (
        (match.group(1), match.group(2)) if (match := re.match(r"(.*?)(\s*#.*|\s*)$", line)) else (line, "")
    )
    if HEADER.match(code) and not code.endswith(":"):
        yield f"{code}:{comment}"
        yield re.sub(r"(?<![=!<>+\-*/%&|^:])=(?!=)", "==", code, count=1) + f":{comment}"
    yield re.sub(r"(?<![=!<>+\-*/%&|^:])=(?!=)", "==", code, count=1) + comment
    for end in (")", "]", "}", '"', "'", "))", ",", "):"):
        yield f"{code}{end}{comment}"
        if code.endswith(":"):
            yield f"{code[:-1]}{end}:{comment}"
    for end in (")", "]", "}", ":", ","):
        if code.endswith(end):
            yield code[:-1] + comment
    yield from (f"    {line}", line.removeprefix("    "), line.strip())
