"""A proof: the configured commands on exactly one tree, by Flyball itself; and what the gate asks of it besides exit 0.

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

from flyball.acts.proof_tree import UNLIMITED, CannotProve, Prover, TreeProof
from flyball.acts.run_files import RunFiles, SetupStopped, how, last_line
from flyball.agents import process
from flyball.config.cures import PACKAGES
from flyball.core.decide import Finished, Interrupted
from flyball.domain import events as e
from flyball.guard.secrets import redact
from flyball.proofs.compare import Side
from flyball.proofs.examination import Examination, GateSettings
from flyball.proofs.exchange import Files
from flyball.proofs.sides import Sides
from flyball.reading.terminal import error_fingerprint
from flyball.reading.test_output import Lack, failing, lack
from flyball.reading.test_report import TestReport
from flyball.state.run import Run
from flyball.state_dir import write_whole
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


def _examined(prover: Prover, proof: TreeProof) -> e.Evidence:
    """What the gate asks besides exit 0."""
    work, settings = prover.work, prover.run.settings
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
