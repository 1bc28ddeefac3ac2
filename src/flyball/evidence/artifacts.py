"""What is rendered for people and outside tools into `.flyball/out/`, from the journal, and never read back.

`LOOP_STATUS.md` is the Loop Status block of every run of the repository that goes on (LOOP-4), `agents.json` their
loop states in the seed's shape (LOOP-6). They are written only where `flyball init` has made the folder, each whole
or not at all; that one cannot be written never stops a run.
"""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from msgspec import Struct

from flyball.core.run import Run
from flyball.domain import events as e
from flyball.errors import FlyballError
from flyball.journal import Journal, Row
from flyball.journal.history import load
from flyball.reading.terminal import plain
from flyball.state_dir import write_whole
from flyball.views.loop_status import loop_state, loop_status

RUNS_MOST = 50
TASK_MOST = 200


class Seen(Struct, frozen=True):
    """A run as it stood at its last event."""

    at: int
    run: Run


class Artifacts:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._seen: dict[str, Seen] = {}

    def note(self, run: Run, _event: e.AnyEvent) -> None:
        """After each event of a run; the files are written once a commit."""
        before = self._seen.get(run.id)
        self._seen[run.id] = Seen(run.at, run)
        if before is None or before.run is not run:
            with contextlib.suppress(OSError, FlyballError, ValueError):
                self._render(run.began.repo)

    def _render(self, repo: str) -> None:
        folder = out_folder(repo)
        if folder is None:
            return
        runs = [self._run(row) for row in self._journal.rows(repo=repo, limit=RUNS_MOST)]
        going = [run for run in runs if run.status != "ended"] or runs[:1]
        _write(folder / "agents.json", json.dumps([loop_state(run) for run in runs], indent=2) + "\n")
        _write(folder / "LOOP_STATUS.md", "\n".join(_block(run) for run in going))

    def _run(self, row: Row) -> Run:
        """Our own runs as we hold them; what others drive, as far as they have come."""
        kept = self._seen.get(row.run)
        if kept is None or kept.at < row.updated_at:
            kept = self._seen[row.run] = Seen(row.updated_at, load(self._journal, row.run)[0])
        return kept.run


def _block(run: Run) -> str:
    title = " ".join(plain(run.began.task).split())[:TASK_MOST]
    return plain(f"# {title}\n\n{loop_status(run)}")


def out_folder(repo: str) -> Path | None:
    """`.flyball/out`, if it is there and really lies in the repository."""
    parts = (Path(repo, ".flyball"), Path(repo, ".flyball", "out"))
    real = bool(repo) and all(part.is_dir() and not part.is_symlink() for part in parts)
    return parts[1] if real else None


def _write(file: Path, text: str) -> None:
    write_whole(file, text.encode("utf-8", "replace"), mode=0o644, sync=False)
