"""A proof: the configured commands on exactly one tree, by Flyball itself; and what the gate asks of it besides exit 0.

The gate (EVID-3, EVID-4, EVID-5): the tree as it is has passed. Now: do the base's tests still pass on the run's
source? Which of the run's tests fail on the base's source? Do they pass again, also where the code cannot see that it
is tested? And does the proof notice when the code is broken? What is left open is a doubt, by the name of the test,
and a person is asked.

`what_is_missing` says whether the first proof could run at all: a module that is not installed is no failing test.
"""

from __future__ import annotations

import hashlib
import re
import sys
from itertools import islice
from pathlib import Path

import msgspec
from msgspec.structs import replace

from flyball.acts.proof_tree import ORDINARY, UNLIMITED, CannotProve, Prover, TreeProof
from flyball.acts.run_files import RunFiles, SetupStopped, how, last_line
from flyball.agents import process
from flyball.config.cures import PACKAGES
from flyball.core.decide import Finished, Interrupted
from flyball.domain import events as e
from flyball.guard.secrets import redact
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
from flyball.proofs.exchange import Files, Room, followed, is_lucky, renamed, repeat_count, repeats
from flyball.proofs.sides import Sides
from flyball.reading.terminal import error_fingerprint
from flyball.reading.test_output import Lack, failing, lack
from flyball.reading.test_report import TestReport
from flyball.state.run import Run
from flyball.state_dir import write_whole
from flyball.views.text import plural
from flyball.workspace import Workspace

MANIFESTS = (
    *("pyproject.toml", "setup.py", "setup.cfg", "Pipfile", "tox.ini", "package.json", "environment.yml"),
    *("requirements*.txt", "requirements/*.txt", "*-requirements.txt"),
)
MOST_MANIFESTS = 20
READ_AT_MOST = 200_000


def what_is_missing(repo: Path, files: Path, log: str, code: int) -> str:
    """A sentence about what the environment of the tests lacks; "" where they ran, or where the project's own code is
    what is missing: that is the agent's to write.

    `repo` is the user's folder, `files` the checkout in which the tests ran.
    """
    missing = lack(log, code)
    if missing is None or missing.kind == "tests":
        return ""
    if missing.kind == "module" and not all(_is_foreign(repo, files, name) for name in missing.names):
        return ""
    return f"The tests cannot run in a clean checkout: {missing.says}."


def is_own_code(folder: Path, missing: Lack) -> bool:
    """Some of the names are missing in the project's own, importable packages: a bug, not an installation."""
    tops = (name.split(".") for name in missing.names if "/" not in name and not name.startswith("."))
    named = (parts for parts in tops if len(parts) > 1)
    return missing.kind == "module" and any(
        _holds(folder, parts[0]) and not _holds(folder, "/".join(parts)) for parts in named
    )


def _is_foreign(repo: Path, files: Path, name: str) -> bool:
    """It is not for the agent to write: declared as a dependency, or there in the user's folder and not in git."""
    if "/" in name or name.startswith("."):
        return False
    top, *rest = name.split(".")
    if _holds(files, top):
        return not rest or _holds(repo, "/".join((top, *rest)))
    return _is_declared(files, top) or _holds(repo, top)


def _holds(folder: Path, module: str) -> bool:
    """A module or package of this name is in the folder or in one of the usual places below it."""
    patterns = (f"{up}{module}{end}" for up in ("", "*/", "*/*/") for end in ("", ".py", ".*.so", ".so"))
    return any(True for pattern in patterns for _ in islice(folder.glob(pattern), 1))


def _is_declared(files: Path, module: str) -> bool:
    names = "|".join(re.escape(name).replace("_", "[-_]") for name in (module, PACKAGES.get(module, module)))
    word = re.compile(rf"(?<![\w-])(?:{names})(?![\w-])", re.I)
    manifests = (path for pattern in MANIFESTS for path in islice(files.glob(pattern), MOST_MANIFESTS))
    return any(word.search(_text(path)) for path in manifests)


def _text(path: Path) -> str:
    try:
        with path.open(encoding="utf-8", errors="replace") as stream:
            return stream.read(READ_AT_MOST)
    except OSError:
        return ""


CANNOT_START = (126, 127)
SUMMARY_MOST = 4000
NAMES_MOST = 50


def prove(run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> Finished | Interrupted:
    prover = Prover(run_files, run, act, stop)
    try:
        proof = prover.prove(act.tree, of=act.since)
        result = _result(prover, proof)
        if act.why == "baseline":
            _keep_baseline(prover, proof)
        if act.why == "gate" and result.passed:
            result = replace(result, evidence=Examination(prover, proof).evidence())
    except CannotProve as problem:
        result = e.ProofEnded(tree=act.tree, passed=False, cannot_start=str(problem))
    except SetupStopped as stopped:
        return Interrupted(act.key, str(stopped))
    return Finished(key=act.key, result=result, took_us=prover.used_us)


def _keep_baseline(prover: Prover, proof: TreeProof) -> None:
    if proof.executed:
        write_whole(prover.work.places.baseline_report.with_suffix(".executed"), b"")
    write_whole(prover.work.places.baseline_report, msgspec.json.encode(proof.report))


def _result(prover: Prover, proof: TreeProof) -> e.ProofEnded:
    run, act = prover.run, prover.act
    commands = tuple(map(_command, run.settings.proof, proof.exits, proof.logs))
    bad = [number for number, ended in enumerate(proof.exits) if not ended.well]
    invalid = _changed(proof) or proof.doubt
    if act.wall_us and act.why not in UNLIMITED and bad and proof.took_us >= act.wall_us:
        invalid = "phase timeout"
    summary = _summary(run.settings.proof[bad[0]], proof.exits[bad[0]], proof.logs[bad[0]]) if bad else ""
    good = not bad or (act.why != "baseline" and _no_worse(run, proof, prover.baseline()))
    return e.ProofEnded(
        tree=act.tree,
        passed=good and not invalid,
        commands=commands,
        failing=_failing(bad, proof),
        failing_tests=_failing_tests(proof.report),
        fingerprint=error_fingerprint(summary or invalid) if bad or invalid else "",
        summary=summary,
        invalid=invalid,
        cannot_start=_cannot_start(run, proof) if act.why == "baseline" else "",
        lacks=_lacks(prover.work, bad, proof) if act.why == "baseline" else "",
        sandbox=run.checkout.sandbox,
    )


def _no_worse(run: Run, proof: TreeProof, baseline: TestReport | None) -> bool:
    """For projects that are red at the start: nothing that passed before fails now, and something is mended."""
    ended = all(end.reason == "exit" for end in proof.exits)
    if run.settings.proof_require != "no-worse" or not ended or proof.report is None or baseline is None:
        return False
    passed = proof.report.ids("passed")
    mended = passed & baseline.ids("failed")
    return proof.report.complete and baseline.ids("passed") <= passed and bool(mended)


def _summary(command: str, ended: process.Exit, log: str) -> str:
    """The end of its output; where it did not end by itself, that is said too."""
    end = redact(log[-SUMMARY_MOST:])
    return end if ended.reason == "exit" else f"{end}\n'{command}' failed: {how(ended)}.".lstrip()


def _changed(proof: TreeProof) -> str:
    if not proof.changed:
        return ""
    return f"The proof changed the tree that it was to prove ({', '.join(proof.changed[:5])}). A proof must not change tracked files."


def _failing(bad: list[int], proof: TreeProof) -> int:
    """Failing tests by id, else by the runner's own count, else failing commands."""
    if not bad:
        return 0
    counts = [_count(proof.reports[number], proof.logs[number]) for number in bad]
    known = [count for count in counts if count]
    return sum(known) if known else len(bad)


def _lacks(work: Workspace, bad: list[int], proof: TreeProof) -> str:
    files = work.places.proof
    missing = (what_is_missing(work.repo_root, files, proof.logs[n], proof.exits[n].code or 0) for n in bad)
    return next((sentence for sentence in missing if sentence), "")


def _count(report: TestReport | None, log: str) -> int | None:
    return report.count("failed") if report is not None else failing(log)


def _failing_tests(report: TestReport | None) -> tuple[str, ...]:
    return tuple(sorted(report.ids("failed")))[:NAMES_MOST] if report else ()


def _cannot_start(run: Run, proof: TreeProof) -> str:
    for command, ended, log in zip(run.settings.proof, proof.exits, proof.logs, strict=True):
        if ended.reason == "cannot_start" or ended.code in CANNOT_START:
            why = ended.error or last_line(log) or f"exit code {ended.code}"
            return f"The proof command '{command}' cannot start: {why}. Correct [proof] commands in .flyball/flyball.toml."
    return ""


def _command(command: str, ended: process.Exit, log: str) -> e.ProofCommand:
    code = ended.code if ended.code is not None else -(ended.signal or 1)
    digest = hashlib.sha256(log.encode("utf-8", "replace")).hexdigest()
    return e.ProofCommand(
        command=command, exit=code, log=digest, took_us=ended.took_us, timed_out=ended.reason == "wall"
    )


QUICK_US = 120_000_000  # a proof that takes longer is broken on purpose only where it must be
RUNS_CODE = re.compile(
    r"(?:^|[\s/])(?:python[\d.]*|node|bun|deno)\s(?!\s*-m\s+(?:mypy|ruff|flake8|black|pylint|pyright|compileall)\b)"
)


# ---- what the gate asks -------------------------------------------------------------------------------------


class Examination:
    def __init__(self, prover: Prover, proof: TreeProof) -> None:
        self.prover, self.proof, self.work = prover, proof, prover.work
        self.base, self.tree = prover.work.base_tree, proof.tree
        self.settings = prover.run.settings
        baseline = same_numbers(prover.baseline(), proof.report)
        self.baseline = Side(baseline, not prover.run.evidence.baseline)
        self.doubts: list[str] = []
        changes = self.work.changes(self.base, self.tree)
        sides = Sides(self.settings.proof, (*self.settings.proof_tests, *_documents(self.baseline.report)))
        sides = sides.with_shadows(
            (change.path for change in changes if change.op in ("add", "rename")), sys.stdlib_module_names
        )
        self.files = Files(
            self.base, self.tree, changes, sides, self.work.read_all, self.work.paths(self.tree)
        )

    def evidence(self) -> e.Evidence:
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
        diff = versions(comparison, self.files, self.prover.run.began.task) if self.doubts else ()
        findings = Findings(comparison, known, flaky, bite, places, tuple(self.doubts), diff)
        return evidence(self.tree, self.settings.proof_require, now, findings)

    # ---- both sides ----

    def _both_sides(self) -> tuple[Side | None, Side | None]:
        """(the base's tests on the run's source, the run's tests on the base's source); None: no test changed."""
        edits = self.files.exchange(self.tree, self.base)
        if not edits:
            return None, None
        base_side = self._side(self.work.edited(self.tree, edits), "base-tests")
        edits = self.files.exchange(self.base, self.tree)
        files = changed_test_files(edits, self.baseline.report, self.proof.report)
        run_side = self._side(self.work.edited(self.base, edits), "run-tests", Room(files=files))
        return base_side, with_the_rest(run_side, self.baseline, files)

    def _side(self, tree: str, name: str, room: Room = ORDINARY) -> Side:
        """Where only tests changed, both trees are known: nothing has to run again."""
        if tree == self.tree:
            return self.proof.side
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
        executed = self.proof.executed or self.prover.baseline_executed()
        return executed or bool(unwatched) or any(map(RUNS_CODE.search, self.settings.proof))

    # ---- repeated ----

    def _repeated(self, wanted: frozenset[str], base_side: Side | None, known: bool) -> tuple[str, ...]:
        """These tests must pass again, in rooms where the code cannot see that it is tested. Which are flaky."""
        if not wanted:
            return ()
        again = base_side is not None and wanted <= base_side.passing(known)
        lines, proof = self.files.changed_lines(), self.proof
        tests_us = time_of(proof.report, wanted) if known and proof.selects else None
        runners = proof.report.runners if known and proof.report else ()
        count = repeat_count(
            self.settings.proof_repeat, 2 if again else 1, proof.took_us, lines, tests_us, runners
        )
        node = "package.json" in self.files.paths
        tests = set(files_of(proof.report, wanted).values()) if known else self.files.named(folders=True)
        plain = self.files.plain_values(tests)
        asked = wanted if known else ()
        rooms = repeats(self.files.sources, asked, count, node=node, took_us=proof.took_us)
        for number, room in enumerate(rooms, 1):
            tree = self.work.edited(self.tree, plain) if plain and number == 1 else self.tree
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
        side = self.prover.prove(tree, name, room=room).side
        return replace(side, report=same_numbers(side.report, self.proof.report))

    # ---- broken on purpose ----

    def _bite(self, comparison: Comparison, known: bool) -> tuple[str, tuple[str, ...]]:
        must = not comparison.fail_to_pass or not known
        wanted = self.settings.proof_bite
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
        tree = self.work.edited(self.tree, broken.edits)
        side = self._proved(tree, f"broken-{broken.name}", room)
        problem = unnoticed(broken, side, known)
        self.doubts += [problem] if problem else []
        place = f"{broken.name} in {plural(len(broken.edits), 'file')}"
        return ("not noticed" if problem else "noticed"), (place,)

    def _ends_early(self) -> tuple[str, ...]:
        """Check scripts of which the proof does not notice that they fail at their end; none where it does."""
        edits = self.files.broken_ends()
        if not edits or not self.prover.prove(self.work.edited(self.tree, edits), "broken-ends").passed:
            return ()
        self.doubts.append(f"The proof still passes when {', '.join(sorted(edits))} fails at its end")
        return tuple(f"end: {path}" for path in sorted(edits))


def _documents(report: TestReport | None) -> set[str]:
    """Texts with examples that a runner tests; source with examples is taken apart instead."""
    files = {test.file for test in report.tests} if report else set[str]()
    return {file for file in files if file.endswith((".md", ".rst", ".txt"))}


def _unread(side: Side | None) -> bool:
    return side is not None and side.report is None
