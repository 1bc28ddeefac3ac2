"""A protocol on an agent's standard input, spoken through its keeper while the turn lasts."""

from __future__ import annotations

import contextlib
import json
import threading
from pathlib import Path
from typing import Any

from flyball.agents import process
from flyball.agents.adapter import Conversation

LEAVE_S = 3.0  # so long may an agent take to end after its turn has; Gemini never ends by itself
INTERRUPT_S = 5.0  # and so long to end its turn when it is asked to


class Dialogue:
    def __init__(self, folder: Path, talk: Conversation) -> None:
        self.folder, self.talk = folder, talk
        self.timers: list[threading.Timer] = []
        self.closed = False

    def open(self) -> None:
        self._say(self.talk.opening())

    def hear(self, line: str) -> None:
        self._say(self.talk.reply(line))
        if self.talk.done and not self.closed:
            self.closed = True
            self._send(None)
            self._later(LEAVE_S, stop=None)

    def interrupt(self, stop: process.Stop) -> None:
        """Ask the agent to end its turn; it is ended if it does not."""
        self._say(self.talk.interrupt())
        self._later(INTERRUPT_S, stop)

    def close(self) -> None:
        for timer in self.timers:
            timer.cancel()

    def _later(self, seconds: float, stop: process.Stop | None) -> None:
        end = (lambda: stop.set(now=True)) if stop else (lambda: process.end(self.folder))
        timer = threading.Timer(seconds, end)
        timer.daemon = True
        self.timers.append(timer)
        timer.start()

    def _say(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            self._send(json.dumps(message) + "\n")

    def _send(self, text: str | None) -> None:
        with contextlib.suppress(OSError), process.Line(self.folder) as line:  # it may have ended meanwhile
            line.say(text)
