"""Plug-ins: an agent, a way to notify people, and a source of tasks.

`flyball run "Remember this" --agent note:NOTES.md` writes its task into NOTES.md; `notify.urls = ["note:/home/ann/log"]`
writes every message into a file; `flyball task import note:TODO.txt` makes a task of each line of a file.

An adapter says how a turn's process is started and how what it left is read. `StreamAgent` reads the output as that of any
command: exit code, an `OUTCOME:` line, and streams of agents that Flyball knows.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flyball.agents.adapter import Launch, TurnRequest
from flyball.agents.stream_agent import StreamAgent

WRITE = 'grep -v "^#" "$1" | grep -m 1 . >> "$2"'
SAY = {"planner": 'echo "I write the task into the file."', "critic": 'echo "OUTCOME: accepted"'}


class NoteAgent(StreamAgent):
    name = "note"
    hooked = False  # it asks the guard about no tool call

    def __init__(self, file: str) -> None:
        super().__init__()
        self.file = file or "NOTES.md"

    def missing(self) -> str:
        """Why it cannot be used, as a sentence; "" if it can."""
        return (
            "" if "/" not in self.file else f"note:{self.file} must name a file at the top of the repository."
        )

    def launch(self, request: TurnRequest) -> Launch:
        program = SAY.get(request.role, WRITE)
        file = str(request.prompt_file)
        return Launch(argv=("/bin/sh", "-c", program, "note", file, self.file), reads=(file,))


def notify(file: str) -> Callable[[str, str], bool]:
    """Sends a message, and says whether that worked. What it raises never stops a run."""

    def send(title: str, body: str) -> bool:
        with Path(file).open("a", encoding="utf-8") as log:
            log.write(f"{title}\n{body}\n\n")
        return True

    return send


def tasks(file: str) -> Callable[[], list[str]]:
    """Gives the texts of tasks; those that are known already are not added again."""
    return lambda: Path(file).read_text("utf-8").splitlines()
