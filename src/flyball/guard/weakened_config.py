"""Tests weakened through configuration: which tests run, and which coverage is enough."""

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from flyball.guard.weakened_patterns import more_lines
from flyball.reading.lazy import Lazy

_FILES = Lazy(
    r"(?:^|/)(?:pyproject\.toml|setup\.cfg|pytest\.ini|\.?pytest\.toml|tox\.ini|tox\.toml|noxfile\.py|"
    r"\.coveragerc|package\.json|"
    r"(?:jest|vitest|karma|cypress|playwright|ava|nyc|stryker|vite|mocha)[\w.-]*\.(?:[cm]?[jt]s|json)|"
    r"\.mocharc[\w.]*|\.nycrc[\w.]*|codecov\.ya?ml|\.codecov\.ya?ml|"
    r"makefile|justfile|taskfile\.ya?ml|pom\.xml|build\.gradle(?:\.kts)?|cargo\.toml|"
    r"phpunit\.xml(?:\.dist)?|\.rspec|rakefile|\.simplecov|conftest\.py|[\w.-]*\.csproj|composer\.json)$",
    re.IGNORECASE,
)
_RISKY = Lazy(
    r"--ignore(?:-glob)?\b|--deselect|\baddopts\b.*(?:-k|-m\s|no:|--ignore|--deselect|--co\b|-x\b)|"
    r"-k\s+[\"']?not\b|-m\s+[\"']?not\b|-p\s+no:|--no-cov\b|--passWithNoTests|passWithNoTests|"
    r"testPathIgnorePatterns|modulePathIgnorePatterns|coveragePathIgnorePatterns|\bnorecursedirs\b|"
    r"collect_ignore|xfail_strict\s*=\s*false|\bomit\s*=|\bexclude_(?:lines|also)\b|"
    r"skipTests|maven\.test\.skip|testFailureIgnore|ignoreFailures|\bexclude\s*\(?.*[Tt]est|\|\|\s*true|"
    r"--exclude|\btestMatch\b|\btestRegex\b|\bpython_(?:files|functions|classes)\b|"
    r"continue-on-error|\btest\s*=\s*false\b|\bdoctest\s*=\s*false|--forceExit|bail\s*:\s*false|"
    r"\bretries\b|informational:\s*true|require_ci_to_pass:\s*(?:no|false)|--reruns|"
    r"\"test[^\"]*\"\s*:\s*\"(?:echo|true|exit 0|:)"
)
_CHECKED = Lazy(
    r"(?:^|/)(?:[jt]sconfig[\w.-]*\.json|\.?mypy\.ini|pyproject\.toml|setup\.cfg|pyrightconfig\.json|\.eslintrc[\w.]*|"
    r"eslint\.config\.[cm]?[jt]s|\.?ruff\.toml|\.rubocop\.ya?ml|\.golangci\.ya?ml|phpstan\.neon(?:\.dist)?)$",
    re.IGNORECASE,
)
_UNCHECKED = Lazy(
    r"(?i)\"?\bstrict\w*\"?\s*[:=]\s*false|\bignore_errors\s*=\s*true|\"noImplicit\w+\"\s*:\s*false|"
    r"\b(?:dis)?allow_\w+\s*=\s*false|\bcheck_untyped_defs\s*=\s*false|typeCheckingMode\"?\s*[:=]\s*\"(?:off|basic)|"
    r"[\"'][@\w/-]+[\"']\s*:\s*\[?\s*(?:[\"']off[\"']|0\b)"
)
_KEYED = Lazy(
    r"(?P<key>fail[_-]under|cov-fail-under|branches|functions|lines|statements|minimum_coverage|minimum|"
    r"threshold|target|min[_-]?coverage|coverage[_-]?min\w*|covered_?ratio|lines_covered)"
    r"[\"']?\s*[:=>\s]\s*[\"']?(?P<number>\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
_OWNED = Lazy(
    r"\baddopts\b|\btestpaths\b|\bfail[_-]under\b|cov-fail-under|\bxfail_strict\b|--strict|"
    r"\bfilterwarnings\b|coverageThreshold|\"(?:pre|post)?test(?:[:\w-]*)?\"\s*:|\bpytest\b.*(?:-W|"
    r"--cov)|minimum_coverage|"
    r"\bcommands\s*=.*(?:pytest|test)|^test[\w-]*\s*:|<minimum>|\[tool\.(?:pytest|coverage)|"
    r"\[(?:tool:)?pytest\]|\[coverage:"
)


def config_faults(path: str, removed: Sequence[str] | None, added: Sequence[str] | None) -> Iterable[str]:
    """How a change of configuration weakens the tests."""
    known = _FILES.search(path) or _CHECKED.search(path)
    if not known or (removed is None and added is None):
        return
    old, new = list(removed or ()), list(added or ())
    if _FILES.search(path) and more_lines(_RISKY, old, new):
        yield "the configuration excludes tests or coverage"
    if _CHECKED.search(path) and more_lines(_UNCHECKED, old, new):
        yield "a checker is made less strict"
    if _lower(old, new):
        yield "a threshold is lowered"
    if any(_OWNED.search(x) for x in old) and not _kept(old, new):
        yield "the test configuration is changed"


def _lower(old: Sequence[str], new: Sequence[str]) -> bool:
    before = _numbers(old)
    after = _numbers(new)
    return any(key in after and after[key] < number for key, number in before.items())


def _numbers(lines: Sequence[str]) -> dict[str, Decimal]:
    return {
        m.group("key").lower().replace("_", "-"): Decimal(m.group("number"))
        for x in lines
        for m in _KEYED.finditer(x)
    }


def _kept(old: Sequence[str], new: Sequence[str]) -> bool:
    """Is every removed line there again, complete or with a higher threshold?"""
    return all(any(_covers(after, before) for after in new) for before in old if _OWNED.search(before))


def _covers(after: str, before: str) -> bool:
    if before.strip(" ,") in after:
        return True
    blank = re.compile(r"\d+(?:\.\d+)?")
    return blank.sub("#", before.strip(" ,")) == blank.sub("#", after.strip(" ,")) and bool(
        _KEYED.search(after)
    )
