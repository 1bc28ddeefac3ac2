"""What an edit can draw on: the names in scope, and the constants, conditions and exceptions that the project uses."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Iterator
from functools import cached_property

from flyball.agents.mechanic.source import Function, Source

NUMBERS_MOST = 12
WORDS_MOST = 10
NAMES_MOST = 10
CONDITIONS_MOST = 12
ERRORS = (
    "ValueError",
    "KeyError",
    "IndexError",
    "TypeError",
    "AttributeError",
    "ZeroDivisionError",
    "LookupError",
)


class Scene:
    """One source file, with the test files beside it."""

    def __init__(self, source: Source, tests: Iterable[ast.AST] = ()) -> None:
        self.source = source
        self.tests = list(tests)
        self._names = dict[ast.AST | None, list[str]]()

    # ---- constants

    def numbers(self, node: ast.AST) -> list[int | float]:
        """Numbers of the same function first, then of the file, then of the tests."""
        own = self.function(node)
        places = [*([own] if own else []), self.source.tree, *self.tests]
        values = [value for place in places for value in _constants(place) if _is_number(value)]
        return [v for v in dict.fromkeys(values) if isinstance(v, int | float)][:NUMBERS_MOST]

    def words(self, word: str) -> list[str]:
        """Texts of the file and its tests, the most similar first."""
        others = [other for other in self._words if other != word]
        return sorted(others, key=lambda other: -similar(word, other))[:WORDS_MOST]

    @cached_property
    def _words(self) -> list[str]:
        places = [self.source.tree, *self.tests]
        words = [value for place in places for value in _constants(place) if isinstance(value, str)]
        return [word for word in dict.fromkeys(words) if len(word) <= 60 and "\n" not in word]

    # ---- names

    def names(self, node: ast.AST) -> list[str]:
        """Variables in scope: of the functions around it, then of the module."""
        own = self.function(node)
        if own not in self._names:
            self._names[own] = list(dict.fromkeys(self._names_for(own)))
        return self._names[own]

    def _names_for(self, own: ast.AST | None) -> Iterator[str]:
        while own is not None:
            yield from local_names(own)
            own = self.function(own)
        yield from (name for name in self.globals if name not in self.functions and name not in self.classes)

    def function(self, node: ast.AST) -> ast.AST | None:
        return self.source.enclosing(node, (ast.FunctionDef, ast.AsyncFunctionDef))

    def class_of(self, node: ast.AST) -> ast.ClassDef | None:
        above = self.source.enclosing(node, ast.ClassDef)
        return above if isinstance(above, ast.ClassDef) else None

    def attributes(self, node: ast.AST) -> list[str]:
        """The attributes of `self` that the class around it mentions."""
        above = self.class_of(node)
        places = ast.walk(above) if above else ()
        return list(
            dict.fromkeys(n.attr for n in places if isinstance(n, ast.Attribute) and _is_self(n.value))
        )

    @cached_property
    def globals(self) -> list[str]:
        return list(dict.fromkeys(local_names(self.source.tree)))

    @cached_property
    def functions(self) -> dict[str, Function]:
        return {node.name: node for node in ast.walk(self.source.tree) if isinstance(node, Function)}

    @cached_property
    def methods(self) -> list[str]:
        """The attributes that this file uses or defines, whatever of."""
        used = [node.attr for node in ast.walk(self.source.tree) if isinstance(node, ast.Attribute)]
        return list(dict.fromkeys([*used, *self.functions]))

    @cached_property
    def classes(self) -> list[str]:
        return [node.name for node in ast.walk(self.source.tree) if isinstance(node, ast.ClassDef)]

    @cached_property
    def errors(self) -> list[str]:
        """Exceptions: those that the tests expect and the file defines or names, then the usual ones."""
        names = [
            n.id
            for place in (*self.tests, self.source.tree)
            for n in ast.walk(place)
            if isinstance(n, ast.Name)
        ]
        own = [
            node.name
            for node in ast.walk(self.source.tree)
            if isinstance(node, ast.ClassDef) and _is_error(node)
        ]
        candidates = (name for name in names if name.endswith(("Error", "Exception")) or name in own)
        return list(dict.fromkeys([*candidates, *own, *ERRORS]))

    def conditions(self, node: ast.AST) -> list[str]:
        """Conditions that could be missing: those around it in the file whose names are in scope, then simple ones."""
        names = self.names(node)
        excluded = {*names, *self.functions, "len", "isinstance", "self", "None", "int", "str"}
        texts = [
            self.source.text(test)
            for test in self._tests_around(node)
            if {n.id for n in ast.walk(test) if isinstance(n, ast.Name)} <= excluded
        ]
        simple = [text for name in names[:4] for text in (name, f"not {name}", f"{name} is not None")]
        return list(dict.fromkeys([*texts, *simple]))[:CONDITIONS_MOST]

    def _tests_around(self, node: ast.AST) -> Iterator[ast.expr]:
        own = self.function(node)
        for place in [*([own] if own else []), self.source.tree]:
            for one in ast.walk(place):
                if isinstance(one, ast.Compare) and not isinstance(self.source.parents.get(one), ast.Assert):
                    yield one


def local_names(place: ast.AST) -> Iterator[str]:
    """The names that a function or module binds itself, not those of functions inside it."""
    if isinstance(place, Function):
        arguments = place.args
        yield from (
            arg.arg
            for arg in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            if arg.arg not in ("self", "cls")
        )
    stack: list[ast.AST] = list(ast.iter_child_nodes(place))
    while stack:
        node = stack.pop(0)
        if isinstance(node, Function | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            stack += ast.iter_child_nodes(node)


def similar(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one.lower(), other.lower()).ratio()


def nearest(word: str, others: Iterable[str], most: int = NAMES_MOST) -> list[str]:
    return sorted((o for o in others if o != word), key=lambda other: -similar(word, other))[:most]


def _constants(place: ast.AST) -> Iterator[object]:
    for node in ast.walk(place):
        if isinstance(node, ast.Constant):
            yield node.value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_error(node: ast.ClassDef) -> bool:
    return any(isinstance(base, ast.Name) and base.id.endswith(("Error", "Exception")) for base in node.bases)


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("self", "cls")
