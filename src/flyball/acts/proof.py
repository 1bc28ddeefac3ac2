"""A proof: the configured commands, on exactly one tree, in a clean second checkout, by Flyball itself."""

from __future__ import annotations

import hashlib
import os
import re
from pathlib import Path

from flyball.acts.confined import attend, how, interruption, last_line, log_of, run_setup, spec
from flyball.acts.environment import what_is_missing
from flyball.acts.run_files import RunFiles, share_links
from flyball.agents import process
from flyball.core.decide import Finished, Interrupted
from flyball.core.run import Run
from flyball.domain import events as e
from flyball.guard.secrets import redact
from flyball.reading.fingerprint import error_fingerprint
from flyball.reading.test_summaries import failing
from flyball.state_dir import write_whole
from flyball.workspace import Workspace

CANNOT_START = (126, 127)
RAN = re.compile(  # what unittest, pytest and cargo say at the end of every run, good or bad
    r"^Ran \d+ tests? in |^(?:=+ )?(?:\d+ [a-z]+, )*\d+ [a-z]+ in \d[\d.]*s|^no tests ran in |^test result: ",
    re.M,
)
SUMMARY_MOST = 4000


def prove(run_files: RunFiles, run: Run, act: e.Act, stop: process.Stop) -> Finished | Interrupted:
    work, folder = run_files.workspace(run), run_files.act_folder(act.key)
    files = work.places.proof
    if not (folder / "ready").exists():
        problem = _make_ready(run_files, run, act, work, stop)
        if problem is not None:
            return problem
    exits: list[process.Exit] = []
    for number, command in enumerate(run.settings.proof):
        ended = _run(
            run_files, run, act, folder / str(number), command, files, stop, sum(x.took_us for x in exits)
        )
        if why := interruption(ended):
            return Interrupted(act.key, why)
        run_files.never_began(folder / str(number), ended)
        exits.append(ended)
    took = sum(x.took_us for x in exits)
    return Finished(key=act.key, result=_result(run_files, run, act, work, folder, exits), took_us=took)


def _make_ready(
    run_files: RunFiles, run: Run, act: e.Act, work: Workspace, stop: process.Stop
) -> Interrupted | Finished | None:
    """The clean checkout, with what `setup` makes there (once); one in which setup has begun is not cleared again."""
    folder, kept = run_files.act_folder(act.key), work.places.setup_made
    if not work.places.proof.exists():
        kept.unlink(missing_ok=True)  # what setup made went with the checkout
    begun = not kept.exists() and process.look(folder / "setup-0") != "unclaimed"
    files = work.places.proof if begun else work.proof_checkout(act.tree, made_by_setup(work))
    if not run_files.mounted(run):
        share_links(run, work.repo_root, files)
    if run.settings.setup and not kept.exists():
        problem = run_setup(run_files, run, folder, files, "proof", stop)
        if problem:
            return Finished(
                key=act.key, result=e.ProofEnded(tree=act.tree, passed=False, cannot_start=problem)
            )
        write_whole(kept, os.fsencode("\n".join(work.proof_extras())))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "ready").touch()
    return None


def made_by_setup(work: Workspace) -> list[str]:
    """What stays when the proof's checkout is cleared."""
    kept = work.places.setup_made
    return os.fsdecode(kept.read_bytes()).splitlines() if kept.exists() else []


def _run(
    run_files: RunFiles,
    run: Run,
    act: e.Act,
    place: Path,
    command: str,
    files: Path,
    stop: process.Stop,
    used_us: int,
) -> process.Exit:
    limit = run.settings.proof_timeout_us
    if act.wall_us:
        limit = min(limit, max(1_000_000, act.wall_us - used_us))
    process.begin(place, spec(run_files, run, command, files, "proof", limit, run.settings.network_proof))
    return attend(place, stop)


def _result(
    run_files: RunFiles, run: Run, act: e.Act, work: Workspace, folder: Path, exits: list[process.Exit]
) -> e.ProofEnded:
    logs = [log_of(folder / str(number)) for number in range(len(exits))]
    rows = tuple(_command(*row) for row in zip(run.settings.proof, exits, logs, strict=True))
    bad = [number for number, ended in enumerate(exits) if not ended.well]
    invalid = "" if work.proof_tree() == act.tree else _changed_words(work, act)
    invalid = invalid or _silent(run, act, work, exits, logs)
    if act.wall_us and bad and sum(x.took_us for x in exits) >= act.wall_us:
        invalid = "phase timeout"
    summary = _summary(run.settings.proof[bad[0]], exits[bad[0]], logs[bad[0]]) if bad else ""
    return e.ProofEnded(
        tree=act.tree,
        passed=not bad and not invalid,
        commands=rows,
        failing=_failing(bad, logs),
        fingerprint=error_fingerprint(summary or invalid) if bad or invalid else "",
        summary=summary,
        invalid=invalid,
        cannot_start=_cannot_start(run, exits, logs) if act.why == "baseline" else "",
        lacks=_lacks(work, bad, exits, logs) if act.why == "baseline" else "",
        sandbox=run.checkout.sandbox,
    )


def _silent(run: Run, act: e.Act, work: Workspace, exits: list[process.Exit], logs: list[str]) -> str:
    """A runner that told how many tests it ran, and ends well without telling it, may have run none."""
    note, told = work.places.runners_counted, ["1" if RAN.search(log) else "0" for log in logs]
    if act.why == "baseline":
        write_whole(note, "".join(told).encode())
    before = note.read_text() if note.exists() else ""
    for command, ended, now, then in zip(run.settings.proof, exits, told, before, strict=False):
        if ended.well and then == "1" and now == "0":
            return f"The proof is invalid: '{command}' ended well without telling which tests it ran, as it did before."
    return ""


def _summary(command: str, ended: process.Exit, log: str) -> str:
    """The end of what it said; where it did not end by itself, that is said too."""
    said = redact(log[-SUMMARY_MOST:])
    return said if ended.reason == "exit" else f"{said}\n'{command}' failed: {how(ended)}.".lstrip()


def _changed_words(work: Workspace, act: e.Act) -> str:
    paths = [change.path for change in work.changes(act.tree, work.proof_tree())][:5]
    return f"The proof is invalid: it changed the tree it was to prove ({', '.join(paths)}). A proof must only read."


def _failing(bad: list[int], logs: list[str]) -> int:
    """Failing tests by the runner's own count, else failing commands."""
    if not bad:
        return 0
    counts = [failing(logs[number]) for number in bad]
    known = [count for count in counts if count]
    return sum(known) if known else len(bad)


def _lacks(work: Workspace, bad: list[int], exits: list[process.Exit], logs: list[str]) -> str:
    files = work.places.proof
    missing = (what_is_missing(work.repo_root, files, logs[n], exits[n].code or 0) for n in bad)
    return next((sentence for sentence in missing if sentence), "")


def _cannot_start(run: Run, exits: list[process.Exit], logs: list[str]) -> str:
    for command, ended, log in zip(run.settings.proof, exits, logs, strict=True):
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
