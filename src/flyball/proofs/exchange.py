"""The files of a run's two trees, and the edits that make further trees of them: one tree's tests over the other's
source, or code and expectations broken on purpose.

A `Room` says how the place where a proof runs is set up. The result of a proof must not depend on it. In a plain room
the code under test sees an ordinary program: no test runner among its modules, arguments, callers and variables
(`runners/probes/plain`), and other process numbers. Code that behaves only while it is tested fails there.

Honest changes to tests are recognised: a test that moved or was renamed is followed by its content, and a base test is
pointed at the new name of what it tests. A person is asked about the rest.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from flyball.guard.change import Change
from flyball.guard.weakening import looks_for_runner
from flyball.proofs import breaks
from flyball.proofs.sides import Sides, exchanged

FILE_MOST = 1 << 20
FILES_MOST = 2_000
HELPERS_MOST = 200
EXPECTED_OUTPUT = re.compile(r"\.(?:out|expected|golden|snap)$|(?:^|/)(?:expected|snapshots|golden)/")
Edits = dict[str, bytes | None]
Read = Callable[[Sequence[tuple[str, str]]], list[bytes | None]]


class Files:
    """`read` gives the contents of (tree, path), `paths` the files of the run's tree."""

    def __init__(
        self,
        base: str,
        tree: str,
        changes: Sequence[Change],
        sides: Sides,
        read: Read,
        paths: Collection[str],
    ) -> None:
        self.base, self.tree, self.sides, self._read, self.paths = base, tree, sides, read, paths
        self.changes = [change for change in changes if change.op in ("add", "modify", "delete", "rename")]
        self.others = [change for change in changes if change not in self.changes]

    # ---- the tests of one tree over the other's source ----

    def exchange(self, onto: str, of: str) -> Edits:
        """Edits to the tree `onto` that give it the test side of `of`; none where no test changed."""
        edits: Edits = {}
        changes = (*self.changes, *(self.others if of == self.base else ()))
        for path in sorted({path for c in changes for path in (c.path, c.from_) if path}):
            ours, theirs = self._read([(onto, path), (of, path)])
            if self.sides.is_test(path):
                target = _renamed(theirs, self.names) if of == self.base else theirs
            elif ours is not None and theirs is not None and max(len(ours), len(theirs)) <= FILE_MOST:
                target = _bytes(
                    exchanged(path, _text(ours), _text(theirs), " ".join(self.sides.commands).split())
                )
            else:
                continue
            if target != ours:
                edits[path] = target
        return edits

    @cached_property
    def names(self) -> Renames:
        sources = [c for c in self.changes if not self.sides.is_test(c.path)]
        moved = {c.from_: c.path for c in sources if c.op == "rename" and c.from_}
        base = {c.from_ or c.path: self.text(self.base, c.from_ or c.path) for c in sources if c.op != "add"}
        run = {c.path: self.text(self.tree, c.path) for c in sources if c.op != "delete"}
        return renames(base, run, moved)

    def old_texts(self) -> dict[str, str]:
        """The base's test files that changed, with the new names of what they test."""
        return {path: renamed(text, self.names) for path, text in self.texts(self.base).items()}

    def texts(self, tree: str) -> dict[str, str]:
        """The test files of a tree that changed."""
        paths = {
            path for c in self.changes for path in (c.path, c.from_) if path and self.sides.is_test(path)
        }
        texts = {path: self.text(tree, path) for path in sorted(paths)}
        return {path: text for path, text in texts.items() if text}

    # ---- source ----

    @cached_property
    def sources(self) -> list[str]:
        """The code under test, as far as it can be broken; what was changed comes first, since there is a limit."""
        changed = {change.path for change in self.changes}
        paths = [path for path in self.paths if breaks.can_break(path) and not self.sides.is_test(path)]
        return sorted(paths, key=lambda path: path not in changed)[:FILES_MOST]

    def suspects(self) -> list[str]:
        """The source that was changed, or that looks for a test runner."""
        watchers = self.watchers()
        return [path for path in self.sources if path in self._changed or path in watchers]

    def watchers(self) -> set[str]:
        """The source that looks for a test runner, and was there before the change."""
        others = [path for path in self.sources if path not in self._changed]
        return {path for path in others if looks_for_runner(path, self.text(self.tree, path))}

    @cached_property
    def _changed(self) -> set[str]:
        return {change.path for change in self.changes}

    def changed_lines(self) -> list[str]:
        """The lines of source that the run added."""
        changed = [c for c in self.changes if c.op != "delete" and not self.sides.is_test(c.path)]
        return [line for c in changed for line in self._new_lines(c)]

    def _new_lines(self, change: Change) -> list[str]:
        before = set(self.text(self.base, change.from_ or change.path).splitlines())
        return [line for line in self.text(self.tree, change.path).splitlines() if line not in before]

    def broken_source(self) -> Edits:
        """Every function of every source file raises."""
        return self._broken(self.sources, None)

    def broken_changes(self) -> Edits:
        edits: Edits = {}
        for change in self.changes:
            if change.op != "delete" and change.path in self.sources:
                before = self.text(self.base, change.from_ or change.path)
                lines = breaks.changed_lines(change.path, before, self.text(self.tree, change.path))
                edits |= self._broken([change.path], lines)
        return edits

    def _broken(self, paths: list[str], lines: list[int] | None) -> Edits:
        contents = self._read([(self.tree, path) for path in paths])
        texts = {
            path: _text(data)
            for path, data in zip(paths, contents, strict=True)
            if data is not None and len(data) <= FILE_MOST
        }
        return _edits(
            texts, {path: breaks.functions_raise(path, text, lines) for path, text in texts.items()}
        )

    # ---- expectations ----

    def broken_expectations(self, tests: dict[str, str]) -> tuple[Edits, frozenset[str], bool]:
        """Wrong assertions in the files of these tests, the tests they belong to, and whether that is sure."""
        edits: Edits = {}
        affected, sure = set[str](), True
        for path in sorted(set(tests.values()) - {""}):
            text = self.text(self.tree, path)
            wrong = breaks.expectations_wrong(path, text)
            if wrong.text != text:
                edits[path] = _bytes(wrong.text)
                affected |= {test for test in tests if tests[test] == path and _is_of(test, wrong.tests)}
                sure = sure and wrong.tests is not None
        return edits, frozenset(affected), sure

    def broken_data(self, opened: Collection[str]) -> Edits:
        """Files of the test side that tests read, with other contents."""
        paths = set(self.paths)
        return {
            path: _bytes(f"{breaks.WORDS}\n")
            for path in sorted(set(opened) & paths)
            if self.sides.is_test(path) and not self.sides.is_runners(path)
        }

    def plain_values(self, paths: Collection[str]) -> Edits:
        """In these test files and their helpers, a result that redefines equality is compared by its plain value."""
        helpers = [path for path in self.paths if path.endswith(".py") and self.sides.is_test(path)]
        texts = {path: self.text(self.tree, path) for path in {*paths, *helpers[:HELPERS_MOST]} if path}
        return _edits(texts, {path: breaks.values_plain(path, text) for path, text in texts.items()})

    def broken_checks(self) -> Edits:
        """Wrong assertions and expected outputs in the test files that the proof names: for a runner without a report."""
        edits: Edits = {}
        for path in self.named(folders=True):
            text = self.text(self.tree, path)
            if EXPECTED_OUTPUT.search(path):
                edits[path] = _bytes(f"{text}{breaks.WORDS}\n")
            elif (wrong := breaks.expectations_wrong(path, text)).text != text:
                edits[path] = _bytes(wrong.text)
        return edits

    def broken_ends(self) -> Edits:
        """Check scripts that fail after their last line: one that still passes ended early."""
        texts = {path: self.text(self.tree, path) for path in self.named(folders=False)}
        return _edits(texts, {path: breaks.end_fails(path, text) for path, text in texts.items()})

    def named(self, *, folders: bool) -> list[str]:
        """Test files that the proof commands or their scripts name; with `folders`, also by their folder."""
        scripts = sorted(self.sides.scripts)
        text = " ".join((*self.sides.commands, *(self.text(self.tree, path) for path in scripts)))
        return [
            path
            for path in self.paths
            if self.sides.is_test(path)
            and (path in text or (folders and "/" in path and f"{path.rpartition('/')[0]}/" in text))
        ][:FILES_MOST]

    def text(self, tree: str, path: str) -> str:
        data = self._read([(tree, path)])[0]
        return _text(data) if data is not None and len(data) <= FILE_MOST else ""


def _edits(texts: dict[str, str], targets: dict[str, str]) -> Edits:
    return {path: _bytes(text) for path, text in targets.items() if text != texts[path]}


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _is_of(test: str, functions: frozenset[str] | None) -> bool:
    """Whether a test is one of these functions (`Class::name`); unittest joins the parts of an id with dots."""
    _, _, name = test.partition("[")[0].partition("::")
    if functions is None or name:
        return functions is None or name in functions
    return any(test.endswith("." + function.replace("::", ".")) for function in functions)


def _renamed(data: bytes | None, names: Renames) -> bytes | None:
    return data if data is None or names == Renames() else _bytes(renamed(_text(data), names))


LUCKY_REPEATS = 6
LUCKY_US = 20_000_000  # time for the repeats of code that depends on luck
QUICK_US = 30_000_000  # what takes longer is not repeated: the tests in question, or else the proof
ARGUMENTS = (("-c",), ("main.py", "run"))
_CHANCE = r"\b(?:random\w*|randint|secrets|uuid\w*|urandom|getpid|getppid|getRandomValues|rand|RANDOM|mktemp|mkdtemp|mkstemp|microseconds?|nanoseconds?|get(?:UTC)?(?:Milliseconds|Seconds))\b|process\.pid\b|\$\$|%\d*N\b"
_CLOCK = r"\b(?:time(?:_ns)?|perf_counter\w*|monotonic\w*|now|hrtime|date|nanoTime|hash|id)\b"
_LUCK = re.compile(rf"{_CHANCE}|{_CLOCK}.*[%&]")  # a clock is a source of chance only by its last digits


class Room(Struct, frozen=True):
    """The default is an ordinary room."""

    source: tuple[str, ...] = ()  # files that see an ordinary program
    argv: tuple[str, ...] = ()  # its arguments
    ci: bool = True  # the variable CI is set
    numbers: int = 0  # process numbers that are used up before the command starts
    only: tuple[str, ...] = ()  # the tests to run, where the runner can leave others out
    files: tuple[str, ...] = ()  # or the test files
    times: int = 1  # how often each test runs, where the runner can repeat it
    one_failure: bool = False  # the first failing test ends it
    quiet: bool = False  # no report is expected: nothing in its environment asks for one
    tests: tuple[str, ...] = ()  # the tests in question
    alone: bool = False  # each of them that passes also runs without its runner, where it needs nothing of it
    alone_s: float = 8.0  # the time for that, of all of them
    broken: dict[
        str, str
    ] = {}  # files of theirs with wrong assertions: those that passed alone run with them, too


ALONE_MOST = 100  # tests
ALONE_S = (4.0, 8.0)  # the least and the most time for all of them
SELECTING = frozenset(("pytest", "unittest"))  # the probes of these can run some tests alone, several times
SHOWING = SELECTING | {"doctest", "node:test", "mocha"}  # what these load sees a plain program


class Repeats(Struct, frozen=True):
    """How often a proof has to pass again: the number of rooms, and how often each test runs in them."""

    rooms: int
    times: int = 1


def repeats(
    source: Iterable[str], tests: Iterable[str], count: Repeats, *, node: bool, took_us: int = 0
) -> list[Room]:
    """Rooms to pass these tests in again, each dressed differently. Tools of Node that find no CI may wait for a
    person. Of many tests, a spread runs without its runner, for about the time of the proof (`took_us`)."""
    files, only = tuple(source), tuple(sorted(tests))
    return [
        Room(
            files,
            ARGUMENTS[n % len(ARGUMENTS)],
            node,
            1 + 3 * n,
            only,
            times=count.times,
            tests=only[:: max(1, -(-len(only) // ALONE_MOST))],
            alone=True,
            alone_s=max(ALONE_S[0], min(ALONE_S[1], took_us / 1e6)),
        )
        for n in range(count.rooms)
    ]


def repeat_count(
    passes: int,
    count: int,
    took_us: int,
    lines: Iterable[str],
    tests_us: int | None = None,
    runners: Collection[str] = (),
) -> Repeats:
    """`done` of the wanted passes are there already; `lines` are those of the change: if one of them depends on
    chance, time or a process number, one lucky pass says little. `tests_us` is what the tests in question took, None
    where the runner cannot run them alone: then one room has to do. Where no room is plain to the code that these
    `runners` load, it would run as it did before: only luck is a reason to repeat it."""
    lucky = is_lucky(lines)
    again_us = took_us if tests_us is None else tests_us
    if again_us > QUICK_US or (passes < 2 and not lucky):
        return Repeats(0)
    if lucky:
        return Repeats(max(passes - count, int(passes > 1), min(LUCKY_REPEATS, LUCKY_US // max(took_us, 1))))
    if not SHOWING.issuperset(runners):
        return Repeats(0)
    affordable = 1 if tests_us is None else took_us // 2 // max(tests_us, 1)
    return Repeats(1, max(1, min(passes - count, affordable)))


def is_lucky(lines: Iterable[str]) -> bool:
    return any(map(_LUCK.search, lines))


# ---- honest changes to tests: what moved or was renamed ----------------------------------------------------

_ASSERTION = re.compile(
    r"\b(?:assert|expect|should|refute)\w*|\bt\.(?:is|not|true|false|truthy|falsy|ok|same|equal|deepEqual|throws)\b|>>>"
)
_IMPORT = re.compile(r"import\b|from\b|#|//|(?:const|let|var)\b.*\brequire\b|use\b")
_LITERAL = re.compile(r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|\b\d+(?:\.\d+)?\b")
_CALLEE = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_TEST_HEAD = re.compile(r"\s*(?:async\s+)?def\s+test|\s*(?:test|it)\s*\(")
_NOT_TESTED = re.compile(r"(?:assert|expect|should|refute|require|test|it|describe|to[A-Z])\w*", re.I)


def followed(
    removed: Collection[str], new: Iterable[str], base: Mapping[str, str], run: Mapping[str, str]
) -> frozenset[str]:
    """Those of the removed tests that are there again: under their name among the `new` ones, in another file, class or
    style; or with all their assertions. `base` and `run` are the texts of the test files by path."""
    names, fresh = Counter(map(_name_of, removed)), Counter(map(_name_of, new))
    again = frozenset(test for test in removed if names[_name_of(test)] <= fresh[_name_of(test)])
    return again | _asserted(set(removed) - again, base, run)


def _name_of(test: str) -> str:
    """The last part of a test id, without parameters."""
    plain = test.partition("[")[0]
    return plain.rpartition("::")[2].rpartition(" > ")[2] if "::" in plain else plain.rpartition(".")[2]


def _asserted(removed: Iterable[str], base: Mapping[str, str], run: Mapping[str, str]) -> frozenset[str]:
    have = Counter(line for text in run.values() for line in _assertions(text))
    added = _literals(text for path, text in run.items() if base.get(path) != text)
    callees = {name for text in run.values() for name in _CALLEE.findall(text)}
    files: dict[str, bool] = {}
    for path, text in base.items():
        assertions = Counter(_assertions(text))
        missing = [line for line, count in assertions.items() if have[line] < count]
        tests = _literals_of_tests(text)
        files[path] = all(_parametrized(line, tests.get(line, []), added, callees) for line in missing)
    return frozenset(test for test in removed if files.get(_file_of(test, base), False))


def _file_of(test: str, base: Mapping[str, str]) -> str:
    """The file of a test id: `file::name`, or `package.module.Class.test` of unittest."""
    if "::" in test:
        return test.partition("::")[0]
    paths = (path for path in base if test.startswith(path.removesuffix(".py").replace("/", ".") + "."))
    return next(paths, "")


def _assertions(text: str) -> list[str]:
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line.rstrip(";,") for line in lines if _ASSERTION.search(line) and not _IMPORT.match(line)]


def _literals(texts: Iterable[str]) -> list[str]:
    """The literals of each line, as one string, to look for rows of a table in."""
    return [" ".join(_LITERAL.findall(line)) for text in texts for line in text.splitlines()]


def _literals_of_tests(text: str) -> dict[str, list[str]]:
    """Each assertion, with the literals of the test function up to it."""
    by_test: dict[str, list[str]] = {}
    literals: list[str] = []
    for line in text.splitlines():
        if _TEST_HEAD.match(line):
            literals = []
        literals = [*literals, *_LITERAL.findall(line)]
        for assertion in _assertions(line):
            by_test[assertion] = literals
    return by_test


def _parametrized(line: str, before: list[str], rows: list[str], callees: set[str]) -> bool:
    """An assertion became a row of a table: its literals stand in one row, in order, or the row consists of literals of
    its test with what it expects at the end; and what it calls is still called."""
    mine = _LITERAL.findall(line)
    called = {name for name in _CALLEE.findall(line) if not _NOT_TESTED.fullmatch(name)}
    if not mine or not called <= callees:
        return False
    return any(" ".join(mine) in row or _is_row_of(row, before, mine[-1]) for row in rows)


def _is_row_of(row: str, literals: list[str], expected: str) -> bool:
    parts = _LITERAL.findall(row)
    rest = iter(literals)
    return len(parts) > 1 and parts[-1] == expected and all(part in rest for part in parts)


# ---- names that changed ----


class Renames(Struct, frozen=True):
    """Old name -> new name. A path or a dotted name is clear by itself; what a single word means depends on its place."""

    paths: dict[str, str] = {}
    modules: dict[str, str] = {}
    definitions: dict[str, str] = {}


def renames(base: Mapping[str, str], run: Mapping[str, str], moved: Mapping[str, str]) -> Renames:
    """The new names of modules (from moved files) and of functions and classes whose body stayed the same."""
    paths: dict[str, str] = {}
    modules: dict[str, str] = {}
    for old, new in {**moved, **_packages(base, run, moved)}.items():
        for before, after in _module_names(old, new):
            (paths if "." in before or "/" in before else modules)[before] = after
    before, after = _definitions(base), _definitions(run)
    fresh: dict[str, list[str]] = {}
    for name, body in after.items():
        if name not in before:
            fresh.setdefault(body, []).append(name)
    gone = {name: fresh.get(body, []) for name, body in before.items() if name not in after}
    return Renames(paths, modules, {name: names[0] for name, names in gone.items() if len(names) == 1})


def _packages(base: Mapping[str, str], run: Mapping[str, str], moved: Mapping[str, str]) -> dict[str, str]:
    """The `__init__.py` of each package whose files moved to another one: few of its lines may be the same."""
    folders = {(old.rpartition("/")[0], new.rpartition("/")[0]) for old, new in moved.items()}
    pairs = ((f"{old}/__init__.py", f"{new}/__init__.py") for old, new in sorted(folders) if old != new)
    return {old: new for old, new in pairs if old in base and new in run}


def _module_names(old: str, new: str) -> Iterable[tuple[str, str]]:
    """`src/shop/price.py` moved to `src/shop/prices.py`: the dotted name, the path, and the last part."""
    stems = [path.rpartition(".")[0] or path for path in (old, new)]
    dotted = [stem.removeprefix("src/").removesuffix("/__init__").replace("/", ".") for stem in stems]
    last = [stem.rpartition("/")[2] for stem in stems]
    yield dotted[0], dotted[1]
    yield stems[0], stems[1]
    if last[0] != last[1]:
        yield last[0], last[1]


_JS = re.compile(r"\.[cm]?[jt]sx?$")
_JS_DEFINITION = re.compile(
    r"^(?:export\s+(?:default\s+)?)?"
    r"(?:(?:async\s+)?function\s*\*?\s*(\w+)|class\s+(\w+)|(?:const|let|var)\s+(\w+)\s*=\s*(?:async\s*)?(?:function\b|\(|\w+\s*=>))"
    r"(?:[^\n]*;$|[^\n]*\n(?:(?:[ \t][^\n]*)?\n)*[})\]][^\n]*$)",
    re.M,
)


def _definitions(texts: Mapping[str, str]) -> dict[str, str]:
    """Top-level functions and classes, and methods, and what they consist of besides their name."""
    bodies: dict[str, str] = {}
    for path, text in texts.items():
        for name, body in (
            _python(text) if path.endswith(".py") else _javascript(text) if _JS.search(path) else ()
        ):
            bodies[name] = re.sub(rf"\b{re.escape(name)}\b", "·", body)
    return bodies


def _python(text: str) -> Iterable[tuple[str, str]]:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, ast.dump(node)
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef | ast.AsyncFunctionDef):
                yield inner.name, ast.dump(inner)


def _javascript(text: str) -> Iterable[tuple[str, str]]:
    return ((match[1] or match[2] or match[3], match[0]) for match in _JS_DEFINITION.finditer(text))


def renamed(text: str, names: Renames) -> str:
    """The text with every old name in its new form."""
    return "".join(_renamed_line(line, names) for line in text.splitlines(keepends=True))


_STRING = re.compile(r"('(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`[^`\n]*`)")
_PYTHON_IMPORT = re.compile(r"(\s*(?:from\s+[\w.]+\s+import\b|import\b(?=\s+\w)))")
_WORD = r"(?<![\w-])(?:{})(?![\w-])"
_FILE = r"(?<=/)(?:{})(?=\.\w+['\"`]|['\"`])"  # the last part of a path in quotes
_OWNER = r"(?<![\w.-])(?:{})(?=\.[A-Za-z_])"  # a module before the name of what it holds


def _renamed_line(line: str, names: Renames) -> str:
    line = _replaced(line, names.paths, _WORD)
    head = _PYTHON_IMPORT.match(line)
    if head:
        rest = _replaced(line[head.end() :], names.modules, _WORD)
        if "from" in head[0]:
            rest = _replaced(rest, names.definitions, _WORD)
        return _replaced(head[0], names.modules, _WORD) + rest
    parts = _STRING.split(_replaced(_replaced(line, names.modules, _FILE), names.modules, _OWNER))
    parts[::2] = (_replaced(code, names.definitions, _WORD) for code in parts[::2])
    return "".join(parts)


def _replaced(text: str, names: Mapping[str, str], pattern: str) -> str:
    if not names:
        return text
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    return re.sub(pattern.replace("{}", words), lambda match: names[match.group()], text)
