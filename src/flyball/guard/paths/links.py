"""Where a path really leads: through `.`, `..`, double slashes, both separators and every known link.

It does not matter whether the path exists yet.
"""

import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from flyball.guard.paths.folding import fold, fold_path

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
