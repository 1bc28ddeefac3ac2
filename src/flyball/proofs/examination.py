"""What the gate asks of a proof besides exit 0 (EVID-3, EVID-4, EVID-5).

The tree as it is has passed. Now: do the base's tests still pass on the run's source? Which of the run's tests fail on
the base's source? Do they pass again, also where the code cannot see that it is tested? And does the proof notice when
the code is broken? What is left open is a doubt, by the name of the test, and a person is asked.

`Examination` decides which trees to prove, and what their results say; `edited` and `prove` do it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from flyball.domain.results import Evidence
from flyball.proofs import breaks
from flyball.proofs.compare import (
    WHOLE,
    Comparison,
    Findings,
    Side,
    break_of,
    changed_test_files,
    compare,
    evidence,
    files_of,
    same_numbers,
    sentences,
    time_of,
    unnoticed,
    unsteady,
    versions,
    with_the_rest,
)
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
from flyball.reading.test_report import TestReport
from flyball.views.text import plural

QUICK_US = 120_000_000  # a proof that takes longer is broken on purpose only where it must be
RUNS_CODE = re.compile(
    r"(?:^|[\s/])(?:python[\d.]*|node|bun|deno)\s(?!\s*-m\s+(?:mypy|ruff|flake8|black|pylint|pyright|compileall)\b)"
)


ORDINARY = Room()


class GateSettings(Struct, frozen=True):
    """What the user has set, and asked for."""

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

    def evidence(self) -> Evidence:
        before, now = self.baseline.report, self.proof.report
        base_side, run_side = self._both_sides()
        known, comparison = False, Comparison()
        if before is None or now is None or _unread(base_side) or _unread(run_side):
            self._by_command(base_side)
            if before is not None and now is None:
                self.doubts.append(
                    "The test runner reported its tests before the change, and reports none now"
                )
        else:
            known, comparison = True, self._compared(before, now, base_side, run_side)
        needs_change = known or not (run_side or self.baseline).passed
        wanted = frozenset(comparison.fail_to_pass) if known else frozenset([WHOLE] if needs_change else [])
        flaky = self._repeated(wanted, base_side, known)
        bite, places = self._bite(comparison, known)
        if bite == "not noticed" and not known and needs_change and not self._runs_the_code():
            bite, self.doubts = "only the change itself is noticed", self.doubts[:-1]
        diff = versions(comparison, self.files, self.settings.task) if self.doubts else ()
        findings = Findings(comparison, known, flaky, bite, places, tuple(self.doubts), diff)
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
        removed = compare(baseline, now, one, other).removed
        moved = followed(removed, self.files.old_texts(), self.files.texts(self.tree)) if removed else ()
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

    def _repeated(self, wanted: frozenset[str], base_side: Side | None, known: bool) -> tuple[str, ...]:
        """These tests must pass again, in rooms where the code cannot see that it is tested. Which are flaky."""
        if not wanted:
            return ()
        again = base_side is not None and wanted <= base_side.passing(known)
        lines, proof = self.files.changed_lines(), self.proof
        tests_us = time_of(proof.report, wanted) if known and _selects(proof.report) else None
        runners = proof.report.runners if known and proof.report else ()
        count = repeat_count(self.settings.repeat, 2 if again else 1, proof.took_us, lines, tests_us, runners)
        node = "package.json" in self.files.paths
        tests = set(files_of(proof.report, wanted).values()) if known else self.files.named(folders=True)
        plain = self.files.plain_values(tests)
        asked = wanted if known else ()
        rooms = repeats(self.files.sources, asked, count, node=node, took_us=proof.took_us)
        for number, room in enumerate(rooms, 1):
            tree = self._edited(self.tree, plain) if plain and number == 1 else self.tree
            room = replace(room, quiet=not known)
            missing = wanted - self._passing(tree, f"again-{number}", room, known)
            if missing:
                return self._unsteady(missing, tree, f"again-{number}", room, known)
        return ()

    def _unsteady(
        self, tests: frozenset[str], tree: str, name: str, room: Room, known: bool
    ) -> tuple[str, ...]:
        """Why these tests failed in a plain room: because of the change, by chance, or because of code that was there
        before the change and looks at its surroundings, as honest code may. Which are flaky."""
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

    def _bite(self, comparison: Comparison, known: bool) -> tuple[str, tuple[str, ...]]:
        must = not comparison.fail_to_pass or not known
        wanted = self.settings.bite
        if wanted == "never" or (wanted == "auto" and self.proof.took_us > QUICK_US and not must):
            return "not tried", ()
        if not known and (early := self._ends_early()):
            return "not noticed", early
        broken = break_of(
            self.files, self.proof.report, frozenset(comparison.fail_to_pass), self.baseline.report
        )
        if not broken.edits:
            return "nothing to break", ()
        only = tuple(sorted(broken.tests)) if known and comparison.fail_to_pass else ()
        room = Room(only=only, one_failure=known and not broken.each)
        tree = self._edited(self.tree, broken.edits)
        side = self._proved(tree, f"broken-{broken.name}", room)
        problem = unnoticed(broken, side, known)
        self.doubts += [problem] if problem else []
        place = f"{broken.name} in {plural(len(broken.edits), 'file')}"
        return ("not noticed" if problem else "noticed"), (place,)

    def _ends_early(self) -> tuple[str, ...]:
        """Check scripts of which the proof does not notice that they fail at their end; none where it does."""
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
