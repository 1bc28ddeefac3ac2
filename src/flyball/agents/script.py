"""The script agent: plays a file. For tests, demonstrations and rehearsals; it ships because fakes are adapters too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

from flyball.agents import player
from flyball.agents.adapter import AgentResult, Call, Launch, TurnRequest, ended_badly
from flyball.agents.process import Exit
from flyball.domain.events import Claim, Finding, Usage
from flyball.errors import FlyballError, reason
from flyball.reading.terminal import as_object

WRITERS = ("write", "edit", "delete", "bash")


class ScriptAgent:
    hooked = False

    def __init__(self, file: str) -> None:
        self.file = Path(file)

    def missing(self) -> str:
        try:
            self._script()
        except (OSError, UnicodeDecodeError) as problem:
            return f"Cannot read the script {self.file}: {reason(problem)}. Check the path."
        except FlyballError as problem:
            return str(problem)
        return ""

    def _script(self) -> player.Script:
        return player.load(self.file.read_text("utf-8"), str(self.file))

    def launch(self, request: TurnRequest) -> Launch:
        by_role = self._script().roles is not None
        place = request.place if by_role else request.place_in_file
        copy = request.prompt_file.with_name(
            "script"
        )  # the file itself may lie where the sandbox shows other files
        copy.write_bytes(self.file.read_bytes())
        return Launch(argv=tuple(player.command(copy, request.role, place)), reads=(str(copy),))

    def doing(self, line: str) -> Call | None:
        row = as_object(line) or {}
        return _call(row) if row.get("type") == "action" else None

    def spent(self) -> tuple[Usage, str]:
        return Usage(), ""

    def read(self, out: str, err: str, exit: Exit) -> AgentResult:  # noqa: A002
        rows = [as_object(line) or {} for line in out.splitlines()]
        verdict = ended_badly(exit) or _limited(rows) or ("ok" if exit.code == 0 else "unknown")
        wait = _of(rows, "limited").get("reset_in_s")
        return AgentResult(
            verdict=verdict,
            message=str(_of(rows, "message").get("text", "")),
            usage=_usage(rows),
            claim=_claim(rows),
            reset_in_us=_us(wait),
            plan_percent=cast("int | None", _of(rows, "usage").get("plan_percent")),
            plan_reset_in_us=_us(_of(rows, "usage").get("plan_reset_in_s")),
            error=_error(rows, err, exit, verdict),
            calls=tuple(_call(row) for row in rows if row.get("type") == "action"),
        )


def _us(seconds: Any) -> int | None:
    return int(float(seconds) * 1_000_000) if seconds is not None else None


def _of(rows: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    nothing: dict[str, Any] = {}
    return next((row for row in reversed(rows) if row.get("type") == kind), nothing)


def _limited(rows: list[dict[str, Any]]) -> str:
    """The limit that is told of; that all is well is for the exit code to say."""
    kind = str(_of(rows, "limited").get("kind", ""))
    return "" if kind == "ok" else kind


def _usage(rows: list[dict[str, Any]]) -> Usage:
    row = _of(rows, "usage")
    return Usage(
        input_tokens=int(row.get("input_tokens", 0)),
        output_tokens=int(row.get("output_tokens", 0)),
        cost_uusd=round(float(row.get("cost_usd", 0)) * 1_000_000),
    )


def _claim(rows: list[dict[str, Any]]) -> Claim:
    outcome, finish = _of(rows, "outcome"), _of(rows, "finish")
    return Claim(
        outcome=str(outcome.get("name") or ""),
        data=cast("dict[str, Any]", outcome.get("data") or {}),
        finished=bool(finish),
        indicators=tuple(str(i) for i in finish.get("indicators", ())),
        findings=tuple(_finding(row) for row in rows if row.get("type") == "finding"),
        ask=str(_of(rows, "ask").get("text", "")),
    )


def _finding(row: dict[str, Any]) -> Finding:
    return Finding(
        id=str(row.get("id", "")),
        file=str(row.get("file", "")),
        line=_number(row.get("line")),
        severity=str(row.get("severity", "medium")),
        kind=str(row.get("kind", "")),
        status=str(row.get("status", "open")),
        text=str(row.get("text", "")),
        evidence=str(row.get("evidence", "")),
    )


def _number(value: Any) -> int:
    """An agent may name a line in any way; what is not a number is not a line."""
    return int(value) if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()) else 0


def _call(row: dict[str, Any]) -> Call:
    tool = str(row.get("tool", ""))
    asked = row.get("input", "")
    return Call(
        tool=tool,
        input=asked if isinstance(asked, str) else json.dumps(asked, sort_keys=True),
        result=str(row.get("result", "")),
        error=bool(row.get("error", False)),
        writes=tool.lower() in WRITERS,
    )


def _error(rows: list[dict[str, Any]], err: str, exit: Exit, verdict: str) -> str:  # noqa: A002
    if verdict == "ok":
        return ""
    if _limited(rows) == verdict:
        return f"the agent reports {verdict}"
    told = str(_of(rows, "error").get("text", "")) or exit.error or (err.strip().splitlines() or [""])[-1]
    return told or f"the script's turn ended with exit code {exit.code}"
