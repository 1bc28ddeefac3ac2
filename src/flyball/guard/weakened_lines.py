"""Weakened tests in any language, by removed and added lines alone."""

import ast
from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from itertools import pairwise

from flyball.guard import weakened_patterns as patterns
from flyball.guard.assertions import EMPTY, called, line_strength
from flyball.guard.python_syntax import parsed, walk
from flyball.guard.python_tests import bounds_of
from flyball.guard.test_files import Language, language
from flyball.reading.lazy import Lazy


def line_faults(
    path: str,
    removed: Sequence[str],
    added: Sequence[str],
    elsewhere: Sequence[str],
    *,
    is_new: bool = False,
) -> Iterable[tuple[str, bool]]:
    """How these lines weaken the tests of a file, and whether it is because tests are gone; `elsewhere` are tests that
    other files gained."""
    tongue = language(path)
    removed, added = _code(removed, tongue), _code(added, tongue)
    gone = list(_lost_tests(removed, added, elsewhere, tongue)) if not is_new else []
    for fault in _switched_off(removed, added, tongue, is_new):
        yield fault, False
    if is_new:
        return
    for fault in _gained(removed, added):
        yield fault, False
    for fault in gone:
        yield fault, True
    if not _all_moved(removed, added, elsewhere) and not _became_rows(removed, added):
        for fault in _lost_assertions(removed, added, tongue):
            yield fault, bool(gone)
    for fault in _looser(removed, added, tongue):
        yield fault, False


def _looser(removed: Sequence[str], added: Sequence[str], tongue: Language) -> Iterable[str]:
    if tongue == "python":
        yield from _wider(removed, added)
        yield from _fewer_rows(removed, added)
    else:
        yield from _looser_numbers(removed, added, tongue)


def _code(lines: Sequence[str], tongue: Language) -> list[str]:
    mark = ("#",) if tongue in ("python", "ruby", "elixir") else ("//", "/*", "*")
    return [line for line in lines if line.strip() and not line.strip().startswith(mark)]


def _switched_off(
    removed: Sequence[str], added: Sequence[str], tongue: Language, is_new: bool
) -> Iterable[str]:
    """Marks that keep tests from running; in a new file only unconditional ones."""
    before, after = _without_texts(removed, tongue), _without_texts(added, tongue)
    if patterns.more_lines(patterns.SKIPS[tongue], before, after):
        yield "a test is skipped"
    if (
        not is_new
        and tongue in patterns.CONDITIONS
        and patterns.more_lines(patterns.CONDITIONS[tongue], before, after)
    ):
        yield "a test is skipped conditionally"
    if patterns.more_lines(patterns.HOOKS, removed, added):
        yield "a hook changes which tests run or how they end"
    if patterns.more_lines(patterns.REPLACED, removed, added):
        yield "an assertion is replaced"


_TEXT = Lazy(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")


def _without_texts(lines: Sequence[str], tongue: Language) -> list[str]:
    """Quoted text is no mark, except in Catch2, which writes its marks as text."""
    return list(lines) if tongue == "cpp" else [_TEXT.sub('""', line) for line in lines]


def _gained(removed: Sequence[str], added: Sequence[str]) -> Iterable[str]:
    if patterns.more_lines(patterns.FLAKES, removed, added):
        yield "a test is retried until it passes"
    if patterns.more_lines(patterns.SWALLOWS, removed, added) or _idle_catches(added) > _idle_catches(
        removed
    ):
        yield "a failure is swallowed"
    if patterns.more_lines(patterns.UNREACHED, removed, added):
        yield "an assertion cannot fail or is not reached"


def _idle_catches(lines: Sequence[str]) -> int:
    return sum(1 for a, b in pairwise(lines) if patterns.CATCHES.search(a) and patterns.IDLES.search(b))


def names_of_tests(lines: Iterable[str], tongue: Language = "other") -> list[str]:
    """The tests that these lines define; Go's have a capital letter."""
    names: list[str] = []
    for line in lines:
        match = patterns.NAMES.search(line)
        if match:
            names.append(next(name for name in match.groups() if name is not None))
    return [name for name in names if tongue != "go" or name[:1].isupper()]


def _lost_tests(
    removed: Sequence[str], added: Sequence[str], elsewhere: Sequence[str], tongue: Language
) -> Iterable[str]:
    gone, fresh = Counter(names_of_tests(removed, tongue)), Counter(names_of_tests(added, tongue))
    missing = gone - fresh - Counter(elsewhere)
    new = fresh - gone
    if missing.total() > new.total() and not _became_rows(removed, added):
        yield f"{min(missing)} is deleted"
    marks = patterns.count_lines(patterns.MARKS, removed) - patterns.count_lines(patterns.MARKS, added)
    if marks > 0 and missing.total() <= new.total() and not gone:
        yield "a test has lost its marker"


def _all_moved(removed: Sequence[str], added: Sequence[str], elsewhere: Sequence[str]) -> bool:
    gone = Counter(names_of_tests(removed)) - Counter(names_of_tests(added))
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
    """Several tests in one, with a table of cases: at least as many rows as removed tests."""
    rows = max(
        patterns.count_lines(patterns.ROWS, added),
        sum(len(patterns.INLINE_ROW.findall(line)) for line in added if patterns.TABLES.search(line)),
    )
    return patterns.count_lines(patterns.TABLES, added) > 0 and rows >= len(names_of_tests(removed)) > 0


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
        for node in walk(tree) if tree else ():
            if isinstance(node, ast.Assert):
                yield from bounds_of(node)


_ROW = Lazy(r"^\s*(?:pytest\.param\(|\(|\[).*[)\]],?\s*$")


def _fewer_rows(removed: Sequence[str], added: Sequence[str]) -> Iterable[str]:
    alone = not names_of_tests(removed) and not any(line_strength(x, "python") for x in removed)
    before, after = _tables(removed), _tables(added)
    shorter = any(after.get(key, count) < count for key, count in before.items())
    if shorter or (alone and patterns.count_lines(_ROW, removed) > patterns.count_lines(_ROW, added)):
        yield "cases are removed from a table"


def _tables(lines: Sequence[str]) -> dict[str, int]:
    """`@pytest.mark.parametrize("x", [1, 2])` on one line: how many rows it has, by its names."""
    rows_by_name: dict[str, int] = {}
    for line in lines:
        tree = parsed(line.strip().removeprefix("@")) if "parametrize" in line else None
        for node in walk(tree) if tree else ():
            if isinstance(node, ast.Call) and called(node) == "parametrize" and len(node.args) > 1:
                rows = node.args[1]
                if isinstance(rows, ast.List | ast.Tuple | ast.Set):
                    rows_by_name[ast.dump(node.args[0])] = len(rows.elts)
    return rows_by_name


_LOWER = Lazy(r"(?i)greater|>=?\s*#|_g[te]\(|atleast|at_least|closeto|minimum|be\.above")
_HIGHER = Lazy(
    r"(?i)less|<=?\s*#|_l[te]\(|atmost|at_most|delta|near|within|tolerance|epsilon|maximum|be\.below"
)


def _looser_numbers(removed: Sequence[str], added: Sequence[str], tongue: Language) -> Iterable[str]:
    """The same assertion with one number changed so that it passes more easily."""
    before = {_blank(line): _numbers(line) for line in removed if line_strength(line, tongue) is not None}
    for line in added:
        old, new = before.get(_blank(line)), _numbers(line)
        moved = [(a, b) for a, b in zip(old, new, strict=False) if a != b] if old else []
        lower = bool(_LOWER.search(_blank(line))) and any(b < a for a, b in moved)
        higher = bool(_HIGHER.search(_blank(line))) and any(b > a for a, b in moved)
        if lower or higher:
            yield "a test accepts a wider range than before"
            return


_A_NUMBER = Lazy(r"(?<![\w.])\d+(?:\.\d+)?(?![\w.])")


def _blank(line: str) -> str:
    return _A_NUMBER.sub("#", line.strip())


def _numbers(line: str) -> list[Decimal]:
    return [Decimal(number) for number in _A_NUMBER.findall(line)]


def source_faults(added: Sequence[str]) -> Iterable[str]:
    """Code outside the tests that runs tests so that they cannot fail."""
    text = "\n".join(added)
    if not any(word in text for word in patterns.OF_TESTS):
        return
    if patterns.RUN_ANYWAY.search(text):
        yield "tests are run so that they cannot fail"
