"""Python's syntax tree: parsed without warnings, and walked with parts left out."""

import ast
import warnings


def parsed(text: str) -> ast.Module | None:
    """The tree of a text, or None if it is not Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def walk(*roots: ast.AST, but: tuple[type[ast.AST], ...] = ()) -> list[ast.AST]:
    """The roots and every node below them, level by level. Nodes of the kinds in `but` are not entered."""
    nodes = list(roots)
    for node in nodes:
        if not isinstance(node, but):
            nodes.extend(ast.iter_child_nodes(node))
    return nodes
