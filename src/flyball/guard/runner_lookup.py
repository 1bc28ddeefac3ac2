"""Source that looks for a test runner (EVID-4): its modules, environment, arguments or stack, or that patches it.

Such code can behave well only while it is tested. Only added lines outside the test side count, and only what plainly
looks for a test run: a program may exit, log its caller's name or read its arguments.
"""

import re
from collections.abc import Iterable, Sequence

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
    rf"sys\.modules\b.{{0,120}}['\"]\.?{_RUNNER}|['\"]{_RUNNER}(?:\.\w+)*['\"]\s*(?:not\s+)?in\s+(?:\w+\.)*modules\b"
    rf"|sys\._called_from_test|sys\.modules\[['\"]__main__['\"]\].{{0,120}}{_TESTISH}"
    r"|(?:find_spec|import_module|__import__|find_loader)\s*\(\s*['\"](?:_?pytest|unittest|nose|pluggy|xdist)"
    r"|^\s*(?:import|from)\s+(?:_?pytest|pluggy|xdist|nose2?)\b"
    r"|(?:require|import)\s*\(?\s*['\"](?:node:test|jest|@jest/\w+|vitest|mocha|jasmine)['\"]"
    r"|\bfrom\s+['\"](?:node:test|@jest/\w+|vitest|mocha|jasmine)['\"]|require\.cache\b.{0,120}(?:test|spec|jest|mocha)"
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
    rf"\b(?:orig_)?argv\b.{{0,120}}{_RUNNER}|{_RUNNER}['\"]?\s*(?:not\s+)?in\s+.{{0,120}}\b(?:orig_)?argv\b|\bargv\[0\].{{0,120}}{_TESTISH}"
    rf"|process\.argv\[1\].{{0,120}}(?:includes|endsWith|match|indexOf|test\().{{0,120}}{_TESTISH}|execArgv\b.{{0,120}}test|['\"]test['\"]\s*(?:not\s+)?in\s+sys\.argv"
    rf"|(?:\$PROGRAM_NAME|__main__\.__file__|require\.main\b.{{0,120}}filename|mainModule\b).{{0,120}}{_TESTISH}|HasSuffix\(\s*os\.Args\[0\],\s*\"\.test\""
    r"|/proc/\S*(?:self|PPID|\$|\{|ppid)\S*/(?:cmdline|comm|environ)\b|\bps\b.{0,120}\$\{?PPID",
    re.IGNORECASE,
)
_PATCHES = Lazy(
    rf"\bbuiltins\.(?!_\b)\w+\s*=(?!=)|setattr\(\s*(?:builtins|__builtins__|operator|{_RUNNER})\b"
    r"|__builtins__(?:\.\w+|\[[^\]]+\])\s*=(?!=)|\boperator\.\w+\s*=(?!=)"
    r"|\b(?:_pytest|pytest|unittest|pluggy|doctest)(?:\.\w+)+\s*=(?!=)|\bHookCaller\b|sys\.(?:meta_path|path_hooks)\b|\bsys\.(?:settrace|setprofile)\s*\("
    r"|getusersitepackages|usercustomize|sitecustomize|__eq__\s*=\s*lambda[^:]{0,80}:\s*True|\bassert(?:\.\w+)+\s*=(?![=>])|Object\.is\s*=(?!=)"
    r"|Module\._(?:load|resolveFilename|extensions)\b|AssertionError\s*=(?!=)|\btb_frame\s*\.\s*f_back\b"
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
ASKS = (
    (_MODULES, "looks for a test runner among the loaded modules"),
    (_ENVIRONMENT, "looks for a test runner in the environment"),
    (_ARGUMENTS, "looks for a test runner in the arguments or in the parent process"),
    (_PATCHES, "replaces something that test runners rely on"),
)


def judge_lookups(
    changes: Sequence[Change], files: Sequence[str], lines: Sequence[Sequence[tuple[int, str]]]
) -> Iterable[Verdict]:
    """The first added line of each source file that looks for a test run. `lines` are the added ones, file by file."""
    for change, file, added in zip(changes, files, lines, strict=True):
        if change.op == "delete" or not _is_source(file):
            continue
        code = [(number, piece) for number, line in added for piece in _pieces(_without_comment(file, line))]
        finding = _lookup(code)
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
