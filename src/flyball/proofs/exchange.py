"""The files of a run's two trees, and the edits that make further trees of them: one tree's tests over the other's
source, or code and expectations broken on purpose."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from functools import cached_property

from flyball.guard.change import Change
from flyball.guard.runner_lookup import looks_for_runner
from flyball.proofs import breaks
from flyball.proofs.follow import Renames, renamed, renames
from flyball.proofs.sides import Sides, exchanged

FILE_MOST = 1 << 20
FILES_MOST = 2_000
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
                wanted = _renamed(theirs, self.names) if of == self.base else theirs
            elif ours is not None and theirs is not None and max(len(ours), len(theirs)) <= FILE_MOST:
                wanted = _bytes(exchanged(path, _text(ours), _text(theirs)))
            else:
                continue
            if wanted != ours:
                edits[path] = wanted
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
        changed = {change.path for change in self.changes}
        return [p for p in self.sources if p in changed or looks_for_runner(p, self.text(self.tree, p))]

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

    def plain_values(self, paths: Collection[str]) -> Edits:
        """In these test files, a result that redefines equality is compared by its plain value."""
        texts = {path: self.text(self.tree, path) for path in paths if path}
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


def _edits(texts: dict[str, str], wanted: dict[str, str]) -> Edits:
    return {path: _bytes(text) for path, text in wanted.items() if text != texts[path]}


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
