"""Tests that are weakened so that they pass.

New and stronger tests are fine, and so are tests that move, are renamed or are rewritten with as many assertions of
the same strength. If a test loses something, a person is asked.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cached_property, lru_cache

import msgspec

from flyball.guard import python_tests
from flyball.guard.appended_tests import only_grew
from flyball.guard.change import Change, is_symlink
from flyball.guard.python_tests import Module, Test
from flyball.guard.test_files import is_conftest, is_named, is_near_test, is_test, language
from flyball.guard.verdict import Decision, Verdict
from flyball.guard.weakened_config import config_faults
from flyball.guard.weakened_lines import line_faults, names_of_tests, source_faults

Texts = Mapping[str, tuple[str | None, str | None]]


_RUST_TEST = re.compile(r"\bassert_(?:eq|ne)!|#\[(?:\w+::)?test\]|#\[should_panic")


class Weakness(msgspec.Struct, frozen=True):
    """One way in which a file weakens the tests."""

    reason: str
    line: int = 0
    gone: bool = False  # a test is not there any more: the gate misses it by its id


class Edit(msgspec.Struct, frozen=True):
    """A changed file with its lines, if they are known."""

    change: Change
    path: str
    removed: tuple[str, ...] | None
    added: tuple[str, ...] | None
    old: str | None = None
    new: str | None = None


def weakenings(
    changes: Sequence[Change], files: Sequence[str], word: Decision, texts: Texts, *, by_id: bool = False
) -> Iterable[Verdict]:
    """A verdict for each way in which the change weakens the tests. `by_id`: the gate knows the tests by their ids,
    so whether one that is gone was only moved or renamed is decided there, by what ran."""
    if word == "allow":
        return
    edits = [_edit(c, f, texts.get(c.path)) for c, f in zip(changes, files, strict=True) if not is_symlink(c)]
    moved = NewTests(edits)
    for edit in edits:
        for weak in _of_edit(edit, edits, moved):
            if by_id and weak.gone and word == "ask":
                continue
            yield Verdict(word, "test-weakening", f"{edit.path}: {weak.reason}.", edit.path, weak.line)
    for change, file in zip(changes, files, strict=True):
        if is_symlink(change) and is_test(file):
            yield Verdict(word, "test-weakening", f"{file}: a test is replaced by a link.", file)


def _edit(change: Change, path: str, text: tuple[str | None, str | None] | None) -> Edit:
    if text is None:
        return Edit(change, path, _bare(change.removed, "-"), _bare(change.added, "+"))
    old, new = text
    removed, added = difference(old or "", new or "")
    return Edit(change, path, removed, tuple(line for _, line in added), old, new)


def _bare(lines: tuple[str, ...] | None, mark: str) -> tuple[str, ...] | None:
    """Lines without the mark of a diff, if all have it."""
    if lines and all(line.startswith(mark) for line in lines if line):
        return tuple(line[1:] for line in lines)
    return lines


@lru_cache(maxsize=64)
def difference(old: str, new: str) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...]]:
    """The removed lines, and the added lines with their numbers."""
    before, after, skipped = trim_common(old.splitlines(), new.splitlines())
    gone = _missing(list(enumerate(before)), after)
    return tuple(line for _, line in gone), _missing(list(enumerate(after, skipped + 1)), before)


def trim_common(before: list[str], after: list[str]) -> tuple[list[str], list[str], int]:
    """Both lists without their common start and end, and the length of the common start."""
    most = min(len(before), len(after))
    start = next((at for at in range(most) if before[at] != after[at]), most)
    end = next((at for at in range(most - start) if before[-1 - at] != after[-1 - at]), most - start)
    return before[start : len(before) - end], after[start : len(after) - end], start


def _missing(lines: Sequence[tuple[int, str]], others: Sequence[str]) -> tuple[tuple[int, str], ...]:
    if not others:
        return tuple(lines)
    left = Counter(others)
    out: list[tuple[int, str]] = []
    for number, line in lines:
        if left[line] > 0:
            left[line] -= 1
        else:
            out.append((number, line))
    return tuple(out)


class NewTests:
    """Python tests that are new to their file: a missing test may have moved there. Parsed only when one is missing."""

    def __init__(self, edits: Sequence[Edit]) -> None:
        self.edits = edits

    def named(self, name: str) -> list[Test]:
        return self._by_name.get(_short(name), [])

    @cached_property
    def _by_name(self) -> dict[str, list[Test]]:
        tests: dict[str, list[Test]] = {}
        for edit in self.edits:
            for name, test in _new_tests(edit):
                tests.setdefault(_short(name), []).append(test)
        return tests


def _new_tests(edit: Edit) -> Iterable[tuple[str, Test]]:
    if edit.new is not None and language(edit.path) == "python":
        old, new = python_tests.read(edit.old or ""), python_tests.read(edit.new)
        for name, test in (new.tests if new else {}).items():
            if old is None or name not in old.tests:
                yield name, test


def _short(name: str) -> str:
    return name.rpartition(".")[2]


def _of_edit(edit: Edit, edits: Sequence[Edit], moved: NewTests) -> Iterable[Weakness]:
    change, path = edit.change, edit.path
    if change.op == "delete":
        if is_test(path) and not _went_elsewhere(edit, edits, moved):
            yield Weakness("a test file is deleted", gone=True)
        return
    if change.op == "rename" and change.from_ and _no_longer_found(change.from_, path):
        yield Weakness("a test is renamed so that it no longer runs", gone=True)
    yield from (Weakness(reason) for reason in config_faults(path, edit.removed, edit.added))
    if is_conftest(path) and edit.added is None and change.op in ("add", "modify"):
        yield Weakness("it controls how tests run, and its text is unknown")
    if is_near_test(path) or _tests_within(edit):
        yield from _of_tests(edit, edits, moved)
    elif edit.added:
        yield from (Weakness(reason) for reason in source_faults(edit.added))


def _no_longer_found(old: str, new: str) -> bool:
    """Did a test runner collect the old name, and not the new one?"""
    named = language(old) == "python" and is_named(old) and not is_named(new)
    return is_test(old) and (named or not is_test(new))


def _tests_within(edit: Edit) -> bool:
    """Rust keeps tests beside the code."""
    return language(edit.path) == "rust" and any(_RUST_TEST.search(line) for line in edit.removed or ())


def _of_tests(edit: Edit, edits: Sequence[Edit], moved: NewTests) -> Iterable[Weakness]:
    change = edit.change
    if edit.added is None and edit.removed is None:
        if change.op == "modify" and is_test(edit.path) and change.lines_deleted > change.lines_added:
            yield Weakness("a test gets shorter, and its text is unknown")
        return
    if language(edit.path) == "python" and edit.new is not None:
        if edit.old and only_grew(edit.old, edit.new):
            return
        before, after = python_tests.read(edit.old or ""), python_tests.read(edit.new)
        if before is not None and after is not None:
            yield from _compared(before, after, moved)
            return
    elsewhere = [name for other in edits if other is not edit for name in names_of_tests(other.added or ())]
    faults = line_faults(
        edit.path, edit.removed or (), edit.added or (), elsewhere, is_new=change.op == "add"
    )
    yield from (Weakness(fault, gone=lost) for fault, lost in faults)


def _went_elsewhere(edit: Edit, edits: Sequence[Edit], moved: NewTests) -> bool:
    """Have the tests of a deleted file moved to another one?"""
    module = python_tests.read(edit.old) if edit.old and language(edit.path) == "python" else None
    if module is not None:
        return bool(module.tests) and all(_successor(test, moved) for test in module.tests.values())
    others = [e for e in edits if e is not edit and e.change.op != "delete" and is_test(e.path)]
    if edit.removed:
        here, there = names_of_tests(edit.removed), [n for e in others for n in names_of_tests(e.added or ())]
        return bool(here) and not Counter(here) - Counter(there)
    name = edit.path.rpartition("/")[2]
    return any(
        e.path.endswith("/" + name) and e.change.lines_added >= edit.change.lines_deleted for e in others
    )


def _compared(before: Module, after: Module, moved: NewTests) -> Iterable[Weakness]:
    """What the tests of a file lost between two texts."""
    for dodge, line in after.dodges.items():
        if dodge not in before.dodges:
            yield Weakness(dodge, line)
    fresh = [test for name, test in after.tests.items() if name not in before.tests]
    spare = SpareAssertions(
        fresh, [(old, after.tests[name]) for name, old in before.tests.items() if name in after.tests]
    )
    for name, old in before.tests.items():
        if name in after.tests:
            yield from _weaker(old, after.tests[name], spare)
        elif not _successor(old, moved) and not spare.covers(old, old.weight):
            yield Weakness(f"{old.name} is deleted", old.line, gone=True)
    for test in fresh:
        if "skipped" in test.dodges:
            yield Weakness(f"{test.name} is skipped", test.line)


class SpareAssertions:
    """What new tests assert, and others more than before, to make up for what is lost: tests are split and merged."""

    def __init__(self, fresh: Sequence[Test], kept: Sequence[tuple[Test, Test]] = ()) -> None:
        gains = [(new, new.weight - old.weight) for old, new in kept if not new.dodges - old.dodges]
        gains += [(test, test.weight) for test in fresh if not test.dodges]
        self.tests = [test for test, gain in gains if gain > 0]
        self.left = sum(gain for _, gain in gains if gain > 0)

    def covers(self, old: Test, loss: int) -> bool:
        """Do new tests that call the same code make up for the loss? If so, that much is used up."""
        enough = self.left >= loss and any(old.calls & test.calls for test in self.tests)
        self.left -= loss if enough else 0
        return enough


def _successor(test: Test, moved: NewTests) -> bool:
    candidates = moved.named(test.name)
    return any(other.weight >= test.weight and not other.dodges - test.dodges for other in candidates)


def _weaker(old: Test, new: Test, spare: SpareAssertions) -> Iterable[Weakness]:
    for dodge in sorted(new.dodges - old.dodges):
        yield Weakness(
            f"{new.name} {dodge}" if dodge.startswith("returns") else f"{new.name} is {dodge}", new.line
        )
    rows = old.rows if new.is_open else new.rows
    if rows < old.rows:
        yield Weakness(f"{new.name} loses cases ({old.rows} to {rows})", new.line)
    before = [worth for worth in old.worths if worth]
    after = [worth for worth in new.worths if worth]
    loss = sum(before) * old.rows - sum(after) * rows
    if loss > 0 and not spare.covers(old, loss):
        fewer = len(after) * rows < len(before) * old.rows
        how = f"loses assertions ({len(before)} to {len(after)})" if fewer else "asserts less than before"
        yield Weakness(f"{new.name} {how}", new.line)
    elif loss <= 0 and _is_outdone(before * old.rows, after * rows):
        yield Weakness(f"{new.name} asserts less than before", new.line)
    yield from _wider(old, new)


def _is_outdone(old: list[int], new: list[int]) -> bool:
    """Are there fewer exact assertions, without more assertions in total?"""
    return sum(1 for w in new if w >= 3) < sum(1 for w in old if w >= 3) and len(new) <= len(old)


def _wider(old: Test, new: Test) -> Iterable[Weakness]:
    """Bounds that were moved so that the test passes more easily."""
    before: dict[str, list[Decimal]] = {}
    for key, _, number in old.bounds:
        before.setdefault(key, []).append(number)
    still = {(key, number) for key, _, number in new.bounds}
    for key, side, number in new.bounds:
        olds = before.get(key, [])
        kept = all((key, bound) in still for bound in olds)
        if not kept and (number > max(olds) if side == "up" else number < min(olds)):
            yield Weakness(f"{new.name} accepts a wider range than before", new.line)
            return
