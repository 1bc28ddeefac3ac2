"""What the gate asks of a proof besides exit 0: both sides, repeated, and broken on purpose (EVID-3, EVID-4, EVID-5).

The tree as it is has passed. Now: do the base's tests still pass on the run's source? Which of the run's tests fail
on the base's source? Do they pass again? And does the proof notice when the code is broken? What is left open is a
doubt, by the name of the test, and a person is asked.
"""

from __future__ import annotations

import difflib
import hashlib
import re
import sys
from collections.abc import Iterator
from functools import cached_property

from msgspec.structs import replace

from flyball.acts.proof_tree import Prover, TreeProof
from flyball.domain import events as e
from flyball.guard.change import Change
from flyball.proofs import breaks
from flyball.proofs.compare import Comparison, compare
from flyball.proofs.follow import Renames, followed, renamed, renames
from flyball.proofs.sides import Sides, exchanged
from flyball.reading.test_report import TestReport
from flyball.views.text import plural

NAMES_MOST = 50
DIFF_MOST = 40  # lines
QUICK_US = 120_000_000  # a proof that takes longer is broken on purpose only where it must be
FILE_MOST = 1 << 20
FILES_MOST = 2_000
RUNS_CODE = re.compile(
    r"(?:^|[\s/])(?:python[\d.]*|node|bun|deno)\s(?!\s*-m\s+(?:mypy|ruff|flake8|black|pylint|pyright|compileall)\b)"
)
EXPECTED_OUTPUT = re.compile(r"\.(?:out|expected|golden|snap)$|(?:^|/)(?:expected|snapshots|golden)/")
Edits = dict[str, bytes | None]


def examine(prover: Prover, proof: TreeProof) -> e.Evidence:
    return Examination(prover, proof).evidence()


class Examination:
    def __init__(self, prover: Prover, proof: TreeProof) -> None:
        self.prover, self.proof, self.work = prover, proof, prover.work
        settings = prover.run.settings
        self.sides = Sides(settings.proof, (*settings.proof_tests, *_documents(prover.baseline())))
        self.base, self.tree = prover.work.base_tree, proof.tree
        self.changes = self.work.changes(self.base, self.tree)
        self.files = _Files(self)
        self.doubts: list[str] = []

    def evidence(self) -> e.Evidence:
        baseline, now = self.prover.baseline(), self.proof.report
        base_side, run_side = self._both_sides()
        known, comparison = False, Comparison()
        if baseline is None or now is None or _unread(base_side) or _unread(run_side):
            self._by_command(base_side)
            if baseline is not None and now is None:
                self.doubts.append(
                    "The test runner reported its tests before the change, and reports none now"
                )
        else:
            known, comparison = True, self._compared(baseline, now, base_side, run_side)
        needed = known or self._needs_the_change(run_side)
        flaky = self._flaky(comparison, base_side) if known else self._flaky_commands(needed, base_side)
        bite, places = self._bite(comparison, known)
        if bite == "not noticed" and not known and needed and not self._runs_the_code():
            bite, self.doubts = "only the change itself is noticed", self.doubts[:-1]
        return self._told(comparison, flaky, bite, places, known)

    # ---- both sides ----

    def _both_sides(self) -> tuple[TreeProof | None, TreeProof | None]:
        """(the base's tests on the run's source, the run's tests on the base's source); None: no test changed."""
        edits = self.files.base_tests()
        if not edits:
            return None, None
        base_side = self._proof_of(self.work.edited(self.tree, edits), "base-tests")
        run_side = self._proof_of(self.work.edited(self.base, self.files.run_tests()), "run-tests")
        return base_side, run_side

    def _proof_of(self, tree: str, name: str) -> TreeProof:
        """Where only tests changed, both trees are known: nothing has to run again."""
        if tree == self.tree:
            return self.proof
        baseline = self.prover.baseline() if tree == self.base else None
        if baseline is not None:
            return TreeProof(tree=tree, exits=(), logs=(), reports=(baseline,))
        return self.prover.prove(tree, name)

    def _compared(
        self, baseline: TestReport, now: TestReport, base_side: TreeProof | None, run_side: TreeProof | None
    ) -> Comparison:
        baseline = self._with_new_names(baseline, now)
        one = base_side.report if base_side else None
        other = run_side.report if run_side else None
        removed = compare(baseline, now, one, other).removed
        found = followed(removed, self.files.old_texts(), self.files.texts(self.tree)) if removed else ()
        comparison = compare(baseline, now, one, other, found)
        self.doubts += [str(doubt) for doubt in comparison.doubts]
        return comparison

    def _with_new_names(self, baseline: TestReport, now: TestReport) -> TestReport:
        """A doctest has the name of what it stands in: the new one, where that was renamed."""
        names, ids = self.files.names, {test.id for test in now.tests}
        gone = {test.id for test in baseline.tests if "::" not in test.id} - ids
        new = {test: renamed(test, names) for test in gone}
        tests = [replace(t, id=new[t.id]) if new.get(t.id) in ids else t for t in baseline.tests]
        return replace(baseline, tests=tuple(tests))

    def _by_command(self, base_side: TreeProof | None) -> None:
        """No ids are known: the commands must pass with the base's tests too."""
        if base_side is not None and not base_side.passed:
            self.doubts.append(
                "The proof fails on the changed code when the tests are as they were before the change"
            )

    def _needs_the_change(self, run_side: TreeProof | None) -> bool:
        """Whether the commands fail without the change."""
        failed_before = self.prover.run.evidence.baseline
        return not run_side.passed if run_side else bool(failed_before)

    def _runs_the_code(self) -> bool:
        """Whether the proof executes what was changed; a search in the text or a type checker does not."""
        unwatched = [
            c.path for c in self.changes if breaks.can_break(c.path) and not breaks.is_watched(c.path)
        ]
        commands = self.prover.run.settings.proof
        executed = self.proof.executed or self.prover.baseline_executed()
        return executed or bool(unwatched) or any(map(RUNS_CODE.search, commands))

    # ---- repeated ----

    def _flaky_commands(self, needed: bool, base_side: TreeProof | None) -> tuple[str, ...]:
        if not needed or self.proof.took_us > QUICK_US // 4:
            return ()
        for number in self._repeats(base_side is not None and base_side.passed):
            if not self.prover.prove(self.tree, f"again-{number}").passed:
                self.doubts.append("The proof passes and fails on the same code (flaky)")
                return ("the proof",)
        return ()

    def _repeats(self, again: bool) -> range:
        """Which passes are still to come. The base's tests on the run's source are one, where they show the same."""
        return range(3 if again else 2, self.prover.run.settings.proof_repeat + 1)

    def _flaky(self, comparison: Comparison, base_side: TreeProof | None) -> tuple[str, ...]:
        wanted, flaky = frozenset(comparison.fail_to_pass), set[str]()
        if not wanted or self.proof.took_us > QUICK_US // 4:
            return ()
        report = base_side.report if base_side else None
        for number in self._repeats(report is not None and wanted <= report.ids("passed")):
            again = self.prover.prove(self.tree, f"again-{number}").report
            flaky |= wanted - again.ids("passed") if again else set()
        self.doubts += [f"{test}: it passes and fails on the same code (flaky)" for test in sorted(flaky)]
        return tuple(sorted(flaky))

    # ---- broken on purpose ----

    def _bite(self, comparison: Comparison, known: bool) -> tuple[str, tuple[str, ...]]:
        needed = not comparison.fail_to_pass or not known
        wanted = self.prover.run.settings.proof_bite
        if wanted == "never" or (wanted == "auto" and self.proof.took_us > QUICK_US and not needed):
            return "not tried", ()
        if not known and (early := self._ends_early()):
            return "not noticed", early
        name, edits, tests, strict = self._break(comparison)
        if not edits:
            return "nothing to break", ()
        broken = self.prover.prove(self.work.edited(self.tree, edits), f"broken-{name}")
        problem = self._unnoticed(name, broken, tests, known and strict)
        if problem:
            self.doubts.append(problem)
        return ("not noticed" if problem else "noticed"), (f"{name} in {plural(len(edits), 'file')}",)

    def _ends_early(self) -> tuple[str, ...]:
        """Check scripts of which the proof does not notice that they fail at their end; none where it does."""
        edits = self.files.broken_ends()
        if not edits or not self.prover.prove(self.work.edited(self.tree, edits), "broken-ends").passed:
            return ()
        self.doubts.append(f"The proof still passes when {', '.join(sorted(edits))} fails at its end")
        return tuple(f"end: {path}" for path in sorted(edits))

    def _break(self, comparison: Comparison) -> tuple[str, Edits, frozenset[str], bool]:
        """One break, the tests to notice it, and whether each of them must: wrong expectations of the tests that need
        the change; where there are none, the changed functions raise, or else all functions."""
        needed = frozenset(comparison.fail_to_pass)
        passed = self.proof.report.ids("passed") if self.proof.report else frozenset[str]()
        edits, tests, each = self.files.broken_expectations(self._files_of(needed))
        if edits and tests:
            return "expectations", edits, tests, each
        if self.proof.report is None and (edits := self.files.broken_checks()):
            return "expectations", edits, frozenset(), False
        if not needed and (edits := self.files.broken_changes()):
            return "changes", edits, passed, False
        return "functions", self.files.broken_source(), needed or passed, False

    def _files_of(self, tests: frozenset[str]) -> dict[str, str]:
        """Each of these tests, with the file it stands in as far as its runner tells."""
        report = self.proof.report
        files = {test.id: test.file for test in report.tests} if report else {}
        return {test: test.partition("::")[0] if "::" in test else files.get(test, "") for test in tests}

    def _unnoticed(self, name: str, broken: TreeProof, tests: frozenset[str], each: bool) -> str:
        what = {
            "functions": "every function of the code raises an error",
            "changes": "the changed functions raise an error",
            "expectations": "its assertions are made wrong",
        }[name]
        report = broken.report
        if report is None or not tests:
            return f"The proof still passes when {what}" if broken.passed else ""
        still = tests & report.ids("passed")
        if each and still and still != tests:
            return f"{', '.join(sorted(still)[:5])}: passes also when {what}"
        return f"The proof still passes when {what}" if still == tests else ""

    # ---- the result ----

    def _told(
        self, comparison: Comparison, flaky: tuple[str, ...], bite: str, places: tuple[str, ...], known: bool
    ) -> e.Evidence:
        report = self.proof.report
        doubts = tuple(dict.fromkeys(self.doubts))
        key = hashlib.sha256("\0".join((self.tree, *doubts)).encode()).hexdigest() if doubts else ""
        return e.Evidence(
            require=self.prover.run.settings.proof_require,
            judged="tests" if known else "command",
            runners=report.runners if report else (),
            passed=report.count("passed") if report else 0,
            skipped=report.count("skipped") if report else 0,
            fail_to_pass=comparison.fail_to_pass[:NAMES_MOST],
            fail_to_pass_count=len(comparison.fail_to_pass),
            pass_to_pass_count=len(comparison.pass_to_pass),
            removed=comparison.removed[:NAMES_MOST],
            newly_skipped=comparison.skipped[:NAMES_MOST],
            still_failing=comparison.still_failing[:NAMES_MOST],
            new_count=len(comparison.new),
            flaky=flaky[:NAMES_MOST],
            bite=bite,
            bite_places=places,
            doubts=doubts[:NAMES_MOST],
            versions=self._versions(comparison) if doubts else (),
            doubts_key=key,
        )

    def _versions(self, comparison: Comparison) -> tuple[str, ...]:
        """How the files of the tests in doubt were changed, and whether the task speaks of them."""
        lines: list[str] = []
        for path in dict.fromkeys(doubt.file for doubt in comparison.doubts if doubt.file):
            before, after = (self.files.text(tree, path).splitlines() for tree in (self.base, self.tree))
            lines += difflib.unified_diff(before, after, f"before {path}", f"after {path}", lineterm="", n=1)
        more = [f"({len(lines) - DIFF_MOST} more lines)"] if len(lines) > DIFF_MOST else []
        return (*self._named_in_task(comparison), *(line[:200] for line in lines[:DIFF_MOST]), *more)

    def _named_in_task(self, comparison: Comparison) -> Iterator[str]:
        task = self.prover.run.began.task
        for doubt in comparison.doubts:
            names = {re.split(r"::|\.", doubt.test.partition("[")[0])[-1], doubt.file.rpartition("/")[2]}
            named = next((name for name in sorted(names) if len(name) > 3 and name in task), "")
            if named:
                yield f"The task itself names {named}."
                return


def _documents(report: TestReport | None) -> set[str]:
    """Texts with examples that a runner tests; source with examples is taken apart instead."""
    files = {test.file for test in report.tests} if report else set[str]()
    return {file for file in files if file.endswith((".md", ".rst", ".txt"))}


def _unread(side: TreeProof | None) -> bool:
    return side is not None and side.report is None


class _Files:
    """The files of both trees, and the trees that are made of them."""

    def __init__(self, of: Examination) -> None:
        self.work, self.base, self.tree = of.work, of.base, of.tree
        self.commands = of.prover.run.settings.proof
        self.changes = [change for change in of.changes if change.op in ("add", "modify", "delete", "rename")]
        self.others = [change for change in of.changes if change not in self.changes]
        self.sides = of.sides.with_shadows(
            (c.path for c in of.changes if c.op in ("add", "rename")), sys.stdlib_module_names
        )

    def base_tests(self) -> Edits:
        """Edits to the run's tree that give it the base's test side; none where no test changed."""
        edits: Edits = {}
        for change in (*self.changes, *self.others):
            old = change.from_ or change.path
            if self.sides.is_test(change.path) and (change.op in ("add", "rename") or change in self.others):
                edits[change.path] = None
            if change.op != "add" and self.sides.is_test(old):
                edits[old] = _renamed(self._read(self.base, old), self.names)
        for change in self._mixed():
            ours, theirs = self.text(self.tree, change.path), self.text(self.base, change.path)
            mixed = exchanged(change.path, ours, theirs)
            if mixed != ours:
                edits[change.path] = mixed.encode("utf-8", "surrogateescape")
        return {
            path: data
            for path, data in edits.items()
            if data is not None or self._read(self.tree, path) is not None
        }

    def run_tests(self) -> Edits:
        """Edits to the base's tree that give it the run's test side."""
        edits: Edits = {}
        for change in self.changes:
            old = change.from_ or change.path
            if self.sides.is_test(old) and change.op in ("delete", "rename"):
                edits[old] = None
            if self.sides.is_test(change.path) and change.op != "delete":
                edits[change.path] = self._read(self.tree, change.path)
        for change in self._mixed():
            ours, theirs = self.text(self.tree, change.path), self.text(self.base, change.path)
            mixed = exchanged(change.path, theirs, ours)
            if mixed != theirs:
                edits[change.path] = mixed.encode("utf-8", "surrogateescape")
        return edits

    def _mixed(self) -> list[Change]:
        """Changed files that are source and tests at once, perhaps."""
        return [
            c for c in self.changes if c.op == "modify" and not self.sides.is_test(c.path) and not c.binary
        ]

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

    def broken_source(self) -> Edits:
        """Every function of every source file raises."""
        paths = [
            path
            for path in self.work.paths(self.tree)
            if breaks.can_break(path) and not self.sides.is_test(path)
        ]
        return self._broken(paths[:FILES_MOST], None)

    def broken_changes(self) -> Edits:
        edits: Edits = {}
        for change in self.changes:
            if (
                change.op in ("add", "modify", "rename")
                and breaks.can_break(change.path)
                and not self.sides.is_test(change.path)
            ):
                before = self.text(self.base, change.from_ or change.path)
                lines = breaks.changed_lines(change.path, before, self.text(self.tree, change.path))
                edits |= self._broken([change.path], lines)
        return edits

    def _broken(self, paths: list[str], lines: list[int] | None) -> Edits:
        edits: Edits = {}
        for path, data in zip(paths, self.work.read_all([(self.tree, path) for path in paths]), strict=True):
            if data is None or len(data) > FILE_MOST:
                continue
            text = data.decode("utf-8", "surrogateescape")
            broken = breaks.functions_raise(path, text, lines)
            if broken != text:
                edits[path] = broken.encode("utf-8", "surrogateescape")
        return edits

    def broken_expectations(self, tests: dict[str, str]) -> tuple[Edits, frozenset[str], bool]:
        """Wrong assertions in the files of these tests, the tests they belong to, and whether that is sure."""
        edits: Edits = {}
        affected, sure = set[str](), True
        for path in sorted(set(tests.values()) - {""}):
            text = self.text(self.tree, path)
            wrong = breaks.expectations_wrong(path, text)
            if wrong.text != text:
                edits[path] = wrong.text.encode("utf-8", "surrogateescape")
                affected |= {test for test in tests if tests[test] == path and _is_of(test, wrong.tests)}
                sure = sure and wrong.tests is not None
        return edits, frozenset(affected), sure

    def broken_checks(self) -> Edits:
        """Wrong assertions and expected outputs in the test files that the proof names: for a runner without a report."""
        edits: Edits = {}
        for path in self._named(True):
            text = self.text(self.tree, path)
            if EXPECTED_OUTPUT.search(path):
                edits[path] = f"{text}{breaks.WORDS}\n".encode("utf-8", "surrogateescape")
            elif (wrong := breaks.expectations_wrong(path, text)).text != text:
                edits[path] = wrong.text.encode("utf-8", "surrogateescape")
        return edits

    def broken_ends(self) -> Edits:
        """Check scripts that fail after their last line: one that still passes ended early."""
        texts = {path: self.text(self.tree, path) for path in self._named(False)}
        broken = {path: breaks.end_fails(path, text) for path, text in texts.items()}
        return {
            path: text.encode("utf-8", "surrogateescape")
            for path, text in broken.items()
            if text != texts[path]
        }

    def _named(self, folders: bool) -> list[str]:
        """Test files that the proof commands or their scripts name; with `folders`, also by their folder."""
        scripts = sorted(self.sides.scripts)
        text = " ".join((*self.commands, *(self.text(self.tree, path) for path in scripts)))
        paths = [path for path in self.work.paths(self.tree) if self.sides.is_test(path)]
        return [
            path
            for path in paths
            if path in text or (folders and "/" in path and f"{path.rpartition('/')[0]}/" in text)
        ][:FILES_MOST]

    def _read(self, tree: str, path: str) -> bytes | None:
        return self.work.read_all([(tree, path)])[0]

    def text(self, tree: str, path: str) -> str:
        data = self._read(tree, path)
        return data.decode("utf-8", "surrogateescape") if data is not None and len(data) <= FILE_MOST else ""


def _is_of(test: str, functions: frozenset[str] | None) -> bool:
    """Whether a test is one of these functions (`Class::name`); unittest joins the parts of an id with dots."""
    _, _, name = test.partition("[")[0].partition("::")
    if functions is None or name:
        return functions is None or name in functions
    return any(test.endswith("." + function.replace("::", ".")) for function in functions)


def _renamed(data: bytes | None, names: Renames) -> bytes | None:
    if data is None or names == Renames():
        return data
    return renamed(data.decode("utf-8", "surrogateescape"), names).encode("utf-8", "surrogateescape")
