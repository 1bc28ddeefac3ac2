"""A change is one file of a diff: what happened to it, how much, and the lines if they are known.

Unknown lines are None, never an empty list, so that the guard can tell the two apart.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Literal, cast

import msgspec

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
