"""What the gate checks about a proof besides exit 0 (EVID-3, EVID-4, EVID-5).

The tree itself has passed. Then: do the base's tests still pass on the run's source? Which of the run's tests fail on
the base's source? Do they pass again, also where the code cannot see that it is tested? And does the proof notice when
the code is broken? Whatever remains open is a doubt about a named test, and a person is asked.

`evidence` is the summary of the reports: which tests failed before the change and pass now, which passed before, what
was broken on purpose and noticed, and what is flaky. `Examination` decides which trees to prove and what their results
mean; `edited` and `prove` do it.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Callable, Collection, Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from flyball.domain.results import Evidence
from flyball.guard.secret_diffs import redact_diff
from flyball.guard.secrets import redact
from flyball.proofs import breaks
from flyball.proofs.exchange import (
    SELECTING,
    Edits,
    Files,
    Room,
    followed,
    is_lucky,
    renamed,
    repeat_count,
    repeats,
)
from flyball.reading.test_report import TestReport, TestResult, without_numbers
from flyball.views.text import plural

Kind = str  # "fails" | "not run" | "removed" | "skipped"
NAMED_MOST = 3  # of many tests of one file with the same doubt
MANY: dict[Kind, str] = {
    "fails": "{count} tests, as they were before the change, fail on the changed code",
    "not run": "{count} tests, as they were before the change, no longer run",
    "removed": "{count} tests were removed",
    "skipped": "{count} tests are skipped now, as a whole or in part",
}
NONE = TestReport()


class Doubt(Struct, frozen=True):
    """A test that passed on the base and cannot confirm the change in the same way: a person is asked about it by
    name.
    """

    test: str
    kind: Kind
    detail: str = ""
    file: str = ""

    def __str__(self) -> str:
        words = {
            "fails": "its version before the change fails on the changed code",
            "not run": "its version before the change no longer runs",
            "removed": "it was removed",
            "skipped": "it is skipped now, as a whole or in part",
        }
        return f"{self.test}: {words[self.kind]}{f' ({self.detail})' if self.detail else ''}"


def sentences(doubts: Iterable[Doubt]) -> list[str]:
    """One for each test; one for many tests of a file with the same doubt."""
    groups: dict[tuple[str, str], list[Doubt]] = {}
    for doubt in doubts:
        groups.setdefault((doubt.file, doubt.kind), []).append(doubt)
    lines: list[str] = []
    for (file, kind), members in groups.items():
        if not file or len(members) <= NAMED_MOST:
            lines += map(str, members)
            continue
        what = MANY[kind].format(count=len(members))
        first = ", ".join(doubt.test.rpartition("::")[2] for doubt in members[:NAMED_MOST])
        lines.append(f"{file}: {what} ({first} and {len(members) - NAMED_MOST} more)")
    return lines


class Comparison(Struct, frozen=True):
    """What changed for each test. All ids are sorted."""

    fail_to_pass: tuple[str, ...] = ()
    pass_to_pass: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    new: tuple[str, ...] = ()
    still_failing: tuple[str, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def compare(
    baseline: TestReport,
    now: TestReport,
    base_side: TestReport | None = None,
    run_side: TestReport | None = None,
    followed: Collection[str] = (),
) -> Comparison:
    """`base_side` and `run_side` are None where the test side did not change; `followed` are removed tests whose
    content was found in another test that ran."""
    judged, without = base_side or now, run_side or baseline
    ran = (baseline.ids("passed") | baseline.ids("failed")) - _loaded(baseline, judged)
    gone = ran - {test.id for test in now.tests} - set(followed)
    skipped = ran & (now.ids("skipped") | _skipping_more(baseline, now))
    passed = now.ids("passed")
    return Comparison(
        fail_to_pass=_sorted(passed - without.ids("passed")),
        pass_to_pass=_sorted(baseline.ids("passed") & judged.ids("passed")),
        removed=_sorted(gone),
        skipped=_sorted(skipped),
        new=_sorted({test.id for test in now.tests} - {test.id for test in baseline.tests}),
        still_failing=_sorted(now.ids("failed")),
        doubts=tuple(_doubts(ran, gone, skipped, judged if base_side else NONE, bool(base_side))),
    )


def _skipping_more(baseline: TestReport, now: TestReport) -> frozenset[str]:
    """Tests of which more subtests are skipped than before."""
    before = {test.id: test.skips for test in baseline.tests}
    return frozenset(test.id for test in now.tests if test.skips > before.get(test.id, 0))


def same_numbers(report: TestReport | None, now: TestReport | None) -> TestReport | None:
    """`report` with the ids that `now` has for tests whose parameters are numbered anew each time (`without_numbers`).
    Among those of one name, the failed ones come first, in every report."""
    if report is None or now is None or {t.id for t in report.tests} == {t.id for t in now.tests}:
        return report
    ours, theirs = _by_name(report), _by_name(now)
    ids: dict[str, str] = {}
    for name, tests in ours.items():
        others = theirs.get(name, [])
        if len(tests) == len(others):
            tests = sorted(tests, key=lambda test: (test.outcome != "failed", test.id))
            ids |= zip((test.id for test in tests), sorted(test.id for test in others), strict=True)
    return replace(report, tests=tuple(replace(t, id=ids.get(t.id, t.id)) for t in report.tests))


def _by_name(report: TestReport) -> dict[str, list[TestResult]]:
    """The tests with parameters, by their ids without the numbers."""
    by_name: dict[str, list[TestResult]] = {}
    for test in {test.id: test for test in report.tests if test.id.endswith("]")}.values():
        by_name.setdefault(without_numbers(test.id), []).append(test)
    return by_name


def _loaded(baseline: TestReport, now: TestReport) -> set[str]:
    """Failures on the base that were not tests: a file, class or table of cases that could not be loaded, and can
    be now.
    """
    ids = {test.id for test in now.tests}
    lost = [test for test in baseline.tests if test.outcome == "failed" and test.id not in ids]
    return {test.id for test in lost if any(name.startswith(_within(test)) for name in ids)}


def _within(test: TestResult) -> tuple[str, ...]:
    """How the ids of tests begin that could not be collected: unittest names a module, others the file itself."""
    module = test.id.rpartition("unittest.loader._FailedTest.")[2]
    if module != test.id:
        return (f"{module}.", f"{module.replace('.', '/')}.py::", f"{module.replace('.', '/')}/")
    if test.file and test.id in (f"{test.file}::{test.file}", f"{test.file}::(file)"):
        return (f"{test.file}::", f"{test.file}/")
    return (f"{test.id}[", f"{test.id}::")


def _doubts(
    ran: frozenset[str], gone: frozenset[str], skipped: frozenset[str], judged: TestReport, two_sided: bool
) -> list[Doubt]:
    results = {test.id: test for test in judged.tests}
    doubts: list[Doubt] = []
    for test in sorted(ran):
        result = results.get(test)
        if two_sided and (result is None or result.outcome == "skipped"):
            doubts.append(Doubt(test, "not run", file=_file(test)))
        elif two_sided and result is not None and result.outcome == "failed":
            doubts.append(Doubt(test, "fails", result.detail, result.file or _file(test)))
        elif test in gone:
            doubts.append(Doubt(test, "removed", file=_file(test)))
        elif test in skipped:
            doubts.append(Doubt(test, "skipped", file=_file(test)))
    return doubts


def _file(test: str) -> str:
    return test.partition("::")[0] if "::" in test else ""


def _sorted(tests: Collection[str]) -> tuple[str, ...]:
    return tuple(sorted(tests))


def disagreement(report: TestReport | None, exit_code: int, counted_failures: int | None) -> str:
    """Why a command that ended with 0 is not accepted; "" if report, summary and exit code agree."""
    if exit_code != 0 or report is None:
        return ""
    if report.altered:
        return "the report of its tests was changed, added or removed by something other than the test runner"
    if not report.complete:
        return "the test runner ended early, before it reported its result"
    failed = report.count("failed")
    if failed or report.failed:
        return f"it exited with 0, but its report says that {failed or 'some'} tests failed"
    if counted_failures:
        return f"it exited with 0, but its summary says that {counted_failures} tests failed"
    return ""


NAMES_MOST = 50
DIFF_MOST = 24  # lines
WHOLE = "The proof"  # stands for all tests where none is known by its id


class Side(Struct, frozen=True):
    """How the proof commands ended on one tree: the tests by id, where they are known, and whether all passed."""

    report: TestReport | None
    passed: bool
    took_us: int = 0
    executed: bool = False  # Python or Node executed code of the project

    def passing(self, known: bool) -> frozenset[str]:
        """The tests that pass. Where they are known by id and this time were not reported, none did."""
        if known:
            return self.report.ids("passed") if self.report else frozenset()
        return frozenset([WHOLE] if self.passed else [])

    @property
    def bitten(self) -> frozenset[str]:
        """The tests that also noticed wrong assertions."""
        return frozenset(test.id for test in self.report.tests if test.bitten) if self.report else frozenset()


# ---- only a part of the tests ----


def changed_test_files(edits: Edits, before: TestReport | None, now: TestReport | None) -> tuple[str, ...]:
    """The edited files, where each holds tests and nothing else: then the tests of other files are not touched."""
    files = {test.file for report in (before, now) if report for test in report.tests}
    return tuple(edits) if before and now and files.issuperset(edits) else ()


def with_the_rest(side: Side, baseline: Side, files: tuple[str, ...]) -> Side:
    """The tests of these files as `side` ran them, and all others as the baseline did."""
    if not files or side.report is None or baseline.report is None:
        return side
    tests = {test.id: test for test in baseline.report.tests if test.file not in files}
    tests |= {test.id: test for test in side.report.tests}
    return Side(replace(side.report, tests=tuple(tests.values())), side.passed)


def time_of(report: TestReport | None, tests: frozenset[str]) -> int:
    """What these tests took, in microseconds."""
    return sum(test.took_ms * 1000 for test in report.tests if test.id in tests) if report else 0


# ---- repeated ----


def unsteady(tests: frozenset[str], staged: bool) -> list[str]:
    """What to ask about tests that do not pass every time. `staged`: they fail repeatedly in a plain room."""
    how = "fails where the code cannot see that it is tested and where its results cannot redefine equality"
    how = how if staged else "passes and fails on the same code (flaky)"
    return [f"{test} {how}" if test == WHOLE else f"{test}: it {how}" for test in sorted(tests)]


# ---- broken on purpose ----


class Break(Struct, frozen=True):
    """One way to break a tree, and the tests that have to notice it: one of them, or with `each` every one."""

    name: str  # expectations | data | changes | functions
    edits: Edits
    tests: frozenset[str] = frozenset()
    each: bool = False

    @property
    def wrong_tests(self) -> dict[str, str]:
        """The Python files whose assertions are wrong."""
        if self.name != "expectations" or not self.tests:
            return {}
        edits = ((path, data) for path, data in self.edits.items() if data and path.endswith(".py"))
        return {path: data.decode("utf-8", "replace") for path, data in edits}

    def is_noticed_by(self, tests: frozenset[str]) -> bool:
        """Whether it is enough that these tests noticed the wrong assertions."""
        noticed = self.tests & tests if self.name == "expectations" else frozenset[str]()
        return bool(noticed) and (noticed == self.tests or not self.each)


def break_of(
    files: Files, report: TestReport | None, needed: frozenset[str], baseline: TestReport | None = None
) -> Break:
    """Wrong expectations of the tests that need the change; where there are none, other contents of the files that
    they compare with; else the changed functions raise, or all functions."""
    edits, tests, each = files.broken_expectations(files_of(report, needed))
    if edits and tests:
        return Break("expectations", edits, tests, each)
    if report is None and (edits := files.broken_checks()):
        return Break("expectations", edits)
    if edits := files.broken_data(_opened(needed, report, baseline)):
        return Break("data", edits, needed)
    passed = report.ids("passed") if report else frozenset[str]()
    if not needed and (edits := files.broken_changes()):
        return Break("changes", edits, passed)
    return Break("functions", files.broken_source(), needed or passed)


def _opened(tests: frozenset[str], *reports: TestReport | None) -> set[str]:
    """What these tests read, before the change or now."""
    results = (test for report in reports if report for test in report.tests if test.id in tests)
    return {path for test in results for path in test.opened}


def files_of(report: TestReport | None, tests: frozenset[str]) -> dict[str, str]:
    """Each of these tests, with the file it stands in as far as its runner tells."""
    files = {test.id: test.file for test in report.tests} if report else {}
    return {test: test.partition("::")[0] if "::" in test else files.get(test, "") for test in tests}


def unnoticed(broken: Break, side: Side, known: bool) -> str:
    """What to ask if the proof passes although the tree is broken; "" if it noticed."""
    what = {
        "functions": "every function of the code raises an error",
        "changes": "the changed functions raise an error",
        "expectations": "its assertions are changed so that they must fail",
        "data": "the files that its tests compare with are changed",
    }[broken.name]
    if side.report is None or not broken.tests:
        return f"The proof still passes when {what}" if side.passed else ""
    still = broken.tests & side.report.ids("passed")
    if known and broken.each and still and still != broken.tests:
        return f"{', '.join(sorted(still)[:5])}: passes also when {what}"
    return f"The proof still passes when {what}" if still == broken.tests else ""


# ---- the result ----


class Findings(Struct):
    """What the gate found besides the comparison of tests."""

    comparison: Comparison
    known: bool  # the tests are known by id
    flaky: tuple[str, ...] = ()
    bite: str = ""
    places: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()


def evidence(tree: str, require: str, report: TestReport | None, findings: Findings) -> Evidence:
    comparison, doubts = findings.comparison, tuple(dict.fromkeys(findings.doubts))
    key = hashlib.sha256("\0".join((tree, *doubts)).encode()).hexdigest() if doubts else ""
    return Evidence(
        require=require,
        judged="tests" if findings.known else "command",
        runners=report.runners if report else (),
        passed=report.count("passed") if report else 0,
        skipped=report.count("skipped") if report else 0,
        fail_to_pass=_shown(comparison.fail_to_pass),
        fail_to_pass_count=len(comparison.fail_to_pass),
        pass_to_pass_count=len(comparison.pass_to_pass),
        removed=_shown(comparison.removed),
        newly_skipped=_shown(comparison.skipped),
        still_failing=_shown(comparison.still_failing),
        new_count=len(comparison.new),
        flaky=_shown(findings.flaky),
        bite=findings.bite,
        bite_places=findings.places,
        doubts=_shown(doubts),
        versions=findings.versions if doubts else (),
        doubts_key=key,
    )


def _shown(names: tuple[str, ...]) -> tuple[str, ...]:
    """The first names, for the certificate and for people: a test's parameters may hold a secret."""
    return tuple(redact(name) for name in names[:NAMES_MOST])


def versions(comparison: Comparison, files: Files, task: str) -> tuple[str, ...]:
    """How the files of the tests in doubt were changed, and whether the task speaks of them."""
    lines: list[str] = []
    for path in dict.fromkeys(doubt.file for doubt in comparison.doubts if doubt.file):
        before, after = (files.text(tree, path).splitlines() for tree in (files.base, files.tree))
        lines += difflib.unified_diff(before, after, f"before {path}", f"after {path}", lineterm="", n=1)
    lines = redact_diff("\n".join(lines)).text.split("\n") if lines else []
    more = [f"({len(lines) - DIFF_MOST} more lines)"] if len(lines) > DIFF_MOST else []
    return (*_named_in_task(comparison, task), *(line[:200] for line in lines[:DIFF_MOST]), *more)


def _named_in_task(comparison: Comparison, task: str) -> Iterator[str]:
    for doubt in comparison.doubts:
        names = {re.split(r"::|\.", doubt.test.partition("[")[0])[-1], doubt.file.rpartition("/")[2]}
        match = next((name for name in sorted(names) if len(name) > 3 and name in task), "")
        if match:
            yield f"The task itself names {match}."
            return


# ---- comparing two reports -----------------------------------------------------------------------------------


QUICK_US = 120_000_000  # a proof that takes longer is broken on purpose only where it must be
RUNS_CODE = re.compile(
    r"(?:^|[\s/])(?:python[\d.]*|node|bun|deno)\s(?!\s*-m\s+(?:mypy|ruff|flake8|black|pylint|pyright|compileall)\b)"
)


SHELL = (".sh", ".bash", ".bats", ".t")
_READ_VARIABLE = re.compile(
    r"(?:\$\{?|environ(?:\.get)?[\[(]\s*['\"]|getenv\(\s*['\"]|process\.env\.|ENV\[['\"])([A-Z][A-Z0-9_]{2,})\b"
)
_SET_VARIABLE = re.compile(r"(?:^|[\s;(])([A-Z][A-Z0-9_]{2,})=", re.M)
READ_MOST = 200  # files
ORDINARY = Room()


class GateSettings(Struct, frozen=True):
    """The settings of the user, and the task."""

    commands: tuple[str, ...]
    require: str
    repeat: int
    bite: str
    task: str


class Examination:
    """`baseline` is how the base ended, `proof` how the run's tree did. `edited` gives a tree with some files changed,
    `prove` runs the commands on a tree, under a name of its own."""

    def __init__(
        self,
        settings: GateSettings,
        files: Files,
        baseline: Side,
        proof: Side,
        edited: Callable[[str, Edits], str],
        prove: Callable[[str, str, Room], Side],
    ) -> None:
        self.settings, self.files, self.base, self.tree = settings, files, files.base, files.tree
        self.baseline = replace(baseline, report=same_numbers(baseline.report, proof.report))
        self.proof, self._edited, self._prove = proof, edited, prove
        self.doubts: list[str] = []
        self._bitten: frozenset[str] = (
            frozenset()
        )  # tests that noticed wrong assertions while they were repeated

    def evidence(self) -> Evidence:
        before, now = self.baseline.report, self.proof.report
        base_side, run_side = self._both_sides()
        by_test, comparison = False, Comparison()
        if before is None or now is None or _unread(base_side) or _unread(run_side):
            self._by_command(base_side)
            if before is not None and now is None:
                self.doubts.append(
                    "The test runner reported its tests before the change, and reports none now"
                )
        else:
            by_test, comparison = True, self._compared(before, now, base_side, run_side)
        needs_change = by_test or not (run_side or self.baseline).passed
        targets = (
            frozenset(comparison.fail_to_pass) if by_test else frozenset([WHOLE] if needs_change else [])
        )
        broken = break_of(
            self.files, self.proof.report, frozenset(comparison.fail_to_pass), self.baseline.report
        )
        flaky = self._repeated(targets, base_side, by_test, broken)
        bite, places = self._bite(comparison, by_test, broken)
        if bite == "not noticed" and not by_test and needs_change and not self._runs_the_code():
            bite, self.doubts = "only the change itself is noticed", self.doubts[:-1]
        self.doubts += [
            f"The change reads ${name}, which the tests set and the code did not know before"
            for name in private_variables(self.files)
        ]
        diff = versions(comparison, self.files, self.settings.task) if self.doubts else ()
        findings = Findings(comparison, by_test, flaky, bite, places, tuple(self.doubts), diff)
        return evidence(self.tree, self.settings.require, now, findings)

    # ---- both sides ----

    def _both_sides(self) -> tuple[Side | None, Side | None]:
        """(the base's tests on the run's source, the run's tests on the base's source); None: no test changed."""
        edits = self.files.exchange(self.tree, self.base)
        if not edits:
            return None, None
        base_side = self._side(self._edited(self.tree, edits), "base-tests")
        edits = self.files.exchange(self.base, self.tree)
        files = changed_test_files(edits, self.baseline.report, self.proof.report)
        run_side = self._side(self._edited(self.base, edits), "run-tests", Room(files=files))
        return base_side, with_the_rest(run_side, self.baseline, files)

    def _side(self, tree: str, name: str, room: Room = ORDINARY) -> Side:
        """Where only tests changed, both trees are known: nothing has to run again."""
        if tree == self.tree:
            return self.proof
        if tree == self.base and self.baseline.report is not None:
            return self.baseline
        return self._proved(tree, name, room)

    def _compared(
        self, baseline: TestReport, now: TestReport, base_side: Side | None, run_side: Side | None
    ) -> Comparison:
        baseline = self._with_new_names(baseline, now)
        one = base_side.report if base_side else None
        other = run_side.report if run_side else None
        comparison = compare(baseline, now, one, other)
        if comparison.removed:
            texts = self.files.old_texts(), self.files.texts(self.tree)
            moved = followed(comparison.removed, comparison.new, *texts)
            comparison = compare(baseline, now, one, other, moved)
        self.doubts += sentences(comparison.doubts)
        return comparison

    def _with_new_names(self, baseline: TestReport, now: TestReport) -> TestReport:
        """A doctest has the name of what it stands in: the new one, where that was renamed."""
        names, ids = self.files.names, {test.id for test in now.tests}
        gone = {test.id for test in baseline.tests if "::" not in test.id} - ids
        new = {test: renamed(test, names) for test in gone}
        tests = [replace(t, id=new[t.id]) if new.get(t.id) in ids else t for t in baseline.tests]
        return replace(baseline, tests=tuple(tests))

    def _by_command(self, base_side: Side | None) -> None:
        """No ids are known: the commands must pass with the base's tests too."""
        if base_side is not None and not base_side.passed:
            self.doubts.append(
                "The proof fails on the changed code when the tests are as they were before the change"
            )

    def _runs_the_code(self) -> bool:
        """Whether the proof executes what was changed; a search in the text or a type checker does not."""
        changed = [change.path for change in (*self.files.changes, *self.files.others)]
        unwatched = [path for path in changed if breaks.can_break(path) and not breaks.is_watched(path)]
        executed = self.proof.executed or self.baseline.executed
        return executed or bool(unwatched) or any(map(RUNS_CODE.search, self.settings.commands))

    # ---- repeated ----

    def _repeated(
        self, targets: frozenset[str], base_side: Side | None, by_test: bool, broken: Break
    ) -> tuple[str, ...]:
        """These tests must pass again, in rooms where the code cannot see that it is tested. Returns the flaky ones."""
        if not targets:
            return ()
        again = base_side is not None and targets <= base_side.passing(by_test)
        lines, proof = self.files.changed_lines(), self.proof
        tests_us = time_of(proof.report, targets) if by_test and _selects(proof.report) else None
        runners = proof.report.runners if by_test and proof.report else ()
        count = repeat_count(self.settings.repeat, 2 if again else 1, proof.took_us, lines, tests_us, runners)
        node = "package.json" in self.files.paths
        tests = set(files_of(proof.report, targets).values()) if by_test else self.files.named(folders=True)
        plain = self.files.plain_values(tests)
        selected = targets if by_test else ()
        rooms = repeats(self.files.sources, selected, count, node=node, took_us=proof.took_us)
        for number, room in enumerate(rooms, 1):
            tree = self._edited(self.tree, plain) if plain and number == 1 else self.tree
            room = replace(room, quiet=not by_test, broken=broken.wrong_tests if by_test else {})
            side = self._proved(tree, f"again-{number}", room)
            self._bitten |= side.bitten
            missing = targets - side.passing(by_test)
            if missing:
                return self._unsteady(missing, tree, f"again-{number}", room, by_test)
        return ()

    def _unsteady(
        self, tests: frozenset[str], tree: str, name: str, room: Room, known: bool
    ) -> tuple[str, ...]:
        """Why these tests failed in a plain room: because of the change, by chance, or because of code that was there
        before the change and looks at its surroundings, as honest code may. Returns the flaky ones.
        """
        alone = not self.files.watchers()
        milder = replace(room, source=tuple(self.files.suspects()), only=(), times=1, alone=alone)
        staged = tests - self._passing(tree, f"{name}-changes", milder, known)
        flaky = (tests - staged) & self._passing(tree, f"{name}-more", room, known)
        if is_lucky(self.files.changed_lines()):
            flaky = tests - staged
        self.doubts += [*unsteady(staged, True), *unsteady(flaky, False)]
        return tuple(sorted(flaky))

    def _passing(self, tree: str, name: str, room: Room, known: bool) -> frozenset[str]:
        return self._proved(tree, name, room).passing(known)

    def _proved(self, tree: str, name: str, room: Room) -> Side:
        side = self._prove(tree, name, room)
        return replace(side, report=same_numbers(side.report, self.proof.report))

    # ---- broken on purpose ----

    def _bite(self, comparison: Comparison, known: bool, broken: Break) -> tuple[str, tuple[str, ...]]:
        must = not comparison.fail_to_pass or not known
        mode = self.settings.bite
        if mode == "never" or (mode == "auto" and self.proof.took_us > QUICK_US and not must):
            return "not tried", ()
        if not known and (early := self._ends_early()):
            return "not noticed", early
        if not broken.edits:
            return "nothing to break", ()
        place = f"{broken.name} in {plural(len(broken.edits), 'file')}"
        if broken.is_noticed_by(self._bitten):
            return "noticed", (place,)
        only = tuple(sorted(broken.tests)) if known and comparison.fail_to_pass else ()
        room = Room(only=only, one_failure=known and not broken.each)
        tree = self._edited(self.tree, broken.edits)
        side = self._proved(tree, f"broken-{broken.name}", room)
        problem = unnoticed(broken, side, known)
        self.doubts += [problem] if problem else []
        return ("not noticed" if problem else "noticed"), (place,)

    def _ends_early(self) -> tuple[str, ...]:
        """Check scripts whose failure at the end the proof does not notice; empty if it notices all."""
        edits = self.files.broken_ends()
        if not edits or not self._proved(self._edited(self.tree, edits), "broken-ends", ORDINARY).passed:
            return ()
        self.doubts.append(f"The proof still passes when {', '.join(sorted(edits))} fails at its end")
        return tuple(f"end: {path}" for path in sorted(edits))


def _selects(report: TestReport | None) -> bool:
    """Whether its runners can run some of their tests alone."""
    return report is not None and SELECTING.issuperset(report.runners)


def _unread(side: Side | None) -> bool:
    return side is not None and side.report is None


def private_variables(files: Files) -> list[str]:
    """Environment variables that the change reads, that shell tests of the base set, and that its source never names."""
    names = {name for line in files.changed_lines() for name in _READ_VARIABLE.findall(line)}
    shell = [path for path in files.paths if files.sides.is_test(path) and path.endswith(SHELL)]
    text = "\n".join(files.text(files.base, path) for path in shell[:READ_MOST] if names)
    new = names & set(_SET_VARIABLE.findall(text))
    before = "\n".join(files.text(files.base, path) for path in files.sources[:READ_MOST] if new)
    return sorted(name for name in new if not re.search(rf"\b{name}\b", before))
