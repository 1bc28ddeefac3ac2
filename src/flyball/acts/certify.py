"""Writing the certificate of a commit that was proved."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from flyball.acts.run_files import RunFiles
from flyball.core.run import Run
from flyball.domain import events as e
from flyball.evidence import certificate
from flyball.journal.records import load_or_create


def certify(
    run_files: RunFiles,
    run: Run,
    act: e.Act,
    tree: str,
    commit: str,
    work_tree: str,
    pull_request: str = "",
) -> str:
    """Beside the one in force if there is one; its sha256.

    `work_tree` is the run's own tree, without what was merged: the one that a reviewer has judged.
    """
    project, folder = Path(run.began.repo).name, run_files.run_dir(run)
    story = run_files.story(run, replace(act, tree=work_tree))
    statement = certificate.statement(run, replace(act, tree=tree), commit, project, story, pull_request)
    file = folder.next_certificate if act.do == "land" else folder.certificate
    return certificate.write(file, statement, load_or_create(run_files.state_dir))
