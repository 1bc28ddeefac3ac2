"""Sends notices through Apprise (mail, Slack, Telegram, desktop …). Needs the extra `flyball[notify]`.

The addresses hold passwords. They are kept in a file of the run that only its owner may read, never in the journal.
A notice that cannot be sent never stops a run: a thread sends them, and what fails is only counted.
"""

from __future__ import annotations

import queue
import threading
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from flyball.core.run import Run
from flyball.domain import events as e
from flyball.errors import ConfigError
from flyball.guard.secrets import redact
from flyball.state_dir import StateDir, private_folder, write_whole
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
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what it imports is its own affair
            service = _apprise().Apprise.instantiate(url)
        if service is None:
            kind = url.partition("://")[0][:20] if "://" in url else ""
            raise ConfigError(
                f"notify.urls: address {number}{f' ({kind}://…)' if kind else ''} is not one that Apprise knows. "
                "Use one such as mailto://… or slack://…."
            )


def send(urls: Sequence[str], notice: Notice) -> bool:
    """One notice to every address; False: at least one did not take it."""
    sender = _apprise().Apprise()
    for url in urls:
        sender.add(url)
    return bool(sender.notify(title=redact(notice.title), body=redact(notice.body)))


def keep_addresses(file: Path, urls: Sequence[str]) -> None:
    """For whoever drives the run later."""
    if urls:
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
        """After each event. Nothing that goes wrong here may reach the run."""
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
        except Exception:  # whatever the library does, the run goes on
            self.failed += 1

    def close(self) -> None:
        """Send what is left, for a moment at most."""
        if self._thread is not None:
            try:
                self._queue.put_nowait(None)
            except queue.Full:
                return
            self._thread.join(FLUSH_S)
