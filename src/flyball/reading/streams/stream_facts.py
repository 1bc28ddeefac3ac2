"""What a stream of JSON lines states as facts, in the one shape that all command lines share."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, cast

from flyball.domain.events import Usage
from flyball.reading.calls import Call
from flyball.reading.terminal import as_object, table

Event = dict[str, Any]

REPORTS_MOST = 50
TEXT_MOST = 20_000
WRITING_TOOLS = frozenset({
    "write", "edit", "multiedit", "notebookedit", "write_file", "replace", "patch", "apply_patch", "file_change",
    "bash", "shell", "run_shell_command", "exec_command", "command_execution", "delete", "move", "execute",
})  # fmt: skip


@dataclass
class Facts:
    """`end` is how the stream's closing event says it ended: ok, error, a kind of AGENT-2, or "" if there was none."""

    dialect: str = ""
    session: str = ""
    model: str = ""
    message: str = ""  # the agent's last own words
    part: str = ""  # the name of the message that is coming in parts
    end: str = ""
    problem: str = ""  # what went wrong, in the words of the command line
    reports: list[Event] = field(default_factory=list[Event])  # events by which it reports errors or limits
    retry: Event | None = None  # it has announced a retry, and nothing came after
    usage: Usage = field(default_factory=Usage)  # tokens of this process
    cost_uusd: int | None = None  # of this process
    total_tokens: Usage | None = None  # of the whole session, where that is what it reports
    total_uusd: int | None = None
    models: dict[str, Usage] = field(
        default_factory=dict[str, Usage]
    )  # tokens and cost as reported, by model
    messages: dict[str, Usage] = field(default_factory=dict[str, Usage])  # tokens while it works, by message
    calls: list[Call] = field(default_factory=list[Call])
    running: dict[str, Call] = field(default_factory=dict[str, Call])  # calls without a result yet, by id
    plan_percent: int | None = None
    plan_reset_s: int | None = None
    refused_until_s: int | None = None  # the plan is used up until then
    lost_session: bool = False  # the session that was to be resumed is gone
    unknown: dict[str, int] = field(default_factory=dict[str, int])  # kinds of event that nobody here knows

    def report(self, event: Event, problem: str = "") -> None:
        self.reports = [*self.reports[-REPORTS_MOST:], event]
        self.problem = _in_words(problem) or self.problem

    def say(self, words: str, part: str = "") -> None:
        """Words of the agent; those with the name of a part continue with what it said before under that name."""
        before = self.message if part and part == self.part else ""
        self.retry = None
        if words.strip() or before:
            self.message, self.part = (before + words)[-TEXT_MOST:], part

    def begin_call(self, name: str, tool: str, input_: object) -> None:
        self.retry, self.part = None, ""
        self.running[name] = Call(tool, as_words(input_), "", writes=tool.lower() in WRITING_TOOLS)

    def end_call(self, name: str, result: object, error: bool = False) -> Call | None:
        open_call = self.running.pop(name, None)
        if open_call is None:
            return None
        call = Call(open_call.tool, open_call.input, as_words(result)[-TEXT_MOST:], error, open_call.writes)
        self.calls.append(call)
        return call


def _in_words(problem: str) -> str:
    """An error may be passed on as the provider's JSON; people are shown its message."""
    body = as_object(problem[problem.find("{") : problem.rfind("}") + 1]) or {}
    return text(table(body.get("error")).get("message")) or text(body.get("message")) or problem


def as_words(value: object) -> str:
    """A value as text, the same text for the same value."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value, sort_keys=True, ensure_ascii=False)


def rows(value: object) -> list[Event]:
    return [table(item) for item in cast("list[object]", value)] if isinstance(value, list) else []


def text(value: object) -> str:
    return value if isinstance(value, str) else ""


def number(value: object) -> int:
    """A count that an agent wrote; what is no plain number counts nothing."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1 << 53:
        return 0
    return int(value)


def uusd(value: object) -> int | None:
    """Dollars as micro-dollars."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        return None
    return round(value * 1_000_000)


def summed(parts: dict[str, Usage]) -> Usage:
    total = Usage()
    for part in parts.values():
        total = total.plus(part)
    return total
