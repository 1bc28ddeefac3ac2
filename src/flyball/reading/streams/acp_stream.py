"""Agent Client Protocol: JSON-RPC lines, the agent's side. What an error holds besides its message is up to the agent."""

from __future__ import annotations

from flyball.domain.events import Usage
from flyball.reading.calls import Call
from flyball.reading.streams.goose_stream import FAILED_WHOLE
from flyball.reading.streams.stream_facts import Event, Facts, number, rows, summed, text, uusd
from flyball.reading.terminal import table

ENDS = {
    "end_turn": "ok", "max_tokens": "context", "max_turn_requests": "turn_limit", "refusal": "refused",
    "cancelled": "killed",
}  # fmt: skip
RESUMES = ("session/load", "session/resume")  # Flyball's requests have their method as id
OF_NO_ACCOUNT = (
    *("agent_thought_chunk", "plan", "available_commands_update", "current_mode_update"),
    *("config_option_update", "session_info_update"),
)
UNNAMED = "-"  # a message without an id goes on until something else is said
BETWEEN = ("available_commands_update", "usage_update", "agent_thought_chunk", "plan")
ENDED = ("completed", "failed", "cancelled")


def take(facts: Facts, event: Event) -> Call | None:
    result, params = table(event.get("result")), table(event.get("params"))
    facts.session = text(result.get("sessionId")) or text(params.get("sessionId")) or facts.session
    if event.get("method") == "session/request_permission":
        _asked(facts, table(params.get("toolCall")))
    if event.get("method") == "session/update":
        return _update(facts, table(params.get("update")))
    if "stopReason" in result:
        _stopped(facts, result)
    elif isinstance(event.get("error"), dict):
        error = table(event["error"])
        words = text(table(error.get("data")).get("message")) or text(error.get("message"))
        facts.report(event, words)
        if event.get("id") in RESUMES:  # a new session may follow
            facts.lost_session = True
        else:
            facts.end = "error"
    elif "result" in event:  # of another request: what came before it was an old session, played again
        facts.message, facts.part = "", ""
        facts.calls.clear()
    return None


def _asked(facts: Facts, call: Event) -> None:
    """Gemini tells of a call that needs a permission here first."""
    name = text(call.get("toolCallId"))
    facts.part = ""
    if name not in facts.running:
        input_ = call.get("rawInput") or text(call.get("title"))
        facts.begin_call(name, text(call.get("kind")) or text(call.get("title")), input_)


def _update(facts: Facts, update: Event) -> Call | None:
    kind = update.get("sessionUpdate")
    if kind in BETWEEN and facts.part == UNNAMED:
        facts.part = ""
    if kind == "agent_message_chunk":
        facts.say(
            text(table(update.get("content")).get("text")), part=text(update.get("messageId")) or UNNAMED
        )
    elif kind == "user_message_chunk":
        facts.message, facts.part = "", ""
    elif kind in ("tool_call", "tool_call_update"):
        return _call(facts, update)
    elif kind == "usage_update":
        facts.total_uusd = facts.cost_uusd = _cost(update, facts.cost_uusd)
    elif kind not in OF_NO_ACCOUNT:
        facts.unknown[f"session/update {kind}"] = facts.unknown.get(f"session/update {kind}", 0) + 1
    return None


def _cost(update: Event, before: int | None) -> int | None:
    cost = table(update.get("cost"))
    amount = uusd(cost.get("amount")) if cost.get("currency", "USD") == "USD" else None
    return before if amount is None else amount


def _call(facts: Facts, update: Event) -> Call | None:
    name = text(update.get("toolCallId"))
    if name not in facts.running and update.get("status") not in ENDED:
        facts.begin_call(name, text(update.get("kind")) or text(update.get("title")), update.get("rawInput"))
    elif update.get("rawInput") and name in facts.running:
        facts.begin_call(name, facts.running[name].tool, update.get("rawInput"))
    if update.get("status") not in ENDED:
        return None
    return facts.end_call(
        name, update.get("rawOutput") or update.get("content"), update.get("status") != "completed"
    )


def _stopped(facts: Facts, result: Event) -> None:
    facts.end = ENDS.get(text(result.get("stopReason")), "error")
    if FAILED_WHOLE.fullmatch(facts.message):  # goose calls it the end of a turn
        facts.problem, facts.end = facts.message.strip(), "error"
    quota = table(table(result.get("_meta")).get("quota"))
    models = {
        text(row.get("model")): _usage(table(row.get("token_count")))
        for row in rows(quota.get("model_usage"))
    }
    facts.usage = (
        summed(models) if models else _usage(table(result.get("usage")) or table(quota.get("token_count")))
    )
    facts.model = next(iter(models), facts.model)


def _usage(row: Event) -> Usage:
    def first(*names: str) -> int:
        return next((number(row[name]) for name in names if name in row), 0)

    return Usage(
        input_tokens=first("inputTokens", "input_tokens"),
        cache_write_tokens=first("cachedWriteTokens"),
        cache_read_tokens=first("cachedReadTokens", "cachedInputTokens"),
        output_tokens=first("outputTokens", "output_tokens"),
    )
