"""Listeners to the events of the runs driven here: notifications to people, and the pages in `.flyball/out/`.

Notices go through Apprise (mail, Slack, Telegram, desktop …), which needs the extra `flyball[notify]`. Its addresses hold
passwords: they are kept in a file of the run that only its owner may read, never in the journal. A notice that cannot be
sent never stops a run: a thread sends them, and what fails is only counted.

The pages are rendered from the journal for people and outside tools, and never read back. `LOOP_STATUS.md` is the Loop
Status block of every run of the repository that continues (LOOP-4), `agents.json` their loop states in the seed's shape
(LOOP-6). `STATUS_LEDGER.md`, `PLAN.md` and, at milestones, `LAST_KNOWN_STATE.md` are what a person reads who looks in now
and then (CTO-12). They are written only where `flyball init` has made the folder, each whole or not at all; that one
cannot be written never stops a run. What somebody edited is kept beside it.
"""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from flyball.config.plugins import NOTIFY, made
from flyball.domain import events as e
from flyball.domain.results import ALIVE
from flyball.errors import ConfigError, FlyballError
from flyball.guard.secrets import redact
from flyball.journal import Journal, Row
from flyball.journal.records import load
from flyball.reading.terminal import plain
from flyball.state.run import Run
from flyball.state_dir import StateDir, out_folder, private_folder, write_whole
from flyball.views import ledger
from flyball.views.loop_status import loop_state, loop_status
from flyball.views.notices import Notice, Notices, Throttle

QUEUE_MOST = 1_000
FLUSH_S = 5.0
Send = Callable[[Sequence[str], Notice], bool]


def _apprise() -> Any:
    try:
        module = import_module("apprise")
    except ImportError:
        raise ConfigError(
            "notify.urls is set, but Apprise is not installed. Install it with: pip install 'flyball[notify]'"
        ) from None
    import logging  # takes time to import, and most runs notify nobody

    logger = logging.getLogger("apprise")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return module


def check(urls: Sequence[str]) -> None:
    """Refuse an address that Apprise cannot use, before a run starts. Only its kind is shown."""
    for number, url in enumerate(urls, 1):
        if "://" not in url and made(url, NOTIFY):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a plug-in's import may raise anything
            service = _apprise().Apprise.instantiate(url)
        if service is None:
            kind = url.partition("://")[0][:20] if "://" in url else ""
            raise ConfigError(
                f"notify.urls: address {number}{f' ({kind}://…)' if kind else ''} is not one that Apprise knows. "
                "Use one such as mailto://… or slack://…."
            )


def send(urls: Sequence[str], notice: Notice) -> bool:
    """One notice to every address; False: at least one did not take it."""
    title, body = redact(notice.title), redact(notice.body)
    plain_urls = [url for url in urls if "://" in url]
    by_plugin = [made(url, NOTIFY)(title, body) for url in urls if url not in plain_urls]
    if not plain_urls:
        return all(by_plugin)
    sender = _apprise().Apprise()
    for url in plain_urls:
        sender.add(url)
    return bool(sender.notify(title=title, body=body)) and all(by_plugin)


def keep_addresses(file: Path, urls: Sequence[str]) -> None:
    """For whoever drives the run later."""
    private_folder(file.parent)
    write_whole(file, msgspec.json.encode(list(urls)))


class Notifier:
    """Hears every event of the runs that are driven here, and tells people of a few."""

    def __init__(self, dirs: StateDir, sender: Send = send) -> None:
        self._dirs, self._send = dirs, sender
        self._notices, self._throttle = Notices(), Throttle()
        self._addresses: dict[str, tuple[str, ...]] = {}
        self._queue: queue.Queue[tuple[tuple[str, ...], Notice] | None] = queue.Queue(QUEUE_MOST)
        self._thread: threading.Thread | None = None
        self.failed = 0

    def note(self, run: Run, event: e.AnyEvent) -> None:
        """Called after each event. No error here may reach the run."""
        try:
            self._note(run, event)
        except Exception:
            self.failed += 1

    def _note(self, run: Run, event: e.AnyEvent) -> None:
        urls = self._urls(run.began.root or run.id)
        notice = self._notices.of(run, event) if urls else None
        if notice is None:
            return
        if self._thread is None:
            self._thread = threading.Thread(target=self._deliver, name="flyball-notify", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait((urls, notice))
        except queue.Full:
            self.failed += 1

    def _urls(self, root: str) -> tuple[str, ...]:
        if root not in self._addresses:
            try:
                data = self._dirs.run(root).notify.read_bytes()
                self._addresses[root] = tuple(msgspec.json.decode(data, type=list[str]))
            except (OSError, msgspec.MsgspecError):
                self._addresses[root] = ()
        return self._addresses[root]

    def _deliver(self) -> None:
        urls: tuple[str, ...] = ()
        while True:
            now = time.time_ns() // 1000
            try:
                message = self._queue.get(timeout=self._throttle.wait_s(now))
            except queue.Empty:
                message = (urls, None)
            now = time.time_ns() // 1000
            if message is None:
                self._tell(urls, self._throttle.summary(now, last=True))
                return
            urls, notice = message
            if notice is None:
                self._tell(urls, self._throttle.summary(now))
            elif self._throttle.admit(notice, now):
                self._tell(urls, notice)

    def _tell(self, urls: tuple[str, ...], notice: Notice | None) -> None:
        if notice is None:
            return
        try:
            self.failed += int(not self._send(urls, notice))
        except Exception:  # whatever the library raises, the run continues
            self.failed += 1

    def close(self) -> None:
        """Send what is left, for a moment at most."""
        if self._thread is not None:
            try:
                self._queue.put_nowait(None)
            except queue.Full:
                return
            self._thread.join(FLUSH_S)


PAGES = ("STATUS_LEDGER.md", "LAST_KNOWN_STATE.md", "PLAN.md")
RUNS_MOST, GOING_MOST = 50, 200
TASK_MOST = 200


class LastEvent(Struct, frozen=True):
    """A run as it was at its last event."""

    at: int
    run: Run


class Artifacts:
    """`backlog` gives the tasks that wait for a repository, a line each."""

    def __init__(self, journal: Journal, backlog: Callable[[str], Sequence[str]] = lambda _: ()) -> None:
        self._journal, self._backlog = journal, backlog
        self._seen: dict[str, LastEvent] = {}
        self._milestone = True

    def note(self, run: Run, event: e.AnyEvent) -> None:
        """After each event of a run; the files are written once a commit."""
        before = self._seen.get(run.id)
        self._seen[run.id] = LastEvent(run.at, run)
        if before is None or before.run is not run:
            self._milestone = self._milestone or before is None or _position(before.run) != _position(run)
            with contextlib.suppress(OSError, FlyballError, ValueError):
                self._render(run.began.repo)

    def _render(self, repo: str) -> None:
        folder = out_folder(repo)
        if folder is None:
            return
        runs = [self._run(row) for row in self._rows(repo)]
        going = [run for run in runs if run.status != "ended" and not run.child] or runs[:1]
        _write(folder / "agents.json", json.dumps([loop_state(run) for run in runs], indent=2) + "\n")
        _write(folder / "LOOP_STATUS.md", "\n".join(_block(run) for run in going))
        _write_page(folder / PAGES[0], ledger.ledger(runs, self._backlog(repo)))
        if self._milestone:
            _write_page(folder / PAGES[1], ledger.last_known_state(runs))
            self._milestone = False
        _write_page(folder / PAGES[2], ledger.plan_page(runs))

    def close(self) -> None:
        """Nothing is left to write: it is written after each commit."""

    def _rows(self, repo: str) -> list[Row]:
        """The newest runs, and those that have not ended, however long ago they began."""
        newest = self._journal.rows(repo=repo, limit=RUNS_MOST)
        going = (self._journal.rows(repo=repo, status=status, limit=GOING_MOST) for status in ALIVE)
        by_run = {row.run: row for row in (*newest, *(row for rows in going for row in rows))}
        return sorted(by_run.values(), key=lambda row: row.created_at, reverse=True)

    def _run(self, row: Row) -> Run:
        """Our own runs as we hold them; what others drive, as far as they have come."""
        entry = self._seen.get(row.run)
        if entry is None or entry.at < row.updated_at:
            entry = self._seen[row.run] = LastEvent(row.updated_at, load(self._journal, row.run)[0])
        return entry.run


def _position(run: Run) -> tuple[str, str, str, int, str]:
    """What a person who looks in would call the state of a run."""
    return run.state, run.status, run.stop.code if run.stop else "", run.plan.step, run.child


def _block(run: Run) -> str:
    title = " ".join(plain(run.task).partition("\n")[0].split())[:TASK_MOST]
    return plain(f"# {title}\n\n{loop_status(run)}")


def make_out_folder(repo: str) -> None:
    """`up` writes its pages in every repository. The folder ignores itself, so git does not see it."""
    folder = Path(repo, ".flyball", "out")
    with contextlib.suppress(OSError):  # that they cannot be written stops nothing
        folder.mkdir(parents=True, exist_ok=True)
        if out_folder(repo) and not (folder / ".gitignore").exists():
            _write(folder / ".gitignore", "*\n")


def drift(repo: str) -> list[str]:
    """The pages that somebody edited: they are not as they were written, or a copy with an edit is there."""
    folder = out_folder(repo)
    pages = [folder / name for name in PAGES] if folder is not None else []
    return [page.name for page in pages if _edited(page) or _copy_of(page).is_file()]


def _copy_of(page: Path) -> Path:
    return page.with_suffix(".edited.md")


def _edited(file: Path) -> bool:
    try:
        return file.is_file() and ledger.edited(file.read_text("utf-8", "replace"))
    except OSError:
        return False


def _write_page(file: Path, text: str) -> None:
    """Edits in a page are kept in a copy and have no effect."""
    if _edited(file) and not file.is_symlink():
        file.replace(_copy_of(file))
    _write(file, text)


def _write(file: Path, text: str) -> None:
    write_whole(file, text.encode("utf-8", "replace"), mode=0o644, sync=False)
