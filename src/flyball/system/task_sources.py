"""Where tasks come from besides people: a thread asks now and then, so that a slow answer holds nothing up."""

from __future__ import annotations

import queue
import threading

from flyball.domain.results import Trigger
from flyball.errors import UserError
from flyball.journal import driver as drivers
from flyball.runtime.app import App
from flyball.system.github import open_issues


class Issues:
    """Polls the issues of a GitHub repository. `news` gives tasks, or the sentence that says why there are none."""

    def __init__(self, app: App, driver: str, slug: str, label: str, every_us: int) -> None:
        self._ask = (slug, label, app.env)
        self._ring = (app.state_dir, driver)
        self._every_s = every_us / 1_000_000
        self._news: queue.SimpleQueue[list[Trigger] | str] = queue.SimpleQueue()
        self._over = threading.Event()
        threading.Thread(target=self._poll, name="issues", daemon=True).start()

    def _poll(self) -> None:
        while not self._over.is_set():
            try:
                self._news.put(open_issues(*self._ask))
            except UserError as problem:
                self._news.put(str(problem))
            drivers.ring(*self._ring)
            self._over.wait(self._every_s)

    def news(self) -> list[Trigger] | str | None:
        """What the last poll brought, once."""
        last = None
        while not self._news.empty():
            last = self._news.get()
        return last

    def close(self) -> None:
        self._over.set()
