"""What was asked of the guard in one act, what it ruled and what came of it: observed actions.

The driver keeps it in the act's own folder, where no agent can write, a JSON line each; so a driver that comes
after a crash has it too. `actions` is what the journal gets: bounded, redacted, refusals before the rest.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any, cast

from flyball.core.events import Action
from flyball.guard.secrets import redact
from flyball.guard.verdict import Verdict
from flyball.hook.payload import INPUT_MOST, Word

NAME = "actions.jsonl"
ACTIONS_MOST = 100
FILE_MOST, RULINGS_MOST = 8 << 20, 64 << 20
SHOWN_INPUT, SHOWN_RESULT = 500, 300


class Record:
    def __init__(self, folder: Path) -> None:
        self.file = folder / NAME
        self._one = threading.Lock()
        self._size = self.file.stat().st_size if self.file.exists() else 0

    def asked(self, word: Word, found: Verdict, call: str) -> None:
        ruled = {"verdict": found.verdict, "rule": found.rule, "reason": found.reason, "fingerprint": call}
        self._add({**_row(word), **ruled})

    def told(self, word: Word) -> None:
        self._add(
            {**_row(word), "result": redact(word.result), "failed": word.failed, "session": word.session}
        )

    def _add(self, row: dict[str, Any]) -> None:
        line = (json.dumps(row) + "\n").encode("utf-8", "replace")
        with self._one:
            if self._size + len(line) > FILE_MOST and row["moment"] != "pre":
                return  # an agent that talks without end does not fill the disk
            if self._size + len(line) > RULINGS_MOST:
                raise ValueError("the record is full: nobody rules here any more")
            with self.file.open("ab") as file:
                file.write(line)
            self._size += len(line)


def _row(word: Word) -> dict[str, Any]:
    shown = redact(word.asked)[:INPUT_MOST]
    return {"moment": word.moment, "event": word.event, "tool": word.tool, "input": shown, "call": word.call}


class Seen:
    """The record of an act, read back."""

    def __init__(self, rows: list[dict[str, Any]], late: list[dict[str, Any]]) -> None:
        self.spoke = bool(rows)  # a note in the agent's reach is no heartbeat
        self.actions = _bounded([*_paired(rows, late=False), *_paired(late, late=True)])
        self.wanted = next((row for row in rows if row.get("verdict") == "ask"), None)

    @property
    def count(self) -> int:
        return len(self.actions)


def read(folder: Path, late: str = "") -> Seen:
    return Seen(list(_rows(folder / NAME)), list(_rows(Path(late))) if late else [])


def _rows(file: Path) -> Iterable[dict[str, Any]]:
    try:
        with file.open("rb") as open_file:
            data = open_file.read(2 * FILE_MOST)
    except OSError:
        return
    for line in data.splitlines():
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield cast("dict[str, Any]", row)


def _paired(rows: list[dict[str, Any]], late: bool) -> list[Action]:
    """Each question with what came of it: by the CLI's name for the call, else by tool and input, in order."""
    came: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        if row.get("moment") == "post":
            came.setdefault(_which(row), []).append(row)
    return [_action(row, came.get(_which(row), []), late) for row in rows if row.get("moment") == "pre"]


def _which(row: dict[str, Any]) -> tuple[str, ...]:
    call = str(row.get("call") or "")
    return (call,) if call else (str(row.get("tool")), str(row.get("input")))


def _action(row: dict[str, Any], came: list[dict[str, Any]], late: bool) -> Action:
    after = came.pop(0) if came and row.get("verdict") == "allow" else {}
    return Action(
        tool=str(row.get("tool", ""))[:80],
        input=redact(str(row.get("input", "")))[:SHOWN_INPUT],
        verdict=str(row.get("verdict", "")),
        rule=str(row.get("rule", ""))[:80],
        reason=redact(str(row.get("reason", "")))[:SHOWN_RESULT],
        result=str(after.get("result", ""))[-SHOWN_RESULT:],
        failed=bool(after.get("failed", False)),
        late=late,
    )


def _bounded(actions: list[Action]) -> tuple[Action, ...]:
    """All there is room for; what was refused stays before what was let pass."""
    if len(actions) <= ACTIONS_MOST:
        return tuple(actions)
    refused = [n for n, action in enumerate(actions) if action.verdict != "allow"][-ACTIONS_MOST:]
    passed = [n for n, action in enumerate(actions) if action.verdict == "allow"]
    room = ACTIONS_MOST - len(refused)
    kept = sorted({*refused, *(passed[-room:] if room else ())})
    return tuple(actions[n] for n in kept)
