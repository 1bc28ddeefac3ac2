"""A proof: the configured commands on exactly one tree, by Flyball itself; and what the gate asks of it besides exit 0.

`what_is_missing` says whether the first proof could run at all: a module that is not installed is no failing test.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from itertools import islice
from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flyball.acts.run_files import (
    OBSERVED,
    PROOF,
    RunFiles,
    SetupStopped,
    attend,
    how,
    interruption,
    last_line,
    log_of,
    run_setup,
    share_links,
    spec,
)
from flyball.agents import process
from flyball.config.cures import PACKAGES
from flyball.core.decide import Finished, Interrupted
from flyball.domain import events as e
from flyball.errors import FlyballError, TooDeep
from flyball.guard.secrets import redact
from flyball.proofs.examination import Examination, GateSettings, Side, disagreement
from flyball.proofs.exchange import Files, Room
from flyball.proofs.sides import Sides
from flyball.reading.terminal import error_fingerprint
from flyball.reading.test_output import Lack, failing, lack
from flyball.reading.test_report import TestReport
from flyball.runners import observe
from flyball.state.run import Run
from flyball.state_dir import remove, write_whole
from flyball.workspace import Workspace

ORDINARY = Room()
AGAIN_LEAST_US, AGAIN_MOST = 30_000_000, 10
"""What the gate runs besides the proof has so many times the time of the proof, and at least this: on a tree that was put
together, a test can wait for what never comes."""
WRITTEN_MOST = 50
TOO_DEEP = "folders nested deeper than a path can name"
UNLIMITED = ("gate", "merge")  # proofs that have the time of a proof, not that of a state


def tests_are_known(work: Workspace) -> bool:
    """Whether the base's tests were reported by id: then the gate misses one that is gone."""
    place = work.places.baseline_report
    return place.exists() and place.stat().st_size > len("null")


class CannotProve(FlyballError):
    """The setup failed, so no proof command was started."""


class TreeProof(Struct, frozen=True):
    """How each command ended on one tree, and what its runners reported."""

    tree: str
    exits: tuple[process.Exit, ...]
    logs: tuple[str, ...]
    reports: tuple[TestReport | None, ...]
    changed: tuple[str, ...] = ()  # files of the tree that the proof changed
    doubt: str = ""  # why a proof that exited 0 is not accepted
    executed: bool = False  # Python or Node executed code of the project

    @property
    def well(self) -> bool:
        return all(ended.well for ended in self.exits)

    @property
    def passed(self) -> bool:
        return self.well and not self.changed and not self.doubt

    @property
    def side(self) -> Side:
        return Side(self.report, self.passed, self.took_us, self.executed)

    @property
    def took_us(self) -> int:
        return sum(ended.took_us for ended in self.exits)

    @property
    def report(self) -> TestReport | None:
        """All tests of all commands; None where a command's runner is unknown."""
        reports = [report for report in self.reports if report is not None]
        if not reports or len(reports) < len(self.reports):
            return None
        return TestReport(
            runners=tuple(dict.fromkeys(name for report in reports for name in report.runners)),
            tests=tuple(test for report in reports for test in report.tests),
            complete=all(report.complete for report in reports),
            failed=any(report.failed for report in reports),
            deselected=sum(report.deselected for report in reports),
        )


class Prover:
    """Proves trees of one run for one act."""

    def __init__(self, run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> None:
        self.run_files, self.run, self.act, self.stop = run_files, run, act, stop
        self.work = run_files.workspace(run)
        self.folder = run_files.act_folder(act.key)
        self.used_us = 0
        self.limit_us = run.settings.proof_timeout_us

    def baseline(self) -> TestReport | None:
        """Which tests the base ran, and how they ended; None where they are not known by id."""
        place = self.work.places.baseline_report
        return msgspec.json.decode(place.read_bytes(), type=TestReport | None) if place.exists() else None

    def baseline_executed(self) -> bool:
        """Whether the commands executed code of the project before the change."""
        return self.work.places.baseline_report.with_suffix(".executed").exists()

    def prove(self, tree: str, name: str = "", of: str = "", room: Room = ORDINARY) -> TreeProof:
        """The commands on this tree. `name` tells the proofs of one act apart; `of` is an act that proved it before."""
        earlier = self.run_files.act_folder(of) if of else None
        if earlier is not None and _is_whole(earlier, len(self.run.settings.proof)):
            return self._read(
                tree,
                earlier,
                [process.read_exit(earlier / str(n)) for n in range(len(self.run.settings.proof))],
            )
        place = self.folder / name if name else self.folder
        if not (place / "ready").exists():
            self._make_ready(tree, place)
        exits: list[process.Exit] = []
        for number, command in enumerate(self.run.settings.proof):
            exits.append(self._command(place / str(number), command, room))
        proof = self._read(tree, place, exits)
        self.used_us += proof.took_us
        return proof

    def side(self, tree: str, name: str, room: Room) -> Side:
        return self.prove(tree, name, room=room).side

    def _make_ready(self, tree: str, place: Path) -> None:
        """The clean checkout with what setup made; one in which setup has begun is not cleared again."""
        marker = self.work.places.setup_made
        if not self.work.places.setup_layer.exists() and not self.work.places.proof.exists():
            marker.unlink(missing_ok=True)  # what setup made went with the checkout
        started = not marker.exists() and process.look(place / "setup-0") != "unclaimed"
        files = self.work.places.proof if started else self._checkout(tree)
        if not self.run_files.mounted(self.run):
            share_links(self.run, self.work.repo_root, files)
        if self.run.settings.setup and not marker.exists():
            problem = run_setup(self.run_files, self.run, place, files, PROOF, self.stop)
            if problem:
                raise CannotProve(problem)
            extras = self.work.proof_extras()
            _copied(files, self.work.places.setup_layer, extras)
            write_whole(marker, os.fsencode("\n".join(extras)))
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / "ready").touch()

    def _checkout(self, tree: str) -> Path:
        """Cleared of everything; what setup made comes from its layer, not from what earlier proofs left of it."""
        marker = made_by_setup(self.work)
        for path in marker:
            remove(self.work.places.proof / path)
        files = self.work.proof_checkout(tree, marker)
        _copied(self.work.places.setup_layer, files, marker)
        return files

    def _command(self, place: Path, command: str, room: Room) -> process.Exit:
        if process.look(place) == "unclaimed":
            limit = self.limit_us
            if self.act.wall_us and self.act.why not in UNLIMITED:
                limit = min(limit, max(1_000_000, self.act.wall_us - self.used_us))
            files, network = self.work.places.proof, self.run.settings.network_proof
            tools = place.with_name(f"{place.name}-tools")
            observer = observe.Observer(room, self._root, tools, self._key(place, new=True))
            process.begin(
                place,
                spec(self.run_files, self.run, command, files, PROOF, limit, network, observer=observer),
            )
        exit_status = attend(place, self.stop)
        if why := interruption(exit_status):
            raise SetupStopped(why)
        self.run_files.never_began(place, exit_status)
        self._keep_report(place)
        return exit_status

    def _keep_report(self, place: Path) -> None:
        """Written down before the next command clears the home."""
        copy = place / "report.json"
        if not copy.exists():
            home = self.run_files.run_dir(self.run).home(PROOF)
            if observe.executed(home / OBSERVED):
                (place / "executed").touch()
            output, key = log_of(place), self._key(place)
            report = observe.collect(home / OBSERVED, self.work.places.proof, self._root, output, key)
            write_whole(copy, msgspec.json.encode(report), sync=False)
            remove(place.with_name(f"{place.name}-tools"))

    def _key(self, place: Path, *, new: bool = False) -> bytes:
        """The first key that seals the reports of a command; none for one that an older Flyball began."""
        file = place.with_name(f"{place.name}-key")
        if new:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(file, os.urandom(32), sync=False)
        return file.read_bytes() if file.exists() else b""

    @property
    def _root(self) -> str:
        """The checkout as the commands see it."""
        return str(self.work.repo_root if self.run_files.mounted(self.run) else self.work.places.proof)

    def _read(self, tree: str, place: Path, exits: list[process.Exit]) -> TreeProof:
        places = [place / str(number) for number in range(len(exits))]
        logs = [log_of(one) for one in places]
        reports = [
            msgspec.json.decode((one / "report.json").read_bytes(), type=TestReport | None) for one in places
        ]
        return TreeProof(
            tree=tree,
            exits=tuple(exits),
            logs=tuple(logs),
            reports=tuple(reports),
            changed=self._changed(tree, place),
            doubt=self._doubt(exits, reports, logs),
            executed=any((one / "executed").exists() for one in places),
        )

    def _changed(self, tree: str, place: Path) -> tuple[str, ...]:
        """Noted once: the next tree takes the same checkout."""
        note = place / "changed"
        if not note.exists():
            paths = self._changed_paths(tree)
            write_whole(note, "\n".join(paths[:WRITTEN_MOST]).encode("utf-8", "surrogateescape"), sync=False)
        return tuple(note.read_bytes().decode("utf-8", "replace").splitlines())

    def _changed_paths(self, tree: str) -> list[str]:
        try:
            after = self.work.proof_tree()
        except TooDeep:
            return [TOO_DEEP]
        return [change.path for change in self.work.changes(tree, after)] if after != tree else []

    def _doubt(self, exits: list[process.Exit], reports: list[TestReport | None], logs: list[str]) -> str:
        for command, exit_status, report, log in zip(
            self.run.settings.proof, exits, reports, logs, strict=True
        ):
            problem = disagreement(
                report, exit_status.code if exit_status.code is not None else 1, failing(log)
            )
            if problem:
                return f"The result of '{command}' is not accepted: {problem}."
        return ""


def _is_whole(place: Path, commands: int) -> bool:
    """Everything that was noted of a proof is still there."""
    notes = [place / "changed", *(place / str(number) / "report.json" for number in range(commands))]
    return all(note.exists() for note in notes)


def _copied(source: Path, target: Path, paths: list[str]) -> None:
    """With `cp`, which shares blocks where the file system can."""
    for path in paths:
        if os.path.lexists(source / path):
            remove(target / path)
            (target / path).parent.mkdir(parents=True, exist_ok=True)
            line = ["cp", "-a", "--reflink=auto", "--", str(source / path), str(target / path)]
            process_ = subprocess.run(line, capture_output=True, text=True)
            if process_.returncode != 0 and not (target / path).exists():
                raise FlyballError(
                    f"What [workspace] setup created cannot be copied: {process_.stderr.strip()[-300:]}"
                )


def made_by_setup(work: Workspace) -> list[str]:
    """Paths in the proof's checkout that `[workspace] setup` made."""
    marker = work.places.setup_made
    return os.fsdecode(marker.read_bytes()).splitlines() if marker.exists() else []


# ---- the commands on one tree --------------------------------------------------------------------------------


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
    packages = (parts for parts in tops if len(parts) > 1)
    return missing.kind == "module" and any(
        _holds(folder, parts[0]) and not _holds(folder, "/".join(parts)) for parts in packages
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
            result = replace(result, evidence=_examined(prover, proof))
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
    bad = [number for number, exit_status in enumerate(proof.exits) if not exit_status.well]
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
    all_exited = all(end.reason == "exit" for end in proof.exits)
    if run.settings.proof_require != "no-worse" or not all_exited or proof.report is None or baseline is None:
        return False
    passed = proof.report.ids("passed")
    mended = passed & baseline.ids("failed")
    return proof.report.complete and baseline.ids("passed") <= passed and bool(mended)


def _summary(command: str, exit_status: process.Exit, log: str) -> str:
    """The end of its output; where it did not end by itself, that is said too."""
    end = redact(log[-SUMMARY_MOST:])
    return end if exit_status.reason == "exit" else f"{end}\n'{command}' failed: {how(exit_status)}.".lstrip()


def _changed(proof: TreeProof) -> str:
    if not proof.changed:
        return ""
    return f"The proof changed the tree that it was to prove ({', '.join(proof.changed[:5])}). A proof must not change tracked files."


def _failing(bad: list[int], proof: TreeProof) -> int:
    """Failing tests by id, else by the runner's own count, else failing commands."""
    if not bad:
        return 0
    counts = [_count(proof.reports[number], proof.logs[number]) for number in bad]
    numbers = [count for count in counts if count]
    return sum(numbers) if numbers else len(bad)


def _lacks(work: Workspace, bad: list[int], proof: TreeProof) -> str:
    files = work.places.proof
    missing = (what_is_missing(work.repo_root, files, proof.logs[n], proof.exits[n].code or 0) for n in bad)
    return next((sentence for sentence in missing if sentence), "")


def _count(report: TestReport | None, log: str) -> int | None:
    return report.count("failed") if report is not None else failing(log)


def _failing_tests(report: TestReport | None) -> tuple[str, ...]:
    return tuple(redact(name) for name in sorted(report.ids("failed"))[:NAMES_MOST]) if report else ()


def _cannot_start(run: Run, proof: TreeProof) -> str:
    for command, exit_status, log in zip(run.settings.proof, proof.exits, proof.logs, strict=True):
        if exit_status.reason == "cannot_start" or exit_status.code in CANNOT_START:
            why = exit_status.error or last_line(log) or f"exit code {exit_status.code}"
            return f"The proof command '{command}' cannot start: {why}. Correct [proof] commands in .flyball/flyball.toml."
    return ""


def _command(command: str, exit_status: process.Exit, log: str) -> e.ProofCommand:
    code = exit_status.code if exit_status.code is not None else -(exit_status.signal or 1)
    digest = hashlib.sha256(log.encode("utf-8", "replace")).hexdigest()
    return e.ProofCommand(
        command=command,
        exit=code,
        log=digest,
        took_us=exit_status.took_us,
        timed_out=exit_status.reason == "wall",
    )


def _examined(prover: Prover, proof: TreeProof) -> e.Evidence:
    """What the gate asks besides exit 0."""
    work, settings = prover.work, prover.run.settings
    prover.limit_us = min(prover.limit_us, max(AGAIN_LEAST_US, AGAIN_MOST * proof.took_us))
    baseline = Side(prover.baseline(), not prover.run.evidence.baseline, executed=prover.baseline_executed())
    changes = work.changes(work.base_tree, proof.tree)
    added = (change.path for change in changes if change.op in ("add", "rename"))
    sides = Sides(settings.proof, (*settings.proof_tests, *_documents(baseline.report)))
    sides = sides.with_shadows(added, sys.stdlib_module_names)
    files = Files(work.base_tree, proof.tree, changes, sides, work.read_all, work.paths(proof.tree))
    gate = GateSettings(
        settings.proof,
        settings.proof_require,
        settings.proof_repeat,
        settings.proof_bite,
        prover.run.began.task,
    )
    return Examination(gate, files, baseline, proof.side, work.edited, prover.side).evidence()


def _documents(report: TestReport | None) -> set[str]:
    """Texts with examples that a runner tests; source with examples is taken apart instead."""
    files = {test.file for test in report.tests} if report else set[str]()
    return {file for file in files if file.endswith((".md", ".rst", ".txt"))}
