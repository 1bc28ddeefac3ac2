"""Commands that print names of files and nothing else: what reads their output reads those files."""

from __future__ import annotations

import posixpath
import re

from flyball.guard.commands.names import names
from flyball.guard.commands.places import UNKNOWN, glob_place, place_of
from flyball.guard.commands.policy import CommandPolicy
from flyball.guard.commands.scene import Feed

_ORDINARY = frozenset({"inside", "workspace", "delicate", "harmless", "unknown", "guard-settings"})
_SEARCHES = re.compile(r"-[a-zA-Z]*[lL][a-zA-Z]*|--files(?:-with(?:out)?-match(?:es)?)?")
_PROTECTED = re.compile(r"(?:^|[/*^\\])\.(?:git/|env\b(?!\.)|ssh\b|aws\b|flyball\b)")
_HIDDEN = re.compile(r"-[a-zA-Z]*[aA][a-zA-Z]*|--all|--almost-all")
_NARROWING = names(
    "-name -iname -path -ipath -wholename -regex -iregex -mtime -atime -ctime -mmin -amin -cmin "
    "-newer -size -perm -empty -newermt -samefile -inum -lname -user"
)


def listing(texts: list[str], cwds: tuple[str, ...], policy: CommandPolicy) -> Feed | None:
    """What a lister puts out: a path that stands for all the files it names. None if it is no lister."""
    if not texts or not _lists(texts) or UNKNOWN in cwds:
        return None
    for text in texts[1:]:
        if text.startswith(("/", "~", "..")) and place_of(text, cwds[0], policy) not in _ORDINARY:
            return Feed("listed", posixpath.join(text, "listed"))
    return Feed("listed", listed_name("./", texts[1:], policy), whole=not narrowed(texts[1:]))


def _lists(texts: list[str]) -> bool:
    if texts[0] in {"rg", "grep", "ag", "egrep"}:
        return any(_SEARCHES.fullmatch(text) for text in texts[1:])
    if texts[0] == "ls":
        return not any(_HIDDEN.fullmatch(text) for text in texts[1:])
    return (
        texts[0] in {"find", "fd"}
        or texts[:2] == ["git", "ls-files"]
        or texts[:3] == ["git", "diff", "--name-only"]
    )


def listed_name(root: str, texts: list[str], policy: CommandPolicy) -> str:
    """A path that stands for what is listed: a protected name if one is looked for."""
    for at, text in enumerate(texts):
        left_out = texts[max(at - 2, 0) : at - 1] in (["!"], ["-not"]) or texts[at + 1 : at + 2] == ["-prune"]
        if left_out or text[:1] in "-!(" or len(text) > 200:
            continue
        if _PROTECTED.search(text):
            return posixpath.join(root, ".git/config" if ".git" in text else ".env")
        name = posixpath.join(policy.workspace, posixpath.basename(text.rstrip("/")))
        place = (glob_place if re.search(r"[*?\[]", name) else place_of)(name, policy.workspace, policy)
        if place not in _ORDINARY:
            return posixpath.join(root, posixpath.basename(text))
    return posixpath.join(root, "listed")


def narrowed(words: list[str]) -> bool:
    """Whether a find looks for something in particular."""
    for at, word in enumerate(words):
        value = words[at + 1] if at + 1 < len(words) else ""
        negated = words[at - 1 : at] in (["!"], ["-not"])
        if (
            word in _NARROWING
            and not negated
            and "-prune" not in words[at + 1 : at + 3]
            and value.strip("*./")
        ):
            return True
    return False
