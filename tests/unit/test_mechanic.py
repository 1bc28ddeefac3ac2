"""mechanic repairs small bugs through its real process, touches no test, and says so when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from flyball.agents.adapter import AgentResult, TurnRequest, adapter
from flyball.agents.process import Exit

UNITTEST = f"{sys.executable} -m unittest -q"
PYTEST = f"{sys.executable} -m pytest -q"
SECONDS = 60.0


def turn(
    folder: Path, role: str = "coder", proof: str = UNITTEST, seconds: float = SECONDS, number: int = 0
) -> AgentResult:
    """One turn of the agent in this folder, started and read as Flyball does it."""
    agent = adapter("mechanic")
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    request = TurnRequest(
        prompt="",
        prompt_file=home / "prompt",
        role=role,
        proof=(proof,) if proof else (),
        wall_s=seconds / 0.8,
    )
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home), "FLYBALL_TURN": str(number)}
    done = subprocess.run(
        agent.launch(request).argv,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return agent.read(done.stdout, done.stderr, Exit(reason="exit", code=done.returncode))


def project(where: Path, **files: str) -> Path:
    """A folder with these files; `a__b` is the file b.py in the folder a."""
    folder = where / "project"
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def passes(folder: Path, command: str = UNITTEST) -> bool:
    return subprocess.run(command.split(), cwd=folder, capture_output=True).returncode == 0


def checks(*lines: str) -> str:
    """A test module with one test for each line."""
    tests = "".join(f"    def test_{n}(self):\n        {line}\n\n" for n, line in enumerate(lines))
    return f"import unittest\n\nfrom code_ import *\n\n\nclass CodeTest(unittest.TestCase):\n{tests}"


# One bug of each kind: the code, and what is true of it when it is right.
BUGS: dict[str, tuple[str, tuple[str, ...]]] = {
    "operator": (
        "def area(w, h):\n    return w + h  # in metres\n",
        ("self.assertEqual(area(3, 4), 12)", "self.assertEqual(area(2, 2), 4)"),
    ),
    "comparison": (
        "def adult(age):\n    return age > 18\n",
        ("self.assertTrue(adult(18))", "self.assertTrue(adult(30))", "self.assertFalse(adult(17))"),
    ),
    "off by one": (
        "def squares(n):\n    return [i * i for i in range(n)]\n",
        ("self.assertEqual(squares(3), [0, 1, 4, 9])", "self.assertEqual(squares(0), [0])"),
    ),
    "swapped arguments": (
        "def power(base, exponent):\n    return base**exponent\n\n\ndef cube(x):\n    return power(3, x)\n",
        (
            "self.assertEqual(cube(2), 8)",
            "self.assertEqual(cube(5), 125)",
            "self.assertEqual(power(2, 4), 16)",
        ),
    ),
    "constant": (
        "DAYS = 6\n\n\ndef days(weeks):\n    return weeks * DAYS\n",
        ("self.assertEqual(days(2), 14)", "self.assertEqual(days(0), 0)"),
    ),
    "text": (
        "def joined(words):\n    return ','.join(words)\n",
        ("self.assertEqual(joined(['a', 'b']), 'a, b')", "self.assertEqual(joined(['a']), 'a')"),
    ),
    "name": (
        "def clamp(x, low, high):\n    if x < low:\n        return high\n    return min(x, high)\n",
        (
            "self.assertEqual(clamp(0, 1, 5), 1)",
            "self.assertEqual(clamp(9, 1, 5), 5)",
            "self.assertEqual(clamp(2, 1, 5), 2)",
        ),
    ),
    "missing return": (
        "def total(xs):\n    result = 0\n    for x in xs:\n        result += x\n",
        ("self.assertEqual(total([1, 2]), 3)", "self.assertEqual(total([]), 0)"),
    ),
    "inverted condition": (
        "def label(done):\n    if not done:\n        return 'closed'\n    return 'open'\n",
        ("self.assertEqual(label(True), 'closed')", "self.assertEqual(label(False), 'open')"),
    ),
    "missing condition": (
        """
        def leap(year):
            if year % 400 == 0:
                return True
            return year % 4 == 0


        def century(year):
            return year % 100 == 0
        """,
        (
            "self.assertFalse(leap(1900))",
            "self.assertTrue(leap(2000))",
            "self.assertTrue(leap(2024))",
            "self.assertFalse(leap(2023))",
            "self.assertTrue(century(1900))",
        ),
    ),
    "default": (
        "def greet(name, mark='.'):\n    return 'Hello ' + name + mark\n",
        ("self.assertEqual(greet('Ann'), 'Hello Ann!')", "self.assertEqual(greet('Bob', '?'), 'Hello Bob?')"),
    ),
    "shared default": (
        "def added(x, to=[]):\n    to.append(x)\n    return to\n",
        (
            "self.assertEqual(added(1), [1])",
            "self.assertEqual(added(2), [2])",
            "self.assertEqual(added(2, [1]), [1, 2])",
        ),
    ),
    "method": (
        "def shout(text):\n    return text.lower() + '!'\n",
        ("self.assertEqual(shout('hey'), 'HEY!')", "self.assertEqual(shout(''), '!')"),
    ),
    "and/or": (
        "def inside(x, y, size):\n    return 0 <= x < size or 0 <= y < size\n",
        (
            "self.assertFalse(inside(1, 9, 5))",
            "self.assertFalse(inside(9, 1, 5))",
            "self.assertTrue(inside(1, 1, 5))",
        ),
    ),
    "slice": (
        "def rest(xs):\n    return xs[2:]\n",
        ("self.assertEqual(rest([1, 2, 3]), [2, 3])", "self.assertEqual(rest([]), [])"),
    ),
    "assignment": (
        "def count(xs, wanted):\n    n = 0\n    for x in xs:\n        if x == wanted:\n            n = 1\n    return n\n",
        ("self.assertEqual(count([1, 1, 2], 1), 2)", "self.assertEqual(count([], 1), 0)"),
    ),
    "exception": (
        "def parse(text):\n    if not text:\n        raise KeyError('empty')\n    return int(text)\n",
        ("with self.assertRaises(ValueError): parse('')", "self.assertEqual(parse('7'), 7)"),
    ),
    "jump": (
        "def evens(xs):\n    out = []\n    for x in xs:\n        if x % 2:\n            break\n        out.append(x)\n    return out\n",
        ("self.assertEqual(evens([1, 2, 3, 4]), [2, 4])", "self.assertEqual(evens([]), [])"),
    ),
    "indentation": (
        "def largest(xs):\n    best = xs[0]\n    for x in xs:\n        if x > best:\n            best = x\n        return best\n",
        ("self.assertEqual(largest([1, 5, 3]), 5)", "self.assertEqual(largest([2]), 2)"),
    ),
    "endless loop": (
        "def digits(n):\n    count = 1\n    while n >= 10:\n        n = n // 1\n        count += 1\n    return count\n",
        ("self.assertEqual(digits(123), 3)", "self.assertEqual(digits(7), 1)"),
    ),
    "syntax": (
        "def half(x)\n    return x / 2\n",
        ("self.assertEqual(half(4), 2)", "self.assertEqual(half(1), 0.5)"),
    ),
    "two bugs": (
        "def add(a, b):\n    return a - b\n\n\ndef last(xs):\n    return xs[0]\n",
        (
            "self.assertEqual(add(2, 3), 5)",
            "self.assertEqual(last([1, 2]), 2)",
            "self.assertEqual(add(0, 0), 0)",
        ),
    ),
}


@pytest.mark.sampled(6)
@pytest.mark.parametrize("kind", BUGS)
def test_a_bug_of_each_kind_is_repaired_and_nothing_else_is_touched(kind: str, tmp_path: Path) -> None:
    code, tests = BUGS[kind]
    folder = project(tmp_path, code_=code, test_code=checks(*tests))
    before = contents(folder)
    code = before["code_.py"].decode()
    result = turn(folder)
    after = contents(folder)
    assert result.verdict == "ok" and not result.claim.ask, result.message
    assert passes(folder)
    assert {name for name in after if after[name] != before.get(name)} == {"code_.py"}
    kept = set(code.splitlines()) & set(after["code_.py"].decode().splitlines())
    assert len(kept) >= len(set(code.splitlines())) - 2
    assert [call.tool for call in result.calls if call.writes] == ["edit"] * (2 if kind == "two bugs" else 1)


def test_formatting_and_comments_stay(tmp_path: Path) -> None:
    code = "def f( a,b ):   # odd, but mine\n\treturn  a-b    # α sum\n"
    folder = project(
        tmp_path, code_=code, test_code=checks("self.assertEqual(f(1, 2), 3)", "self.assertEqual(f(0, 4), 4)")
    )
    turn(folder)
    assert (folder / "code_.py").read_text() == code.replace("a-b", "a+b")


# ---- layouts and runners


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"pkg__math_": "", "tests__test_it": "from pkg.math_ import "}, PYTEST),
        (
            {
                "src__pkg__math_": "",
                "tests__test_it": "import sys\nsys.path.insert(0, 'src')\nfrom pkg.math_ import ",
            },
            PYTEST,
        ),
        (
            {"math_": "", "test_it": "from math_ import "},
            f"PYTHONPATH=. {sys.executable} -m pytest -q -p no:randomly . 2>&1 | tail -5",
        ),
        ({"sub__math_": "", "sub__test_it": "from math_ import "}, f"cd sub && {PYTEST}"),
        ({"math_": "", "test_it": "from math_ import "}, ""),  # nothing is said: it looks for itself
        ({"math_": "", "test_it": "from math_ import "}, "make lint"),
    ],
)
def test_layouts_and_commands(files: dict[str, str], command: str, tmp_path: Path) -> None:
    code = "def double(x):\n    return x * 3\n"
    tests = "double\n\ndef test_double():\n    assert double(4) == 8\n\ndef test_zero():\n    assert double(0) == 0\n"
    folder = project(tmp_path, **{name: text + tests if text else code for name, text in files.items()})
    if not command or command == "make lint":
        (folder / "requirements.txt").write_text("pytest\n")
    turn(folder, proof=command)
    assert b"return x * 2\n" in b"".join(contents(folder).values())


def test_an_installed_project_is_tried_as_it_would_become(tmp_path: Path) -> None:
    """Its modules come from the checkout by an absolute path, as with an editable install."""
    code, tests = BUGS["operator"]
    folder = project(tmp_path, src__code_=code, tests__test_code=checks(*tests))
    command = f"PYTHONPATH={folder / 'src'} {sys.executable} -m unittest discover -q -s tests"
    assert "Repaired src/code_.py:2" in turn(folder, proof=command).message


def test_a_program_that_tests_start_as_a_process_of_its_own(tmp_path: Path) -> None:
    program = "import sys\n\nprint(sum(int(word) for word in sys.argv[2:]))\n"
    run = "subprocess.run([sys.executable, 'code_.py', '1', '2'], stdout=subprocess.PIPE).stdout"
    tests = checks(f"self.assertEqual({run}.strip(), b'3')").replace(
        "from code_ import *", "import subprocess, sys"
    )
    folder = project(tmp_path, code_=program, test_code=tests)
    assert "Repaired code_.py:3" in turn(folder).message and passes(folder)


@pytest.mark.sampled(0)
def test_a_conftest_that_imports_the_project(tmp_path: Path) -> None:
    code = "def double(x):\n    return x * 3\n"
    conftest = (
        "import pytest\nfrom math_ import double\n\n@pytest.fixture\ndef eight():\n    return double(4)\n"
    )
    tests = "def test_eight(eight):\n    assert eight == 8\n"
    folder = project(tmp_path, math_=code, conftest=conftest, test_it=tests)
    assert "Repaired math_.py:2" in turn(folder, proof=PYTEST).message


# ---- what cannot be repaired


HOPELESS = {
    "code_": "def answer(question):\n    return len(question)\n",
    "test_code": checks(
        "self.assertEqual(answer('life'), 'forty-two')", "self.assertEqual(answer('tea'), 'two sugars')"
    ),
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("files", "words"),
    [
        (HOPELESS, "none makes the failing tests pass"),
        ({**HOPELESS, "test_code": checks("self.assertEqual(answer('tea'), 3)")}, "No test fails (1 test). I only repair"),
        ({"code_": "x = 1\n"}, "found no tests here"),
        ({"code_": "def f(:\n  ((\n", "test_code": checks("self.assertEqual(f(), 1)")}, "no line of the project that I could edit"),
        ({"code_": "x = 1\n", "test_code": "while True:\n    pass\n"}, "no line of the project that I could edit"),
    ],
    ids=["hopeless", "nothing fails", "no tests", "broken syntax", "tests hang"],
)  # fmt: skip
def test_what_it_cannot_repair_it_says_and_leaves_as_it_was(
    files: dict[str, str], words: str, tmp_path: Path
) -> None:
    folder = project(tmp_path, **files)
    before = contents(folder)
    result = turn(folder, seconds=6 if "while True" in files.get("test_code", "") else 20)
    assert result.verdict == "ok"
    assert words in result.message and words in result.claim.ask
    assert not result.claim.finished
    assert contents(folder) == before


@pytest.mark.sampled(0)
def test_an_edit_that_passes_by_the_chance_of_a_set_is_no_repair(tmp_path: Path) -> None:
    code = "WORDS = {'tea', 'milk', 'salt', 'rice', 'bread', 'eggs'}\n\n\ndef first():\n    return list(WORDS)[7]\n"
    env = {**os.environ, "PYTHONHASHSEED": "0"}
    words = [sys.executable, "-c", f"{code}\nprint(list(WORDS)[0])"]
    lucky = subprocess.run(words, env=env, capture_output=True, text=True).stdout.strip()
    folder = project(tmp_path, code_=code, test_code=checks(f"self.assertEqual(first(), {lucky!r})"))
    result = turn(folder)
    assert "none makes the failing tests pass" in result.message and result.claim.ask


SPIN = "end = time.process_time() + 0.4\n        while time.process_time() < end: pass"
SLOW, QUICK = f"self.assertEqual(double(4), 8)\n        {SPIN}", "self.assertEqual(double(3), 6)"


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    "lines",
    [(QUICK, f"sum(range(200_000)); {SLOW}"), (SLOW, f"sum(range(200_000)); {QUICK}"), (SLOW,)],
    ids=["tried last", "tried first", "alone"],
)
def test_a_test_that_takes_long_once_it_passes_is_waited_for(tmp_path: Path, lines: tuple[str, ...]) -> None:
    code, tests = "import time\n\n\ndef double(x):\n    return x + 2\n", checks(*lines)
    folder = project(tmp_path, code_=code, test_code=tests)
    result = turn(folder)
    assert result.message.startswith("Repaired code_.py:5") and passes(folder)


def test_an_edit_that_skips_a_test_is_no_repair(tmp_path: Path) -> None:
    tests = ("if not ready(): self.skipTest('not ready')", "self.assertEqual(answer(), 'forty-two')")
    code = "def ready():\n    return True\n\n\ndef answer():\n    return len('x')\n"
    folder = project(tmp_path, code_=code, test_code=checks("\n        ".join(tests)))
    result = turn(folder)
    assert "none makes the failing tests pass" in result.message and result.claim.ask


def test_a_missing_runner_is_named(tmp_path: Path) -> None:
    folder = project(tmp_path, code_="x = 1\n", test_code=checks("self.assertEqual(x, 2)"))
    said = turn(folder, proof="/nowhere/python -m pytest").message
    assert "I cannot run the tests" in said and "/nowhere/python" in said


@pytest.mark.sampled(0)
def test_it_ends_within_its_time_and_goes_on_where_it_was(tmp_path: Path) -> None:
    lines = "\n".join(f"    x{n} = n + {n} - len(str(n)) * 2" for n in range(40))
    code = f"def f(n):\n{lines}\n    return x0\n"
    folder = project(
        tmp_path,
        code_=code,
        test_code=checks("self.assertEqual(f(1), 'no')", "self.assertEqual(f(2), 'way')"),
    )
    first, second = turn(folder, seconds=4), turn(folder, seconds=4)
    tried = [int(result.message.partition("I tried ")[2].partition(" ")[0]) for result in (first, second)]
    assert "there are more that I did not get to" in first.message
    assert tried[1] > tried[0] > 0


@pytest.mark.sampled(0)
def test_a_repair_that_was_put_back_is_not_offered_again_but_an_interrupted_one_is(tmp_path: Path) -> None:
    code, tests = BUGS["operator"]
    folder = project(tmp_path, code_=code, test_code=checks(*tests))
    said = list[str]()
    for number in (1, 1, 2):
        (folder / "code_.py").write_text(code)
        said.append(turn(folder, number=number).message.partition(" I tried")[0])
    assert said[0] == said[1] != said[2]


@pytest.mark.sampled(0)
def test_tests_that_hang_or_write_files_do_no_harm(tmp_path: Path) -> None:
    code, tests = BUGS["operator"]
    hangs = "import time; time.sleep(3600)"
    folder = project(
        tmp_path, code_=code, test_code=checks(*tests, "open('left-behind', 'w').close()", hangs)
    )
    result = turn(folder, seconds=20)
    assert "none makes the failing tests pass" in result.message  # the hanging test is not to be repaired
    assert sorted(contents(folder)) == ["code_.py", "test_code.py"]


# ---- the other roles


ROLES = {
    "planner": ("2 of 2 tests fail.", "No test fails (2 tests)."),
    "validator": ("OUTCOME: approved", "OUTCOME: rejected"),
    "critic": ("OUTCOME: rejected", "OUTCOME: accepted"),
    "reviewer": ("Failing: test_code.CodeTest.test_0", "PASS"),
    "cto": ("2 of 2 tests fail.", "No test fails (2 tests)."),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("role", ROLES)
def test_who_judges_or_plans_says_what_it_saw(role: str, tmp_path: Path) -> None:
    code, tests = BUGS["operator"]
    folder = project(tmp_path, code_=code, test_code=checks(*tests[:1], "self.assertEqual(area(3, 3), 9)"))
    failing, passing = ROLES[role]
    before = contents(folder)
    assert failing in turn(folder, role).message
    assert contents(folder) == before
    (folder / "code_.py").write_text(code.replace("+", "*"))
    result = turn(folder, role)
    assert passing in result.message and not result.claim.ask


def test_a_plan_names_the_suspicious_line(tmp_path: Path) -> None:
    code, tests = BUGS["name"]
    result = turn(project(tmp_path, code_=code, test_code=checks(*tests)), "planner")
    assert "code_.py:3  return high" in result.message
    assert result.claim.data["steps"][0]["paths"] == ["code_.py"]


def test_a_worker_claims_to_be_done_only_when_it_is(tmp_path: Path) -> None:
    code, tests = BUGS["operator"]
    result = turn(project(tmp_path, code_=code, test_code=checks(*tests)), "worker")
    assert result.claim.finished and "EXIT_SIGNAL: true" in result.message
    result = turn(project(tmp_path / "other", **HOPELESS), "worker", seconds=8)
    assert not result.claim.finished and "EXIT_SIGNAL: false" in result.message and result.claim.ask
