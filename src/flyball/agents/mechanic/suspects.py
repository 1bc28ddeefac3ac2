"""Which statements are suspicious: those that failing tests run and passing tests do not (Ochiai's coefficient)."""

from __future__ import annotations

import ast
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping

from flyball.agents.mechanic.source import Function, Source, statements
from flyball.agents.mechanic.trials import Place, Row

CRASHED = 1.3  # an exception came from this very line
DEFINED = 0.9  # not run by a test itself, but what it defines is used where it is suspicious
PARTIAL = 0.5  # not run by every failing test: with one bug it would be

Scores = dict[ast.stmt, float]


def line_scores(rows: Iterable[Row]) -> dict[Place, float]:
    """How suspicious each line is, from 0 to about 1."""
    failed, passed = defaultdict[Place, int](int), defaultdict[Place, int](int)
    failing = 0
    crashes = set[Place]()
    for row in rows:
        failing += row.outcome == "failed"
        for place in row.lines | frozenset(row.places):
            (failed if row.outcome == "failed" else passed)[place] += 1
        if row.places and not row.error.startswith("AssertionError"):
            crashes.add(row.places[-1])
    scores = {place: ochiai(count, passed[place], failing) for place, count in failed.items()}
    return {place: score * (CRASHED if place in crashes else 1) for place, score in scores.items()}


def ochiai(failed: int, passed: int, failing: int) -> float:
    """`failed` and `passed` tests run the line; `failing` tests fail in all."""
    score = failed / math.sqrt(failing * (failed + passed)) if failed else 0.0
    return score if failed == failing else score * PARTIAL


def statement_scores(sources: Iterable[Source], lines: Mapping[Place, float]) -> Scores:
    """The score of every statement that a failing test runs, or uses what it defines."""
    sources = list(sources)
    scores: Scores = {}
    for source in sources:
        for node in statements(source.tree):
            score = max(lines.get((source.name, line), 0.0) for line in _header(node))
            if score and not isinstance(node, Function | ast.ClassDef):
                scores[node] = score
    mentions = _mentions(sources, scores)
    for source in sources:
        for node in statements(source.tree):
            score = _as_definition(source, node, scores, mentions)
            if score > scores.get(node, 0.0):
                scores[node] = score
    return scores


def _header(node: ast.stmt) -> range:
    """The lines of a statement without those of the statements inside it."""
    body: list[ast.stmt] = getattr(node, "body", [])
    end = body[0].lineno - 1 if body and isinstance(body[0], ast.stmt) else (node.end_lineno or node.lineno)
    return range(node.lineno, max(node.lineno, end) + 1)


def _mentions(sources: Iterable[Source], scores: Scores) -> dict[str, float]:
    """For each name, the score of the most suspicious statement that mentions it."""
    most = dict[str, float]()
    for source in sources:
        for node in ast.walk(source.tree):
            name = (
                node.id
                if isinstance(node, ast.Name)
                else node.attr
                if isinstance(node, ast.Attribute)
                else ""
            )
            above = source.enclosing(node, ast.stmt) if name else None
            if isinstance(above, ast.stmt):
                most[name] = max(most.get(name, 0.0), scores.get(above, 0.0))
    return most


def _as_definition(source: Source, node: ast.stmt, scores: Scores, mentions: Mapping[str, float]) -> float:
    if isinstance(node, Function):  # its defaults
        return DEFINED * max(
            (scores.get(inner, 0.0) for inner in statements(node) if inner is not node), default=0.0
        )
    if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(
        source.parents[node], ast.Module | ast.ClassDef
    ):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        names = [name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)]
        return DEFINED * max((mentions.get(name, 0.0) for name in names), default=0.0)
    return 0.0
