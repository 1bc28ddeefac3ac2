"""The proof commands on one tree, in a room that is new each time (EVID-1), with the tests they ran by id (EVID-2).

Every proof has a fresh home, a fresh temporary folder and a clean checkout; what `[workspace] setup` made is copied
in anew. Doing it again is safe at every instant: a command that ended is read, one that runs is attended.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import msgspec
from msgspec import Struct

from flyball.acts.run_files import (
    OBSERVED,
    PROOF,
    RunFiles,
    SetupStopped,
    attend,
    interruption,
    log_of,
    run_setup,
    share_links,
    spec,
)
from flyball.agents import process
from flyball.domain import events as e
from flyball.errors import FlyballError
from flyball.proofs.compare import Side, disagreement
from flyball.proofs.exchange import Room
from flyball.reading.test_output import failing
from flyball.reading.test_report import TestReport
from flyball.runners import observe
from flyball.state.run import Run
from flyball.state_dir import remove, write_whole
from flyball.workspace import Workspace

ORDINARY = Room()
WRITTEN_MOST = 50
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
        known = [report for report in self.reports if report is not None]
        if not known or len(known) < len(self.reports):
            return None
        return TestReport(
            runners=tuple(dict.fromkeys(name for report in known for name in report.runners)),
            tests=tuple(test for report in known for test in report.tests),
            complete=all(report.complete for report in known),
            failed=any(report.failed for report in known),
            deselected=sum(report.deselected for report in known),
        )


class Prover:
    """Proves trees of one run for one act."""

    def __init__(self, run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> None:
        self.run_files, self.run, self.act, self.stop = run_files, run, act, stop
        self.work = run_files.workspace(run)
        self.folder = run_files.act_folder(act.key)
        self.used_us = 0

    def baseline(self) -> TestReport | None:
        """Which tests the base ran, and how they ended; None where they are not known by id."""
        place = self.work.places.baseline_report
        return msgspec.json.decode(place.read_bytes(), type=TestReport | None) if place.exists() else None

    def baseline_executed(self) -> bool:
        """Whether the commands executed code of the project before the change."""
        return self.work.places.baseline_report.with_suffix(".executed").exists()

    def prove(self, tree: str, name: str = "", of: str = "", room: Room = ORDINARY) -> TreeProof:
        """The commands on this tree. `name` tells the proofs of one act apart; `of` is an act that proved it before."""
        known = self.run_files.act_folder(of) if of else None
        if known is not None and _is_whole(known, len(self.run.settings.proof)):
            return self._read(
                tree, known, [process.read_exit(known / str(n)) for n in range(len(self.run.settings.proof))]
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
        made = self.work.places.setup_made
        if not self.work.places.setup_layer.exists() and not self.work.places.proof.exists():
            made.unlink(missing_ok=True)  # what setup made went with the checkout
        begun = not made.exists() and process.look(place / "setup-0") != "unclaimed"
        files = self.work.places.proof if begun else self._checkout(tree)
        if not self.run_files.mounted(self.run):
            share_links(self.run, self.work.repo_root, files)
        if self.run.settings.setup and not made.exists():
            problem = run_setup(self.run_files, self.run, place, files, PROOF, self.stop)
            if problem:
                raise CannotProve(problem)
            extras = self.work.proof_extras()
            _copied(files, self.work.places.setup_layer, extras)
            write_whole(made, os.fsencode("\n".join(extras)))
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        (place / "ready").touch()

    def _checkout(self, tree: str) -> Path:
        """Cleared of everything; what setup made comes from its layer, not from what earlier proofs left of it."""
        made = made_by_setup(self.work)
        for path in made:
            remove(self.work.places.proof / path)
        files = self.work.proof_checkout(tree, made)
        _copied(self.work.places.setup_layer, files, made)
        return files

    def _command(self, place: Path, command: str, room: Room) -> process.Exit:
        if process.look(place) == "unclaimed":
            limit = self.run.settings.proof_timeout_us
            if self.act.wall_us and self.act.why not in UNLIMITED:
                limit = min(limit, max(1_000_000, self.act.wall_us - self.used_us))
            files, network = self.work.places.proof, self.run.settings.network_proof
            tools = place.with_name(f"{place.name}-tools")
            observer = observe.Observer(room, self._root, tools, self._key(place, new=True))
            process.begin(
                place,
                spec(self.run_files, self.run, command, files, PROOF, limit, network, observer=observer),
            )
        ended = attend(place, self.stop)
        if why := interruption(ended):
            raise SetupStopped(why)
        self.run_files.never_began(place, ended)
        self._keep_report(place)
        return ended

    def _keep_report(self, place: Path) -> None:
        """Written down before the next command clears the home."""
        kept = place / "report.json"
        if not kept.exists():
            home = self.run_files.run_dir(self.run).home(PROOF)
            if observe.executed(home / OBSERVED):
                (place / "executed").touch()
            output, key = log_of(place), self._key(place)
            report = observe.collect(home / OBSERVED, self.work.places.proof, self._root, output, key)
            write_whole(kept, msgspec.json.encode(report), sync=False)
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
            after = self.work.proof_tree()
            paths = [change.path for change in self.work.changes(tree, after)] if after != tree else []
            write_whole(note, "\n".join(paths[:WRITTEN_MOST]).encode("utf-8", "surrogateescape"), sync=False)
        return tuple(note.read_bytes().decode("utf-8", "replace").splitlines())

    def _doubt(self, exits: list[process.Exit], reports: list[TestReport | None], logs: list[str]) -> str:
        for command, ended, report, log in zip(self.run.settings.proof, exits, reports, logs, strict=True):
            problem = disagreement(report, ended.code if ended.code is not None else 1, failing(log))
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
            done = subprocess.run(line, capture_output=True, text=True)
            if done.returncode != 0 and not (target / path).exists():
                raise FlyballError(
                    f"What [workspace] setup created cannot be copied: {done.stderr.strip()[-300:]}"
                )


def made_by_setup(work: Workspace) -> list[str]:
    """Paths in the proof's checkout that `[workspace] setup` made."""
    made = work.places.setup_made
    return os.fsdecode(made.read_bytes()).splitlines() if made.exists() else []
