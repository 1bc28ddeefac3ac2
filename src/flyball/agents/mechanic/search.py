"""The search: which tests fail, which lines are suspicious, and which edit makes every test pass.

An edit counts only if all tests pass with it. Each is tried first on one failing test, then on all failing tests, then
on the whole suite; most are refused by the first. Where one edit helps some failing tests and hurts none, a second is
looked for on top of it.
"""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from flyball.agents.mechanic.edits import compiles, edits, syntax_edits
from flyball.agents.mechanic.scene import Scene
from flyball.agents.mechanic.source import Edit, Source
from flyball.agents.mechanic.suspects import line_scores, statement_scores
from flyball.agents.mechanic.trials import LINKED, Place, Row, Run, Times, Trials
from flyball.guard.weakening import is_near_test

NAME = re.compile(r"(?:attribute|name|variable|argument) '(\w+)'")  # in Python's own error messages
CPU_LEAST_S = 0.25
SLOWER = 10  # times as long as before: then it hangs
SURELY_HUNG = 50
TRACED_MOST = 150  # passing tests whose lines are looked at
FAILING_MOST = 25
FILES_MOST = 10
TOGETHER = 2  # edits on top of one another
PARTIAL_MOST = 3
OTHER_ORDERS = (1, 2)  # hash seeds: a repair must not depend on the order of a set
NOTE_EVERY_S = 5.0
PATIENT_MOST = (
    10  # tries of a failing test that takes far longer with an edit: it may hang, or only pass slowly
)


class Tests(NamedTuple):
    """What the tests say of the project as it is."""

    run: Run
    failing: list[Row]
    times: Times

    @property
    def names(self) -> set[str]:
        return {row.test for row in self.run.tests.values() if not row.loading}

    @property
    def patient(self) -> Tests:
        """With time for the failing tests to do all that they do once they pass."""
        longer = {row.test: max(Times().cpu_s, self.times.by_test.get(row.test, 0)) for row in self.failing}
        return self._replace(times=self.times._replace(by_test={**self.times.by_test, **longer}))


class Suspect(NamedTuple):
    file: str
    line: int
    text: str
    score: float


class Repair(NamedTuple):
    """The edits that make all tests pass, with the text of each file before and after."""

    edits: tuple[Edit, ...]
    before: dict[str, bytes]
    after: dict[str, bytes]


class Partial(NamedTuple):
    edit: Edit
    data: bytes
    passing: int


class Search:
    def __init__(self, trials: Trials, deadline: float, note: Callable[[str, str], None]) -> None:
        self.trials, self.deadline, self.note = trials, deadline, note
        self.tries = 0
        self.places = set[Place]()
        self.skip = 0  # edits that an earlier turn has tried
        self.exhausted = False
        self._patience = PATIENT_MOST
        self._noted = time.monotonic()

    @property
    def left_s(self) -> float:
        return self.deadline - time.monotonic()

    # ---- looking

    def tests(self) -> Tests:
        """Run every test once, without limits that a slow project would notice."""
        times = Times(load_s=max(2.0, min(60.0, self.left_s / 3)), wall_s=max(10.0, self.left_s))
        run = self._run_all(times)
        if not run.tests and self.trials.quiet:  # its plugins may not know our options
            self.trials.quiet = False
            self.trials.restart()
            run = self._run_all(times)
        self.trials.preload = run.modules
        run = self._slow_ones_again(run)
        return Tests(run, sorted(run.of("failed"), key=lambda row: row.cpu), _times(run))

    def _run_all(self, times: Times) -> Run:
        return self.trials.run(times, modules=True)

    def _slow_ones_again(self, run: Run) -> Run:
        """A test that ran out of time may only be slow; not so if it took far longer than any other."""
        slow = [row for row in run.of("failed") if row.hung]
        others = max((row.wall for row in run.tests.values() if not row.hung), default=0.0)
        if not slow or others * SURELY_HUNG < Times().cpu_s:
            return run
        times = Times(cpu_s=30.0, test_wall_s=60.0, wall_s=max(10.0, self.left_s))
        again = self.trials.run(times, only=[row.test for row in slow])
        return run._replace(tests={**run.tests, **again.tests})

    def suspects(self, tests: Tests) -> tuple[dict[str, Source], dict[Place, float]]:
        """The source files that failing tests run, and how suspicious each line is. Tests are never among them."""
        rows = self._trace(tests)
        own = {row.file for row in tests.run.tests.values()}
        scores = {p: s for p, s in line_scores(rows).items() if p[0] not in own and not is_near_test(p[0])}
        if not scores and not any(row.loading for row in tests.failing):
            scores = self._everything()
        sources = dict[str, Source]()
        for name in sorted({file for file, _ in scores}):
            source = self._source(name)
            if source:
                sources[name] = source
        return sources, scores

    def _everything(self) -> dict[Place, float]:
        """Where tests run the project in processes of their own, no line is seen: each of a small project is a suspect."""
        names = [str(path.relative_to(self.trials.copy)) for path in sorted(self.trials.copy.rglob("*.py"))]
        own = [name for name in names if not is_near_test(name) and not ({*LINKED} & {*Path(name).parts})]
        lines = {name: self.trials.read(name).count(b"\n") + 1 for name in own[:FILES_MOST]}
        return {(name, line): 0.5 for name, count in lines.items() for line in range(1, count + 1)}

    def _trace(self, tests: Tests) -> list[Row]:
        """The failing tests and some passing ones again, watched line by line; tests of the same files first."""
        files = {row.file for row in tests.failing}
        passing = sorted(tests.run.of("passed"), key=lambda row: (row.file not in files, row.cpu))[
            :TRACED_MOST
        ]
        selection = [*tests.failing[:FAILING_MOST], *passing]
        cpu = max(2.0, 20 * max((row.cpu for row in selection if not row.hung), default=0.0))
        times = tests.times._replace(
            cpu_s=cpu, by_test={row.test: 1.0 for row in selection if row.hung}, wall_s=max(10.0, self.left_s)
        )
        run = self.trials.run(times, only=[row.test for row in selection], trace=True)
        rows = [
            row
            for row in run.tests.values()
            if row.test not in tests.run.tests or row.outcome == tests.run.tests[row.test].outcome
        ]
        return [*rows, *(row for row in tests.failing[:FAILING_MOST] if row.test not in run.tests)]

    def _source(self, name: str) -> Source | None:
        try:
            return Source(name, self.trials.read(name))
        except (OSError, SyntaxError, ValueError):
            return None

    # ---- trying

    def repair(self, tests: Tests) -> Repair | None:
        """The first edit, or pair of edits, with which all tests pass; None if there is none within the time."""
        return self._repair(tests, TOGETHER)

    def _repair(self, tests: Tests, depth: int) -> Repair | None:
        partial = list[Partial]()
        for edit, before in self._candidates(tests):
            data = _with_edit(before, edit)
            if self.left_s <= 0:
                return None
            if not compiles(data):
                continue
            verdict = self._try(edit, data, before, tests)
            if verdict == len(tests.failing):
                if self._holds(edit, data, before, tests):
                    return _alone(edit, before, data)
            elif verdict and depth > 1:
                partial.append(Partial(edit, data, verdict))
        self.exhausted = True
        best = sorted(partial, key=lambda p: -p.passing)[:PARTIAL_MOST]
        return self._on_top(best, depth, tests)

    def _candidates(self, tests: Tests) -> Iterator[tuple[Edit, bytes]]:
        sources, lines = self.suspects(tests)
        broken = {file for row in tests.failing for file, _ in row.places if not is_near_test(file)} - set(
            sources
        )
        for name in sorted(broken):
            data = self.trials.read(name)
            yield from ((edit, data) for edit in syntax_edits(name, data))
        scores = statement_scores(sources.values(), lines)
        texts = self._test_trees(tests)
        scenes = [Scene(source, texts) for source in sources.values()]
        for edit in edits(
            scenes, scores, {name for row in tests.failing for name in NAME.findall(row.error)}
        ):
            yield edit, sources[edit.file].data

    def _test_trees(self, tests: Tests) -> list[ast.AST]:
        trees = list[ast.AST]()
        for name in dict.fromkeys(row.file for row in tests.failing if row.file):
            source = self._source(name)
            if source:
                trees.append(source.tree)
        return trees

    def _try(self, edit: Edit, data: bytes, before: bytes, tests: Tests) -> int:
        """How many of the failing tests pass with the edit; 0 if the first does not, or another test fails."""
        self.tries += 1
        self.places.add((edit.file, edit.line))
        self._tell(edit)
        if self.tries <= self.skip:
            return 0
        self.trials.write(edit.file, data)
        try:
            return self._passing(tests)
        finally:
            self.trials.write(edit.file, before)

    def _holds(self, edit: Edit, data: bytes, before: bytes, tests: Tests) -> bool:
        """All tests pass again from a fresh start, with sets in another order: once may be chance."""
        self.trials.write(edit.file, data)
        patient = tests.patient
        try:
            return all(self._all_pass_from_start(seed, patient) for seed in OTHER_ORDERS)
        finally:
            self.trials.write(edit.file, before)
            self.trials.restart()

    def _all_pass_from_start(self, hash_seed: int, tests: Tests) -> bool:
        self.trials.restart(hash_seed)
        return self._all_pass(tests)

    def _passing(self, tests: Tests) -> int:
        first, *others = tests.failing
        if any(row.loading for row in tests.failing):  # what it holds is not known before it loads
            return len(tests.failing) if self._all_pass(tests) else 0
        run = self._run([first], tests.times)
        if first.test in run.tests and run.tests[first.test].hung and not first.hung and self._patience:
            self._patience -= 1
            tests = tests.patient
            run = self._run([first], tests.times)
        if not _passed(run, [first]):
            return 0
        passing = 1 + len(self._passes(others, tests.times)) if others else 1
        if passing < len(tests.failing):
            before = tests.run.of("passed")
            return passing if _passed(self._run(before, tests.times), before) else 0
        return passing if self._all_pass(tests) else 0

    def _run(self, rows: list[Row], times: Times) -> Run:
        names, files = [row.test for row in rows], {row.file for row in rows}
        return self.trials.run(times, only=names, files=files, first=True, bounded=True)

    def _passes(self, rows: list[Row], times: Times) -> list[Row]:
        names, files = [row.test for row in rows], {row.file for row in rows}
        run = self.trials.run(times, only=names, files=files, bounded=True)
        return [row for row in run.of("passed") if row.test in names]

    def _all_pass(self, tests: Tests) -> bool:
        run = self.trials.run(tests.times, first=True, bounded=True)
        expected = {
            row.test for row in tests.run.tests.values() if row.outcome != "failed" or "::" in row.test
        }
        missing = {test for test in expected if test not in run.tests}
        skipped, before = ({row.test for row in one.of("skipped")} for one in (run, tests.run))
        fine = not run.of("failed") and not missing and skipped <= before
        return run.ended == "done" and bool(run.tests) and fine

    def _on_top(self, partial: list[Partial], depth: int, tests: Tests) -> Repair | None:
        for first, data, _ in partial:
            before = self.trials.read(first.file)
            self.trials.write(first.file, data)
            now = self.tests()
            second = self._repair(now, depth - 1) if now.failing else None
            self.trials.write(first.file, before)
            if now.run.tests and not now.failing:  # a test that was too slow before has passed this time
                if self._holds(first, data, before, tests._replace(times=now.times)):
                    return _alone(first, before, data)
            elif second:
                return Repair(
                    (first, *second.edits),
                    {**second.before, first.file: before},
                    {first.file: data, **second.after},
                )
            if self.left_s <= 0:
                return None
        return None

    def _tell(self, edit: Edit) -> None:
        if time.monotonic() - self._noted > NOTE_EVERY_S:
            self._noted = time.monotonic()
            self.note(
                f"{edit.file}:{edit.line} {edit.kind}",
                f"{self.tries} edits tried in {len(self.places)} places",
            )


def _passed(run: Run, rows: list[Row]) -> bool:
    return run.ended == "done" and not run.of("failed") and {row.test for row in rows} <= set(run.tests)


def _alone(edit: Edit, before: bytes, after: bytes) -> Repair:
    return Repair((edit,), {edit.file: before}, {edit.file: after})


def top_suspects(sources: dict[str, Source], lines: dict[Place, float], most: int = 5) -> list[Suspect]:
    rows = [
        Suspect(file, line, sources[file].line_text(line).strip(), score)
        for (file, line), score in lines.items()
        if file in sources and line < len(sources[file].starts)
    ]
    return sorted(rows, key=lambda row: (-row.score, row.file, row.line))[:most]


def _times(run: Run) -> Times:
    """Limits for tries, from how long the tests took without an edit."""
    usual = [row for row in run.tests.values() if not row.hung]
    slowest = max((row.cpu for row in usual), default=0.0)
    load = max(1.0, run.took - sum(row.wall for row in run.tests.values()))
    return Times(
        cpu_s=max(CPU_LEAST_S, SLOWER * slowest),
        test_wall_s=max(5.0, SLOWER * max((row.wall for row in usual), default=0.0)),
        load_s=max(5.0, 5 * load),
        wall_s=max(20.0, 5 * run.took),
        by_test={row.test: max(CPU_LEAST_S, SLOWER * row.cpu) for row in usual},
    )


def _with_edit(data: bytes, edit: Edit) -> bytes:
    for start, end, text in sorted(edit.spans, reverse=True):
        data = data[:start] + text.encode() + data[end:]
    return data


def write_repair(root: Path, repair: Repair) -> None:
    """Into the checkout: one file after the other, each whole or not at all."""
    for name, data in repair.after.items():
        path = root / name
        draft = path.with_name(f".{path.name}.mechanic")
        draft.write_bytes(data)
        draft.chmod(path.stat().st_mode & 0o7777)
        draft.replace(path)
