"""The tool calls of one act: what the guard was asked, its verdicts, and the results.

The driver keeps them in the act's own folder, where no agent can write, one JSON line each, so a driver that takes over
after a crash has them too. `actions` returns what the journal gets: bounded, redacted, refusals first.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from flyball.agents.hooks.payload import INPUT_MOST, NAME_MOST, RESULT_MOST, TOOL_MOST, HookCall
from flyball.domain.events import Action
from flyball.guard.change import Verdict
from flyball.guard.secrets import redact
from flyball.reading.terminal import as_object, plain

NAME = "actions.jsonl"
ACTIONS_MOST = 100
FILE_MOST, RULINGS_MOST = 8 << 20, 64 << 20
SHOWN_INPUT, SHOWN_RESULT = 500, 300
SLACK = 4_000  # a secret is rarely longer

Pair = tuple[dict[str, Any], dict[str, Any], bool]  # what was asked, what came of it, whether nobody saw it


class Record:
    def __init__(self, folder: Path) -> None:
        self.file = folder / NAME
        self._one = threading.Lock()
        self._size = self.file.stat().st_size if self.file.exists() else 0

    def asked(self, word: HookCall, ruling: Verdict, call: str = "", question: str = "") -> None:
        ruled = {"verdict": ruling.verdict, "rule": ruling.rule, "reason": ruling.reason, "fingerprint": call}
        self._add({**_row(word), **ruled, **({"question": question} if question else {})})

    def finished(self, word: HookCall) -> None:
        names = {"session": word.session[:NAME_MOST], "model": word.model[:NAME_MOST]}
        self._add({**_row(word), **names, "result": redact(word.result), "failed": word.failed})

    def _add(self, row: dict[str, Any]) -> None:
        line = (json.dumps(row) + "\n").encode("utf-8", "replace")
        with self._one:
            if self._size + len(line) > FILE_MOST and row["moment"] != "pre":
                return  # an agent that calls tools without end must not fill the disk
            if self._size + len(line) > RULINGS_MOST:
                raise ValueError("the log of tool calls is full, so further calls are refused")
            with self.file.open("ab") as file:
                file.write(line)
            self._size += len(line)


def shortened(text: str, most: int) -> str:
    """The beginning, without secrets. Only the kept part is searched; what may be part of a secret at its end is
    dropped.
    """
    begin = text[: most + SLACK]
    clean = redact(begin)
    return clean[:most] if len(text) <= len(begin) else clean[:-SLACK][:most]


def _row(word: HookCall) -> dict[str, Any]:
    fields = {"moment": word.moment, "event": word.event[:NAME_MOST], "tool": word.tool[:TOOL_MOST]}
    return {**fields, "input": shortened(word.asked, INPUT_MOST), "call": word.call[:NAME_MOST]}


class ActRecord:
    """The record of an act, read from its file."""

    def __init__(self, rows: list[dict[str, Any]], late: list[dict[str, Any]]) -> None:
        self.spoke = bool(rows)  # a note in the agent's reach is no heartbeat
        self.model = next((str(row["model"]) for row in rows if row.get("model")), "")
        pairs = _bounded([*_paired(rows, late=False), *_paired(late, late=True)])
        self.actions = tuple(_action(*pair) for pair in pairs)
        self.wanted = next((row for row in rows if row.get("verdict") == "ask"), None)
        self._refused = [row for row in (*rows, *late) if row.get("verdict") == "deny"]

    def refused_by(self, rules: Collection[str]) -> Action | None:
        """The first call that one of these rules refused."""
        row = next((row for row in self._refused if row.get("rule") in rules), None)
        return _action(row, {}, late=False) if row else None

    @property
    def count(self) -> int:
        return len(self.actions)


def read(folder: Path, late: str = "") -> ActRecord:
    return ActRecord(
        list(_rows(folder / NAME, RULINGS_MOST)), list(_rows(Path(late), FILE_MOST)) if late else []
    )


def _rows(file: Path, most: int) -> Iterable[dict[str, Any]]:
    """Only regular files are read: in a folder that the agent can write to it could be an endless pipe."""
    try:
        with open(file, "rb", opener=_opened) as lines:
            while most > 0 and (line := lines.readline(most)):
                most -= len(line)
                row = as_object(line)
                if row is not None:
                    yield row
    except OSError:
        return


def _opened(path: str, flags: int) -> int:
    fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(fd).st_mode):
        return fd
    os.close(fd)
    raise OSError(f"{path} is not a file")


def _paired(rows: list[dict[str, Any]], late: bool) -> list[Pair]:
    """Each call with its result: matched by the CLI's id for the call, else by tool and input, in order."""
    came: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in reversed(rows):
        if row.get("moment") == "post":
            came.setdefault(_which(row), []).append(row)
    requests = [row for row in rows if row.get("moment") == "pre"]
    return [(row, _next(came, row) if row.get("verdict") == "allow" else {}, late) for row in requests]


def _which(row: dict[str, Any]) -> tuple[str, ...]:
    call = str(row.get("call") or "")
    return (call,) if call else (str(row.get("tool")), str(row.get("input")))


def _next(came: dict[tuple[str, ...], list[dict[str, Any]]], row: dict[str, Any]) -> dict[str, Any]:
    remaining = came.get(_which(row))
    return remaining.pop() if remaining else {}


def _action(row: dict[str, Any], after: dict[str, Any], late: bool) -> Action:
    return Action(
        tool=plain(str(row.get("tool", "")))[:TOOL_MOST],
        input=shortened(plain(str(row.get("input", ""))), SHOWN_INPUT),
        verdict=plain(str(row.get("verdict", "")))[:TOOL_MOST],
        rule=plain(str(row.get("rule", "")))[:TOOL_MOST],
        reason=shortened(plain(str(row.get("reason", ""))), SHOWN_RESULT),
        result=redact(plain(str(after.get("result", "")))[-RESULT_MOST:])[-SHOWN_RESULT:],
        failed=bool(after.get("failed", False)),
        late=late,
    )


def _bounded(pairs: list[Pair]) -> list[Pair]:
    """As many as fit; refused calls are kept before allowed ones."""
    if len(pairs) <= ACTIONS_MOST:
        return pairs
    refused = [n for n, (row, *_) in enumerate(pairs) if row.get("verdict") != "allow"][-ACTIONS_MOST:]
    passed = [n for n, (row, *_) in enumerate(pairs) if row.get("verdict") == "allow"]
    room = ACTIONS_MOST - len(refused)
    chosen = sorted({*refused, *(passed[-room:] if room else ())})
    return [pairs[n] for n in chosen]
