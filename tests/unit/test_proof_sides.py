"""What judges the code, what judges the change, and how code is broken to see whether a proof notices."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from flyball.guard.change import Change
from flyball.proofs.breaks import changed_lines, end_fails, expectations_wrong, functions_raise, values_plain
from flyball.proofs.examination import break_of, compare, same_numbers
from flyball.proofs.exchange import (
    FILES_MOST,
    Files,
    Repeats,
    followed,
    is_lucky,
    renamed,
    renames,
    repeat_count,
    repeats,
)
from flyball.proofs.sides import Sides, exchanged
from flyball.reading.test_report import TestReport, TestResult

SIDES = Sides(["python -m pytest -q", "sh scripts/check.sh", "make test"], ["checks/**"])


@pytest.mark.parametrize(
    ("path", "is_test"),
    [
        *((path, True) for path in (
            "tests/test_a.py", "test_a.py", "src/a_test.py", "conftest.py", "src/conftest.py", "pytest.ini", "tox.ini", "tests/data/a.json",
            "tests/snapshots/two.txt", "src/__snapshots__/a.snap", "jest.config.js", ".mocharc.yml", "scripts/check.sh", "Makefile",
            "checks/a.txt", "pkg/a_test.go", "spec/a_spec.rb", "test/slug.test.js", "sitecustomize.py", "x.pth", "testdata/in.txt",
        )),
        *((path, False) for path in (
            "calc.py", "src/shop/price.py", "README.md", "pyproject.toml", "package.json", "lib/slug.js", "contest.py", "latest/a.py", "bin/count.sh",
        )),
    ],
)  # fmt: skip
def test_which_files_are_on_the_test_side(path: str, is_test: bool) -> None:
    assert SIDES.is_test(path) is is_test


DOC = 'def f(n):\n    """Twice.\n\n    >>> f(2)\n    {0}\n    """\n    return n {1}\n'


@pytest.mark.parametrize(
    ("path", "text", "other", "expected"),
    [
        ("a.py", DOC.format(5, "* 3"), DOC.format(4, "* 2"), DOC.format(4, "* 3")),
        (
            "a.py",
            "x = 'é'\n" + DOC.format(5, "* 3"),
            DOC.format(4, "* 2"),
            "x = 'é'\n" + DOC.format(4, "* 3"),
        ),
        ("a.py", "def f(:", DOC.format(4, "* 2"), "def f(:"),
        (
            "src/lib.rs",
            'fn a() -> i32 { 2 }\n\n#[cfg(test)]\nmod tests { fn t() { assert!("}" != "{"); } }\n',
            "fn a() -> i32 { 1 }\n\n#[cfg(test)]\nmod tests { fn t() { assert_eq!(a(), 1) } }\n",
            "fn a() -> i32 { 2 }\n\n#[cfg(test)]\nmod tests { fn t() { assert_eq!(a(), 1) } }\n",
        ),
        (
            "pyproject.toml",
            '[project]\nversion = "2"\n[tool.pytest.ini_options]\naddopts = "-k x"\n[tool.ruff]\nx = 1\n',
            '[project]\nversion = "1"\n[tool.pytest.ini_options]\naddopts = "-q"\n',
            '[project]\nversion = "2"\n[tool.ruff]\nx = 1\n[tool.pytest.ini_options]\naddopts = "-q"\n',
        ),
        ("setup.cfg", "[metadata]\nname = a\n", "[metadata]\nname = b\n", "[metadata]\nname = a\n"),
    ],
)
def test_a_mixed_file_takes_the_tests_of_the_other_tree(
    path: str, text: str, other: str, expected: str
) -> None:
    assert exchanged(path, text, other) == expected


def test_package_json_keeps_its_dependencies_and_takes_the_test_scripts() -> None:
    ours = '{"version": "2", "scripts": {"test": "true", "build": "tsc"}, "jest": {"testPathIgnorePatterns": ["a"]}}'
    theirs = '{"version": "1", "scripts": {"test": "node --test"}}'
    assert ast.literal_eval(exchanged("package.json", ours, theirs)) == {
        "version": "2",
        "scripts": {"build": "tsc", "test": "node --test"},
    }


# ---- following tests ----

STEPS = "def test_words(notes):\n    notes.add('x', 'a b')\n    assert notes.words('x') == 2\n"
TABLE = "ROWS = [{row}]\n\n\ndef test_words(notes, text, n):\n    notes.add('x', text)\n    assert notes.words('x') == n\n"


@pytest.mark.parametrize(
    ("row", "found"),
    [("('a b', 2)", True), ("('a b', 1)", False), ("('c', 2)", False), ("2", False), ("('x', 'a b')", False)],
)
def test_a_row_may_hold_what_a_removed_test_did_step_by_step(row: str, found: bool) -> None:
    test, run = "tests/test_a.py::test_words", {"tests/test_a.py": TABLE.format(row=row)}
    assert (test in followed([test], [], {"tests/test_a.py": STEPS}, run)) is found


BASE = "from calc import add\n\n\ndef test_add():\n    assert add(2, 3) == 5\n\n\ndef test_zero():\n    assert add(0, 0) == 0\n"


@pytest.mark.parametrize(
    ("run", "found"),
    [
        ({"tests/test_b.py": BASE}, True),  # moved
        ({"tests/test_a.py": BASE.replace("test_add", "test_sum")}, True),  # renamed
        ({"tests/test_a.py": "import pytest\n\nROWS = [(2, 3, 5), (0, 0, 0)]\n\n\ndef test_add(a, b, want):\n    assert add(a, b) == want\n"}, True),
        ({"tests/test_a.py": "import pytest\n\nROWS = [(2, 3, 6)]\n\n\ndef test_add(a, b, want):\n    assert add(a, b) == want\n"}, False),
        ({"tests/test_a.py": BASE.partition("\n\n\ndef test_zero")[0] + "\n"}, False),  # deleted
        ({}, False),
    ],
)  # fmt: skip
def test_a_removed_test_is_followed_by_its_content(run: dict[str, str], found: bool) -> None:
    test = "tests/test_a.py::test_zero"
    assert (test in followed([test], [], {"tests/test_a.py": BASE}, run)) is found


@pytest.mark.parametrize(
    ("removed", "new", "found"),
    [
        (["t.py::T::test_a"], ["t.py::test_a"], True),  # another style
        (["t.py::T::test_a"], ["u.py::test_a[1-2]", "u.py::test_a[3-4]"], True),
        (["tests.t.T.test_a"], ["tests.u.U.test_a"], True),
        (["a.test.js::sum > adds"], ["b.test.js::adds"], True),
        (["t.py::T::test_a", "t.py::U::test_a"], ["t.py::test_a"], False),  # one of two
        (["t.py::T::test_a"], ["t.py::test_ab"], False),
    ],
)
def test_a_removed_test_is_followed_by_its_name(removed: list[str], new: list[str], found: bool) -> None:
    assert followed(removed, new, {}, {}) == frozenset(removed if found else ())


@pytest.mark.parametrize(
    ("base", "run", "before", "after"),
    [
        (
            {"calc.py": "def add(a, b):\n    return a + b\n"},
            {"arithmetic.py": "def plus(a, b):\n    return a + b\n"},
            "from calc import add\nassert add(1, 1) == calc.add(1, 1)  # recalc\nrun('calc.py', 'add')\n",
            "from arithmetic import plus\nassert plus(1, 1) == arithmetic.plus(1, 1)  # recalc\nrun('arithmetic.py', 'add')\n",
        ),
        (  # a word that is also a variable and a key
            {"src/shop/price.py": "A = 1\n"},
            {"src/shop/pricing.py": "A = 1\n"},
            "from shop import price\npatch('shop.price.now')\ndef test_a(price):\n    assert price == row['price']\n",
            "from shop import pricing\npatch('shop.pricing.now')\ndef test_a(price):\n    assert price == row['price']\n",
        ),
        (  # a function with the name of its module
            {"slug.py": "def slug(a):\n    return a\n"},
            {"slug.py": "def slugify(a):\n    return a\n"},
            "import slug\nfrom slug import slug\nslug(3)\n",
            "import slug\nfrom slug import slugify\nslugify(3)\n",
        ),
        (
            {"lib/slug.js": "function slug(a) {\n  return a;\n}\n\nconst half = (a) => a / 2;\n"},
            {"lib/slug.js": "function slugify(a) {\n  return a;\n}\n\nconst halve = (a) => a / 2;\n"},
            "const { slug, half } = require('../lib/slug.js');\ntest('a slug', () => half(slug('slug')));\n",
            "const { slugify, halve } = require('../lib/slug.js');\ntest('a slug', () => halve(slugify('slug')));\n",
        ),
        (
            {"lib/slug.js": "x\n"},
            {"lib/text.js": "x\n"},
            "const { slug } = require('../lib/slug.js');\nimport a from './slug';\ntest('slug', () => slug('slug'));\n",
            "const { slug } = require('../lib/text.js');\nimport a from './text';\ntest('slug', () => slug('slug'));\n",
        ),
        (  # a package: little of its __init__.py is the same, so git sees no move
            {"src/shop/price.py": "A = 1\n", "src/shop/__init__.py": "import shop.price\n"},
            {"src/store/price.py": "A = 1\n", "src/store/__init__.py": "import store.price\n"},
            "from shop import discount\nfrom shop.price import A\nopen('shop')\n",
            "from store import discount\nfrom store.price import A\nopen('shop')\n",
        ),
        (
            {"a.py": "class A:\n    def old(self):\n        return 1\n"},
            {"a.py": "class A:\n    def new(self):\n        return 1\n"},
            "assert A().old() == 'old'\n",
            "assert A().new() == 'old'\n",
        ),
    ],
)
def test_base_tests_are_pointed_at_new_names(
    base: dict[str, str], run: dict[str, str], before: str, after: str
) -> None:
    moved = {old: new for old, new in zip(base, run, strict=True) if old != new and "__init__" not in old}
    assert renamed(before, renames(base, run, moved)) == after


# ---- comparing ----


def report(**outcomes: str) -> TestReport:
    words = {"p": "passed", "f": "failed", "s": "skipped"}
    return TestReport(
        tests=tuple(
            TestResult(name, words[word], name.partition("::")[0])  # type: ignore[arg-type]
            for name, word in outcomes.items()
        )
    )


@pytest.mark.parametrize(
    ("baseline", "now", "base_side", "run_side", "fail_to_pass", "doubts"),
    [
        (report(a="p", b="f"), report(a="p", b="p"), None, None, ("b",), []),
        (report(a="p", b="f"), report(a="p", b="p", c="p"), report(a="p", b="p"), report(a="p", b="f", c="f"), ("b", "c"), []),
        (report(a="p", b="f"), report(a="p", b="p"), report(a="p", b="f"), report(a="p", b="p"), (), [("b", "fails")]),  # expectation edited
        (report(a="p", b="f"), report(a="p"), report(a="p", b="f"), report(a="p"), (), [("b", "fails")]),  # deleted
        (report(a="p", b="p"), report(a="p"), report(a="p", b="p"), report(a="p"), (), [("b", "removed")]),
        (report(a="p", b="f"), report(a="p", b="s"), report(a="p", b="f"), report(a="p", b="s"), (), [("b", "fails")]),
        (report(a="p", b="p"), report(a="p", b="s"), None, None, (), [("b", "skipped")]),
        (report(a="p", b="p"), report(a="p", b="p"), report(a="p"), None, (), [("b", "not run")]),
        (report(a="p", b="s"), report(a="p"), None, None, (), []),  # a test that never ran may go
        *((report(**{lost: "f"}), report(**{after: "p"}), None, None, (after,), doubts) for lost, after, doubts in (
            ("t/a.py::t/a.py", "t/a.py::test_b", []),  # a file that did not load, and does now
            ("t/a.py::(file)", "t/a.py::b", []),
            ("t/a.py::A", "t/a.py::A::test_b", []),
            ("t/a.py::test_b", "t/a.py::test_b[1]", []),
            ("lib/loader.py::unittest.loader._FailedTest.t.a", "t.a.A.test_b", []),
            ("t/a.py::t/a.py", "t/ab.py::test_b", [("t/a.py::t/a.py", "removed")]),
            ("t/a.py::test_b", "t/a.py::test_bc[1]", [("t/a.py::test_b", "removed")]),
        )),
    ],
)  # fmt: skip
def test_two_sides_say_what_a_change_does_to_the_tests(
    baseline: TestReport, now: TestReport, base_side: TestReport | None, run_side: TestReport | None,
    fail_to_pass: tuple[str, ...], doubts: list[tuple[str, str]],
) -> None:  # fmt: skip
    result = compare(baseline, now, base_side, run_side)
    assert result.fail_to_pass == fail_to_pass
    assert [(doubt.test, doubt.kind) for doubt in result.doubts] == doubts


@pytest.mark.parametrize(("before", "after", "kinds"), [(1, 1, []), (2, 1, []), (0, 1, ["skipped"])])
def test_more_skipped_subtests_are_asked_about(before: int, after: int, kinds: list[str]) -> None:
    baseline, now = (
        TestReport(tests=(TestResult("t", outcome, skips=skips),))
        for outcome, skips in (("failed", before), ("passed", after))
    )
    result = compare(baseline, now)
    assert (result.fail_to_pass, [doubt.kind for doubt in result.doubts]) == (("t",), kinds)


NUMBERED = [  # (a report, the tests as they are now, the report with their ids)
    ({"a::t[1-x7]": "f", "a::t[2-x0]": "p"}, {"a::t[1-x3]": "p", "a::t[2-x9]": "p"}, {"a::t[1-x3]": "f", "a::t[2-x9]": "p"}),
    ({"a::t[1-x7]": "p", "a::t[1-x8]": "f"}, {"a::t[1-x3]": "p", "a::t[1-x4]": "p"}, {"a::t[1-x4]": "p", "a::t[1-x3]": "f"}),
    ({"a::t[1-x7]": "p", "a::t[1-x8]": "f"}, {"a::t[1-x3]": "p"}, {"a::t[1-x7]": "p", "a::t[1-x8]": "f"}),  # one is gone
    ({"a::t[x7]": "p", "a::t2": "p"}, {"a::t[y7]": "p", "a::t3": "p"}, {"a::t[x7]": "p", "a::t2": "p"}),
    ({"a::t[v1.2-x1]": "p"}, {"a::t[v1.3-x1]": "p"}, {"a::t[v1.2-x1]": "p"}),  # a value, not a number
]  # fmt: skip


@pytest.mark.parametrize(("ours", "now", "wanted"), NUMBERED)
def test_parameters_that_are_numbered_anew_are_the_same_tests(
    ours: dict[str, str], now: dict[str, str], wanted: dict[str, str]
) -> None:
    assert same_numbers(report(**ours), report(**now)) == report(**wanted)


# ---- breaking ----


@pytest.mark.parametrize(
    ("path", "text", "count"),
    [
        ("a.py", "def f(a): return a\n\n\nclass C:\n    @property\n    def g(self):\n        '''doc'''\n        return 1\n", 2),
        ("a.py", "X = 1\n", 0),
        ("a.py", "def f(:\n", 0),
        ("a.js", "function f(a) { return a }\nconst g = (b) => { return b };\nclass A {\n  m(a) {\n    if (a) { return 1 }\n  }\n}\n// function no() {\n", 3),
        ("a.ts", "export function f(a: number): number { return a }\n", 1),
        ("a.go", "func Add(a, b int) int {\n\treturn a + b\n}\n", 1),
        ("a.rs", "pub fn add(a: i32) -> i32 { a }\n", 1),
        ("a.sh", "#!/bin/sh\necho hi\n", 1),
        ("a.rb", "def f(a)\n  a\nend\n", 1),
        ("README.md", "def f(): pass\n", 0),
    ],
)  # fmt: skip
def test_every_function_raises(path: str, text: str, count: int) -> None:
    broken = functions_raise(path, text)
    assert broken.count("broken on purpose") == count
    assert path != "a.py" or count == 0 or ast.parse(broken)


def test_only_the_changed_functions_raise() -> None:
    text = "def f():\n    return 1\n\n\ndef g():\n    return 2\n"
    scope: dict[str, object] = {}
    exec(functions_raise("a.py", text, [6]), scope)
    assert scope["f"]() == 1  # type: ignore[operator]
    with pytest.raises(RuntimeError, match="on purpose"):
        scope["g"]()  # type: ignore[operator]


@pytest.mark.parametrize(
    ("old", "new", "lines"),
    [
        (
            "def f(a):\n    return a\n",
            'def f(a: int) -> int:\n    """Text."""\n    # why\n    return a\n',
            [],
        ),
        ("def f(a):\n    return a\n", "def f(a):\n    return a + 1\n", [1]),
        (
            "def f(a):\n    return a\n",
            "def f(a):\n    return a\n\n\nclass A:\n    def g(self):\n        return 1\n",
            [6],
        ),
        ("", "def f(a):\n    return a\n", [1]),
    ],
)
def test_functions_that_compute_something_else(old: str, new: str, lines: list[int]) -> None:
    assert changed_lines("a.py", old, new) == lines


@pytest.mark.parametrize(
    ("path", "text", "changes"),
    [
        ("t.py", "def test_a():\n    assert add(2, 3) == 5\n", "test_a"),
        ("t.py", "def test_a(self):\n    assert x == 'é'\n    self.assertEqual(f(), 'b')\n", "test_a"),
        ("t.py", "def test_a():\n    assert x in y\n\ndef test_b():\n    pass\n", "test_a"),
        ("t.py", "def test_a():\n    with raises(E):\n        f()\n\ndef test_b():\n    with pytest.raises((A, B), match='x'):\n        f()\n", "test_a test_b"),
        ("t.py", "class A:\n    def test_a(self):\n        assert x\n\nclass B:\n    def test_a(self):\n        pass\n", "A::test_a"),
        ("t.js", "assert.throws(() => f(-1));\n", True),
        ("t.js", "assert.strictEqual(slug('Hello World'), 'hello-world');\n", True),
        ("t.js", "expect(add(1, 2)).toBe(3);\n", True),
        ("t.js", "expect(a).toBe(b);\n", True),
        ("t.js", "assert.strictEqual(f(x), want, text);\n", True),
        ("t.js", "assert.ok(a);\n", False),
        ("README.md", "    >>> f(1)\n    2\n", True),
        ("README.md", "    >>> f(1)\n\n", False),
    ],
)  # fmt: skip
def test_assertions_are_made_wrong(path: str, text: str, changes: str | bool) -> None:
    wrong = expectations_wrong(path, text)
    assert (wrong.text != text) is bool(changes)
    if path.endswith(".py"):
        assert ast.parse(wrong.text) and wrong.tests == set(str(changes).split())


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("expect(f(1)).toMatchSnapshot();", "expect(f(1)).not.toMatchSnapshot();"),
        ("expect(f(1)).toContain('a');", "expect(f(1)).not.toContain('a');"),
        ("expect(f(1)).not.toBe(2);", "expect(f(1)).toBe(2);"),
        ("expect(f(1)).not.toBeNull();", "expect(f(1)).toBeNull();"),
        ("await expect(f(1)).resolves.toHaveLength(2);", "await expect(f(1)).resolves.not.toHaveLength(2);"),
        ("assert.ok(f(1), 'text');", "assert.ok(!(f(1)), 'text');"),
        ("assert(f(1));", "assert(!(f(1)));"),
        ("expect(f(1)).to.be.true;", "expect(f(1)).to.not.be.true;"),
        ("expect(f(1)).to.not.equal(2);", "expect(f(1)).to.equal(2);"),
        ("expect(f(1)).to.not.eql(2);", "expect(f(1)).to.eql(2);"),
        ("f(1).should.not.be.ok;", "f(1).should.be.ok;"),
        ("f(1).toString();", "f(1).toString();"),
    ],
)
def test_beside_a_comparison_other_assertions_of_javascript_are_wrong_too(text: str, wrong: str) -> None:
    beside = "assert.equal(a, b);"
    broken = expectations_wrong("t.js", f"{beside}\n{text}").text.partition("\n")
    assert (broken[0] != beside, broken[2]) == (True, wrong)


@pytest.mark.parametrize(
    "text", ["expect(a).to.equal('b');", "expect(a).to.deep.equal('b');", "a.should.eql('b');"]
)
def test_the_only_argument_of_a_chain_is_another_value(text: str) -> None:
    assert ".not" not in expectations_wrong("t.js", text).text != text


@pytest.mark.parametrize(
    ("path", "text", "last"),
    [
        ("tests/check.py", "check()", 'raise AssertionError("broken on purpose")'),
        ("test.js", "check();\n", 'throw new Error("broken on purpose");'),
        ("test.js", "assert.equal(f(1), 2);\n", "assert.equal(1, 2);"),
        ("run.sh", "cd x || exit 2\nfor f in *; do check $f; done\n", "exit 97"),
        ("run.sh", "check\nexit $failed\n", ""),
        ("check.py", "sys.exit(main())\n", ""),
        ("cases.json", "{}\n", ""),
    ],
)
def test_a_script_fails_at_its_end(path: str, text: str, last: str) -> None:
    assert end_fails(path, text) == (f"{text.rstrip()}\n{last}\n" if last else text)


@pytest.mark.parametrize(
    ("path", "added"),
    [
        ("decimal.py", True),
        ("src/pluggy/__init__.py", True),
        ("__init__.py", True),
        ("bin/cmp", True),
        ("calc.py", False),
        ("src/shop/calendar.py", False),
        ("bin/count.sh", False),
    ],
)
def test_a_new_file_that_shadows_what_tests_use_is_on_the_test_side(path: str, added: bool) -> None:
    assert Sides(()).with_shadows([path], {"decimal", "calendar"}).is_test(path) is added
    assert not Sides(()).is_test(path)


@pytest.mark.parametrize(
    "path", ["a.egg-info/entry_points.txt", "node_modules/.bin/node", ".npmrc", "rules.mk"]
)
def test_what_runners_read_by_themselves_is_on_the_test_side(path: str) -> None:
    assert Sides(()).is_test(path)


def test_dotted_keys_of_a_runner_are_exchanged_too() -> None:
    base = '[project]\nname = "a"\n'
    assert exchanged("pyproject.toml", 'tool.pytest.ini_options.addopts = "-p x"\n' + base, base) == base


def test_a_script_that_the_tests_start_is_exchanged_too() -> None:
    base = '{"scripts": {"test": "npm run unit", "unit": "node --test", "build": "a"}}'
    run = base.replace("node --test", "true").replace('"a"', '"b"')
    assert json.loads(exchanged("package.json", run, base))["scripts"] == {
        "test": "npm run unit",
        "unit": "node --test",
        "build": "b",
    }


@pytest.mark.parametrize(
    ("script", "command"),
    [("pretest", ""), ("postcheck", ""), ("guard", "npm run -s guard"), ("preguard", "npm run -s guard")],
)
def test_what_npm_runs_around_the_proof_is_exchanged_too(script: str, command: str) -> None:
    base = {"scripts": {"test": "a", "check": "b", "guard": "c", "prepare": "d"}}
    run = {"scripts": {**base["scripts"], script: "other", "prepare": "e"}}
    mixed = exchanged("package.json", json.dumps(run), json.dumps(base), command.split())
    assert json.loads(mixed)["scripts"] == {**base["scripts"], "prepare": "e"}


@pytest.mark.parametrize(
    "run",
    [
        'def f():\n    return 1\n\n\nf.__doc__ = """\n>>> 1\n1\n"""\n',
        'if True:\n    def f():\n        """\n        >>> 1\n        1\n        """\n        return 1\n',
    ],
)
def test_examples_that_went_elsewhere_are_put_back(run: str) -> None:
    base = 'def f():\n    """\n    >>> f()\n    2\n    """\n    return 2\n'
    mixed = exchanged("a.py", run, base)
    assert ">>> f()\n    2\n" in mixed
    assert ">>> 1" not in mixed
    assert "return 1" in mixed
    compile(mixed, "a.py", "exec")


def read(contents: dict[tuple[str, str], str]) -> Callable[[Sequence[tuple[str, str]]], list[bytes | None]]:
    def read_all(wanted: Sequence[tuple[str, str]]) -> list[bytes | None]:
        return [contents[one].encode() if one in contents else None for one in wanted]

    return read_all


def test_one_trees_tests_go_over_the_other_trees_source() -> None:
    contents = {("base", "a.py"): "old", ("base", "tests/test_a.py"): "old test", ("base", "tests/test_gone.py"): "gone",
                ("run", "a.py"): "new", ("run", "tests/test_a.py"): "new test", ("run", "tests/test_b.py"): "more"}  # fmt: skip
    changes = [
        Change(path="a.py", op="modify"),
        Change(path="tests/test_a.py", op="modify"),
        Change(path="tests/test_gone.py", op="delete"),
        Change(path="tests/test_b.py", op="add"),
    ]
    files = Files(
        "base", "run", changes, SIDES, read(contents), ["a.py", "tests/test_a.py", "tests/test_b.py"]
    )
    assert files.exchange("run", "base") == {
        "tests/test_a.py": b"old test",
        "tests/test_b.py": None,
        "tests/test_gone.py": b"gone",
    }
    assert files.exchange("base", "run") == {
        "tests/test_a.py": b"new test",
        "tests/test_b.py": b"more",
        "tests/test_gone.py": None,
    }
    assert Files("base", "run", changes[:1], SIDES, read(contents), []).exchange("run", "base") == {}


SNAPSHOT = {
    ("run", "a.py"): "new",
    ("run", "tests/test_a.py"): "check()",
    ("run", "tests/one.txt"): "1",
    ("run", "in.txt"): "2",
}


@pytest.mark.parametrize(
    ("opened", "name", "edits"),
    [
        (
            ("tests/one.txt", "in.txt", "tests/gone.txt", "pytest.ini"),
            "data",
            {"tests/one.txt": b"broken on purpose\n"},
        ),
        (("in.txt",), "functions", {}),
        ((), "functions", {}),
    ],
)
def test_what_a_test_without_assertions_compares_with_is_broken(
    opened: tuple[str, ...], name: str, edits: dict[str, bytes]
) -> None:
    """What it read before the change counts: code may keep it from reading now."""
    paths = [path for _, path in SNAPSHOT] + ["pytest.ini"]
    files = Files("base", "run", [Change(path="a.py", op="modify")], SIDES, read(SNAPSHOT), paths)
    now = TestReport(tests=(TestResult("tests/test_a.py::test_it", "passed"),))
    before = TestReport(tests=(TestResult("tests/test_a.py::test_it", "failed", opened=opened),))
    broken = break_of(files, now, frozenset(["tests/test_a.py::test_it"]), before)
    assert (broken.name, broken.edits) == (name, edits)


def test_of_too_many_source_files_the_changed_ones_count() -> None:
    paths = [*(f"a{number}.py" for number in range(FILES_MOST)), "z.py", "tests/test_a.py"]
    files = Files("base", "run", [Change(path="z.py", op="modify")], SIDES, read({}), paths)
    assert len(files.sources) == FILES_MOST
    assert files.sources[0] == "z.py"


VALUES = "def test_a():\n    assert f(1) == 2\n    self.assertEqual(g(), [1])\n"


def test_a_result_is_compared_by_its_plain_value() -> None:
    class Same(int):
        def __eq__(self, other: object) -> bool:
            return True

        __hash__ = int.__hash__

    plain = values_plain("tests/test_a.py", VALUES.replace("    self.assertEqual(g(), [1])\n", ""))
    scope: dict[str, Any] = {"f": lambda n: Same(n)}
    exec(plain, scope)
    with pytest.raises(AssertionError):
        scope["test_a"]()
    scope |= {"f": lambda n: n + 1, "next": "a test's own", "type": 3}
    scope["test_a"]()
    assert values_plain("tests/test_a.py", VALUES).count("(lambda v, b=") == 2
    own = "class Own(dict):\n    def __eq__(self, other):\n        return type(other) is Own\n\n\n"
    kept: dict[str, Any] = {}
    exec(own + values_plain("tests/test_a.py", "def test_a():\n    assert f() == Own()\n"), kept)
    kept["f"] = kept["Own"]
    kept["test_a"]()  # the equality is the test's
    scope["f"] = lambda n: type("Proxy", (), {"__class__": int, "__eq__": lambda self, other: other == 2})()
    scope["test_a"]()  # no number: it has no other value than the one that it shows
    identity = "def test_a():\n    assert f is g\n"
    assert values_plain("tests/test_a.py", identity) == identity
    assert values_plain("test/a.test.js", VALUES) == VALUES


@pytest.mark.parametrize(
    ("passes", "done", "took_s", "tests_s", "line", "count"),
    [
        (3, 1, 1, 0, "return a + b", (1, 2)),
        (3, 2, 1, 0, "return a + b", (1, 1)),
        (5, 1, 1, 0, "return a + b", (1, 4)),
        (3, 1, 8, 3, "return a + b", (1, 1)),
        (3, 1, 1, None, "return a + b", (1, 1)),
        (3, 1, 31, 31, "return a + b", (0, 1)),
        (3, 1, 31, None, "return a + b", (0, 1)),
        (3, 1, 300, 1, "return a + b", (1, 2)),
        (3, 1, 1, 0, "return a + b if random.random() < 0.9 else 0", (6, 1)),
        (3, 1, 5, 0, "return a + b if os.getpid() % 2 else 0", (4, 1)),
        (3, 1, 1, None, "return a + b if time.time_ns() % 2 else 0", (6, 1)),
        (3, 1, 1, 0, "began = time.monotonic()", (1, 2)),
        (1, 1, 1, 0, "return a + b", (0, 1)),
        (2, 2, 1, 0, "return a + b", (1, 1)),
    ],
)
def test_how_often_a_proof_is_repeated(
    passes: int, done: int, took_s: int, tests_s: int | None, line: str, count: tuple[int, int]
) -> None:
    tests_us = tests_s * 1_000_000 if tests_s is not None else None
    assert repeat_count(passes, done, took_s * 1_000_000, [line], tests_us) == Repeats(*count)
    rooms = repeats(["a.py"], ["t"], Repeats(3), node=False)
    assert len({(room.argv, room.numbers % 2) for room in rooms[:2]}) == 2


@pytest.mark.parametrize(
    ("tests", "took_s", "kept", "alone_s"), [(3, 1, 3, 4.0), (1000, 6, 100, 6.0), (150, 60, 75, 8.0)]
)
def test_a_spread_of_the_tests_runs_without_its_runner(
    tests: int, took_s: int, kept: int, alone_s: float
) -> None:
    names = [f"t{number:04}" for number in range(tests)]
    room = repeats(["a.py"], names, Repeats(1), node=False, took_us=took_s * 1_000_000)[0]
    assert (len(room.only), len(room.tests), room.alone_s) == (tests, kept, alone_s)
    assert room.tests[0] == names[0] and names.index(room.tests[-1]) > tests / 2


@pytest.mark.parametrize(
    ("line", "lucky"),
    [
        ("x = $(mktemp -u XX)", True),
        ("random.random()", True),
        ("new Date().getMilliseconds() < 500", True),
        ("date +%3N", True),
        ("x = y + 1", False),
    ],
)
def test_what_depends_on_chance_is_known_by_its_source(line: str, lucky: bool) -> None:
    assert is_lucky([line]) is lucky
