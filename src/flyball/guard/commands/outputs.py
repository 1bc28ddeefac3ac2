"""Commands whose output is a number, a date or a hash: whatever it is, it names no option and leads nowhere."""

import re

from flyball.guard.commands.names import names

_FACTS = names("nproc whoami uname arch id hostname")
_FLAG = re.compile(r"-{1,2}[a-z][a-z-]*", re.IGNORECASE)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_SUM = re.compile(r"\d+|[-+*/%]")
_FILE = re.compile(r"[\w./][\w./-]*")
_FORMAT = re.compile(r"\+(?:%[-\w:]|\w)(?:%[-_0^#]?:*\w|[\w:,/.+-])*")
_DATE_FLAG = re.compile(r"-u|-R|-I\w*|--utc|--universal|--rfc-\w+(?:=\w+)?|--iso-8601(?:=\w+)?|--date=.*")
_REVISION = re.compile(r"[\w@][\w./@{}~^-]*")
_GIT = {
    "rev-parse": re.compile(
        r"--(?:short|verify|quiet|abbrev-ref|is-inside-work-tree|git-dir|show-prefix)(?:=\d+)?|-q"
    ),
    "merge-base": re.compile(r"--(?:fork-point|octopus)"),
    "rev-list": re.compile(
        r"--(?:count|max-count=\d+|all|no-merges|merges|first-parent|reverse|max-parents=0)|-n|-\d+|-n\d+"
    ),
    "describe": re.compile(r"--(?:tags|always|long|all|abbrev=\d+|exact-match|dirty|contains)"),
    "branch": re.compile(r"--show-current"),
    "symbolic-ref": re.compile(r"--short|-q|--quiet"),
    "write-tree": re.compile(r"(?!)"),
    "log": re.compile(
        r"-\d+|-n|-n\d+|--max-count=\d+|--(?:format|pretty)=(?:format:)?%(?:H|h|T|t|ct|at|cs|cI)|--no-merges|--merges|--reverse"
    ),
}


def is_harmless(texts: list[str]) -> bool:
    """Whether what a literal command prints can do no harm wherever it is put."""
    name, rest = texts[0], texts[1:]
    if name == "git":
        return bool(rest) and rest[0] in _GIT and _git(rest[0], rest[1:])
    if name in _FACTS:
        return all(_FLAG.fullmatch(text) for text in rest)
    if name == "date":
        return _date(rest)
    if name == "wc":
        return all(_FLAG.fullmatch(text) or _FILE.fullmatch(text) for text in rest)
    pattern = {"seq": _NUMBER, "expr": _SUM, "getconf": _FILE}.get(name)
    return pattern is not None and all(pattern.fullmatch(text) for text in rest)


def _git(sub: str, rest: list[str]) -> bool:
    known = all(_GIT[sub].fullmatch(text) or _REVISION.fullmatch(text) for text in rest)
    formatted = sub != "log" or any(text.startswith(("--format", "--pretty")) for text in rest)
    return known and formatted


def _date(rest: list[str]) -> bool:
    at = 0
    while at < len(rest):
        if rest[at] in {"-d", "-r"}:
            at += 2
        elif _DATE_FLAG.fullmatch(rest[at]) or (_FORMAT.fullmatch(rest[at]) and ".." not in rest[at]):
            at += 1
        else:
            return False
    return True
