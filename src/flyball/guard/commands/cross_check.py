"""A second parser: a line is allowed only if tree-sitter's bash sees the same commands and no error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

NODES_MOST = 20_000

_OPAQUE = frozenset({"heredoc_body", "heredoc_content", "comment", "raw_string"})


_COMPARED = re.compile(rb"""(?<= )(?:\\[<>]|'[<>]'|"[<>]")(?= )""")


def _known_comparison(match: re.Match[bytes]) -> bytes:
    return b"==" if len(match[0]) == 2 else b"-eq"


@cache
def _parser() -> Parser:
    return Parser(Language(tree_sitter_bash.language()))


def disagreement(text: str, starts: frozenset[int]) -> str:
    """Why the second parser disagrees with ours, or '' if it does not.

    `starts` are the offsets where our parser saw commands begin; every command that the second one sees
    outside heredocs and backticks must be among them.
    """
    source = text.encode("utf-8", "surrogatepass")
    root = _parser().parse(source).root_node
    if root.has_error:  # it does not know `[ a \\> b ]`: try again with a comparison that it knows
        root = _parser().parse(_COMPARED.sub(_known_comparison, source)).root_node
    if root.has_error:
        return "a second parser cannot read it"
    places = (
        starts
        if text.isascii()
        else frozenset(len(text[:at].encode("utf-8", "surrogatepass")) for at in starts)
    )
    for number, node in enumerate(_nodes(root)):
        if number > NODES_MOST:
            return "it has too many parts"
        if node.is_missing:
            return "a second parser misses something"
        if node.type == "command_name" and node.start_byte not in places:
            return "two parsers see different commands"
    return ""


def _nodes(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if node.type in _OPAQUE or (
            node.type == "command_substitution" and (node.text or b"").startswith(b"`")
        ):
            continue
        waiting.extend(node.children)
