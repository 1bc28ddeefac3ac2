"""Weakened tests in any language, from removed and added lines alone."""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal

from flyball.guard.assertions import EMPTY, line_strength, parsed
from flyball.guard.pytests import bounds_of
from flyball.guard.testfiles import Language, language

_SKIPS = re.compile(
    r"@(?:pytest\.)?mark\.(?:skip|skipif|xfail)\b|@unittest\.(?:skip|skipIf|skipUnless|expectedFailure)\b|@(?:skip|skipIf|skipif|xfail|expectedFailure)\b|"
    r"\bpytest\.(?:skip|xfail|importorskip|exit)\s*\(|\bself\.skipTest\s*\(|raise\s+(?:unittest\.)?SkipTest|pytestmark\s*=.*(?:skip|xfail)|marks\s*=.*(?:skip|xfail)|"
    r"__test__\s*=\s*False|\b(?:it|test|describe|context|suite|specify)\.(?:skip|todo|fixme|fails|failing|skipIf|runIf|only)\b|"
    r"\b(?:xit|xtest|xdescribe|xcontext|xspecify|fit|fdescribe|fcontext)\s*[(\s'\"]|\bt\.(?:Skip|Skipf|SkipNow)\s*\(|testing\.Short\(\)|#\[ignore\b|#\[cfg\(\s*(?:any\(\)|FALSE|feature)|"
    r"@(?:Disabled|Ignore|DisabledIf\w*|DisabledOn\w*|EnabledIf\w*|EnabledOn\w*)\b|\bassume(?:True|That|False|_true)?\s*\(|\[(?:Fact|Theory)\s*\(.*Skip\s*=|\[Ignore\b|Assert\.(?:Ignore|Inconclusive)\(|"
    r"markTestSkipped|markTestIncomplete|@group\s+skip|\bGTEST_SKIP\b|\bDISABLED_\w+|XCTSkip|@tag\s+:?skip|@moduletag\s+:?skip|^\s*(?:skip|pending)\b(?:\s+['\"(]|\s*$)|"
    r"\bskip:\s*(?:true|['\"])|\bpending\s+['\"]|this\.skip\s*\(|\.skip\s*\(|test\.describe\.(?:skip|fixme)"
)
_FLAKES = re.compile(
    r"@(?:pytest\.mark\.)?flaky\b|\bjest\.retryTimes\s*\(|\bretries\s*[:=]\s*[1-9]|@Retry|RepeatedIfExceptions|\bretry:\s*[1-9]|this\.retries\s*\("
)
_HOOKS = re.compile(
    r"\bdef\s+pytest_(?:collection_modifyitems|ignore_collect|runtest_makereport|runtest_call|runtest_setup|sessionfinish|pyfunc_call|runtest_protocol|collect_file|"
    r"itemcollected|deselected|assertrepr_compare|runtest_logreport|report_teststatus|exception_interact|configure|generate_tests|pycollect_makeitem)\b|"
    r"collect_ignore(?:_glob)?\b|items\[:\]\s*=|items\.(?:clear|remove|pop)\b|\.deselect|exitstatus\s*=|session\.exitstatus|\.outcome\s*=|config\.option\.|add_marker\(.*(?:skip|xfail)"
)
_REPLACED = re.compile(
    r"\bbuiltins?\.|AssertionError\s*=|TestCase\.assert\w*\s*=|\.assert\w+\s*=\s*(?:lambda|None|Mock|MagicMock|jest\.fn)|setattr\(.*['\"]assert|def\s+(?:assert|check|verify)\w*\(.*\)\s*(?:->.*)?:\s*(?:pass|return|\.\.\.)|"
    r"(?:global|window|globalThis)\.expect\s*=|expect\s*=\s*(?:\(|jest\.fn)|__builtins__|sys\.exit\(0\)|os\._exit\(0\)|process\.exit\(0\)"
)
_SWALLOWS = re.compile(
    r"^\s*except(?:\s+\(?(?:.*\b(?:Exception|BaseException|AssertionError)\b).*)?\s*:\s*(?:#.*)?(?:pass|\.\.\.|return|continue)?\s*$|suppress\(\s*(?:Exception|BaseException|AssertionError)|"
    r"catch\s*(?:\([^)]*\))?\s*\{\s*(?:/[/*].*)?\}|\.catch\(\s*\(?\w*\)?\s*=>\s*(?:\{\s*\}|null|undefined|void 0)\s*\)|rescue\s*(?:Exception|StandardError|=>.*)?\s*$|catch\s*\((?:Throwable|Error|AssertionError|Exception)\b|"
    r"\.unwrap_or\(true\)|let\s+_\s*=\s*std::panic::catch_unwind"
)
_NOTHING = re.compile(
    r"^\s*assert\s+(?:True|1|not\s+False)\b|\bor\s+True\b|\bassertTrue\(\s*True\s*\)|^\s*if\s+(?:False|0|true|!1)\s*:|^\s*if\s*\(\s*(?:false|0)\s*\)|^\s*(?:return|return;|return None)\s*(?:[#/].*)?$|"
    r"^\s*assert\s+\(.*,\s*[\"'].*[\"']\)\s*$"
)
_NAMES = re.compile(
    r"^\s*(?:async\s+)?def\s+(test\w*)|^\s*(?:public\s+|private\s+|internal\s+)?(?:async\s+)?(?:func|fun|fn|void|function)\s+(test\w*|Test\w*|`[^`]+`)|"
    r"\b(?:it|test|specify|scenario)(?:\.\w+)*\s*\(\s*[\"'`](.+?)[\"'`]\s*,|^\s*(?:it|specify|test|scenario)\s+[\"'](.+?)[\"']|^\s*TEST(?:_F|_P)?\(([^)]*)\)|^\s*(?:pub\s+)?(?:async\s+)?fn\s+(\w+)\s*\(\s*\)\s*(?:->.*)?\{|"
    r"^\s*public\s+(?:async\s+)?(?:void|Task)\s+(\w+)\s*\(|^\s*(?:public\s+)?void\s+(\w+)\s*\(\s*\)\s*(?:throws\s+[\w, ]+)?\{"
)
_MARKS = re.compile(
    r"^\s*(?:@Test\b|@ParameterizedTest|#\[(?:tokio::)?test|\[Fact|\[Theory|\[Test|\[TestMethod)"
)
_GAMED = re.compile(
    r"PYTEST_CURRENT_TEST|[\"']pytest[\"']\s+in\s+sys\.modules|JEST_WORKER_ID|VITEST_WORKER_ID|sys\._called_from_test|[\"']unittest[\"']\s+in\s+sys\.modules|testing\.Testing\(\)"
)
_RUN_ANYWAY = re.compile(
    r"(?:pytest|tox|nox|npm (?:run )?test|yarn test|pnpm test|go test|cargo test|jest|vitest|mocha|make test|rspec|phpunit|ctest|mvn .*test|gradlew? .*test)\b.*(?:\|\|\s*(?:true|:|exit 0|echo)|;\s*(?:true|exit 0)|--ignore|--deselect|--passWithNoTests|-k\s+[\"']?not |\s--co\b|--collect-only|-DskipTests|--no-run)|-DskipTests|-Dmaven\.test\.skip"
)


def line_faults(
    path: str, removed: Sequence[str], added: Sequence[str], elsewhere: Sequence[str]
) -> Iterable[str]:
    """What these lines take from the tests of a file; `elsewhere` are the tests that other files gained."""
    tongue = language(path)
    removed, added = _code(removed, tongue), _code(added, tongue)
    yield from _gained(removed, added)
    yield from _lost_tests(removed, added, elsewhere)
    if not _all_moved(removed, added, elsewhere) and not _became_rows(removed, added):
        yield from _lost_assertions(removed, added, tongue)
    if tongue == "python":
        yield from _wider(removed, added)
        yield from _fewer_rows(removed, added)


def _code(lines: Sequence[str], tongue: Language) -> list[str]:
    mark = ("#",) if tongue in ("python", "ruby", "elixir") else ("//", "/*", "*")
    return [line for line in lines if line.strip() and not line.strip().startswith(mark)]


_GAINS = (
    (_SKIPS, "a test is skipped"),
    (_FLAKES, "a test is repeated until it passes"),
    (_HOOKS, "a hook changes which tests run or how they end"),
    (_REPLACED, "an assertion is replaced"),
    (_SWALLOWS, "a failure is swallowed"),
    (_NOTHING, "an assertion cannot fail or is not reached"),
)


def _gained(removed: Sequence[str], added: Sequence[str]) -> Iterable[str]:
    for pattern, reason in _GAINS:
        now = sum(1 for line in added if pattern.search(line))
        if now > sum(1 for line in removed if pattern.search(line)):
            yield reason


def test_names(lines: Iterable[str]) -> list[str]:
    """The tests that these lines define."""
    found: list[str] = []
    for line in lines:
        match = _NAMES.search(line)
        if match:
            found.append(next(name for name in match.groups() if name is not None))
    return found


def _lost_tests(removed: Sequence[str], added: Sequence[str], elsewhere: Sequence[str]) -> Iterable[str]:
    gone, fresh = Counter(test_names(removed)), Counter(test_names(added))
    missing = gone - fresh - Counter(elsewhere)
    new = fresh - gone
    if missing.total() > new.total() and not _became_rows(removed, added):
        yield f"{min(missing)} is deleted"
    marks = sum(1 for line in removed if _MARKS.match(line)) - sum(1 for line in added if _MARKS.match(line))
    if marks > 0 and missing.total() <= new.total() and not gone:
        yield "a test is no longer marked as one"


def _all_moved(removed: Sequence[str], added: Sequence[str], elsewhere: Sequence[str]) -> bool:
    gone = Counter(test_names(removed)) - Counter(test_names(added))
    return bool(gone) and not gone - Counter(elsewhere)


def _lost_assertions(removed: Sequence[str], added: Sequence[str], tongue: Language) -> Iterable[str]:
    old = [w for line in removed if (w := line_strength(line, tongue)) is not None]
    new = [w for line in added if (w := line_strength(line, tongue)) is not None]
    if EMPTY in new and EMPTY not in old:
        yield "an assertion cannot fail"
    real = [w for w in new if w]
    before = [w for w in old if w]
    if len(real) < len(before):
        yield f"assertions are removed ({len(before)} to {len(real)})"
    elif (len(real) <= len(before) and sum(real) < sum(before)) or (
        before
        and sum(1 for w in real if w == 3) < sum(1 for w in before if w == 3)
        and len(real) <= len(before) + 1
    ):
        yield "an assertion is loosened"


def _became_rows(removed: Sequence[str], added: Sequence[str]) -> bool:
    """Several tests in one, with a table of cases: at least as many rows as assertions that went."""
    table = any(
        re.search(
            r"parametrize|\.each\b|@ParameterizedTest|\[Theory|#\[case|rstest|tests\s*:?=\s*\[\]|subTest|test_case",
            line,
        )
        for line in added
    )
    rows = sum(
        1
        for line in added
        if re.match(
            r"\s*[(\[{].*[)\]}],?\s*$|\s*\[?InlineData|\s*#\[case|\s*@?CsvSource|\s*[\"'].*[\"'],?\s*$", line
        )
    )
    return table and rows >= len(test_names(removed))


def _wider(removed: Sequence[str], added: Sequence[str]) -> Iterable[str]:
    old: dict[str, list[Decimal]] = {}
    for key, _, number in _bounds(removed):
        old.setdefault(key, []).append(number)
    for key, side, number in _bounds(added):
        olds = old.get(key, [])
        if olds and (number > max(olds) if side == "up" else number < min(olds)):
            yield "a test accepts a wider range than before"
            return


def _bounds(lines: Sequence[str]) -> Iterable[tuple[str, str, Decimal]]:
    for line in lines:
        text = line.strip()
        tree = parsed(text if text.startswith("assert") else f"assert {text.rstrip(':,')}")
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Assert):
                yield from bounds_of(node)


_ROW = re.compile(r"^\s*(?:pytest\.param\(|\(|\[).*[)\]],?\s*$")


def _fewer_rows(removed: Sequence[str], added: Sequence[str]) -> Iterable[str]:
    gone = sum(1 for line in removed if _ROW.match(line))
    if (
        gone > sum(1 for line in added if _ROW.match(line))
        and not test_names(removed)
        and not any(line_strength(x, "python") for x in removed)
    ):
        yield "cases are removed from a table"


def source_faults(added: Sequence[str]) -> Iterable[str]:
    """Code outside the tests that behaves otherwise when it is tested, or runs them so that they cannot fail."""
    if any(_GAMED.search(line) for line in added):
        yield "the code asks whether it is being tested"
    if any(_RUN_ANYWAY.search(line) for line in added):
        yield "tests are run so that they cannot fail"
