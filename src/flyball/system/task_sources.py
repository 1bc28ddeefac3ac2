"""Where tasks come from besides people: a thread asks GitHub now and then, so that a slow answer holds nothing up.

A poll that fails is said; it never means that there is no work (CTO-6).
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

from flyball.domain.results import Trigger
from flyball.errors import ForgeError, UserError
from flyball.forge import forge_for
from flyball.journal import driver as drivers
from flyball.runtime.app import App
from flyball.views.text import clean

TEXT_MOST = 20_000


def open_issues(slug: str, label: str, env: dict[str, str]) -> list[Trigger]:
    """The open issues of a repository with a label, as tasks. Raises UserError if they cannot be read completely."""
    rows = forge_for(slug, env).issues(label)
    try:
        return list(_triggers(slug, rows))
    except (KeyError, TypeError, AttributeError):
        raise ForgeError(
            f"GitHub's answer for the issues of {slug} cannot be read. Check GITHUB_API_URL."
        ) from None


def _triggers(slug: str, rows: list[Any]) -> Iterator[Trigger]:
    for row in rows:
        if "pull_request" in row:
            continue
        text = clean(f"{row['title']} (issue #{row['number']} of {slug})\n\n{row.get('body') or ''}").strip()
        yield Trigger(kind="task", text=text[:TEXT_MOST], ticket=f"GH{row['number']}")


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
