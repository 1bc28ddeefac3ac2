"""Source that looks for a test runner (EVID-4): its modules, environment, arguments or stack, or that patches it.

Such code can behave well only while it is tested. Only added lines outside the test side count, and only what plainly
looks for a test run: a program may exit, log its caller's name or read its arguments.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from flyball.guard.change import Change
from flyball.guard.test_files import is_near_test, language
from flyball.guard.verdict import Verdict
from flyball.reading.lazy import Lazy

_RUNNER = r"(?:_?pytest|unittest|nose2?|pluggy|xdist|jest|vitest|mocha|jasmine|node:test|junit|rspec|minitest|phpunit|testng|nunit|xunit)"
_TESTISH = rf"(?:{_RUNNER}|(?<![-\w])tests?\b|\btest_|_test\b|\bspecs?\b|conftest|runtest)"
_SIDE = Lazy(
    r"(?:^|/)[^/]*(?:test|spec|fixture|mock|noxfile|conftest|fake|stub)[^/]*(?:/|$)|\.config\.\w+$",
    re.IGNORECASE,
)
_MODULES = Lazy(
    rf"['\"]{_RUNNER}(?:\.\w+)*['\"]\s*(?:not\s+)?in\s+(?:\w+\.)*modules\b|sys\._called_from_test"
    r"|(?:find_spec|import_module|__import__|find_loader)\s*\(\s*['\"](?:_?pytest|unittest|nose|pluggy|xdist)"
    r"|^\s*(?:import|from)\s+(?:_?pytest|pluggy|xdist|nose2?)\b"
    r"|(?:require|import)\s*\(?\s*['\"](?:node:test|jest|@jest/\w+|vitest|mocha|jasmine)['\"]"
    r"|\bfrom\s+['\"](?:node:test|@jest/\w+|vitest|mocha|jasmine)['\"]"
    r"|typeof\s+(?:jest|vitest|mocha|describe|it|expect)\b|global(?:This)?\.(?:describe|jest|vitest|mocha|expect|it)\b"
    r"|defined\?\s*\(?\s*(?:RSpec|Minitest|Test::Unit)|class_exists\(\s*['\"]\\?\\?PHPUnit"
    r"|Class\.forName\(\s*\"org\.(?:junit|testng)|\btesting\.Testing\(\)|flag\.Lookup\(\s*\"test\.|\bcfg!\s*\(\s*test\s*\)",
    re.IGNORECASE,
)
_ENVIRONMENT = Lazy(
    r"PYTEST_(?:CURRENT_TEST|VERSION|XDIST_WORKER\b|XDIST_TESTRUNUID)|JEST_WORKER_ID|\bVITEST(?:_\w+)?\b|NODE_TEST_CONTEXT|NODE_TEST_WORKER"
    r"|MOCHA_WORKER|TEST_WORKER_INDEX|\bNEXTEST(?:_\w+)?\b|PHPUNIT_\w+|\bTOX_ENV_NAME\b"
)
_ARGUMENTS = Lazy(
    r"['\"]test['\"]\s*(?:not\s+)?in\s+sys\.argv|HasSuffix\(\s*os\.Args\[0\],\s*\"\.test\""
    r"|/proc/(?:self|[^\s/]{0,40}(?:PPID|\$|\{|ppid)[^\s/]{0,40})/(?:cmdline|comm|environ)\b",
    re.IGNORECASE,
)
_PATCHES = Lazy(
    rf"\bbuiltins\.(?!_\b)\w+\s*=(?!=)|setattr\(\s*(?:builtins|__builtins__|operator|{_RUNNER})\b"
    r"|__builtins__(?:\.\w+|\[[^\]]+\])\s*=(?!=)|\boperator\.\w+\s*=(?!=)"
    r"|\b(?:_pytest|pytest|unittest|pluggy|doctest)(?:\.\w+)+\s*=(?!=)|\bHookCaller\b|sys\.(?:meta_path|path_hooks)\b|\bsys\.(?:settrace|setprofile)\s*\("
    r"|getusersitepackages|usercustomize|sitecustomize|__eq__\s*=\s*lambda[^:]{0,80}:\s*True|\bassert(?:\.\w+)+\s*=(?![=>])|Object\.is\s*=(?!=)"
    r"|Module\._(?:load|resolveFilename|extensions)\b|AssertionError\s*=(?!=)"
)
_STACK = Lazy(
    r"inspect\.(?:stack|currentframe|getouterframes|trace)\s*\(|\b_getframe(?:modulename)?\s*\(|traceback\.(?:extract|format|walk)_stack|\.f_back\b"
    r"|new\s+Error\s*\([^)]{0,200}\)\s*\.stack|Error\.captureStackTrace|\bcaller_locations\b|\bcaller\s*(?:\[0|\(0|\.(?:first|any))|debug_backtrace\s*\("
    r"|runtime\.Callers?\s*\(|getStackTrace\s*\(|^\s*from\s+(?:inspect|traceback|sys)\s+import\b.{0,120}(?:stack|frame)"
)
_NAMES_CALLER = Lazy(
    rf"['\"`][^'\"`\n]{{0,120}}{_TESTISH}|/[^/\n]{{0,120}}{_TESTISH}[^/\n]{{0,120}}/|(?:co_name|co_filename|\.function|\.filename)\b[^=\n]{{0,120}}(?:==|!=|startswith|endswith|\bmatch)"
    r"|(?:\bin\b|==|!=)\s*[\w.\[\]()]*(?:co_name|co_filename|\.function)\b",
    re.IGNORECASE,
)
_ALWAYS_EQUAL = Lazy(
    r"def\s+__eq__\s*\([^)]{0,200}\)[^:\n]{0,80}:\s*(?:\"\"\"[^\"]{0,400}\"\"\"\s*)?return\s+True\b"
)
_SCRIPTS = (".sh", ".bash", ".zsh", ".pl", ".lua", ".awk")
_HASH_COMMENTS = ("python", "ruby", "other", "elixir")
NEAR = 6  # lines: what is done with the stack stands close to where it is taken
PIECE, OVERLAP = 2_000, 200  # a longer line is read in overlapping pieces
CODE_MOST = 4_000_000  # characters of one file
APART = 120  # characters between two words that belong together


class Near:
    """One of several chains of patterns, each at most so many characters behind the one before. In linear time."""

    def __init__(self, *chains: tuple[str, ...]) -> None:
        self.chains = [[Lazy(pattern, re.IGNORECASE) for pattern in chain] for chain in chains]

    def search(self, text: str) -> bool:
        return any(self._holds(chain, text) for chain in self.chains)

    def _holds(self, chain: Sequence[Lazy], text: str) -> bool:
        ends = [match.end() for match in chain[0].finditer(text)]
        for pattern in chain[1:]:
            matches = pattern.finditer(text) if ends else ()
            ends = [match.end() for match in matches if _follows(match.start(), ends)]
        return bool(ends)


def _follows(start: int, ends: list[int]) -> bool:
    at = bisect_right(ends, start)
    return at > 0 and start - ends[at - 1] <= APART


_NEAR_MODULES = Near(
    (r"sys\.modules\b", rf"['\"]\.?{_RUNNER}"),
    (r"sys\.modules\[['\"]__main__['\"]\]", _TESTISH),
    (r"require\.cache\b", r"test|spec|jest|mocha"),
)
_NEAR_ARGUMENTS = Near(
    (r"\b(?:orig_)?argv\b", _RUNNER),
    (rf"{_RUNNER}['\"]?\s*(?:not\s+)?in\s", r"\b(?:orig_)?argv\b"),
    (r"\bargv\[0\]|\$PROGRAM_NAME|__main__\.__file__|\bmainModule\b", _TESTISH),
    (r"process\.argv\[1\]", r"includes|endsWith|match|indexOf|test\(", _TESTISH),
    (r"require\.main\b", "filename", _TESTISH),
    (r"execArgv\b", "test"),
    (r"\bps\b", r"\$\{?PPID"),
)
ASKS = (
    (_MODULES, "looks for a test runner among the loaded modules"),
    (_NEAR_MODULES, "looks for a test runner among the loaded modules"),
    (_ENVIRONMENT, "looks for a test runner in the environment"),
    (_ARGUMENTS, "looks for a test runner in the arguments or in the parent process"),
    (_NEAR_ARGUMENTS, "looks for a test runner in the arguments or in the parent process"),
    (_PATCHES, "replaces something that test runners rely on"),
    (Lazy(r"\btb_frame\s*\.\s*f_back\b"), "acts on who calls it, so it can behave only when it is tested"),
)


def looks_for_runner(file: str, text: str) -> bool:
    """Whether a whole source file has such a line."""
    lines = enumerate(text[:CODE_MOST].splitlines(), 1)
    return (
        _lookup([(n, piece) for n, line in lines for piece in _pieces(_without_comment(file, line))])
        is not None
    )


def judge_lookups(
    changes: Sequence[Change], files: Sequence[str], lines: Sequence[Sequence[tuple[int, str]]]
) -> Iterable[Verdict]:
    """The first added line of each source file that looks for a test run. `lines` are the added ones, file by file."""
    for change, file, added in zip(changes, files, lines, strict=True):
        if change.op == "delete" or not _is_source(file):
            continue
        code = [(number, piece) for number, line in added for piece in _pieces(_without_comment(file, line))]
        sizes = accumulate(len(piece) for _, piece in code)
        most = next((at for at, size in enumerate(sizes) if size > CODE_MOST), len(code))
        finding = _lookup(code[:most])
        if finding is None and most < len(code):
            finding = code[most][0], "has more new code than can be read"
        if finding:
            number, what = finding
            yield Verdict("ask", "test-detection", f"{file} {what}.", file, number)


def _is_source(file: str) -> bool:
    """Code outside the test side: its name and folders say nothing of tests."""
    known = language(file) != "other" or file.lower().endswith(_SCRIPTS)
    return known and not is_near_test(file) and not _SIDE.search(file)


def _pieces(line: str) -> Iterable[str]:
    for start in range(0, max(len(line) - OVERLAP, 1), PIECE - OVERLAP):
        yield line[start : start + PIECE]


def _without_comment(file: str, line: str) -> str:
    comment = r"#.*" if language(file) in _HASH_COMMENTS else r"//.*|^\s*\*.*"
    return re.sub(rf"(?:^|\s)(?:{comment})$", "", line)


def _lookup(code: Sequence[tuple[int, str]]) -> tuple[int, str] | None:
    for pattern, what in ASKS:
        for number, line in code:
            if pattern.search(line):
                return number, what
    for at, (number, line) in enumerate(code):
        near = code[max(at - 2, 0) : at + NEAR]
        if _STACK.search(line) and any(_NAMES_CALLER.search(other) for _, other in near):
            return number, "acts on who calls it, so it can behave only when it is tested"
    if _ALWAYS_EQUAL.search("\n".join(line for _, line in code)):
        return 0, "has an object that is equal to everything"
    return None
