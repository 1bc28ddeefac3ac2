"""Where a path really leads. Protection compares folded names; an exemption compares exact ones.

A path is followed through `.`, `..`, double slashes, both separators and every known link, whether or not it
exists yet. Names are then compared as the most forgiving disk would: composed, case folded, without code
points that a file system ignores, without trailing dots and blanks.
"""

import unicodedata
from collections.abc import Iterable, Mapping, Sequence

import msgspec

MOST_HOPS = 40
"""A chain of links longer than this is a loop."""

_IGNORED = (
    (0x00AD, 0x00AD),
    (0x034F, 0x034F),
    (0x061C, 0x061C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFFB),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)

_LOOKALIKES = str.maketrans(
    "\u0131\u0456\u04cf\u0261\u03b9\u0442\u0430\u0435\u043e\u0441\u04bb\u0455\u0501\u0406\u2024\u00b7",
    "iilgitaeochsdi..",
)
"""Letters of other alphabets that read as Latin ones, and dots that are not full stops."""

_DANGEROUS = ("$(", "`", ";", "|", "<", ">")


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

    def without(self, path: str) -> None:
        self.targets.pop(self.key(path), None)

    def follow(self, path: str, *, last: bool = True) -> list[str] | None:
        """The real path as names from the root; None if the links go round in a circle."""
        done: list[str] = []
        todo = self.absolute(path)
        hops = 0
        while todo:
            name, todo = todo[0], todo[1:]
            if name == "..":
                done = done[:-1]
                continue
            done.append(name)
            target = self.targets.get(tuple(fold(part) for part in done)) if todo or last else None
            if target is not None:
                hops += 1
                if hops > MOST_HOPS:
                    return None
                done = [] if is_absolute(target) else done[:-1]
                todo = [*_split(target), *todo]
        return done

    def inside(self, names: Sequence[str]) -> str | None:
        """The path below the workspace; None if it is not below it."""
        depth = len(self.root)
        here = [unicodedata.normalize("NFC", name) for name in names]
        below = here[:depth] == [unicodedata.normalize("NFC", name) for name in self.root]
        return "/".join(here[depth:]) if below else None

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
        return "its links go round in a circle"
    if means_elsewhere(path):
        return "it names a home folder, a drive or a share"
    if physical is None or lexical is None:
        return "it leads to /" + "/".join(real)
    return "" if physical else "it is the workspace itself"


def means_elsewhere(path: str) -> bool:
    first = path.replace("\\", "/").split("/", 1)[0]
    drive = len(first) > 1 and first[1] == ":" and first[0].isalpha()
    return first.startswith(("~", "$HOME", "${HOME", "%")) or drive or path.startswith(("//", "\\\\"))


def _by_alias(name: str, links: Links) -> Iterable[str]:
    for link, real in links.aliases:
        if name == real or name.startswith(real + "/"):
            yield link + name[len(real) :]


def fold(name: str) -> str:
    """A name as a forgiving disk sees it."""
    if name.isascii() and name.islower() and name[-1] not in ". " and ":" not in name and "~" not in name:
        return name
    kept = "".join(c for c in unicodedata.normalize("NFC", name) if not ignored(c))
    folded = unicodedata.normalize("NFC", kept.casefold())
    return _short_name(folded.partition(":")[0].rstrip(". ") or folded)


def _short_name(name: str) -> str:
    """The long name behind an old eight-letter one (`git~1`)."""
    stem, mark, number = name.partition("~")
    if mark and number.isdigit():
        return {"git": ".git", "flybal": ".flyball", "claude": ".claude"}.get(stem, name)
    return name


def ignored(char: str) -> bool:
    return not char.isascii() and any(low <= ord(char) <= high for low, high in _IGNORED)


def fold_path(path: str) -> str:
    return "/".join(fold(name) for name in path.split("/"))


def looks_like(name: str) -> str:
    """The plain name that a reader would take this one for."""
    plain = unicodedata.normalize("NFKC", name).casefold().translate(_LOOKALIKES)
    bare = "".join(c for c in unicodedata.normalize("NFKD", plain) if not unicodedata.combining(c))
    return fold(bare) if bare else bare


def oddity(path: str) -> str:
    """What is odd about the name itself; empty if nothing."""
    if not path.strip():
        return "the name is empty"
    if any(unicodedata.category(c) in ("Cc", "Cs", "Co", "Zl", "Zp") for c in path):
        return "the name holds control characters"
    if any(0x202A <= ord(c) <= 0x202E or 0x2066 <= ord(c) <= 0x2069 or c in "\u200e\u200f" for c in path):
        return "the name changes the direction of reading"
    if any(ignored(c) for c in path):
        return "the name holds characters that cannot be seen"
    return _oddity_of_names(path.replace("\\", "/").split("/"), path)


def _oddity_of_names(names: list[str], path: str) -> str:
    if len(path) > 1024 or any(len(name.encode("utf-8", "replace")) > 255 for name in names):
        return "the name is longer than a disk can hold"
    if any(name.startswith("-") for name in names):
        return "the name reads as an option"
    if any(name != name.strip() or (name.endswith(".") and name.strip(".")) for name in names):
        return "the name begins or ends with a blank or a dot"
    if any(mark in path for mark in _DANGEROUS):
        return "the name holds shell syntax"
    return ""


def is_absolute(path: str) -> bool:
    return path.startswith(("/", "\\"))


def _split(path: str) -> list[str]:
    return [name for name in path.replace("\\", "/").split("/") if name not in ("", ".")]


def _lexical(names: Sequence[str]) -> list[str]:
    done: list[str] = []
    for name in names:
        done = done[:-1] if name == ".." else [*done, name]
    return done
