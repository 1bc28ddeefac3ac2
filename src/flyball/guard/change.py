"""What the guard judges and what it answers: a change is one file of a diff, a verdict says allow, ask or deny.

Unknown lines are None, never an empty list, so that the guard can tell the two apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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
    left = Counter(others)
    out: list[Line] = []
    for number, line in lines:
        if left[line] > 0:
            left[line] -= 1
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
