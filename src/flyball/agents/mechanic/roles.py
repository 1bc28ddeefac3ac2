"""What mechanic does and says in each role. It claims only what it has seen: which tests pass and which fail."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flyball.agents.mechanic.search import Repair, Search, Tests, top_suspects, write_repair
from flyball.agents.mechanic.trials import Row
from flyball.views.text import plural

Json = dict[str, Any]
Rows = list[Json]

NAMED_MOST = 5
MEMORY = "mechanic.json"
LOOP_STATUS = """
## Loop Status

**Progress**: {progress}
**Task Status**: {status}

### Completion Indicators
- [{mark}] Task complete
- [{mark}] All tests passing

### Exit Decision
EXIT_SIGNAL: {signal}

**Reason**: {reason}
"""


def take(role: str, root: Path, search: Search, seconds: float, home: Path) -> Iterator[Json]:
    start = time.monotonic()
    tests = search.tests()
    yield action("test", search.trials.suite.shown, _summary(tests))
    if not tests.run.tests:
        yield from cannot(role, f"{search.trials.suite.runner} found no tests here{_why(tests)}.")
    elif role in ("critic", "quality", "reviewer"):
        yield from _judgement(role, tests)
    elif role in ("planner", "validator"):
        yield from _plan(role, search, tests)
    elif role == "cto":
        yield from _escalation(tests)
    elif not tests.failing:
        yield from cannot(
            role, f"{_summary(tests)} I only repair what makes a test fail, so I changed nothing."
        )
    else:
        yield from _work(role, root, search, tests, seconds, home, start)


def cannot(role: str, why: str) -> Rows:
    """Said plainly, and asked of a person: another turn of mine would end the same way."""
    match role:
        case "critic" | "quality":
            return [_message(f"{why}\n\nOUTCOME: rejected")]
        case "validator":
            return [_message(f"{why}\n\nOUTCOME: rejected")]
        case "planner" | "reviewer" | "cto" | "git":
            return [_message(why)]
        case "author":
            return [_message(f"{why}\n\nFAIL")]
        case _:
            question = f"{why} Repair it by hand (take-over), use another agent, or cancel?"
            status = _loop_status(False, "none", "blocked", why) if role == "worker" else ""
            return [{"type": "ask", "text": question}, _message(why + status)]


# ---- roles that judge and plan ---------------------------------------------------------------------------------


def _judgement(role: str, tests: Tests) -> Rows:
    good, bad = ("PASS", "") if role == "reviewer" else ("OUTCOME: accepted", "OUTCOME: rejected")
    if tests.failing:
        return [_message(f"{_summary(tests)} {_list(tests.failing)}\n\n{bad}".rstrip())]
    return [_message(f"{_summary(tests)} I only ran the tests and reviewed nothing else.\n\n{good}")]


def _plan(role: str, search: Search, tests: Tests) -> Rows:
    if not tests.failing:
        verdict = "\n\nOUTCOME: rejected" if role == "validator" else ""
        return [_message(f"{_summary(tests)} I can only repair what makes a test fail.{verdict}")]
    suspects = top_suspects(*search.suspects(tests))
    lines = (
        "\n".join(f"- {s.file}:{s.line}  {s.text}" for s in suspects)
        or "- no line of the project: they fail before it runs"
    )
    first = f"\n\nThe most suspicious line is {suspects[0].file}:{suspects[0].line}." if suspects else ""
    text = f"{_summary(tests)} {_list(tests.failing)}\n\nLines to look at, the most suspicious first:\n{lines}{first}"
    if role == "validator":
        return [_message(f"{text}\n\nOUTCOME: approved")]
    names = [row.test for row in tests.failing[:NAMED_MOST]]
    step = {
        "title": "Make the failing tests pass",
        "paths": sorted({s.file for s in suspects}),
        "criteria": names,
    }
    return [
        {"type": "outcome", "name": None, "data": {"steps": [step], "rollback": "Revert the commit."}},
        _message(text),
    ]


def _escalation(tests: Tests) -> Rows:
    text = f"{_summary(tests)} I cannot tell what went wrong; a person has to look."
    return [{"type": "outcome", "name": None, "data": {"kind": "escalate", "guidance": text}}, _message(text)]


# ---- roles that work -------------------------------------------------------------------------------------------


def _work(
    role: str, root: Path, search: Search, tests: Tests, seconds: float, home: Path, start: float
) -> Rows:
    memory = Memory(home / MEMORY, _digest(search, tests))
    search.skip = memory.tries
    repair = search.repair(tests)
    memory.write(search.tries, memory.repairs + bool(repair))
    if repair:
        write_repair(root, repair)
        return _success(role, search, tests, repair, time.monotonic() - start)
    return cannot(role, _failure(search, tests, seconds, memory.repairs))


def _success(role: str, search: Search, tests: Tests, repair: Repair, took: float) -> Rows:
    others = len(tests.names) - len(tests.failing)
    where = " and ".join(f"{edit.file}:{edit.line} ({edit.kind})" for edit in repair.edits)
    now_pass = (
        "The test that failed passes"
        if len(tests.failing) == 1
        else f"The {len(tests.failing)} tests that failed pass"
    )
    so_do = " now, and no other test fails" if others > 0 else " now"
    text = (
        f"Repaired {where}. I tried {_effort(search)} in {took:.1f} s.\n\n{_diff(repair)}\n\n"
        f"{now_pass}{so_do}."
    )
    rows = [action("edit", {"path": edit.file, "line": edit.line}, edit.kind) for edit in repair.edits]
    if role in ("worker", "author"):
        rows.append({"type": "finish", "indicators": ["task complete", "all tests passing"]})
    status = _loop_status(True, f"repaired {where}", "complete", "all tests pass") if role == "worker" else ""
    return [*rows, _message(text + status)]


def _effort(search: Search) -> str:
    return f"{plural(search.tries, 'edit')} in {plural(len(search.places), 'place')}"


def _diff(repair: Repair) -> str:
    """The lines that went and those that came."""
    lines = list[str]()
    for name, data in repair.after.items():
        old, new = (text.decode("utf-8", "replace").splitlines() for text in (repair.before[name], data))
        lines += [
            line
            for line in difflib.unified_diff(old, new, n=0, lineterm="")
            if line[:3] not in ("---", "+++", "@@ ")
        ]
    return "\n".join(f"    {line[0]} {line[1:].strip()}" for line in lines)


def _failure(search: Search, tests: Tests, seconds: float, repairs: int) -> str:
    if not search.tries:
        return f"{_list(tests.failing)} They run no line of the project that I could edit. I changed nothing."
    summary = f"I tried {_effort(search)}"
    limit = "" if search.exhausted else f" in my {seconds:.0f} s, and there are more that I did not get to"
    none = "no other than before" if repairs else "none"
    return f"{summary}{limit}; {none} makes the failing tests pass. I changed nothing. {_list(tests.failing)}"


def _loop_status(good: bool, progress: str, status: str, reason: str) -> str:
    mark, signal = ("x", "true") if good else (" ", "false")
    return "\n" + LOOP_STATUS.format(
        progress=progress, status=status, mark=mark, signal=signal, reason=reason
    )


# ---- memory: the same search on the same files continues where it ended ------------------------------------------


class Memory:
    """How far earlier turns came on this very tree. A repair among them was not accepted, or the tree would differ.

    A turn that was interrupted is done again under its number, and what it wrote down does not count."""

    def __init__(self, file: Path, key: str) -> None:
        self.file, self.key = file, key
        self.turn = int(os.environ.get("FLYBALL_TURN", "0"))
        self.tries = self.repairs = 0
        try:
            row = json.loads(file.read_text("utf-8"))
            if row["key"] == key and (row["turn"] < self.turn or not self.turn):
                self.tries, self.repairs = int(row["tried"]), int(row["repairs"])
        except (OSError, ValueError, KeyError, TypeError):
            return  # then the search starts from the beginning

    def write(self, tries: int, repairs: int) -> None:
        row = {"key": self.key, "turn": self.turn, "tried": tries, "repairs": repairs}
        with contextlib.suppress(OSError):
            self.file.write_text(json.dumps(row), "utf-8")


def _digest(search: Search, tests: Tests) -> str:
    """Of everything that decides which edits are tried."""
    whole = hashlib.sha256()
    for path in sorted(search.trials.copy.rglob("*.py")):
        if "site-packages" not in path.parts and path.is_file():
            whole.update(str(path.relative_to(search.trials.copy)).encode() + path.read_bytes())
    whole.update(json.dumps(sorted(row.test for row in tests.failing)).encode())
    return whole.hexdigest()


# ---- words -----------------------------------------------------------------------------------------------------


def action(tool: str, input_: Any, result: str) -> Json:
    return {"type": "action", "tool": tool, "input": input_, "result": result}


def _message(text: str) -> Json:
    return {"type": "message", "text": text}


def _tests(count: int) -> str:
    return f"{count} test{'' if count == 1 else 's'}"


def _summary(tests: Tests) -> str:
    count, failing = len(tests.run.tests), len(tests.failing)
    if not count:
        return "No test ran."
    return f"{failing} of {_tests(count)} fail." if failing else f"No test fails ({_tests(count)})."


def _list(rows: list[Row]) -> str:
    names = sorted(_short(row.test) for row in rows)
    more = f" and {len(names) - NAMED_MOST} more" if len(names) > NAMED_MOST else ""
    return f"Failing: {', '.join(names[:NAMED_MOST])}{more}."


def _short(test: str) -> str:
    file, colons, name = test.partition("::")
    return file.rpartition("/")[2] + colons + name


def _why(tests: Tests) -> str:
    return (
        ""
        if tests.run.ended == "done"
        else f" (the test run {'hung' if tests.run.ended == 'timeout' else 'died'})"
    )
