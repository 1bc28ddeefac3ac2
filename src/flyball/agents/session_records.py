"""What Codex and Gemini CLI record in their own home after each request to their model: the tokens so far.

Their streams report this only at the end of a turn. The files are the agent's: a false entry only affects its
own budget.
"""

from __future__ import annotations

import contextlib
import os
import stat
from datetime import UTC, datetime
from fnmatch import fnmatch
from itertools import islice
from pathlib import Path

from msgspec.structs import replace

from flyball.agents.accounts import CODEX, GEMINI, account_of
from flyball.agents.adapter import AgentResult, since
from flyball.domain.events import Usage
from flyball.reading.streams.codex_stream import usage_of as codex_usage
from flyball.reading.streams.gemini_stream import usage_of as gemini_usage
from flyball.reading.streams.stream_facts import Event, summed, text
from flyball.reading.terminal import as_object, table

PATTERNS = (
    (CODEX, ".codex/sessions/*/*/*/rollout-*.jsonl"),
    (GEMINI, ".gemini/tmp/*/chats/session-*.jsonl"),
)
FILES_MOST, ENTRIES_MOST = 100, 1_000
READ_MOST = 8 << 20  # at one look


class SessionRecord:
    """The tokens of this turn: of what is written to the record from now on."""

    def __init__(self, agent: str, home: Path) -> None:
        account = account_of(agent)
        self.home = home
        self.pattern = next((pattern for owner, pattern in PATTERNS if owner is account), "")
        self.model, self.began = "", datetime.now(UTC).isoformat()
        self.total: Usage | None = None  # of the whole session, where the record states that
        self.messages: dict[str, Usage] = {}
        self.before = Usage()
        self.offsets = {path: _size(path) for path in self._files()}

    def used(self) -> Usage:
        for path in self._files():
            start = self.offsets.get(path, 0)
            if _size(path) > start:
                self.offsets[path] = start + self._take(_read(path, start))
        return since(self.total or Usage(), self.before).plus(summed(self.messages))

    def _files(self) -> list[Path]:
        places = [self.home] if self.pattern else []
        for part in filter(None, self.pattern.split("/")):
            places = [path for place in places for path in _matching(place, part)][:FILES_MOST]
        return places

    def _take(self, data: bytes) -> int:
        """The bytes of whole lines; a line that is too long to be read is passed over."""
        whole = data.rfind(b"\n") + 1
        for line in data[:whole].splitlines():
            event = as_object(line.decode("utf-8", "replace")) or {}
            self._of_codex(table(event.get("payload")))
            self._of_gemini(event)
        return whole or (len(data) if len(data) >= READ_MOST else 0)

    def _of_gemini(self, event: Event) -> None:
        """A resumed session may be written down again, each message with its old time."""
        if event.get("type") != "gemini" or text(event.get("timestamp")) < self.began:
            return
        self.model = text(event.get("model")) or self.model
        if isinstance(event.get("tokens"), dict):
            self.messages[text(event.get("id"))] = gemini_usage(event)

    def _of_codex(self, payload: Event) -> None:
        self.model = text(payload.get("model")) or self.model
        info = table(payload.get("info"))
        if payload.get("type") != "token_count" or not info:
            return
        total = codex_usage(table(info.get("total_token_usage")))
        if self.total is None:
            self.before = since(total, codex_usage(table(info.get("last_token_usage"))))
        self.total = total

    def completed(self, result: AgentResult) -> AgentResult:
        """An agent that was ended has not reported what it used; its record has."""
        used = Usage() if result.usage.tokens else self.used()
        if not used.tokens:
            return result
        model = result.model or self.model
        return replace(result, usage=used, total_tokens=self.total or result.total_tokens, model=model)


def _matching(place: Path, part: str) -> list[Path]:
    """What is in a folder by that name; of a folder that an agent has filled, only the first entries are looked at."""
    if "*" not in part:
        return [place / part]
    try:
        with os.scandir(place) as entries:
            return [
                place / entry.name for entry in islice(entries, ENTRIES_MOST) if fnmatch(entry.name, part)
            ]
    except OSError:
        return []


def _size(path: Path) -> int:
    """Of a regular file; 0 of anything else that an agent may have put there."""
    with contextlib.suppress(OSError):
        status = path.lstat()
        return status.st_size if stat.S_ISREG(status.st_mode) else 0
    return 0


def _read(path: Path, start: int) -> bytes:
    with contextlib.suppress(OSError):
        file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            return os.pread(file, READ_MOST, start)
        finally:
            os.close(file)
    return b""
