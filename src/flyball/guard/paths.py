"""Paths: names as the most lenient disk compares them, where a path leads, and patterns as in ignore files.

Nothing here reads the disk: links are given. Protection compares folded names (composed, case folded, without
characters that a file system ignores and without trailing dots and spaces); an exemption compares exact names.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Literal

import msgspec

# --- names

_IGNORED = re.compile(
    "[\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
"""Characters that some file systems ignore."""

_LOOKALIKES = str.maketrans(
    "\u0131\u0456\u04cf\u0261\u03b9\u0442\u0430\u0435\u043e\u0441\u04bb\u0455\u0501\u0406\u2024\u00b7",
    "iilgitaeochsdi..",
)
"""Letters of other alphabets that look like Latin ones, and dots that are not full stops."""

_SHELL_SYNTAX = ("$(", "`", ";", "|", "<", ">")


def fold(name: str) -> str:
    """One name of a path as a lenient file system sees it."""
    if name.isascii() and name.islower() and name[-1] not in ". " and ":" not in name and "~" not in name:
        return name
    folded = _folded(name, "NFC")
    return _long_name(folded.partition(":")[0].rstrip(". ") or folded)


def _folded(text: str, form: Literal["NFC", "NFKC"]) -> str:
    kept = _IGNORED.sub("", unicodedata.normalize(form, text))
    return unicodedata.normalize("NFC", kept.casefold())


def _long_name(name: str) -> str:
    """The long name behind an old eight-letter one (`git~1`)."""
    stem, mark, number = name.partition("~")
    if mark and number.isdigit():
        return {"git": ".git", "flybal": ".flyball", "claude": ".claude"}.get(stem, name)
    return name


def fold_path(path: str) -> str:
    return "/".join(fold(name) for name in path.split("/"))


def fold_written(path: str) -> str:
    """A path of a command line, where a name may hold a colon or end with a dot, and look-alike forms are one."""
    return path.casefold() if path.isascii() else _folded(path, "NFKC")


def has_ignored(text: str) -> bool:
    return _IGNORED.search(text) is not None


def looks_like(name: str) -> str:
    """The plain name that this one looks like."""
    plain = unicodedata.normalize("NFKC", name).casefold().translate(_LOOKALIKES)
    bare = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    return fold(bare) if bare else bare


def printable(path: str) -> str:
    """The path as it can be shown to a person."""
    return path if path.isprintable() else ascii(path)


def unusual_name(path: str) -> str:
    """What is unusual about the name itself, or ''."""
    if not path.strip():
        return "the name is empty"
    if any(unicodedata.category(c) in ("Cc", "Cs", "Co", "Zl", "Zp") for c in path):
        return "the name has control characters"
    if any(0x202A <= ord(c) <= 0x202E or 0x2066 <= ord(c) <= 0x2069 or c in "\u200e\u200f" for c in path):
        return "the name changes the reading direction"
    if has_ignored(path):
        return "the name has invisible characters"
    return _unusual_part(path.replace("\\", "/").split("/"), path)


def _unusual_part(names: list[str], path: str) -> str:
    if len(path) > 1024 or any(len(name.encode("utf-8", "replace")) > 255 for name in names):
        return "the name is too long for a disk"
    if any(name.startswith("-") for name in names):
        return "the name looks like an option"
    if any(name != name.strip() or (name.endswith(".") and name.strip(".")) for name in names):
        return "the name begins or ends with a space or a dot"
    if any(mark in path for mark in _SHELL_SYNTAX):
        return "the name contains shell syntax"
    return ""


# --- where a path leads: through `.`, `..`, double slashes, both separators and every known link

LINKS_MOST = 40
"""A longer chain of links is a circle."""

GIT, FLYBALL = ".git", ".flyball"
"""Folders that belong to git and to Flyball, at any depth."""

THE_WORKSPACE = "it is the workspace itself"

Target = tuple[bool, list[str]]
"""Where a link points: whether from the root of the disk, and the names of the way."""


def follow(path: Sequence[str], target_of: Callable[[Sequence[str]], Target | None]) -> list[str] | None:
    """The real path, as names from the root; None if the links go round in a circle."""
    done: list[str] = []
    todo = list(reversed(path))
    links = 0
    while todo:
        name = todo.pop()
        if name == "..":
            done = done[:-1]
            continue
        target = target_of([*done, name])
        if target is None:
            done.append(name)
            continue
        links += 1
        if links > LINKS_MOST:
            return None
        done = [] if target[0] else done
        todo += reversed(target[1])
    return done


class Place(msgspec.Struct, frozen=True):
    """A path as written (`shown`), and every name inside the workspace by which it can be reached."""

    shown: str
    exact: tuple[str, ...]
    folded: tuple[str, ...]
    outside: str = ""
    """Why it is outside the workspace; empty if it is inside."""


class Links:
    """Every link that will exist after the change; keys are folded absolute paths."""

    def __init__(self, workspace: str, links: Mapping[str, str]) -> None:
        self.root = tuple(_split(workspace))
        self.targets: dict[tuple[str, ...], str] = {}
        for path, target in links.items():
            self.targets[self.key(path)] = target
        self.aliases = tuple(self._aliases(links))

    def key(self, path: str) -> tuple[str, ...]:
        return tuple(fold(name) for name in _lexical(self.absolute(path)))

    def absolute(self, path: str) -> list[str]:
        """The names of the path from the root of the disk, nothing resolved yet."""
        return _split(path) if is_absolute(path) else [*self.root, *_split(path)]

    def follow(self, path: str, *, last: bool = True) -> list[str] | None:
        """The real path; with `last=False` the last name is not followed."""
        names = self.absolute(path)
        if last or not names:
            return follow(names, self._target)
        folder = follow(names[:-1], self._target)
        return None if folder is None else _lexical([*folder, names[-1]])

    def _target(self, names: Sequence[str]) -> Target | None:
        target = self.targets.get(tuple(fold(name) for name in names))
        return None if target is None else (is_absolute(target), _split(target))

    def inside(self, names: Sequence[str]) -> str | None:
        """The path below the workspace; None if it is not below it."""
        return below("/" + "/".join(names), "/" + "/".join(self.root))

    def _aliases(self, links: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """(link, real path) for links inside that lead inside: what is under one is under the other."""
        for path in links:
            link = self.inside(_lexical(self.absolute(path)))
            real = self.follow(path)
            inside = self.inside(real) if real is not None else None
            if link and inside:
                yield link, inside


def place(path: str, links: Links, *, last: bool = True) -> Place:
    """Where `path` leads. `last=False` judges a link itself and not what it points to."""
    real = links.follow(path, last=last)
    lexical = links.inside(_lexical(links.absolute(path)))
    physical = links.inside(real) if real is not None else None
    outside = _why_outside(path, real, physical, lexical)
    names = [name for name in (physical, lexical) if name]
    names += [alias for name in tuple(names) for alias in _by_alias(name, links)]
    exact = tuple(dict.fromkeys(names))
    return Place(path, exact, tuple(dict.fromkeys(fold_path(name) for name in exact)), outside)


def _why_outside(path: str, real: list[str] | None, physical: str | None, lexical: str | None) -> str:
    if real is None:
        return "its links form a circle"
    if means_elsewhere(path):
        return "it names a home directory, a drive or a network share"
    if physical is None or lexical is None:
        return f"it leads to /{'/'.join(real)}, which is outside the workspace"
    return "" if physical else THE_WORKSPACE


def means_elsewhere(path: str) -> bool:
    first = path.replace("\\", "/").split("/", 1)[0]
    drive = len(first) > 1 and first[1] == ":" and first[0].isalpha()
    return first.startswith(("~", "$HOME", "${HOME", "%")) or drive or path.startswith(("//", "\\\\"))


def _by_alias(name: str, links: Links) -> Iterable[str]:
    for link, real in links.aliases:
        if name == real or name.startswith(real + "/"):
            yield link + name[len(real) :]


def below(path: str, root: str) -> str | None:
    """The rest of `path` below `root`, '' for the root itself, None if it is elsewhere. Both are absolute."""
    path, root = unicodedata.normalize("NFC", path), unicodedata.normalize("NFC", root).rstrip("/")
    if path.rstrip("/") == root:
        return ""
    return path[len(root) :].lstrip("/") if path.startswith(root + "/") else None


def is_absolute(path: str) -> bool:
    return path.startswith(("/", "\\"))


def _split(path: str) -> list[str]:
    return [name for name in path.replace("\\", "/").split("/") if name not in ("", ".")]


def _lexical(names: Sequence[str]) -> list[str]:
    done: list[str] = []
    for name in names:
        done = done[:-1] if name == ".." else [*done, name]
    return done


# --- patterns
# `name` is that file at any depth; `name/` that folder and all in it; a pattern with a slash inside counts from
# the root of the workspace; `**/` is any depth; `*` and `?` stay within a name; `{a,b}` is either.


def matches(patterns: tuple[str, ...], path: str) -> bool:
    return bool(patterns) and _either(patterns).fullmatch(path) is not None


def leads_into(patterns: Iterable[str], path: str) -> bool:
    """Is `path` a folder on the way to what a pattern counted from the root would match?"""
    parts = path.split("/")
    tails = ["/".join(parts[at:]) + "/" for at in range(len(parts))]
    return any(
        any(_prefix(pattern.removeprefix("**/")).startswith(tail) for tail in tails)
        if pattern.startswith("**/")
        else _prefix(pattern).startswith(tails[0])
        for pattern in patterns
    )


@lru_cache(maxsize=512)
def _either(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{_whole(pattern)})" for pattern in patterns), re.DOTALL)


@lru_cache(maxsize=512)
def folded_patterns(patterns: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(pattern.casefold() for pattern in patterns)


def _whole(pattern: str) -> str:
    start = "" if _is_anchored(pattern) else "(?:.*/)?"
    return start + _regex(_body(pattern)) + ("(?:/.*)?" if _is_folder(pattern) else "")


def _is_anchored(pattern: str) -> bool:
    return "/" in pattern.rstrip("/")


def _is_folder(pattern: str) -> bool:
    return pattern.removeprefix("/").endswith(("/", "/**"))


def _body(pattern: str) -> str:
    body = pattern.removeprefix("/")
    return body.removesuffix("**").rstrip("/") if _is_folder(pattern) else body


def _regex(body: str) -> str:
    out: list[str] = []
    depth = at = 0
    while at < len(body):
        piece, used = _piece(body, at, depth)
        depth += {"{": 1, "}": -1}.get(body[at], 0) if used == 1 else 0
        out.append(piece)
        at += used
    return "".join(out)


def _piece(body: str, at: int, depth: int) -> tuple[str, int]:
    if body.startswith("**/", at):
        return "(?:.*/)?", 3
    if body.startswith("**", at):
        return ".*", 2
    char = body[at]
    plain = {"*": "[^/]*", "?": "[^/]", "{": "(?:", "}": ")" if depth else "\\}"}
    if char == "," and depth:
        return "|", 1
    return plain.get(char, re.escape(char)), 1


def _prefix(pattern: str) -> str:
    """The literal folders that a pattern counted from the root begins with."""
    if "/" not in pattern.rstrip("/"):
        return ""
    literal = re.split(r"[*?{]", pattern.removeprefix("/"))[0]
    return literal if literal.endswith("/") else literal + "/"
