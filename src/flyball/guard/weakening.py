"""Changes that weaken the tests, or that make a proof pass without them.

A person is asked about a test that is deleted, skipped, emptied or asserts less than before, and about configuration
that lets more pass. Whether the changed code still passes the tests as they were is decided at the gate, by running them
(see docs/evidence.md): where the gate knows the tests by id, nothing is asked here about a test that is gone or loosened.
"""

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import accumulate, pairwise

import msgspec

from flyball.guard import weakening_patterns as patterns
from flyball.guard.change import Decision, Edit, Line, Verdict, is_symlink
from flyball.guard.weakening_patterns import Language
from flyball.reading.terminal import Lazy

PIECE, OVERLAP = 500, 100
"""A longer line is read in overlapping pieces: some patterns take the square of a line's length."""
READ_MOST = 1_000_000
"""Characters of one file that are read."""

# --- which files are tests


def language(path: str) -> Language:
    return patterns.LANGUAGES.get(path.rpartition(".")[2].lower(), "other")


def is_test(path: str) -> bool:
    """A file that a test runner collects, by its name or by its folder."""
    if is_named(path):
        return not path.endswith("/testing.py")
    in_folder = patterns.TEST_FOLDER.search(path) is not None and language(path) != "other"
    return in_folder and not patterns.TEST_HELPER.search(path) and not is_conftest(path)


def is_named(path: str) -> bool:
    """A test by its name, whatever its folder."""
    return patterns.TEST_NAME.search(path) is not None


def is_near_test(path: str) -> bool:
    """A test, or code that tests use: either can be weakened."""
    in_folder = patterns.TEST_FOLDER.search(path) is not None and language(path) != "other"
    return in_folder or is_test(path) or is_conftest(path)


def is_conftest(path: str) -> bool:
    return path.rpartition("/")[2].lower() == "conftest.py"


# --- what weakens the tests


class Weakness(msgspec.Struct, frozen=True):
    """One way in which a file weakens the tests."""

    reason: str
    line: int = 0
    at_gate: bool = False  # the gate sees it by itself: it runs the test as it was, and misses one by its id


def weakenings(edits: Sequence[Edit], word: Decision, *, by_id: bool = False) -> Iterable[Verdict]:
    """A verdict for each way in which the change weakens the tests. `by_id`: the gate knows the tests by their ids."""
    if word == "allow":
        return
    readable = [edit for edit in edits if not is_symlink(edit.change)]
    for edit in edits:
        if is_symlink(edit.change):
            weak = [Weakness("a test is replaced by a link")] if is_test(edit.file) else []
        else:
            weak = _of_edit(edit, [other for other in readable if other is not edit])
        for one in weak:
            if not (by_id and one.at_gate and word == "ask"):
                yield Verdict(word, "test-weakening", f"{edit.file}: {one.reason}.", edit.file, one.line)


def _of_edit(edit: Edit, others: Sequence[Edit]) -> Iterable[Weakness]:
    change, path = edit.change, edit.file
    if change.op == "delete":
        if is_test(path) and not _went_elsewhere(edit, others):
            yield Weakness("a test file is deleted", at_gate=True)
        return
    if change.op == "rename" and change.from_ and _no_longer_collected(change.from_, path):
        yield Weakness("a test is renamed so that it no longer runs", at_gate=True)
    if edit.added is not None or edit.removed is not None:
        yield from _of_configuration(path, _texts(edit.removed), _numbered(edit.added))
    if is_conftest(path) and edit.added is None and change.op in ("add", "modify"):
        yield Weakness("it controls how tests run, and its text is unknown")
    rust = language(path) == "rust" and any(map(patterns.RUST_TEST.search, _texts(edit.removed)))
    if is_near_test(path) or rust:
        yield from _of_tests(edit, others)
    elif edit.added:
        text = "\n".join(line for _, line in _numbered(edit.added))
        if any(word in text for word in patterns.OF_TESTS) and patterns.RUN_ANYWAY.search(text):
            yield Weakness("tests are run so that they cannot fail")


def _no_longer_collected(old: str, new: str) -> bool:
    not_collected = language(old) == "python" and is_named(old) and not is_named(new)
    return is_test(old) and (not_collected or not is_test(new))


def _went_elsewhere(edit: Edit, others: Sequence[Edit]) -> bool:
    """Have the tests of a deleted file moved to another one?"""
    candidates = [other for other in others if other.change.op != "delete" and is_test(other.file)]
    if edit.removed is None:
        name, size = edit.file.rpartition("/")[2], edit.change.lines_deleted
        return any(e.file.endswith("/" + name) and e.change.lines_added >= size for e in candidates)
    removed = _texts(edit.removed)
    lang = language(edit.file)
    names = Counter(names_of_tests(removed, lang))
    arrived = _arrived(names, candidates)
    return bool(names) and not names - Counter(names_of_tests(arrived)) and not _loss(removed, arrived)


def _of_tests(edit: Edit, others: Sequence[Edit]) -> Iterable[Weakness]:
    change = edit.change
    if edit.added is None and edit.removed is None:
        if change.op == "modify" and is_test(edit.file) and change.lines_deleted > change.lines_added:
            yield Weakness("a test gets shorter, and its text is unknown")
        return
    lang = language(edit.file)
    removed = [line for _, line in _code([(0, line) for line in _texts(edit.removed)], lang)]
    added = _code(_numbered(edit.added), lang)
    plain = [line for _, line in added]
    yield from _switched_off(removed, added, lang)
    yield from _overwritten(edit)
    if change.op == "add":
        return
    for reason, pattern in _GAINED:
        yield from _more(reason, pattern, removed, added)
    if ends := _ends_early(edit):
        yield Weakness("an assertion cannot fail or is not reached", ends)
    if _idle_catches(plain) > _idle_catches(removed):
        yield Weakness("a failure is swallowed")
    removed_names = Counter(names_of_tests(removed, lang)) - Counter(names_of_tests(plain, lang))
    arrived = _arrived(removed_names, others)
    yield from _lost_tests(removed, plain, arrived, lang)
    loss = _loss(removed, [*plain, *arrived])
    if loss and loss != CANNOT_FAIL:
        loss = _loss(removed, _with_helpers([*plain, *arrived], [edit, *others]))
    if loss:
        decided = loss == LOOSER or (bool(removed_names) and loss != CANNOT_FAIL)
        yield Weakness(loss, added[0][0] if added else 0, at_gate=decided)


def _texts(lines: Sequence[str] | None) -> list[str]:
    return [piece for line in lines or () for piece in _pieces(line)]


def _numbered(lines: Sequence[Line] | None) -> list[Line]:
    return [(number, piece) for number, line in lines or () for piece in _pieces(line)]


def _pieces(line: str) -> Iterable[str]:
    if len(line) <= PIECE:
        return (line,)
    whole = line[:READ_MOST]
    return (whole[at : at + PIECE] for at in range(0, max(len(whole) - OVERLAP, 1), PIECE - OVERLAP))


def _code(lines: Sequence[Line], lang: Language) -> list[Line]:
    mark = ("#",) if lang in ("python", "ruby", "elixir") else ("//", "/*", "*")
    return [(n, line) for n, line in lines if line.strip() and not line.strip().startswith(mark)]


def _more(reason: str, pattern: Lazy, removed: Sequence[str], added: Sequence[Line]) -> Iterable[Weakness]:
    """A weakness if more lines match than before, at the first that does."""
    matches = [number for number, line in added if pattern.search(line)]
    if len(matches) > _count(pattern, removed):
        yield Weakness(reason, matches[0])


def _count(pattern: Lazy, lines: Iterable[str]) -> int:
    return sum(1 for line in lines if pattern.search(line))


_GAINED = (
    ("a test is retried until it passes", patterns.FLAKES),
    ("a failure is swallowed", patterns.SWALLOWS),
    ("an assertion cannot fail or is not reached", patterns.UNREACHED),
)
_TEXT = Lazy(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def _switched_off(removed: Sequence[str], added: Sequence[Line], lang: Language) -> Iterable[Weakness]:
    """Marks that keep tests from running, hooks that change how they end, and assertions that are replaced."""
    before = [_unquoted(line, lang) for line in removed]
    after = [(number, _unquoted(line, lang)) for number, line in added]
    yield from _more("a test is skipped", patterns.SKIPS[lang], before, after)
    is_new = any(names_of_tests([line], lang) for _, line in added)
    if lang in patterns.CONDITIONS and not is_new:  # a new test may need a platform or a service
        yield from _more("a test is skipped conditionally", patterns.CONDITIONS[lang], before, after)
    yield from _more("a hook changes which tests run or how they end", patterns.HOOKS, removed, added)
    yield from _more("an assertion or a test is replaced", patterns.REPLACED, removed, added)


def _overwritten(edit: Edit) -> Iterable[Weakness]:
    """A test of a Python file whose name is bound again below it: only the last one runs."""
    top = (line for line in (edit.text or "").splitlines() if line[:1].strip())
    tests = Counter(names_of_tests(top, "python")) if language(edit.file) == "python" else Counter[str]()
    for number, line in edit.added or () if tests else ():
        again = [name for name in names_of_tests([line], "python") if line[:1].strip() and tests[name] > 1]
        words = line[:PIECE].split() if line.startswith(("from ", "import ")) else []
        again += [word.strip("(),") for word in words if tests[word.strip("(),")]]
        if again:
            yield Weakness(f"{again[0]} is overwritten", number)


def _ends_early(edit: Edit) -> int:
    """The line of a new `return` with more code below it in the same block, or 0. A conditional one is for the gate."""
    new = [line for _, line in edit.added or ()]
    lines = new if edit.text is None else edit.text.splitlines()
    numbers = range(1, len(new) + 1) if edit.text is None else (number for number, _ in edit.added or ())
    for number in numbers:
        line = lines[number - 1][:PIECE]
        below = next((line for line in lines[number : number + NEAR] if line.strip()), "")
        if patterns.LEAVES.search(line) and _indent(below) == _indent(line):
            return number
    return 0


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else -1


def _unquoted(line: str, lang: Language) -> str:
    """Quoted text is no mark, except in Catch2, which writes its marks as text."""
    return line if lang == "cpp" else _TEXT.sub('""', line)


def _idle_catches(lines: Sequence[str]) -> int:
    return sum(1 for a, b in pairwise(lines) if patterns.CATCHES.search(a) and patterns.IDLES.search(b))


# --- tests and assertions that are lost


def names_of_tests(lines: Iterable[str], lang: Language = "other") -> list[str]:
    """The tests that these lines define; Go's have a capital letter."""
    pattern = patterns.PYTHON_NAME if lang == "python" else patterns.NAMES
    names = [next(name for name in m.groups() if name is not None) for x in lines if (m := pattern.search(x))]
    return [name for name in names if lang != "go" or name[:1].isupper()]


def _arrived(names: Counter[str], others: Sequence[Edit]) -> list[str]:
    """The lines of tests with these names that other files gained."""
    arrived: list[str] = []
    for other in others if names else ():
        copies, lang = False, language(other.file)
        for _, line in _numbered(other.added):
            begins = names_of_tests([line], lang)
            copies = begins[0] in names if begins else copies
            if copies:
                arrived.append(line)
    return arrived


def _lost_tests(
    removed: Sequence[str], added: Sequence[str], arrived: Sequence[str], lang: Language
) -> Iterable[Weakness]:
    removed_names, fresh = Counter(names_of_tests(removed, lang)), Counter(names_of_tests(added, lang))
    missing, new = removed_names - fresh - Counter(names_of_tests(arrived, lang)), fresh - removed_names
    if missing.total() > new.total() and not _became_rows(removed, added):
        yield Weakness(f"{min(missing)} is deleted", at_gate=True)
    marks = _count(patterns.MARKS, removed) - _count(patterns.MARKS, added)
    if marks > 0 and missing.total() <= new.total() and not removed_names:
        yield Weakness("a test has lost its marker", at_gate=True)


def _became_rows(removed: Sequence[str], added: Sequence[str]) -> bool:
    """Several tests in one, with a table of cases: at least as many rows as removed tests."""
    return _rows(added) >= len(names_of_tests(removed)) > 0


def _rows(lines: Sequence[str]) -> int:
    """The cases of the tables in these lines; 0 if there is no table."""
    tables = [line for line in lines if patterns.TABLES.search(line)]
    return max(_count(patterns.ROWS, lines), *map(_inline_rows, tables)) if tables else 0


def _inline_rows(line: str) -> int:
    rows = patterns.INLINE_ROW.findall(line)
    return len(rows) if len(rows) != 1 else rows[0].count(",") + 1


def _with_helpers(lines: Sequence[str], edits: Sequence[Edit]) -> list[str]:
    """The lines, with what a helper of the tests asserts in the place of a call to it."""
    helpers: dict[str, str] = {}
    for edit in edits:
        name = ""
        for line in (edit.text or "").splitlines() if is_near_test(edit.file) else ():
            head = patterns.HELPER.match(line)
            if head:
                name = "" if names_of_tests([line]) else next(filter(None, head.groups()))
            if name and _strength(line):
                helpers.setdefault(name, line)
    call = re.compile(rf"^\s*(?:await\s+)?(?:self\.)?({'|'.join(map(re.escape, helpers)) or '(?!)'})\(")
    return [helpers[match[1]] if (match := call.match(line)) else line for line in lines]


CANNOT_FAIL, LOOSER = "an assertion cannot fail", "an assertion is loosened"
EXACT, SOME, EMPTY = 2, 1, 0
"""What an assertion compares: a whole value, something of it (a bound, a type, that there is one), nothing."""


def _strength(line: str) -> int | None:
    """What an assertion on this line compares; None if there is none."""
    if patterns.NO_ASSERTION.match(line) or not patterns.ASSERTS.search(line):
        return None
    if patterns.EMPTY.search(line):
        return EMPTY
    return EXACT if patterns.EXACT.search(line) and not patterns.INEXACT.search(line) else SOME


def _loss(removed: Sequence[str], added: Sequence[str]) -> str:
    """What the assertions lost, or ''. An assertion beside a table of cases counts for each of them."""
    old = [worth for line in removed if (worth := _strength(line)) is not None]
    new = [worth for line in added if (worth := _strength(line)) is not None]
    if EMPTY in new and old and EMPTY not in old:
        return CANNOT_FAIL
    before, after = Counter(filter(None, old)), Counter(filter(None, new))
    repeats = max(0, _rows(added) - max(1, _rows(removed)))
    if after.total() + (repeats if after else 0) < before.total():
        return f"assertions are removed ({before.total()} to {after.total()})"
    looser = after[EXACT] + (repeats if after[EXACT] else 0) < before[EXACT]
    return LOOSER if (looser and after.total() <= before.total() + 1) or _is_wider(removed, added) else ""


def _is_wider(removed: Sequence[str], added: Sequence[str]) -> bool:
    """Is there the same assertion with a number that makes it pass more easily?"""
    before = {_shape(line): _numbers(line) for line in removed if _strength(line) is not None}
    for line in added:
        shape = _shape(line)
        moved = [(a, b) for a, b in zip(before.get(shape, ()), _numbers(line), strict=False) if a != b]
        lower = any(b < a for a, b in moved) and patterns.LOOSER_DOWN.search(shape)
        if lower or (any(b > a for a, b in moved) and patterns.LOOSER_UP.search(shape)):
            return True
    return False


def _shape(line: str) -> str:
    return patterns.NUMBER.sub("#", line.strip())


def _numbers(line: str) -> list[Decimal]:
    return [Decimal(number) for number in patterns.NUMBER.findall(line)]


# --- configuration: which tests run, and which coverage is enough


def _of_configuration(path: str, removed: Sequence[str], added: Sequence[Line]) -> Iterable[Weakness]:
    runs, checks = patterns.CONFIG_FILES.search(path), patterns.CHECKER_FILES.search(path)
    if runs:
        yield from _more("the configuration excludes tests or coverage", patterns.EXCLUDES, removed, added)
    if checks:
        yield from _more("a checker is made less strict", patterns.LAX_CHECKER, removed, added)
    if runs or checks:
        plain = [line for _, line in added]
        before, after = _thresholds(removed), _thresholds(plain)
        if any(key in after and after[key] < number for key, number in before.items()):
            yield Weakness("a threshold is lowered")
        if not all(
            any(_covers(new, old) for new in plain) for old in removed if patterns.TEST_SETTING.search(old)
        ):
            yield Weakness("the test configuration is changed")


def _thresholds(lines: Sequence[str]) -> dict[str, Decimal]:
    matches = (match for line in lines for match in patterns.THRESHOLD.finditer(line))
    return {m["key"].lower().replace("_", "-"): Decimal(m["number"]) for m in matches}


def _covers(after: str, before: str) -> bool:
    """Is the old line there again, complete or with another threshold?"""
    if before.strip(" ,") in after:
        return True
    digits = re.compile(r"\d+(?:\.\d+)?")
    same = digits.sub("#", before.strip(" ,")) == digits.sub("#", after.strip(" ,"))
    return same and patterns.THRESHOLD.search(after) is not None


# --- source that looks for a test runner (EVID-4): it can behave well only while it is tested

NEAR = 6  # lines: what is done with the stack stands close to where it is taken
APART = 120  # characters between two words that belong together
_SCRIPTS = (".sh", ".bash", ".zsh", ".pl", ".lua", ".awk")
_HASH_COMMENTS = ("python", "ruby", "other", "elixir")


def runner_lookups(edits: Sequence[Edit]) -> Iterable[Verdict]:
    """The first added line of each source file that looks for a test run."""
    for edit in edits:
        if edit.change.op == "delete" or not _is_source(edit.file):
            continue
        sizes = list(accumulate(len(line) for _, line in edit.added or ()))
        most = bisect_right(sizes, READ_MOST)
        finding = _lookup(_readable(edit.file, (edit.added or ())[:most]))
        if finding is None and most < len(sizes):
            finding = (edit.added or ())[most][0], "has more new code than can be read"
        if finding:
            yield Verdict("ask", "test-detection", f"{edit.file} {finding[1]}.", edit.file, finding[0])


def looks_for_runner(file: str, text: str) -> bool:
    """Whether a whole source file has such a line."""
    return _lookup(_readable(file, list(enumerate(text[:READ_MOST].splitlines(), 1)))) is not None


def _is_source(file: str) -> bool:
    """Code outside the test side: its name and folders say nothing of tests."""
    is_code = language(file) != "other" or file.lower().endswith(_SCRIPTS)
    return is_code and not is_near_test(file) and not patterns.SIDE.search(file)


def _readable(file: str, lines: Sequence[Line]) -> list[Line]:
    """The lines without comments, in pieces."""
    comment = r"#.*" if language(file) in _HASH_COMMENTS else r"//.*|^\s*\*.*"
    bare = re.compile(rf"(?:^|\s)(?:{comment})$")
    return [(number, bare.sub("", piece)) for number, line in lines for piece in _pieces(line)]


def _lookup(code: Sequence[Line]) -> tuple[int, str] | None:
    text = "\n".join(line for _, line in code)
    for what, *chains in _LOOKUPS:
        possible = [chain for chain in chains if chain[0].search(text)]
        for number, line in code if possible else ():
            if any(_holds(chain, line) for chain in possible):
                return number, what
    for at, (number, line) in enumerate(code) if patterns.STACK.search(text) else ():
        near = code[max(at - 2, 0) : at + NEAR]
        if patterns.STACK.search(line) and any(patterns.NAMES_CALLER.search(other) for _, other in near):
            return number, "acts on who calls it, so it can behave only when it is tested"
    if patterns.ALWAYS_EQUAL.search(text):
        return 0, "has an object that is equal to everything"
    return None


def _holds(chain: Sequence[Lazy], text: str) -> bool:
    """Do these patterns follow each other, each close behind the one before?"""
    ends = [match.end() for match in chain[0].finditer(text)]
    for pattern in chain[1:]:
        matches = pattern.finditer(text) if ends else ()
        ends = [match.end() for match in matches if _follows(match.start(), ends)]
    return bool(ends)


def _follows(start: int, ends: list[int]) -> bool:
    at = bisect_right(ends, start)
    return at > 0 and start - ends[at - 1] <= APART


_LOOKUPS: tuple[tuple[str, *tuple[Sequence[Lazy], ...]], ...] = (
    ("looks for a test runner among the loaded modules", [patterns.MODULES], *patterns.MODULE_CHAINS),
    ("looks for a test runner in the environment", [patterns.ENVIRONMENT]),
    (
        "looks for a test runner in the arguments or in the parent process",
        [patterns.ARGUMENTS],
        *patterns.ARGUMENT_CHAINS,
    ),
    ("replaces something that test runners rely on", [patterns.PATCHES]),
    ("acts on who calls it, so it can behave only when it is tested", [patterns.TRACEBACK]),
)
