"""Claude Code: `--output-format stream-json` or `json`; Qwen Code writes the same.

An API failure comes as `subtype: success` with `is_error: true`. An assistant message is repeated for each of its
blocks, with the same id and the same usage. `total_cost_usd` and `modelUsage` count the whole session."""

from __future__ import annotations

import re

from flyball.domain.events import Usage
from flyball.reading.calls import Call
from flyball.reading.streams.stream_facts import Event, Facts, number, rows, summed, text, uusd
from flyball.reading.terminal import table

TYPES = frozenset({
    "system", "assistant", "user", "result", "rate_limit_event", "stream_event",
    "control_request", "control_response", "control_cancel_request", "tool_progress", "tool_use_summary", "keep_alive",
    "command_lifecycle", "attachment",
})  # fmt: skip
ENDS = {
    "max_turns": "turn_limit", "error_max_turns": "turn_limit", "budget_exhausted": "budget_limit",
    "error_max_budget_usd": "budget_limit", "tool_deferred": "needs_approval", "prompt_too_long": "context",
    "aborted_streaming": "killed", "aborted_tools": "killed", "hook_stopped": "refused", "refusal": "refused",
    "stop_hook_prevented": "refused", "blocking_limit": "context", "rapid_refill_breaker": "context",
}  # fmt: skip
FAILURE = re.compile(
    r"error|abort|limit|exceed|exhaust|prevent|block|stopped|fail|cancel|kill|interrupt|crash|quota|refus|too_|time_?out|denied|unavailable|background"
)

MILLISECONDS = 100_000_000_000  # so many seconds are the year 5138
ONLY_AN_ERROR = re.compile(r"\[API Error: .*\]", re.S)
"""Qwen Code calls such a turn a success and exits with 0. It is a failed turn; its words decide nothing else."""


def take(facts: Facts, event: Event) -> Call | None:
    match event.get("type"):
        case "system":
            _system(facts, event)
        case "assistant":
            _assistant(facts, event)
        case "user":
            return _user(facts, event)
        case "rate_limit_event":
            _plan(facts, event)
        case "result":
            _result(facts, event)
        case _:
            pass
    return None


def _system(facts: Facts, event: Event) -> None:
    if event.get("subtype") == "init":
        facts.session, facts.model, facts.end = text(event.get("session_id")), text(event.get("model")), ""
    elif event.get("subtype") == "api_retry":
        facts.retry = event


def _assistant(facts: Facts, event: Event) -> None:
    message = table(event.get("message"))
    facts.session = facts.session or text(event.get("session_id"))
    blocks = rows(message.get("content"))
    words = "\n".join(text(block.get("text")) for block in blocks if block.get("type") == "text")
    if event.get("error") or event.get("api_error") or event.get("isApiErrorMessage"):
        facts.report(event, words)
        facts.retry = event
        return
    if not event.get("parent_tool_use_id"):
        if str(message.get("id")) not in facts.messages:  # the work goes on after a result
            facts.end = ""
        facts.say(words)
    _count(facts, message)
    for block in blocks:
        if block.get("type") == "tool_use":
            facts.begin_call(text(block.get("id")), text(block.get("name")), block.get("input"))


def _count(facts: Facts, message: Event) -> None:
    """What is known while the turn continues: under the message's id, so that a repeated line counts once."""
    facts.model = text(message.get("model")) or facts.model
    before, fresh = facts.messages.get(str(message.get("id")), Usage()), _usage(table(message.get("usage")))
    if fresh.tokens >= before.tokens:
        facts.messages[str(message.get("id"))] = fresh
        facts.usage = summed(facts.messages)


def _usage(usage: Event) -> Usage:
    return Usage(
        input_tokens=number(usage.get("input_tokens")),
        cache_write_tokens=number(usage.get("cache_creation_input_tokens")),
        cache_read_tokens=number(usage.get("cache_read_input_tokens")),
        output_tokens=number(usage.get("output_tokens")),
    )


def _user(facts: Facts, event: Event) -> Call | None:
    call = None
    for block in rows(table(event.get("message")).get("content")):
        if block.get("type") == "tool_result":
            content = block.get("content")
            words = "\n".join(text(part.get("text")) for part in rows(content))
            call = facts.end_call(
                text(block.get("tool_use_id")), words or content, block.get("is_error") is True
            )
    return call


def _plan(facts: Facts, event: Event) -> None:
    info = table(event.get("rate_limit_info"))
    if info.get("status") == "rejected":
        facts.report(event)
        facts.retry = event
        until = number(info.get("resetsAt"))
        facts.refused_until_s = (until // 1000 if until > MILLISECONDS else until) or None
    share = info.get("utilization")
    if isinstance(share, int | float) and not isinstance(share, bool) and share >= 0:
        facts.plan_percent = min(100, round(share * 100 if share <= 1 else share))
        facts.plan_reset_s = number(info.get("resetsAt")) or None


def _result(facts: Facts, event: Event) -> None:
    if event.get("parent_tool_use_id"):  # a subagent's
        return
    facts.session = text(event.get("session_id")) or facts.session
    facts.retry = None
    used = _usage(table(event.get("usage")))
    facts.usage = used if used.tokens or used.cache_read_tokens else facts.usage
    facts.total_uusd = facts.cost_uusd = uusd(event.get("total_cost_usd", event.get("total_cost")))
    facts.models = {name: _of_model(table(row)) for name, row in table(event.get("modelUsage")).items()}
    facts.total_tokens = summed(facts.models) if facts.models else None
    reason = text(event.get("terminal_reason") or event.get("terminalReason"))
    words = (reason, event.get("subtype"), event.get("stop_reason"))
    facts.end = next((ENDS[word] for word in words if isinstance(word, str) and word in ENDS), "")
    errors = event.get("errors")
    message = text(event.get("result")) or "; ".join(map(str, errors) if isinstance(errors, list) else ())  # pyright: ignore[reportUnknownArgumentType]
    if event.get("deferred_tool_use"):
        facts.end = "needs_approval"
    if event.get("is_error") or event.get("api_error_status") or facts.end or FAILURE.search(reason):
        facts.report(event, message)
        facts.end = facts.end or "error"
    elif ONLY_AN_ERROR.fullmatch(message.strip()):
        facts.problem, facts.end = message.strip(), "error"
    else:
        facts.say(message)
        facts.end = "ok" if event.get("is_error") is False and event.get("subtype") == "success" else "error"


def _of_model(row: Event) -> Usage:
    return Usage(
        input_tokens=number(row.get("inputTokens")),
        cache_write_tokens=number(row.get("cacheCreationInputTokens")),
        cache_read_tokens=number(row.get("cacheReadInputTokens")),
        output_tokens=number(row.get("outputTokens")),
        cost_uusd=uusd(row.get("costUSD")) or 0,
    )
