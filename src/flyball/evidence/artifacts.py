"""What is rendered for people and outside tools into `.flyball/out/`, from the journal, and never read back.

`LOOP_STATUS.md` is the Loop Status block of every run of the repository that goes on (LOOP-4), `agents.json` their
loop states in the seed's shape (LOOP-6). `STATUS_LEDGER.md`, `PLAN.md` and, at milestones, `LAST_KNOWN_STATE.md` are
what a person reads who looks in now and then (CTO-12). They are written only where `flyball init` has made the folder,
each whole or not at all; that one cannot be written never stops a run. What somebody edited is kept beside it.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from msgspec import Struct

from flyball.core.run import Run
from flyball.domain import events as e
from flyball.errors import FlyballError
from flyball.journal import Journal, Row
from flyball.journal.history import load
from flyball.reading.terminal import plain
from flyball.state_dir import write_whole
from flyball.views import ledger
from flyball.views.loop_status import loop_state, loop_status

PAGES = ("STATUS_LEDGER.md", "LAST_KNOWN_STATE.md", "PLAN.md")
RUNS_MOST = 50
TASK_MOST = 200


class Seen(Struct, frozen=True):
    """A run as it stood at its last event."""

    at: int
    run: Run


class Artifacts:
    """`backlog` gives the tasks that wait for a repository, a line each."""

    def __init__(self, journal: Journal, backlog: Callable[[str], Sequence[str]] = lambda _: ()) -> None:
        self._journal, self._backlog = journal, backlog
        self._seen: dict[str, Seen] = {}
        self._milestone = True

    def note(self, run: Run, _event: e.AnyEvent) -> None:
        """After each event of a run; the files are written once a commit."""
        before = self._seen.get(run.id)
        self._seen[run.id] = Seen(run.at, run)
        if before is None or before.run is not run:
            self._milestone = self._milestone or before is None or _position(before.run) != _position(run)
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
        _write_page(folder / PAGES[0], ledger.ledger(runs, self._backlog(repo)))
        if self._milestone:
            _write_page(folder / PAGES[1], ledger.last_known_state(runs))
            self._milestone = False
        _write_page(folder / PAGES[2], ledger.plan_page(runs))

    def _run(self, row: Row) -> Run:
        """Our own runs as we hold them; what others drive, as far as they have come."""
        kept = self._seen.get(row.run)
        if kept is None or kept.at < row.updated_at:
            kept = self._seen[row.run] = Seen(row.updated_at, load(self._journal, row.run)[0])
        return kept.run


def _position(run: Run) -> tuple[str, str, str, int, str]:
    """What a person who looks in would call the state of a run."""
    return run.state, run.status, run.stop.code if run.stop else "", run.plan.step, run.child


def _block(run: Run) -> str:
    title = " ".join(plain(run.began.task).split())[:TASK_MOST]
    return plain(f"# {title}\n\n{loop_status(run)}")


def out_folder(repo: str) -> Path | None:
    """`.flyball/out`, if it is there and really lies in the repository."""
    parts = (Path(repo, ".flyball"), Path(repo, ".flyball", "out"))
    real = bool(repo) and all(part.is_dir() and not part.is_symlink() for part in parts)
    return parts[1] if real else None


def drift(repo: str) -> list[str]:
    """The pages that are not as they were written."""
    folder = out_folder(repo)
    return [name for name in PAGES if folder is not None and _edited(folder / name)]


def _edited(file: Path) -> bool:
    try:
        return file.is_file() and ledger.edited(file.read_text("utf-8", "replace"))
    except OSError:
        return False


def _write_page(file: Path, text: str) -> None:
    """What somebody wrote into a page is not lost, and not believed."""
    if _edited(file) and not file.is_symlink():
        file.replace(file.with_suffix(".edited.md"))
    _write(file, text)


def _write(file: Path, text: str) -> None:
    write_whole(file, text.encode("utf-8", "replace"), mode=0o644, sync=False)
