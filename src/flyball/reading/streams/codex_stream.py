"""Codex: `exec --json`. It states no cost; usage counts the whole session and its input includes what was cached.

An item of type `error` may be a mere warning: only `turn.failed` counts. `error` lines before it announce retries."""

from __future__ import annotations

from flyball.domain.events import Usage
from flyball.reading.calls import Call
from flyball.reading.streams.stream_facts import Event, Facts, number, text
from flyball.reading.terminal import table

TYPES = frozenset({
    "thread.started", "turn.started", "turn.completed", "turn.failed", "item.started", "item.updated",
    "item.completed", "error", "usage",
})  # fmt: skip
WORDS = ("agent_message", "reasoning", "todo_list", "error", "plan")
INPUTS = ("command", "changes", "arguments", "query")
RESULTS = ("aggregated_output", "result", "error")


def take(facts: Facts, event: Event) -> Call | None:
    match event.get("type"):
        case "thread.started":
            facts.session = text(event.get("thread_id"))
        case "item.started":
            _begun(facts, table(event.get("item")))
        case "item.completed":
            return _done(facts, table(event.get("item")))
        case "turn.started":
            facts.end = ""
        case "usage":
            facts.total_tokens = facts.usage = usage_of(table(event.get("usage")))
        case "turn.completed":
            problem = text(table(event.get("error")).get("message"))
            _ended(facts, event, bool(problem) or event.get("status", "completed") != "completed")
        case "turn.failed":
            _ended(facts, event, True)
        case "error":
            facts.retry = event
            facts.problem = text(event.get("message"))
        case _:
            pass
    return None


def _ended(facts: Facts, event: Event, failed: bool) -> None:
    facts.end, facts.retry = "error" if failed else "ok", None
    if "usage" in event:
        facts.total_tokens = facts.usage = usage_of(table(event.get("usage")))
    if failed:
        facts.report(event, text(table(event.get("error")).get("message")))
    else:
        facts.problem = ""


def _begun(facts: Facts, item: Event) -> None:
    facts.retry = facts.retry if item.get("type") == "error" else None
    if item.get("type") not in WORDS:
        input_ = next((item[name] for name in INPUTS if item.get(name) is not None), None)
        facts.begin_call(text(item.get("id")), text(item.get("tool")) or text(item.get("type")), input_)


def _done(facts: Facts, item: Event) -> Call | None:
    facts.retry = facts.retry if item.get("type") == "error" else None
    if item.get("type") == "agent_message":
        facts.say(text(item.get("text")))
    if item.get("type") in WORDS:
        return None
    if text(item.get("id")) not in facts.running:
        _begun(facts, item)
    failed = (
        item.get("status") == "failed" or item.get("exit_code") not in (0, None) or bool(item.get("error"))
    )
    result = next((item[name] for name in RESULTS if item.get(name)), "")
    return facts.end_call(text(item.get("id")), result, failed)


def usage_of(usage: Event) -> Usage:
    cached, cache_writes = (
        number(usage.get("cached_input_tokens")),
        number(usage.get("cache_write_input_tokens")),
    )
    return Usage(
        input_tokens=max(0, number(usage.get("input_tokens")) - cached - cache_writes),
        cache_write_tokens=cache_writes,
        cache_read_tokens=cached,
        output_tokens=number(usage.get("output_tokens")),
    )


BEFORE = {
    "task_started": "turn.started", "task_complete": "turn.completed", "error": "turn.failed",
    "turn_aborted": "turn.failed", "stream_error": "error", "session_configured": "thread.started",
}  # fmt: skip


def of_before(event: Event) -> Event | None:
    """An event as Codex wrote it before 0.44, `{"id": …, "msg": {"type": …}}`, in today's shape; None if it says nothing."""
    message = table(event.get("msg"))
    kind = text(message.get("type"))
    if kind in BEFORE:
        return {
            "type": BEFORE[kind],
            "thread_id": message.get("session_id"),
            "message": message.get("message"),
            "error": {"message": text(message.get("message")) or text(message.get("reason"))},
        }
    if kind == "token_count":
        return {"type": "usage", "usage": table(table(message.get("info")).get("total_token_usage"))}
    item = _item_of_before(kind, message)
    stage = "item.started" if kind == "exec_command_begin" else "item.completed"
    return {"type": stage, "item": item} if item else None


def _item_of_before(kind: str, message: Event) -> Event | None:
    if kind == "agent_message":
        return {"type": "agent_message", "text": message.get("message")}
    if kind in ("exec_command_begin", "exec_command_end"):
        fields = {name: message[name] for name in ("command", "exit_code") if name in message}
        output = message.get("aggregated_output") or message.get("stdout")
        return {
            "type": "command_execution",
            "id": message.get("call_id"),
            "aggregated_output": output,
            **fields,
        }
    return None
