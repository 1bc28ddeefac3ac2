"""The tools with which an agent reports, and what it has reported with them in one act.

Laws:
- A report is checked at once, so that the agent can correct itself in the same turn, and recorded before it is
  acknowledged.
- No tool waits for a person. A question is in the inbox after the turn, and the agent gets the answer in its next
  turn, in the same session; no process waits meanwhile.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from flyball.agents.mcp.protocol import Tool, ToolResult, answer
from flyball.core.turns import claimable, misfit
from flyball.domain.events import Claim, Finding
from flyball.domain.machine import JUDGING_ROLES
from flyball.domain.settings import INDICATORS, INDICATORS_MIN
from flyball.reading.indicators import named
from flyball.reading.terminal import as_object
from flyball.state.run import Run

FILE, TOKEN = "reports.jsonl", "mcp.token"
ROWS_MOST, ROW_MOST = 500, 40_000
LATER = "A person will see this after your turn. End your turn now; the answer comes with your next turn."
SEVERITIES, STATUSES = ("high", "medium", "low"), ("open", "fixed", "disputed", "accepted")


class Finish(Struct, frozen=True):
    indicators: tuple[str, ...] = ()
    summary: str = ""


class Outcome(Struct, frozen=True):
    name: str
    reason: str = ""
    data: dict[str, Any] = {}


class Progress(Struct, frozen=True):
    text: str


class Question(Struct, frozen=True):
    question: str


class Approval(Struct, frozen=True):
    action: str
    reason: str = ""


SHAPES: dict[str, type[Struct]] = {
    "finish": Finish,
    "outcome": Outcome,
    "report_progress": Progress,
    "ask_human": Question,
    "request_approval": Approval,
    "report_finding": Finding,
}
NAMES = frozenset(SHAPES)


WORDS = {"type": "string"}
FINDING = {
    "text": WORDS,
    "file": WORDS,
    "line": {"type": "integer"},
    "severity": {"type": "string", "enum": list(SEVERITIES)},
    "kind": {
        "type": "string",
        "enum": ["security"],
        "description": "Only for a weakness that can be exploited.",
    },
    "id": {**WORDS, "description": "Of an earlier finding, to change its status."},
    "status": {"type": "string", "enum": list(STATUSES)},
    "evidence": WORDS,
}


def tools(run: Run, role: str) -> list[Tool]:
    """What a client lists, with the names that count in this state. The first property of each is required."""
    true = f"Which of these are true: {', '.join((*INDICATORS, *run.settings.indicators))}."
    indicators = {"type": "array", "items": WORDS, "description": true}
    claims: dict[str, Any] = {"name": WORDS, "reason": WORDS, "data": {"type": "object"}}
    return [
        _tool(
            "finish",
            "Claim that the whole task is done. Flyball then checks it.",
            {"indicators": indicators, "summary": WORDS},
        ),
        _tool("outcome", _outcomes(run, role), claims),
        _tool("report_progress", "Say in a line what you are doing, for those who watch.", {"text": WORDS}),
        _tool(
            "ask_human",
            "Ask what only a person can decide. End your turn after it.",
            {"question": WORDS},
        ),
        _tool(
            "request_approval",
            "Ask a person to approve something before you do it. End your turn after it.",
            {"action": WORDS, "reason": WORDS},
        ),
        _tool("report_finding", "Report a problem in the code, or what became of an earlier one.", FINDING),
    ]


def _tool(name: str, description: str, properties: dict[str, Any]) -> Tool:
    schema = {"type": "object", "properties": properties, "required": list(properties)[:1]}
    return Tool(name=name, description=description, input_schema=schema)


def _outcomes(run: Run, role: str) -> str:
    names = outcomes(run, role)
    return f"Say how your turn ended. The last call counts. Names: {', '.join(names) or 'none in this role'}."


def outcomes(run: Run, role: str) -> tuple[str, ...]:
    """The names that this role can claim here."""
    if role == "worker":
        return ()
    if role == "author":
        return (run.settings.done_word, "FAIL")
    if role == "reviewer" and "passed" in run.here.on:
        return ("PASS", "FAIL")
    return (*claimable(run), *(("PASS", "FAIL") if role in JUDGING_ROLES else ()))


class Reports:
    """Answers the messages of one act's MCP server for as long as it has a driver."""

    def __init__(self, folder: Path, run: Run, role: str, show: Callable[[str], None]) -> None:
        self.file, self.run, self.role, self.show = folder / FILE, run, role, show
        self.token = token(folder)
        self._one = threading.Lock()

    def reply(self, token: str, payload: bytes) -> str:
        """Answer only messages that carry the act's token."""
        if not secrets.compare_digest(token.encode(), self.token.encode()):
            raise ValueError("another act's token")
        return answer(payload, tools(self.run, self.role), self.call)

    def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        shape = SHAPES.get(name)
        if shape is None:
            return ToolResult(f"There is no tool '{name[:80]}'. Tools: {', '.join(SHAPES)}.", failed=True)
        try:
            report = msgspec.convert(arguments, shape, strict=False)
        except msgspec.ValidationError as odd:
            return ToolResult(f"This call cannot be used: {odd}.", failed=True)
        report, problem = _checked(self.run, self.role, report)
        if problem:
            return ToolResult(problem, failed=True)
        if isinstance(report, Progress):
            self.show(report.text.strip().replace("\n", " ")[:200])
        return self._recorded(name, report)

    def _recorded(self, name: str, report: Struct) -> ToolResult:
        line = json.dumps({"tool": name, "arguments": msgspec.to_builtins(asdict(report))}).encode() + b"\n"
        if len(line) > ROW_MOST:
            return ToolResult("This is too long. Say it in fewer words.", failed=True)
        with self._one:
            if _rows(self.file)[ROWS_MOST - 1 :]:
                return ToolResult("There are too many reports in this turn already.", failed=True)
            with self.file.open("ab") as file:
                file.write(line)
        return ToolResult(LATER if name in ("ask_human", "request_approval") else "Recorded.")


def _checked(run: Run, role: str, report: Struct) -> tuple[Struct, str]:
    """The report as it will be used, and a sentence that says what is wrong with it."""
    match report:
        case Finish() if role == "worker":
            indicators = named(report.indicators, run.settings.indicators)
            lacks = f"A claim needs {INDICATORS_MIN} different indicators that are true, of: {', '.join(INDICATORS)}."
            return replace(report, indicators=indicators), "" if len(indicators) >= INDICATORS_MIN else lacks
        case Finish() if role != "author":
            return report, f"There is nothing to finish as {role}; use `outcome`."
        case Outcome():
            return _checked_outcome(run, role, report)
        case Finding() if report.severity not in SEVERITIES or report.status not in STATUSES:
            return (
                report,
                f"A severity is one of {', '.join(SEVERITIES)}; a status one of {', '.join(STATUSES)}.",
            )
        case Question(question=text) | Progress(text=text) | Approval(action=text) if not text.strip():
            return report, "It is empty."
        case _:
            return report, ""


def _checked_outcome(run: Run, role: str, report: Outcome) -> tuple[Struct, str]:
    names = outcomes(run, role)
    name = next((name for name in names if name.lower() == report.name.strip().lower()), "")
    if not name:
        use = f"Use one of: {', '.join(names)}." if names else "Use `finish` when the task is done."
        return report, f"There is no outcome '{report.name[:80]}' here. {use}"
    return replace(report, name=name), misfit(run, role, Claim(outcome=name, data=report.data))


# ---- what was said -----------------------------------------------------------------------------------------------


def token(folder: Path) -> str:
    """The act's own; "" if it has no MCP server."""
    file = folder / TOKEN
    return file.read_text("ascii") if file.exists() else ""


def issue_token(folder: Path) -> str:
    file = folder / TOKEN
    if not file.exists():
        file.write_text(secrets.token_hex(16), "ascii")
    return token(folder)


def claim(folder: Path) -> tuple[Claim, str]:
    """All that the agent said with its tools, as one claim; and what it wants a person to approve."""
    claim_, approval = Claim(), ""
    for row in _rows(folder / FILE):
        report = msgspec.convert(row["arguments"], SHAPES[row["tool"]])
        match report:
            case Finish():
                claim_ = replace(claim_, finished=True, indicators=report.indicators)
            case Outcome(name="PASS" | "FAIL"):
                claim_ = replace(claim_, signal=report.name, outcome="", data=report.data)
            case Outcome():
                claim_ = replace(claim_, outcome=report.name, signal="", data=report.data)
            case Question():
                claim_ = replace(claim_, ask=report.question)
            case Approval():
                approval = report.action + (f" ({report.reason})" if report.reason else "")
            case Finding():
                claim_ = replace(claim_, findings=(*claim_.findings, report))
            case _:
                continue
    return claim_, approval


def _rows(file: Path) -> list[dict[str, Any]]:
    """A line that a crash cut short was never acknowledged, so it is skipped."""
    try:
        lines = file.read_text("utf-8").split("\n")
    except FileNotFoundError:
        return []
    rows = (as_object(line) for line in lines)
    return [row for row in rows if row and row.get("tool") in SHAPES]
