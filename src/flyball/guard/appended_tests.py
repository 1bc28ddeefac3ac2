"""Python test files that only grew at their end, with no new line that could weaken an older test.

This is only here for speed: most changes to tests add lines at the end, and parsing both versions of the file takes
10 to 15 ms each, against 5 ms that a verdict may take. In any doubt the answer is no, and the files are parsed.
"""

import re

_DOUBTFUL = (
    *(
        "skip",
        "xfail",
        "expectedFailure",
        "flaky",
        "rerun",
        "exit",
        "collect_ignore",
        "pytestmark",
        "__test__",
    ),
    *(
        "setattr",
        "AssertionError",
        "globals",
        "locals",
        "__dict__",
        "exec(",
        "eval(",
        " del ",
        "\tdel ",
        " global ",
    ),
    *(";", "\\\n"),
)
"""With these, later code can keep earlier tests from running or failing."""

_REPLACED = re.compile(r"\.(?:assert|test)\w*\s*=(?!=)")
_FLOW = re.compile(
    r"\s*(?:(?:if|elif|else|while|for|with|try|except|finally|return|raise|yield|async|match|case|pass|continue|break)\b|@|def\b|class\b|\.\.\.)"
)
_NAMED = re.compile(r"(?:async\s+)?(?:def|class)\s+(\w+)")
_HARMLESS = re.compile(
    r"#|(?:import|from)\s|@(?:\w+\.)*(?:parametrize|fixture|mark\.\w+|given|settings)\b|[)\]}]"
)
_HELPER = re.compile(r"(?:assert|check|verify|expect)_")


def only_grew(old: str, new: str) -> bool:
    """Is `new` the same text with more tests after it, or more plain lines in its last function?"""
    if not (old.endswith("\n") and new.startswith(old)):
        return False
    tail = new[len(old) :]
    if any(word in tail for word in _DOUBTFUL) or _REPLACED.search(tail):
        return False
    return _plain(tail.splitlines(), old)


def _plain(lines: list[str], old: str) -> bool:
    fresh = False  # has a function or class of the new lines begun?
    for line in lines:
        name = _NAMED.match(line)
        if name:
            fresh = True
            if re.search(rf"\b{name[1]}\b", old) or _HELPER.match(name[1]):
                return False
        elif line[:1].strip():
            if not _HARMLESS.match(line) or _takes_a_name(line, old):
                return False
        elif not fresh and _FLOW.match(line):
            return False
    return True


def _takes_a_name(line: str, old: str) -> bool:
    """An import after the tests can replace a test, or what is tested."""
    if not line.startswith(("import ", "from ")):
        return False
    names = {*re.findall(r"\w+", line)} - {"import", "from", "as"}
    return "*" in line or "(" in line or any(re.search(rf"\b{name}\b", old) for name in names)
