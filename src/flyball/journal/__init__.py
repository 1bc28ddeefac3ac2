"""The journal: all events in order, kept for good. The state of a run is computed from them.

A journal only grows: `append` adds to the end of a run or adds nothing, and what it returned is on the disk.
Only the driver that holds a run's lease may append to it; everyone else leaves messages.
The journal never looks inside an event: `body` is bytes to it.

`flyball.journal.sqlite.SqliteJournal` keeps it in one file for each user; `flyball.journal.memory.MemoryJournal` keeps
it in memory only. `flyball.testing.journal_suite` is the test suite that any other store has to pass.
"""

from flyball.journal.types import (
    Checkpoint,
    Draft,
    Entry,
    Fault,
    Journal,
    Message,
    Registered,
    Row,
    Snapshot,
    Write,
)

__all__ = [
    "Checkpoint",
    "Draft",
    "Entry",
    "Fault",
    "Journal",
    "Message",
    "Registered",
    "Row",
    "Snapshot",
    "Write",
]
