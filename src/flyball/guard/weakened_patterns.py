"""How tests are switched off in each language. To add a way, add a line."""

from collections.abc import Sequence

from flyball.guard.test_files import Language
from flyball.reading.lazy import Lazy


def _any(*ways: str) -> Lazy:
    return Lazy("|".join(ways))


def count_lines(pattern: Lazy, lines: Sequence[str]) -> int:
    return sum(1 for line in lines if pattern.search(line))


def more_lines(pattern: Lazy, removed: Sequence[str], added: Sequence[str]) -> bool:
    """Do more lines match than before?"""
    return count_lines(pattern, added) > count_lines(pattern, removed)


SKIPS: dict[Language, Lazy] = {
    "python": _any(
        r"@(?:pytest\.)?mark\.(?:skip|xfail)\b(?!if)",
        r"@(?:pytest\.)?mark\.skipif\(\s*(?:True|1|not False)\b",
        r"@(?:unittest\.)?(?:skip|expectedFailure|xfail)\b",
        r"\bpytest\.(?:skip|xfail|exit)\s*\(",
        r"\bself\.skipTest\s*\(",
        r"raise\s+(?:unittest\.)?SkipTest",
        r"pytestmark\s*=.*(?:skip\b|xfail)",
        r"marks\s*=.*(?:skip\b|xfail)",
        r"__test__\s*=\s*False",
    ),
    "js": _any(
        r"(?<![\w.])(?:it|test|describe|context|suite|specify)(?:\.\w+)*\.(?:skip|todo|fixme|fails|failing|only|fail)\b",
        r"(?<![\w.])(?:xit|xtest|xdescribe|xcontext|xspecify|fit|fdescribe|fcontext)(?:\.each)?\s*\(",
        r"\bthis\.skip\s*\(",
        r"\bskip\s*:\s*true\b",
    ),
    "go": _any(r"\b[tb]\.(?:Skip|Skipf|SkipNow)\s*\(", r"^\s*//go:build\s+(?:ignore|never|integration)"),
    "rust": _any(r"#\[ignore\b", r"#\[cfg\(\s*(?:any\(\)|FALSE|feature)", r"#\[should_panic\]"),
    "jvm": _any(
        r"@(?:Disabled|Ignore|DisabledIf\w*|DisabledOn\w*|EnabledIf\w*|EnabledOn\w*)\b",
        r"\bassume(?:True|That|False|NotNull)\s*\(",
        r"\benabled\s*=\s*false",
        r"\bignore\s*\(\s*\"",
        r"^\s*ignore\s+(?:should|must|can)\b|\.(?:ignore|pending)\s*\)",
    ),
    "ruby": _any(
        r"^\s*(?:xit|xdescribe|xcontext|xspecify|fit|fdescribe|fcontext|xscenario)\b",
        r"^\s*(?:skip|pending)\b(?:\s*[('\"]|\s*$|\s+if\b)",
        r"\b(?:skip|pending):\s*(?:true|['\"])",
    ),
    "php": _any(
        r"markTest(?:Skipped|Incomplete)", r"@group\s+skip", r"->skip\s*\(", r"#\[(?:Skip|RequiresPhp\w*)"
    ),
    "dotnet": _any(
        r"\[(?:Fact|Theory)\s*\(.*Skip\s*=",
        r"\[Ignore\b",
        r"Assert\.(?:Ignore|Inconclusive|Skip)\(",
        r"\[Explicit\b",
    ),
    "cpp": _any(r"\bGTEST_SKIP\b", r"\bTEST(?:_F|_P)?\([^)]*DISABLED_", r"\[\.\]|\[!hide\]|\[!mayfail\]"),
    "swift": _any(r"\bXCTSkip", r"\.disabled\(", r"func\s+(?:x|disabled_|DISABLED_)test"),
    "elixir": _any(r"@(?:module)?tag\s+:?skip", r"@(?:module)?tag\s+skip:"),
    "other": _any(r"@(?:skip|wip|ignore|disabled)\b", r"^\s*skip(?:\s+[\"'$]|\s*$)"),
}
"""Marks that always switch a test off."""

CONDITIONS: dict[Language, Lazy] = {
    "python": _any(
        r"@(?:pytest\.)?mark\.skipif\b",
        r"@(?:unittest\.)?skip(?:If|Unless)\b",
        r"\bpytest\.importorskip\s*\(",
        r"marks\s*=.*skipif",
    ),
    "js": _any(r"\b(?:it|test|describe)\.(?:skipIf|runIf)\b", r"\bskip\s*:\s*!?\w"),
    "go": _any(r"testing\.Short\(\)"),
}
"""Marks that switch a test off conditionally: fine in a new test, not in one that ran before."""

FLAKES = _any(
    r"@(?:pytest\.mark\.)?flaky\b",
    r"\bjest\.retryTimes\s*\(",
    r"(?<![\w.])(?:it|test|describe)\b.*\bretry\s*:\s*[1-9]",
    r"@Retry(?:ing)?(?:Test)?\b|RepeatedIfExceptions",
    r"\bthis\.retries\s*\(",
)

HOOKS = _any(
    r"\bdef\s+pytest_(?:collection_modifyitems|ignore_collect|itemcollected|deselected|pycollect_makeitem)\b",
    r"\bdef\s+pytest_(?:runtest_makereport|runtest_call|runtest_protocol|pyfunc_call|runtest_logreport)\b",
    r"\bdef\s+pytest_(?:sessionfinish|report_teststatus|exception_interact|assertrepr_compare|collect_file)\b",
    r"\bcollect_ignore(?:_glob)?\b",
    r"\bitems\[:\]\s*=|\bitems\.(?:clear|remove|pop)\s*\(",
    r"hook\.pytest_deselected|\bsession\.exitstatus\b|\b(?:report|rep)\.outcome\s*=",
    r"add_marker\(.*(?:skip|xfail)",
)

REPLACED = _any(
    r"\bAssertionError\s*=",
    r"\bTestCase\.assert\w*\s*=",
    r"\.assert\w+\s*=\s*(?:lambda|None|Mock|jest\.fn)",
    r"setattr\(.*['\"]assert",
    r"\bdef\s+(?:assert|check|verify)\w*\(.*\)\s*(?:->.*)?:\s*(?:pass|return|\.\.\.)\s*$",
    r"(?:global|window|globalThis)\.(?:expect|assert)\s*=",
    r"\bexpect\s*=\s*(?:\(|jest\.fn|vi\.fn)",
    r"^\s*(?:sys\.exit|os\._exit|process\.exit|os\.Exit)\(0\)",
)

SWALLOWS = _any(
    r"^\s*except(?:\s+\(?.*\b(?:Exception|BaseException|AssertionError)\b.*)?\s*:\s*(?:pass|\.\.\.|return|continue)\s*$",
    r"\bsuppress\(\s*(?:Exception|BaseException|AssertionError)",
    r"\bcatch\s*(?:\([^)]*\))?\s*\{\s*(?:/[/*].*)?\}",
    r"\.catch\(\s*\(?\w*\)?\s*=>\s*(?:\{\s*\}|null|undefined|void 0)\s*\)",
    r"\brescue\s+(?:nil|true)\b",
    r"\.unwrap_or\(true\)|let\s+_\s*=\s*(?:std::)?panic::catch_unwind",
)

CATCHES = _any(
    r"^\s*except(?:\s+\(?.*\b(?:Exception|BaseException|AssertionError)\b.*)?\s*:\s*(?:#.*)?$",
    r"\bcatch\s*(?:\([^)]*\))?\s*\{\s*$",
    r"^\s*rescue\b(?!.*\bnil\b).*$",
)
IDLES = _any(
    r"^\s*(?:pass|\.\.\.|return|continue|return;|return None|nil|true)\s*(?:[#/].*)?$",
    r"^\s*\}",
    r"^\s*end\b",
    r"^\s*(?:print|log|console|self\.log)\b",
)
"""A catch followed by one of these: the error is swallowed."""

UNREACHED = _any(
    r"\bor\s+True\b",
    r"\|\|\s*true\b",
    r"^\s*if\s+(?:False|0|not True)\s*:",
    r"^\s*if\s*\(\s*(?:false|0)\s*\)",
    r"^\s*(?:return|return;|return None)\s*(?:[#/].*)?$",
)

NAMES = _any(
    r"^\s*(?:async\s+)?def\s+(test\w*)",
    r"^\s*(?:public\s+|private\s+|internal\s+|open\s+)*(?:async\s+)?(?:func|fun|function)\s+(test\w*|Test\w*|`[^`]+`)",
    r"(?<![\w.])(?:it|test|specify|scenario)(?:\.\w+)*\s*\(\s*[\"'`](.+?)[\"'`]\s*,",
    r"^\s*(?:it|specify|test|scenario)\s+[\"'](.+?)[\"']",
    r"^\s*TEST(?:_F|_P|_CASE)?\(([^)]*)\)",
    r"^\s*(?:pub\s+)?(?:async\s+)?fn\s+(\w+)\s*\(\s*\)\s*(?:->.*)?\{",
    r"^\s*public\s+(?:async\s+)?(?:void|Task)\s+(\w+)\s*\(",
    r"^\s*void\s+(\w+)\s*\(\s*\)\s*(?:throws\s+[\w, ]+)?\{",
    r"^\s*@test\s+[\"'](.+?)[\"']",
    r"^\s*(?:Scenario(?: Outline)?|Example):\s*(.+)$",
)
"""Lines that begin a test; one group holds its name."""

MARKS = _any(r"^\s*(?:@Test\b|@ParameterizedTest|#\[(?:tokio::|async_std::)?test|\[Fact|\[Theory|\[Test)")
"""Marks that make a function a test."""

TABLES = _any(
    r"\bparametrize\b|\.each\b|@ParameterizedTest|\[Theory|#\[(?:case|rstest)|\bsubTest\b|@DataProvider|dataProvider",
    r"\btests\s*:?=\s*\[\]|\bcases\s*:?=\s*\[|\bwhere:",
    r"\bfor\s*\(\s*(?:const|let|var)\b.*\bof\s*\[|\]\s*\.forEach\(|\bfor\s*\(\s*(?:const|let|var)\b.*\bof\s+\w*(?:cases|rows|table|tests)\w*",
)
INLINE_ROW = _any(r"[\[(][^\[\]()]*[\])]")
ROWS = _any(
    r"^\s*(?:pytest\.param)?[(\[{].*[)\]}],?\s*$",
    r"^\s*\[?(?:InlineData|TestCase)\b",
    r"^\s*#\[case",
    r"^\s*[\"'].*[\"'],?\s*$",
    r"\[\s*[(\[].*[)\]]\s*\]",
)

OF_TESTS = ("test", "Test", "TEST", "JEST", "tox", "nox", "mocha", "rspec", "phpunit")
"""A text without one of these has nothing to do with tests."""

_RUNNERS = (
    r"(?:pytest|tox|nox|npm (?:run )?test|yarn test|pnpm test|go test|cargo test|jest|vitest|mocha|make test|rspec|"
    r"phpunit|ctest|mvn\b.*test|gradlew?\b.*test)\b"
)
RUN_ANYWAY = _any(
    _RUNNERS + r".*(?:\|\|\s*(?:true|:|exit 0|echo)|;\s*(?:true|exit 0))",
    _RUNNERS + r".*(?:--ignore|--deselect|--passWithNoTests|-k\s+[\"']?not |--collect-only|--no-run)",
    r"-DskipTests|-Dmaven\.test\.skip",
)
