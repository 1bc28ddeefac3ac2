"""What the guard checks and what it returns: a change is one file of a diff, a verdict says allow, ask or deny;
and where
the path of a change leads. Nothing here reads the disk: links are given.

Unknown lines are None, never an empty list, so that the guard can tell the two apart.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, cast

import msgspec

# --- verdicts

Decision = Literal["allow", "ask", "deny"]

SEVERITY: dict[Decision, int] = {"allow": 0, "ask": 1, "deny": 2}

NOT_WAIVABLE = frozenset({"secret", "secret-file", "outside", "git-internals", "tampering", "guard-error"})
"""A change denied by one of these rules cannot be approved by a person."""


class Verdict(msgspec.Struct, frozen=True):
    """Allow, ask or deny, by which rule and why. `file` and `line` say where, if a change was judged."""

    verdict: Decision
    rule: str
    reason: str
    file: str = ""
    line: int = 0
    findings: tuple[Verdict, ...] = ()
    """All findings, where this is the worst of several."""

    @property
    def waivable(self) -> bool:
        """Can a person approve it?"""
        return not any(v.verdict == "deny" and v.rule in NOT_WAIVABLE for v in (self, *self.findings))


ORDINARY = Verdict("allow", "ordinary", "No rule applies.")


def worst(verdicts: Iterable[Verdict]) -> Verdict:
    """The most severe verdict; of equals the first; allow if there is none."""
    return max(verdicts, key=severity, default=ORDINARY)


def severity(verdict: Verdict) -> int:
    return SEVERITY[verdict.verdict]


# --- changes

Op = Literal["add", "modify", "delete", "rename", "symlink", "hardlink", "special", "mode"]

GITLINK = 0o160000
SYMLINK = 0o120000
KIND = 0o170000
SPECIAL_BITS = 0o7000
ANY_EXECUTE = 0o111
OTHERS_WRITE = 0o002


class Change(msgspec.Struct, frozen=True, rename={"from_": "from"}):
    """One changed path. `target` is where a link points; `mode` is octal, as git or stat writes it."""

    path: str
    op: Op = "modify"
    from_: str | None = None
    target: str | None = None
    lines_added: int = 0
    lines_deleted: int = 0
    added: tuple[str, ...] | None = None
    removed: tuple[str, ...] | None = None
    binary: bool = False
    bytes: int | None = None
    mode: str | int | None = None


def bits(change: Change) -> int:
    """The mode as a number; 0 if there is none. 100755 is read as octal digits, whether text or number."""
    if change.mode is None:
        return 0
    if isinstance(change.mode, int) and _is_numeric(change.mode):
        return change.mode
    last = str(change.mode).strip().lower().rsplit(" ", 1)[-1].rsplit(">", 1)[-1].removeprefix("0o")
    if last and set(last) <= set("01234567"):
        return int(last, 8)
    return ANY_EXECUTE if re.fullmatch(r"[ugoa]*[+-][rx]+", last) else SPECIAL_BITS


def _is_numeric(mode: int) -> bool:
    """A mode as `stat` gives it, not its octal digits read as a decimal number."""
    return mode <= 0o177777 and mode & KIND in (0o040000, 0o100000, SYMLINK, GITLINK)


def is_symlink(change: Change) -> bool:
    return change.op == "symlink" or bits(change) & KIND == SYMLINK


def is_gitlink(change: Change) -> bool:
    return bits(change) & KIND == GITLINK


def churn(change: Change) -> int:
    """Lines added plus lines deleted, by the counts or by the lines shown, whichever is more."""
    return max(change.lines_added, len(change.added or ())) + max(
        change.lines_deleted, len(change.removed or ())
    )


Line = tuple[int, str]
"""A line and its number; 0 where the number is unknown."""


class Edit(msgspec.Struct, frozen=True):
    """A change with its lines, if they are known. `file` is its real path, `text` the whole new file."""

    change: Change
    file: str
    removed: tuple[str, ...] | None
    added: tuple[Line, ...] | None
    text: str | None = None


def edit_of(change: Change, file: str, text: tuple[str | None, str | None] | None) -> Edit:
    """The edit, from the texts before and after where they are known."""
    if text is None:
        added = _bare(change.added, "+")
        lines = None if added is None else tuple((0, line) for line in added)
        return Edit(change, file, _bare(change.removed, "-"), lines)
    removed, added = difference(text[0] or "", text[1] or "")
    return Edit(change, file, removed, added, text[1])


def _bare(lines: tuple[str, ...] | None, mark: str) -> tuple[str, ...] | None:
    """Lines without the mark of a diff, if all have it."""
    if lines and all(line.startswith(mark) for line in lines if line):
        return tuple(line[1:] for line in lines)
    return lines


def difference(old: str, new: str) -> tuple[tuple[str, ...], tuple[Line, ...]]:
    """The removed lines, and the added lines with their numbers."""
    before, after, skipped = trim_common(old.splitlines(), new.splitlines())
    removed = _missing(list(enumerate(before)), after)
    return tuple(line for _, line in removed), _missing(list(enumerate(after, skipped + 1)), before)


def trim_common(before: list[str], after: list[str]) -> tuple[list[str], list[str], int]:
    """Both lists without their common start and end, and the length of the common start."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if before[at] != after[at]), most)
    end = next((at for at in range(most - start) if before[-1 - at] != after[-1 - at]), most - start)
    return before[start : len(before) - end], after[start : len(after) - end], start


def _missing(lines: Sequence[Line], others: Sequence[str]) -> tuple[Line, ...]:
    remaining = Counter(others)
    out: list[Line] = []
    for number, line in lines:
        if remaining[line] > 0:
            remaining[line] -= 1
        else:
            out.append((number, line))
    return tuple(out)


def read_changes(value: object) -> tuple[Change, ...]:
    """Changes from decoded JSON; raises msgspec.ValidationError if they are not valid."""
    return msgspec.convert(value, tuple[Change, ...], strict=False)


def read_links(value: object) -> dict[str, str]:
    """Existing links as a mapping, or as a list of pairs or of {path, target}: path to target."""
    if isinstance(value, Mapping):
        items = cast("Mapping[object, object]", value).items()
        return {str(path): str(target) for path, target in items}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return dict(_link(item) for item in cast("Sequence[object]", value))
    return {}


def _link(item: object) -> tuple[str, str]:
    if isinstance(item, Mapping):
        row = cast("Mapping[str, object]", item)
        path = row.get("path", row.get("link", row.get("from", "")))
        return str(path), str(row.get("target", row.get("to", "")))
    pair = [str(part) for part in cast("Sequence[object]", item)]
    return pair[0], pair[1]


# --- names of paths, as the most lenient disk compares them: composed, case folded, without characters that a file system
# ignores and without trailing dots and spaces. Protection compares folded names, an exemption exact ones.

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
    text_ = _IGNORED.sub("", unicodedata.normalize(form, text))
    return unicodedata.normalize("NFC", text_.casefold())


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
    parts: list[str] = []
    todo = list(reversed(path))
    links = 0
    while todo:
        name = todo.pop()
        if name == "..":
            parts = parts[:-1]
            continue
        target = target_of([*parts, name])
        if target is None:
            parts.append(name)
            continue
        links += 1
        if links > LINKS_MOST:
            return None
        parts = [] if target[0] else parts
        todo += reversed(target[1])
    return parts


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
    parts: list[str] = []
    for name in names:
        parts = parts[:-1] if name == ".." else [*parts, name]
    return parts
