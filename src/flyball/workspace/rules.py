"""Ignore rules and attributes, pinned: those of one commit, flattened into one file that no later edit reaches.

A rule of `docs/.gitignore` means the same as a rule at the top with `docs/` before it. Shallow files come first
and deep ones last, since in git the last match decides. What the agent does to its own `.gitignore` or
`.gitattributes` changes files of the tree like any other edit, and hides nothing.
"""

from collections.abc import Sequence
from typing import NamedTuple

from flyball.workspace.git import Git, names
from flyball.workspace.objects import Objects

BOM = b"\xef\xbb\xbf"
CONVERSIONS = b"!text !eol !crlf !ident !working-tree-encoding !filter !diff !merge"


class Entry(NamedTuple):
    """One file of a tree."""

    path: bytes
    mode: bytes
    oid: bytes


def entries(git: Git, tree: str) -> list[Entry]:
    """Every file of a tree, in git's order."""
    listed: list[Entry] = []
    for row in names(git("ls-tree", "-r", "-z", "--full-tree", tree)):
        head, path = row.split(b"\t", 1)
        mode, _, oid = head.split(b" ")
        listed.append(Entry(path, mode, oid))
    return listed


def ignore_rules(git: Git, files: Sequence[Entry], outer: Sequence[bytes]) -> bytes:
    """`outer` (user-wide first) and then every .gitignore of the tree, as rules of the top."""
    blocks = [_lines(block) for block in outer]
    blocks += [
        [_moved(rule, folder) for rule in _lines(content) if _is_rule(rule)]
        for folder, content in _contents(git, files, b".gitignore")
    ]
    return b"".join(rule + b"\n" for block in blocks for rule in block)


def attribute_rules(git: Git, files: Sequence[Entry]) -> bytes:
    """Every .gitattributes of the tree; attributes it does not give are unset, filters and diff drivers off."""
    lines = [b"* " + CONVERSIONS]
    for folder, content in _contents(git, files, b".gitattributes"):
        lines += [_moved_attributes(rule, folder) for rule in _lines(content) if _is_rule(rule)]
    return b"\n".join([*(line for line in lines if line), b"* -filter !diff", b""])


def uses_lfs(git: Git, files: Sequence[Entry]) -> bool:
    contents = _contents(git, files, b".gitattributes")
    return any(b"filter=lfs" in rule for _, text in contents for rule in _lines(text) if _is_rule(rule))


def _contents(git: Git, files: Sequence[Entry], name: bytes) -> list[tuple[bytes, bytes]]:
    """(folder, content) of each file of that name, shallow folders first; links are not followed."""
    wanted = [
        file for file in files if file.path.rpartition(b"/")[2] == name and file.mode.startswith(b"100")
    ]
    wanted.sort(key=lambda file: (file.path.count(b"/"), file.path))
    contents = Objects(git).blobs([file.oid.decode() for file in wanted])
    return [(file.path.rpartition(b"/")[0], data or b"") for file, data in zip(wanted, contents, strict=True)]


def _lines(content: bytes) -> list[bytes]:
    return [line.removesuffix(b"\r") for line in content.removeprefix(BOM).split(b"\n")]


def _is_rule(line: bytes) -> bool:
    return bool(line.strip()) and not line.startswith(b"#")


def _moved(rule: bytes, folder: bytes) -> bytes:
    """The ignore rule as it reads one or more folders up."""
    if not folder:
        return rule
    negation, pattern = (b"!", rule[1:]) if rule.startswith(b"!") else (b"", rule)
    return negation + _below(folder, pattern)


def _below(folder: bytes, pattern: bytes) -> bytes:
    anchored = b"/" in pattern.rstrip(b" ")[:-1] or pattern == b"/"
    return b"/" + _literal(folder) + (b"/" if anchored else b"/**/") + pattern.removeprefix(b"/")


def _literal(folder: bytes) -> bytes:
    """A folder's name in which no character is a wildcard."""
    special = b"\\*?[]!#"
    return b"".join(b"\\" + bytes([byte]) if byte in special else bytes([byte]) for byte in folder)


def _moved_attributes(rule: bytes, folder: bytes) -> bytes:
    """The attribute line as it reads at the top; empty where git too would pass it over."""
    if not folder:
        return rule
    if rule.startswith((b"[attr]", b"!", b'"')):
        return b""
    pattern, *given = rule.split()
    if any(byte in b' \t"' for byte in folder):
        return b'"' + _quoted(_below(folder, pattern)) + b'" ' + b" ".join(given)
    return b" ".join([_below(folder, pattern), *given])


def _quoted(pattern: bytes) -> bytes:
    return pattern.replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\t", b"\\t")
