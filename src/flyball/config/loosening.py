"""How to tell that a new value of a setting is looser than the old one.

A file that git tracks may tighten a setting freely; loosening one needs the user's trust (`authority/trust.py`).
Each rule takes (new, old) and answers whether `new` allows more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from flyball.config.values import Value

Looser = Callable[[Value, Value], bool]
UNKNOWN = "?"  # the old value of a limit that no machine defines

# For each sandbox setting, those that confine at least as well.
AT_LEAST: dict[str, tuple[str, ...]] = {
    "none": ("none", "auto", "landlock", "required", "bwrap"),
    "auto": ("auto", "required", "bwrap"),
    "landlock": ("landlock", "required", "bwrap"),
    "required": ("required", "bwrap"),
    "bwrap": ("bwrap",),
}


def never(new: Value, old: Value) -> bool:
    return False


def differs(new: Value, old: Value) -> bool:
    return new != old


def more(new: Value, old: Value) -> bool:
    """A larger number, or no limit where there was one."""
    if old is None or new is None:
        return old is not None
    return not isinstance(old, int) or cast("int", new) > old


def fewer(new: Value, old: Value) -> bool:
    """A smaller number."""
    return isinstance(new, int) and isinstance(old, int) and new < old


def less(new: Value, old: Value) -> bool:
    """A smaller number, or a limit where there was none."""
    return isinstance(new, int) and (not isinstance(old, int) or new < old)


def rarer(new: Value, old: Value) -> bool:
    """A larger number, or never (0)."""
    return isinstance(new, int) and old != 0 and (new == 0 or not isinstance(old, int) or new > old)


def sooner(new: Value, old: Value) -> bool:
    """A shorter wait, or one where there was none (0)."""
    if not isinstance(old, int):
        return new != 0
    return new != 0 and (old == 0 or cast("int", new) < old)


def removed(new: Value, old: Value) -> bool:
    """An item of the old list is missing."""
    return not set(items(old)) <= set(items(new))


def extended(new: Value, old: Value) -> bool:
    """The new list has an item that the old one did not have."""
    return bool(added(new, old))


def only(loose: Value) -> Looser:
    """Changing to this one value loosens."""
    return lambda new, old: new == loose and old != loose


def all_but(tight: Value) -> Looser:
    """Changing to anything but this value loosens."""
    return lambda new, old: new not in (tight, old)


def later(words: Sequence[str]) -> Looser:
    """The words are listed from tight to loose."""
    return lambda new, old: words.index(str(new)) > words.index(str(old))


def weaker_sandbox(new: Value, old: Value) -> bool:
    return new not in AT_LEAST[str(old)]


def added(new: Value, old: Value) -> list[str]:
    return [item for item in items(new) if item not in items(old)]


def items(value: Value) -> tuple[str, ...]:
    """A list's items; a text is a list of one."""
    if isinstance(value, str):
        return (value,)
    return value if isinstance(value, tuple) else ()
