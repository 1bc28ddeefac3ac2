"""Commands whose output is a number, a date or a hash: it is never an option or a path."""

import re

from flyball.guard.word_set import word_set
from flyball.reading.lazy import Lazy

_FACTS = word_set("nproc whoami uname arch id hostname")
_FLAG = Lazy(r"-{1,2}[a-z][a-z-]*", re.IGNORECASE)
_NUMBER = Lazy(r"-?\d+(?:\.\d+)?")
_SUM = Lazy(r"\d+|[-+*/%]")
_FILE = Lazy(r"[\w./][\w./-]*")
_FORMAT = Lazy(r"\+(?:%[-\w:]|\w)(?:%[-_0^#]?:*\w|[\w:,/.+-])*")
_DIRECTIVE = Lazy(r"%[-_0^#]?:*[a-mo-su-zA-Y]")
_DATE_FLAG = Lazy(r"-u|-R|-I\w*|--utc|--universal|--rfc-\w+(?:=\w+)?|--iso-8601(?:=\w+)?|--date=.*")
_REVISION = Lazy(r"[\w@][\w./@{}~^-]*")
_SURE = Lazy(  # `git rev-parse` prints an unknown revision unchanged, and that could be any file name
    r"(?:HEAD|FETCH_HEAD|ORIG_HEAD|MERGE_HEAD|@|@\{(?:u|upstream|push)\}|[0-9a-f]{7,40}|main|master|develop|trunk"
    r"|(?:origin|upstream)/[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*)(?:[~^]\d*|\^\{(?:commit|tree)\})*"
)
_GIT = {
    "rev-parse": Lazy(r"--(?:short|verify|quiet|abbrev-ref|is-inside-work-tree|show-prefix)(?:=\d+)?|-q"),
    "merge-base": Lazy(r"--(?:fork-point|octopus)"),
    "rev-list": Lazy(
        r"--(?:count|max-count=\d+|all|no-merges|merges|first-parent|reverse|max-parents=0)|-n|-\d+|-n\d+"
    ),
    "describe": Lazy(r"--(?:tags|always|long|all|abbrev=\d+|exact-match|dirty|contains)"),
    "branch": Lazy(r"--show-current"),
    "symbolic-ref": Lazy(r"--short|-q|--quiet"),
    "write-tree": Lazy(r"(?!)"),
    "log": Lazy(
        r"-\d+|-n|-n\d+|--max-count=\d+|--(?:format|pretty)=(?:format:)?%(?:H|h|T|t|ct|at|cs|cI)|--no-merges|--merges|--reverse"
    ),
}


def is_harmless(texts: list[str]) -> bool:
    """Is the output of this command harmless wherever it is used?"""
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


def is_chosen(texts: list[str]) -> bool:
    """Is the output a name that somebody chose: a branch, a tag, a word in a date format?"""
    if texts[0] == "date":
        return any(_has_a_word(text) for text in texts[1:] if text.startswith("+"))
    named = texts[1:2] in (["describe"], ["symbolic-ref"], ["branch"])
    return texts[0] == "git" and (named or any(text.startswith("--abbrev-ref") for text in texts))


def _has_a_word(form: str) -> bool:
    """Two letters in a row, where `%p` may be empty."""
    left = _DIRECTIVE.sub(lambda match: "" if match[0][-1] in "pP" else "0", form)
    return "%" in left or re.search("[A-Za-z]{2}", left) is not None


def _git(sub: str, rest: list[str]) -> bool:
    known = all(_GIT[sub].fullmatch(text) or _REVISION.fullmatch(text) for text in rest)
    if sub == "rev-parse" and "--verify" not in rest:
        return known and all(text.startswith("-") or _SURE.fullmatch(text) for text in rest)
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
