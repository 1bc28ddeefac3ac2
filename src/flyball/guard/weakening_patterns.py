"""Patterns of tests in each language: their files, how they are switched off, what asserts, what looks for a test run.

To add a way, add a line.
"""

import re
from typing import Literal

from flyball.reading.terminal import Lazy

Language = Literal[
    "python", "js", "go", "rust", "jvm", "ruby", "php", "dotnet", "cpp", "swift", "elixir", "other"
]

LANGUAGES: dict[str, Language] = {
    **dict.fromkeys(("py", "pyi"), "python"),
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"), "js"),
    **dict.fromkeys(("java", "kt", "kts", "scala", "groovy"), "jvm"),
    **dict.fromkeys(("c", "cc", "cpp", "cxx", "h", "hpp"), "cpp"),
    **dict.fromkeys(("cs", "fs", "vb"), "dotnet"),
    **dict.fromkeys(("ex", "exs"), "elixir"),
    "go": "go",
    "rs": "rust",
    "rb": "ruby",
    "php": "php",
    "swift": "swift",
}

TEST_NAME = Lazy(
    r"(?:^|/)(?:test_[^/]*\.py|[^/]*_test\.(?:py|go|rs|rb|exs?|cc|cpp|c|dart|js|ts)|[^/]*[._-](?:test|"
    r"spec|tests|cy|e2e)\.[cm]?[jt]sx?|"
    r"[^/]*_spec\.(?:rb|lua)|[^/]*(?:tests?|spec|it)\.(?:java|kt|scala|groovy|cs|fs|vb|php|swift)|"
    r"test[A-Z][^/]*\.(?:java|php)|[^/]*\.feature|[^/]*\.bats|[^/]*\.snap|test-[^/]*\.(?:py|[cm]?[jt]sx?)|"
    r"tests?\.(?:py|rs|js|ts)|"
    r"[^/]*unittest[^/]*\.(?:cc|cpp))$",
    re.IGNORECASE,
)
TEST_FOLDER = Lazy(
    r"(?:^|/)(?:tests?|__tests__|specs?|testing|e2e|integration[-_]tests?|unit[-_]tests?|t)/", re.IGNORECASE
)
TEST_HELPER = Lazy(
    r"(?:^|/)(?:__init__|helpers?|utils?|fixtures?|factor(?:y|ies)|mocks?|stubs?|fakes?|support|data|"
    r"setup|common|"
    r"constants?|types|shared|base|[^/]*_?(?:helpers?|utils?|fixtures?|factor(?:y|ies)|mocks?))\.\w+$|"
    r"(?:^|/)(?:fixtures?|helpers?|__mocks__|mocks?|support|data|testdata|resources|golden)/",
    re.IGNORECASE,
)


# --- how tests are switched off

SKIPS: dict[Language, Lazy] = {
    "python": Lazy(
        r"@(?:pytest\.)?mark\.(?:skip|xfail)\b(?!if)|"
        r"@(?:pytest\.)?mark\.skipif\(\s*(?:True|1|not False)\b|"
        r"@(?:unittest\.)?(?:skip|expectedFailure|xfail)\b|"
        r"\bpytest\.(?:skip|xfail|exit)\s*\(|"
        r"\bself\.skipTest\s*\(|"
        r"raise\s+(?:unittest\.)?SkipTest|"
        r"pytestmark\s*=.*(?:skip\b|xfail)|"
        r"marks\s*=.*(?:skip\b|xfail)|"
        r"__test__\s*=\s*False"
    ),
    "js": Lazy(
        r"(?<![\w.])(?:it|test|describe|context|suite|specify)(?:\.\w+)*\.(?:skip|todo|fixme|fails|failing|only|fail)\b|"
        r"(?<![\w.])(?:xit|xtest|xdescribe|xcontext|xspecify|fit|fdescribe|fcontext)(?:\.each)?\s*\(|"
        r"\bthis\.skip\s*\(|"
        r"\bskip\s*:\s*true\b"
    ),
    "go": Lazy(
        r"\b[tb]\.(?:Skip|Skipf|SkipNow)\s*\(|"
        r"^\s*//go:build\s+(?:ignore|never|integration)"
    ),
    "rust": Lazy(
        r"#\[ignore\b|"
        r"#\[cfg\(\s*(?:any\(\)|FALSE|feature)|"
        r"#\[should_panic\]"
    ),
    "jvm": Lazy(
        r"@(?:Disabled|Ignore|DisabledIf\w*|DisabledOn\w*|EnabledIf\w*|EnabledOn\w*)\b|"
        r"\bassume(?:True|That|False|NotNull)\s*\(|"
        r"\benabled\s*=\s*false|"
        r"\bignore\s*\(\s*\"|"
        r"^\s*ignore\s+(?:should|must|can)\b|\.(?:ignore|pending)\s*\)"
    ),
    "ruby": Lazy(
        r"^\s*(?:xit|xdescribe|xcontext|xspecify|fit|fdescribe|fcontext|xscenario)\b|"
        r"^\s*(?:skip|pending)\b(?:\s*[('\"]|\s*$|\s+if\b)|"
        r"\b(?:skip|pending):\s*(?:true|['\"])"
    ),
    "php": Lazy(
        r"markTest(?:Skipped|Incomplete)|"
        r"@group\s+skip|"
        r"->skip\s*\(|"
        r"#\[(?:Skip|RequiresPhp\w*)"
    ),
    "dotnet": Lazy(
        r"\[(?:Fact|Theory)\s*\(.*Skip\s*=|"
        r"\[Ignore\b|"
        r"Assert\.(?:Ignore|Inconclusive|Skip)\(|"
        r"\[Explicit\b"
    ),
    "cpp": Lazy(
        r"\bGTEST_SKIP\b|"
        r"\bTEST(?:_F|_P)?\([^)]*DISABLED_|"
        r"\[\.\]|\[!hide\]|\[!mayfail\]"
    ),
    "swift": Lazy(
        r"\bXCTSkip|"
        r"\.disabled\(|"
        r"func\s+(?:x|disabled_|DISABLED_)test"
    ),
    "elixir": Lazy(
        r"@(?:module)?tag\s+:?skip|"
        r"@(?:module)?tag\s+skip:"
    ),
    "other": Lazy(
        r"@(?:skip|wip|ignore|disabled)\b|"
        r"^\s*skip(?:\s+[\"'$]|\s*$)"
    ),
}
"""Marks that always switch a test off."""

CONDITIONS: dict[Language, Lazy] = {
    "python": Lazy(
        r"@(?:pytest\.)?mark\.skipif\b|"
        r"@(?:unittest\.)?skip(?:If|Unless)\b|"
        r"\bpytest\.importorskip\s*\(|"
        r"marks\s*=.*skipif"
    ),
    "js": Lazy(
        r"\b(?:it|test|describe)\.(?:skipIf|runIf)\b|"
        r"\bskip\s*:\s*!?\w"
    ),
    "go": Lazy(r"testing\.Short\(\)"),
}
"""Marks that switch a test off conditionally: fine in a new test, not in one that ran before."""

FLAKES = Lazy(
    r"@(?:pytest\.mark\.)?flaky\b|"
    r"\bjest\.retryTimes\s*\(|"
    r"(?<![\w.])(?:it|test|describe)\b.*\bretry\s*:\s*[1-9]|"
    r"@Retry(?:ing)?(?:Test)?\b|RepeatedIfExceptions|"
    r"\bthis\.retries\s*\("
)

HOOKS = Lazy(
    r"\bdef\s+pytest_(?:collection_modifyitems|ignore_collect|itemcollected|deselected|pycollect_makeitem)\b|"
    r"\bdef\s+pytest_(?:runtest_makereport|runtest_call|runtest_protocol|pyfunc_call|runtest_logreport)\b|"
    r"\bdef\s+pytest_(?:sessionfinish|report_teststatus|exception_interact|assertrepr_compare|collect_file)\b|"
    r"\bcollect_ignore(?:_glob)?\b|"
    r"\bitems\[:\]\s*=|\bitems\.(?:clear|remove|pop)\s*\(|"
    r"hook\.pytest_deselected|\bsession\.exitstatus\b|\b(?:report|rep)\.outcome\s*=|"
    r"add_marker\(.*(?:skip|xfail)"
)

REPLACED = Lazy(
    r"\bAssertionError\s*=|"
    r"\bTestCase\.assert\w*\s*=|"
    r"\.assert\w+\s*=\s*(?:lambda|None|Mock|jest\.fn)|"
    r"setattr\(.*['\"]assert|"
    r"\bdef\s+(?:assert|check|verify)\w*\(.*\)\s*(?:->.*)?:\s*(?:pass|return|\.\.\.)\s*$|"
    r"(?:global|window|globalThis)\.(?:expect|assert)\s*=|"
    r"\bexpect\s*=\s*(?:\(|jest\.fn|vi\.fn)|"
    r"^\s*(?:sys\.exit|os\._exit|process\.exit|os\.Exit)\(0\)|"
    r"^(?:test\w*|\w+\.test\w*)\s*=(?!=)|^del\s+\w*[tT]est"
)

SWALLOWS = Lazy(
    r"^\s*except(?:\s+\(?.*\b(?:Exception|BaseException|AssertionError)\b.*)?\s*:\s*(?:pass|\.\.\.|return|continue)\s*$|"
    r"\bsuppress\(\s*(?:Exception|BaseException|AssertionError)|"
    r"\bcatch\s*(?:\([^)]*\))?\s*\{\s*(?:/[/*].*)?\}|"
    r"\.catch\(\s*\(?\w*\)?\s*=>\s*(?:\{\s*\}|null|undefined|void 0)\s*\)|"
    r"\brescue\s+(?:nil|true)\b|"
    r"\.unwrap_or\(true\)|let\s+_\s*=\s*(?:std::)?panic::catch_unwind"
)

CATCHES = Lazy(
    r"^\s*except(?:\s+\(?.*\b(?:Exception|BaseException|AssertionError)\b.*)?\s*:\s*(?:#.*)?$|"
    r"\bcatch\s*(?:\([^)]*\))?\s*\{\s*$|"
    r"^\s*rescue\b(?!.*\bnil\b).*$"
)
IDLES = Lazy(
    r"^\s*(?:pass|\.\.\.|return|continue|return;|return None|nil|true)\s*(?:[#/].*)?$|"
    r"^\s*\}|"
    r"^\s*end\b|"
    r"^\s*(?:print|log|console|self\.log)\b"
)
"""A catch followed by one of these: the error is swallowed."""

UNREACHED = Lazy(
    r"\bor\s+True\b|"
    r"\|\|\s*true\b|"
    r"^\s*if\s+(?:False|0|not True)\s*:|"
    r"^\s*if\s*\(\s*(?:false|0)\s*\)|"
    r"^\s*for\b.*\bin\s+(?:\[\s*\]|\(\s*\)|range\(0\))\s*:"
)

LEAVES = Lazy(r"^\s*return(?:;| None)?\s*(?:[#/].*)?$")

PYTHON_NAME = Lazy(r"^\s*(?:async\s+)?def\s+(test\w*)")
NAMES = Lazy(
    r"^\s*(?:async\s+)?def\s+(test\w*)|"
    r"^\s*(?:public\s+|private\s+|internal\s+|open\s+)*(?:async\s+)?(?:func|fun|function)\s+(test\w*|Test\w*|`[^`]+`)|"
    r"(?<![\w.])(?:it|test|specify|scenario)(?:\.\w+)*\s*\(\s*[\"'`](.+?)[\"'`]\s*,|"
    r"^\s*(?:it|specify|test|scenario)\s+[\"'](.+?)[\"']|"
    r"^\s*TEST(?:_F|_P|_CASE)?\(([^)]*)\)|"
    r"^\s*(?:pub\s+)?(?:async\s+)?fn\s+(\w+)\s*\(\s*\)\s*(?:->.*)?\{|"
    r"^\s*public\s+(?:async\s+)?(?:void|Task)\s+(\w+)\s*\(|"
    r"^\s*void\s+(\w+)\s*\(\s*\)\s*(?:throws\s+[\w, ]+)?\{|"
    r"^\s*@test\s+[\"'](.+?)[\"']|"
    r"^\s*(?:Scenario(?: Outline)?|Example):\s*(.+)$"
)
"""Lines that begin a test; one group holds its name."""

MARKS = Lazy(r"^\s*(?:@Test\b|@ParameterizedTest|#\[(?:tokio::|async_std::)?test|\[Fact|\[Theory|\[Test)")
"""Marks that make a function a test."""

HELPER = Lazy(
    r"^\s*(?:async\s+)?def\s+(\w+)\(|^(?:export\s+)?(?:async\s+)?function\s+(\w+)\(|^(?:export\s+)?const\s+(\w+)\s*=.*=>"
)
"""Lines that begin a function; one group holds its name."""

TABLES = Lazy(
    r"^\s*(?:async\s+)?for\b.*\bin\s+[\[(]|"
    r"\bparametrize\b|\.each\b|@ParameterizedTest|\[Theory|#\[(?:case|rstest)|\bsubTest\b|@DataProvider|dataProvider|"
    r"\btests\s*:?=\s*\[\]|\bcases\s*:?=\s*\[|\bwhere:|"
    r"\bfor\s*\(\s*(?:const|let|var)\b.*\bof\s*\[|\]\s*\.forEach\(|\bfor\s*\(\s*(?:const|let|var)\b.*\bof\s+\w*(?:cases|rows|table|tests)\w*"
)
INLINE_ROW = Lazy(r"[\[(][^\[\]()]*[\])]")
ROWS = Lazy(
    r"^\s*(?:pytest\.param)?[(\[{].*[)\]}],?\s*$|"
    r"^\s*\[?(?:InlineData|TestCase)\b|"
    r"^\s*#\[case|"
    r"^\s*[\"'].*[\"'],?\s*$|"
    r"\[\s*[(\[].*[)\]]\s*\]"
)

OF_TESTS = ("test", "Test", "TEST", "JEST", "tox", "nox", "mocha", "rspec", "phpunit")
"""A text without one of these has nothing to do with tests."""

_RUNNERS = (
    r"(?:pytest|tox|nox|npm (?:run )?test|yarn test|pnpm test|go test|cargo test|jest|vitest|mocha|make test|rspec|"
    r"phpunit|ctest|mvn\b.*test|gradlew?\b.*test)\b"
)
RUN_ANYWAY = Lazy(
    rf"{_RUNNERS}.*(?:\|\|\s*(?:true|:|exit 0|echo)|;\s*(?:true|exit 0))|"
    rf"{_RUNNERS}.*(?:--ignore|--deselect|--passWithNoTests|-k\s+[\"']?not |--collect-only|--no-run)|"
    r"-DskipTests|-Dmaven\.test\.skip"
)


# --- configuration of runners and checkers

CONFIG_FILES = Lazy(
    r"(?:^|/)(?:pyproject\.toml|setup\.cfg|pytest\.ini|\.?pytest\.toml|tox\.ini|tox\.toml|noxfile\.py|"
    r"\.coveragerc|package\.json|"
    r"(?:jest|vitest|karma|cypress|playwright|ava|nyc|stryker|vite|mocha)[\w.-]*\.(?:[cm]?[jt]s|json)|"
    r"\.mocharc[\w.]*|\.nycrc[\w.]*|codecov\.ya?ml|\.codecov\.ya?ml|"
    r"makefile|justfile|taskfile\.ya?ml|pom\.xml|build\.gradle(?:\.kts)?|cargo\.toml|"
    r"phpunit\.xml(?:\.dist)?|\.rspec|rakefile|\.simplecov|conftest\.py|[\w.-]*\.csproj|composer\.json)$",
    re.IGNORECASE,
)
EXCLUDES = Lazy(
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
CHECKER_FILES = Lazy(
    r"(?:^|/)(?:[jt]sconfig[\w.-]*\.json|\.?mypy\.ini|pyproject\.toml|setup\.cfg|pyrightconfig\.json|\.eslintrc[\w.]*|"
    r"eslint\.config\.[cm]?[jt]s|\.?ruff\.toml|\.rubocop\.ya?ml|\.golangci\.ya?ml|phpstan\.neon(?:\.dist)?)$",
    re.IGNORECASE,
)
LAX_CHECKER = Lazy(
    r"(?i)\"?\bstrict\w*\"?\s*[:=]\s*false|\bignore_errors\s*=\s*true|\"noImplicit\w+\"\s*:\s*false|"
    r"\b(?:dis)?allow_\w+\s*=\s*false|\bcheck_untyped_defs\s*=\s*false|typeCheckingMode\"?\s*[:=]\s*\"(?:off|basic)|"
    r"[\"'][@\w/-]+[\"']\s*:\s*\[?\s*(?:[\"']off[\"']|0\b)"
)
THRESHOLD = Lazy(
    r"(?P<key>fail[_-]under|cov-fail-under|branches|functions|lines|statements|minimum_coverage|minimum|"
    r"threshold|target|min[_-]?coverage|coverage[_-]?min\w*|covered_?ratio|lines_covered)"
    r"[\"']?\s*[:=>\s]\s*[\"']?(?P<number>\d+(?:\.\d+)?)",
    re.IGNORECASE,
)
TEST_SETTING = Lazy(
    r"\baddopts\b|\btestpaths\b|\bfail[_-]under\b|cov-fail-under|\bxfail_strict\b|--strict|"
    r"\bfilterwarnings\b|coverageThreshold|\"(?:pre|post)?test(?:[:\w-]*)?\"\s*:|\bpytest\b.*(?:-W|"
    r"--cov)|minimum_coverage|"
    r"\bcommands\s*=.*(?:pytest|test)|^test[\w-]*\s*:|<minimum>|\[tool\.(?:pytest|coverage)|"
    r"\[(?:tool:)?pytest\]|\[coverage:"
)


# --- assertions, by the line

NO_ASSERTION = Lazy(
    r"^\s*(?://|#(?!\[)|\*|/\*|--\s|<!--|(?:async\s+)?def\s|(?:export\s+)?(?:async\s+)?function\s|(?:from|import)\s|.*=\s*require\()"
)
"""Comments, and lines that define or import a helper."""
ASSERTS = Lazy(
    r"\b(?:debug_)?_?assert\w*(?:\.\w+)*!?\s*[(\s]|\bexpect\w*\s*[({]|\b(?:check|verify)\w*\s*\(|\brequire\.\w+\(|"
    r"\bAssert\.\w+\(|(?:EXPECT|ASSERT|CHECK|REQUIRE)(?:_\w+)?\(|XCT(?:Assert|Fail)\w*\(|\braises\(|\bwarns\(|"
    r"\.should\b|\.Should\(\)|\brefute\b|\bmust_\w+|\bpanic!\(|\bis_expected\b|\bshouldBe\b|\b[tb]\.(?:Error|Fatal|Fail)\w*\(|"
    r"\.fail\w*\(|matches!\(|isEqualTo\(|\.rejects\b"
)
EMPTY = Lazy(
    r"expect\(\s*(?:true|1|'?\"?ok)\s*\)\s*\.(?:toBe|toEqual|toBeTruthy|to\.be\.true|to\.equal)|"
    r"(?i:assert(?:!|\.ok|\.isTrue|True|_true|_)?)\s*\(\s*[Tt]rue\b|expect\(true\)\.to\b|"
    r"assert\(\s*1\s*\)|assert_eq!\(\s*(\w+)\s*,\s*\1\s*\)|assertEquals?\(\s*([\w.()]+)\s*,\s*\2\s*\)|"
    r"\bassert\s+(?:[Tt]rue|1|not False|([\w.(), ]+?)\s*==\s*\3)\s*(?:,.*)?$|\bassert\s*\(.*,\s*[\"'].*\)$|"
    r"\bassert\s+len\(.*\)\s*>=\s*0|\|\|\s*true\b|\bor\s+True\b|\bassert\b.*\bisinstance\(.*,\s*object\)|"
    r"(?:EXPECT|ASSERT)_TRUE\(\s*true\s*\)|toBeGreaterThanOrEqual\(0\)|Assert\.True\(true\)|Assert\.Pass\("
)
"""Assertions that hold whatever happens."""
EXACT = Lazy(
    r"\.(?:toBe|to\w*Equal|toHave(?:BeenCalledWith|BeenCalledTimes|BeenNthCalledWith|Length|Property|TextContent|Value)|"
    r"toMatchInlineSnapshot|toBeNull|toBeUndefined|toThrowErrorMatchingSnapshot)\(|\.(?:to)?[tT]hrow(?:Error)?\(\s*[^\s)]|"
    r"\.(?:to\.)?(?:deep\.)?(?:equals?|eql)\(|\.to\.be\.(?:null|undefined|false|true)\b|"
    r"(?:assert|require)\.(?:\w*[eE]qual\w*|same|[eE]xactly|JSONEq|ElementsMatch|ErrorIs|EqualError|Len)\b|"
    r"assert_eq!|assert\w*Equals?\b|assert_equal|assert_nil|assert(?:Same|Null|Count|Is|IsNone|RaisesRegex|Snapshot|ThrowsExactly)\b|"
    r"assert_(?:\w+_)?(?:equal|called_once_with|called_with|has_calls|not_called|any_call)\b|isEqualTo\(|isSameAs\(|containsExactly|hasSize\(|"
    r"Assert\.(?:Equal|AreEqual|Same|Collection|Single|Empty|Null|StrictEqual)\b|\.Should\(\)\.Be(?:EquivalentTo|Null)?\(|"
    r"(?:EXPECT|ASSERT)_(?:EQ|STREQ|DOUBLE_EQ)|REQUIRE\(.*==|XCTAssertEqual|XCTAssertNil|\.to\s+(?:eq|eql|equal|match_array|be)\b(?!_)|"
    r"assert\b.*(?:==| is (?!not\b))|shouldBe\b|must_equal|matches!\(|raises\(.*,|\b(?:check|verify|expect)_?\w*\((?!.*\)\.)|"
    r"\.should\(\s*['\"](?:not\.)?(?:have\.(?:text|value|length|attr|css|html|prop)|equal|eq|deep\.equal|be\.(?:empty|null|true|false))|"
    r"\b[tb]\.(?:Error|Fatal|Fail)\w*\("
)
NUMBER = Lazy(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")
LOOSER_DOWN = Lazy(r"(?i)greater|>=?\s*#|_g[te]\(|atleast|at_least|closeto|minimum|be\.above|places")
LOOSER_UP = Lazy(
    r"(?i)less|<=?\s*#|_l[te]\(|atmost|at_most|delta|near|within|\w*tol\w*\s*=|epsilon|maximum|be\.below"
)
"""Assertions, their numbers written as `#`, that pass more easily with a smaller or a greater number."""
INEXACT = Lazy(
    r"expect\.(?:any|anything)\b|\.not\.(?:toBe|toEqual)|\bapprox\(|\bANY\b|not_to\b|\.toThrow\(\)"
)


# --- source that looks for a test runner, or replaces it

_RUNNER = r"(?:_?pytest|unittest|nose2?|pluggy|xdist|jest|vitest|mocha|jasmine|node:test|junit|rspec|minitest|phpunit|testng|nunit|xunit)"
_TESTISH = rf"(?:{_RUNNER}|(?<![-\w])tests?\b|\btest_|_test\b|\bspecs?\b|conftest|runtest)"
SIDE = Lazy(
    r"(?:^|/)[^/]*(?:test|spec|fixture|mock|noxfile|conftest|fake|stub)[^/]*(?:/|$)|\.config\.\w+$",
    re.IGNORECASE,
)
MODULES = Lazy(
    rf"['\"]{_RUNNER}(?:\.\w+)*['\"]\s*(?:not\s+)?in\s+(?:\w+\.)*modules\b|sys\._called_from_test"
    r"|(?:find_spec|import_module|__import__|find_loader)\s*\(\s*['\"](?:_?pytest|unittest|nose|pluggy|xdist)"
    r"|^\s*(?:import|from)\s+(?:_?pytest|pluggy|xdist|nose2?)\b"
    r"|(?:require|import)\s*\(?\s*['\"](?:node:test|jest|@jest/\w+|vitest|mocha|jasmine)['\"]"
    r"|\bfrom\s+['\"](?:node:test|@jest/\w+|vitest|mocha|jasmine)['\"]"
    r"|typeof\s+(?:jest|vitest|mocha|describe|it|expect)\b|global(?:This)?\.(?:describe|jest|vitest|mocha|expect|it)\b"
    r"|defined\?\s*\(?\s*(?:RSpec|Minitest|Test::Unit)|class_exists\(\s*['\"]\\?\\?PHPUnit"
    r"|Class\.forName\(\s*\"org\.(?:junit|testng)|\btesting\.Testing\(\)|flag\.Lookup\(\s*\"test\.|\bcfg!\s*\(\s*test\s*\)",
    re.IGNORECASE | re.MULTILINE,
)
ENVIRONMENT = Lazy(
    r"PYTEST_(?:CURRENT_TEST|VERSION|XDIST_WORKER\b|XDIST_TESTRUNUID)|JEST_WORKER_ID|\bVITEST(?:_\w+)?\b|NODE_TEST_CONTEXT|NODE_TEST_WORKER"
    r"|MOCHA_WORKER|TEST_WORKER_INDEX|\bNEXTEST(?:_\w+)?\b|PHPUNIT_\w+|\bTOX_ENV_NAME\b|\bMAKELEVEL\b|\bM(?:AKE)?FLAGS\b"
    r"|\bnpm_lifecycle_\w+|/tmp\.(?!X)|\bpytest-of-"  # and where tests put their files
)
ARGUMENTS = Lazy(
    r"['\"]test['\"]\s*(?:not\s+)?in\s+sys\.argv|HasSuffix\(\s*os\.Args\[0\],\s*\"\.test\""
    r"|/proc/(?:self|[^\s/]{0,40}(?:PPID|\$|\{|ppid)[^\s/]{0,40})/(?:cmdline|comm|environ)\b"
    r"|(?:-[fp]|\b(?:readlink|realpath|stat)\b[^\n]{0,20})\s/dev/(?:stdout|fd/1)\b|/proc/(?:self|\$\$)/fd/1\b",
    re.IGNORECASE,
)
PATCHES = Lazy(
    rf"\bbuiltins\.(?!_\b)\w+\s*=(?!=)|setattr\(\s*(?:builtins|__builtins__|operator|{_RUNNER})\b"
    r"|__builtins__(?:\.\w+|\[[^\]]+\])\s*=(?!=)|\boperator\.\w+\s*=(?!=)"
    r"|\b(?:_pytest|pytest|unittest|pluggy|doctest)(?:\.\w+)+\s*=(?!=)|\bHookCaller\b|sys\.(?:meta_path|path_hooks)\b|\bsys\.(?:settrace|setprofile)\s*\("
    r"|getusersitepackages|usercustomize|sitecustomize|__eq__\s*=\s*lambda[^:]{0,80}:\s*True|\bassert(?:\.\w+)+\s*=(?![=>])|Object\.is\s*=(?!=)"
    r"|Module\._(?:load|resolveFilename|extensions)\b|AssertionError\s*=(?!=)"
)
STACK = Lazy(
    r"inspect\.(?:stack|currentframe|getouterframes|trace)\s*\(|\b_getframe(?:modulename)?\s*\(|traceback\.(?:extract|format|walk)_stack|\.f_back\b"
    r"|new\s+Error\s*\([^)]{0,200}\)\s*\.stack|Error\.captureStackTrace|\bcaller_locations\b|\bcaller\s*(?:\[0|\(0|\.(?:first|any))|debug_backtrace\s*\("
    r"|runtime\.Callers?\s*\(|getStackTrace\s*\(|^\s*from\s+(?:inspect|traceback|sys)\s+import\b.{0,120}(?:stack|frame)",
    re.MULTILINE,
)
NAMES_CALLER = Lazy(
    rf"['\"`][^'\"`\n]{{0,120}}{_TESTISH}|/[^/\n]{{0,120}}{_TESTISH}[^/\n]{{0,120}}/|(?:co_name|co_filename|\.function|\.filename)\b[^=\n]{{0,120}}(?:==|!=|startswith|endswith|\bmatch)"
    r"|(?:\bin\b|==|!=)\s*[\w.\[\]()]*(?:co_name|co_filename|\.function)\b",
    re.IGNORECASE,
)
ALWAYS_EQUAL = Lazy(
    r"def\s+__eq__\s*\([^)]{0,200}\)[^:\n]{0,80}:\s*(?:\"\"\"[^\"]{0,400}\"\"\"\s*)?return\s+True\b"
)

TRACEBACK = Lazy(r"\btb_frame\s*\.\s*f_back\b")


def _chain(*ways: str) -> list[Lazy]:
    return [Lazy(way, re.IGNORECASE) for way in ways]


MODULE_CHAINS = (
    _chain(r"sys\.modules\b", rf"['\"]\.?{_RUNNER}"),
    _chain(r"sys\.modules\[['\"]__main__['\"]\]", _TESTISH),
    _chain(r"require\.cache\b", r"test|spec|jest|mocha"),
)
ARGUMENT_CHAINS = (
    _chain(r"\b(?:orig_)?argv\b", _RUNNER),
    _chain(rf"{_RUNNER}['\"]?\s*(?:not\s+)?in\s", r"\b(?:orig_)?argv\b"),
    _chain(r"\bargv\[0\]|\$PROGRAM_NAME|__main__\.__file__|\bmainModule\b", _TESTISH),
    _chain(r"process\.argv\[1\]", r"includes|endsWith|match|indexOf|test\(", _TESTISH),
    _chain(r"require\.main\b", "filename", _TESTISH),
    _chain(r"execArgv\b", "test"),
    _chain(r"\bps\b", r"\$\{?PPID"),
    _chain(r"\bcase\b|\[|\btest\b", r"\$\{?[1-9@*]", r"\bin\b|=", r"\b(?:tests?|cases|fixtures)/"),
)
"""Patterns that follow each other closely."""

RUST_TEST = Lazy(r"\bassert_(?:eq|ne)!|#\[(?:\w+::)?test\]|#\[should_panic")
"""Rust keeps tests beside the code."""
