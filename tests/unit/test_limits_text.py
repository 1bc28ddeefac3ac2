"""Limits as agents' command lines word them: the kind, and the instant at which they lift."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from flyball.agents.limit_text import read_limit
from flyball.agents.reset_times import reset_at

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = datetime(2026, 8, 20, 10, 0, tzinfo=UTC)


def micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def moment(micros_: int) -> str:
    return (EPOCH + timedelta(microseconds=micros_)).isoformat()


Row = tuple[str, str | None, str, str | None]

# fmt: off
ROWS: list[Row] = [
    ("claude", "plan_limit", "You've hit your 5-hour limit · resets 11:43am (UTC)", "2026-08-20T11:43"),
    ("claude", "plan_limit", "You've hit your Opus limit · resets Oct 12, 8am (Europe/Paris)", "2026-10-12T06:00"),
    ("claude", "plan_limit", "You've hit your weekly limit · resets Sep 22, 6am (UTC)", "2026-09-22T06:00"),
    ("claude", "plan_limit", "You've hit your weekly limit · resets Mon", "2026-08-24T00:00"),
    ("claude", "plan_limit", "You've hit your weekly limit · resets Tuesday 9am (UTC)", "2026-08-25T09:00"),
    ("claude", "plan_limit", "5-hour limit reached ∙ resets 3pm", "2026-08-20T15:00"),
    ("codex", "plan_limit", "You've hit your usage limit. Upgrade to Pro or try again at 10:00 AM.", "2026-08-20T10:00"),
    ("claude", "plan_limit", "5-hour limit reached ∙ resets 3pm\n     /upgrade to increase your usage limit.", "2026-08-20T15:00"),
    ("claude", "plan_limit", "Weekly limit reached ∙ resets Oct 3 at 5pm", "2026-10-03T17:00"),
    ("claude", "plan_limit", "Opus weekly limit reached ∙ resets Nov 3 at 5pm", "2026-11-03T17:00"),
    ("claude", "plan_limit", "Session limit reached ∙ resets 2am (Asia/Tokyo)", "2026-08-20T17:00"),
    ("claude", "plan_limit", "Limit reached · resets 5pm (Asia/Seoul) · /upgrade to Max or turn on /extra-usage", "2026-08-21T08:00"),
    ("claude", "plan_limit", "You're out of extra usage · resets 4pm (UTC)", "2026-08-20T16:00"),
    ("claude", "plan_limit", "Your plan's 5-hour window is used up. Resets in 37m.", "2026-08-20T10:37"),
    ("claude", "plan_limit", "You've used your 5-hour allowance. Next reset: 10:15 PM (Europe/London).", "2026-08-20T21:15"),
    ("claude", "plan_limit", "Your Pro plan's usage limit has been reached. It resets at 14:30 UTC.", "2026-08-20T14:30"),
    ("codex", "plan_limit", "The Codex usage limit for your account has been reached. Limits reset in 5h 12m.", "2026-08-20T15:12"),
    ("codex", "plan_limit", "You've used up your weekly Codex quota. Your next window opens at 2026-08-24T00:00:00Z.", "2026-08-24T00:00"),
    ("gemini", "plan_limit", "You have reached the free tier quota limit of 1000 requests per day. Access resets at noon (UTC).", "2026-08-20T12:00"),
    ("opencode", "plan_limit", "[1308][Usage limit reached for 5 hour. Your limit will reset at 2026-08-20 13:02:03][20260820]", "2026-08-20T13:02:03"),
    ("cursor-agent", "plan_limit", "You've saved $102 on API model usage this month with Pro. Your usage limits will reset when your monthly cycle ends on 9/14/2026.", "2026-09-14T00:00"),
    ("goose", "plan_limit", "Rate limit exceeded: The usage limit has been reached.", None),
    ("kimi", "rate_limited", "We're receiving too many requests at the moment. Please wait or upgrade your plan.", None),
    ("mini", "rate_limited", "litellm.exceptions.RateLimitError: AnthropicException - 429 retry-after: 1m30s", "2026-08-20T10:01:30"),
    ("opencode", "rate_limited", '{"object":"error","message":"Requests rate limit exceeded","type":"rate_limited","code":"1300"}', None),
    ("gemini", "auth", "Error: Could not load the default credentials. Browse to the documentation for more.", None),
    ("gemini", None, '{"type":"message","role":"assistant","content":"API key not valid. Please pass a valid API key."}', None),
    ("claude", "plan_limit", "You have run out of usage for this session. Your session resets in 1 hr 20 min.", "2026-08-20T11:20"),
    ("qwen", "plan_limit", "Model usage quota for today has been exhausted. Please try again after 16:00 (UTC).", "2026-08-20T16:00"),
    ("opencode", "billing", "Your prepaid balance is exhausted. Please top up your account.", None),
    ("claude", "billing", "Your organization's spending cap has been reached. Contact your admin.", None),
    ("gemini", "billing", "Error: This API method requires billing to be enabled.", None),
    ("claude", "auth", "Your account has been signed out. Run /login to continue.", None),
    ("opencode", "auth", "Error: Token refresh failed: 400", None),
    ("gemini", "overloaded", "UNAVAILABLE: The service is currently overloaded.", None),
    ("aider", None, "Token refresh failed in the old code because the clock was mocked.", None),
    ("codex", None, "You've hit a breakpoint in limits.py:42", None),
    ("codex", None, "You have used all three fixtures; the fourth is not needed.", None),
    ("opencode", None, "The session window is gone after the refactoring.", None),
    ("gemini", None, "tests/limits_test.py ... usage limit reached ... ok", None),
    ("gemini", None, "Tool run_shell_command failed: exit code 1: 401 Unauthorized from the registry", None),
    ("claude", "plan_limit", "API Error: Request rejected (429) · Claude AI usage limit reached|1794800000", "2026-11-16T"),
    ("claude", "plan_limit", "claude result error (subtype=success): You've hit your session limit · resets 3pm (Asia/Tokyo) (subprocess exit: exit status 1)", "2026-08-21T06:00"),
    ("claude", "billing", "claude result error (subtype=success): You've hit your individual spend limit · run /usage-credits to ask your admin for a higher limit · your session limit resets 6:50pm (Asia/Tokyo) (subprocess exit: exit status 1)", None),
    ("claude", "billing", "You've hit your monthly spend limit. Run /usage-credits to manage your limit", None),
    ("claude", "billing", "You've hit your team's shared budget", None),
    ("claude", "billing", "API Error: Usage credits required for 1M context · turn on usage credits at claude.ai/settings/usage", None),
    ("claude", "billing", 'API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."}}', None),
    ("claude", "billing", 'API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-09-01 at 00:00 UTC."}}', "2026-09-01T00:00"),
    ("claude", "rate_limited", "API Error: Request rejected (429) · Number of request tokens has exceeded your per-minute rate limit", None),
    ("claude", "rate_limited", "API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.", None),
    ("claude", "rate_limited", "API Error: 429 {\"type\":\"error\",\"error\":{\"type\":\"rate_limit_error\",\"message\":\"This request would exceed your organization's rate limit of 50,000 input tokens per minute\"}}", None),
    ("claude", "overloaded", 'API Error: 529 {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}', None),
    ("claude", "overloaded", "API Error: 529 Overloaded. This is a server-side issue, usually temporary — try again in a moment.", None),
    ("claude", "overloaded", "API Error: Repeated 529 Overloaded errors", None),
    ("claude", "overloaded", "API Error: 500 Internal server error. This is a server-side issue", None),
    ("claude", "overloaded", 'API Error: 500 {"type":"error","error":{"type":"api_error","message":"Internal server error"}}', None),
    ("claude", "overloaded", "Opus is experiencing high load, please use /model to switch to Sonnet", None),
    ("gemini", "rate_limited", "You exceeded your current quota, please check your plan and billing details. * Quota exceeded for metric: generate_content_free_tier_requests, limit: 10 Please retry in 34.07s.", "2026-08-20T10:00:34"),
    ("gemini", "plan_limit", "You exceeded your current quota, please check your plan and billing details.", None),
    ("goose", "billing", "You exceeded your current quota, please check your plan and billing details.", None),
    ("claude", "auth", "Invalid API key · Please run /login", None),
    ("claude", "auth", "Invalid API key · Fix external API key", None),
    ("claude", "auth", "Failed to authenticate. API Error: 403 Your account does not have permission to use this model", None),
    ("claude", "auth", 'API Error: 401 {"type":"error","error":{"type":"authentication_error","message":"OAuth token has expired. Please obtain a new token or refresh your existing token."}} · Please run /login', None),
    ("claude", "auth", "OAuth token revoked · Please run /login", None),
    ("claude", "auth", "Please run /login · API Error: 401 Invalid authentication credentials", None),
    ("claude", "auth", "Login expired · Please run /login", None),
    ("claude", "context", "Prompt is too long", None),
    ("claude", "context", 'API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 203456 tokens > 200000 maximum"}}', None),
    ("claude", "context", 'API Error: 400 {"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"}}', None),
    ("claude", "network", "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)", None),
    ("claude", "network", "API Error: Unable to connect to API (ECONNRESET)", None),
    ("claude", "network", "API Error: Connection error.", None),
    ("claude", "network", "API Error (Request timed out.) · Retrying in 5 seconds… (attempt 4/10)", "2026-08-20T10:00:05"),
    ("claude", "network", "API Error: fetch failed", None),
    ("claude", "plan_limit", "{\"type\":\"result\",\"subtype\":\"success\",\"is_error\":true,\"api_error_status\":429,\"result\":\"You've hit your session limit · resets 1pm (UTC)\"}", "2026-08-20T13:00"),
    ("claude", None, '{"type":"rate_limit_event","rate_limit_info":{"status":"allowed_warning","resetsAt":1784702400,"utilization":0.93}}', None),
    ("claude", None, '{"type":"rate_limit_event","rate_limit_info":{"status":"allowed","resetsAt":1784702400}}', None),
    ("claude", "rate_limited", '{"type":"system","subtype":"api_retry","attempt":1,"max_retries":10,"retry_delay_ms":600,"error_status":429,"error":"rate_limit"}', "2026-08-20T10:00:00.6"),
    ("claude", "overloaded", '{"type":"system","subtype":"api_retry","attempt":1,"error_status":529,"error":"overloaded"}', None),
    ("claude", None, "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"content\":\"You've hit your usage limit\"}]}}", None),
    ("claude", None, "{\"type\":\"assistant\",\"message\":{\"content\":[{\"type\":\"text\",\"text\":\"You've hit your usage limit is the string I search for\"}]}}", None),
    ("claude", None, '{"type":"result","is_error":false,"result":"I added handling for 429 Too Many Requests."}', None),
    ("claude", None, "You've used 95% of your weekly limit · resets Oct 3 at 5pm", None),
    ("claude", None, "Approaching 5-hour limit", None),
    ("claude", None, "Approaching usage limit · resets at 7pm", None),
    ("claude", None, "usage limit reached is handled in limiter.py", None),
    ("claude", None, "The tests cover the message \"You've hit your limit · resets 1pm\".", None),
    ("claude", None, "```\nYou've hit your limit · resets 1pm\n```\nThat is what the CLI prints.", None),
    ("claude", None, "> You've hit your limit · resets 1pm", None),
    ("claude", None, "Rate limit handling looks fine", None),
    ("codex", None, "**Reviewing rate limit handling**", None),
    ("codex", None, "HTTP 500 responses are now retried.", None),
    ("codex", None, "Authentication failed tests now pass.", None),
    ("codex", None, "Too many requests are now answered with 429.", None),
    ("codex", None, "You've hit your limit of three retries in the new code.", None),
    ("codex", None, "workdir: /tmp/test", None),
    ("codex", None, "--------", None),
    ("codex", None, "FAIL limiter_test.go: expected 429 Too Many Requests, got 200", None),
    ("codex", None, "E   AssertionError: Rate limit exceeded", None),
    ("codex", None, "error: something went wrong", None),
    ("codex", None, "I will now add a retry when the server returns 503 Service Unavailable.", None),
    ("codex", None, "Rate limits are documented in docs/limits.md.", None),
    ("codex", "plan_limit", "ERROR: You've hit your usage limit. Upgrade to Pro (https://chatgpt.com/explore/pro), visit https://chatgpt.com/codex/settings/usage to purchase more credits or try again at 11:42 AM.", "2026-08-20T11:42"),
    ("codex", "plan_limit", "You’ve hit your usage limit. Try again in 3 days 6 hours 57 minutes.", "2026-08-23T16:57"),
    ("codex", "plan_limit", "■ You've hit your usage limit. Try again at Sep 2nd, 2026 1:05 PM.", "2026-09-02T13:05"),
    ("codex", "plan_limit", "You've hit your usage limit for codex-mini. Switch to another model now, or try again later.", None),
    ("codex", "plan_limit", "You've hit your usage limit. Try again later.", None),
    ("codex", "plan_limit", "{\"type\":\"turn.failed\",\"error\":{\"message\":\"You've hit your usage limit. Try again at 3:28 PM.\"}}", "2026-08-20T15:28"),
    ("codex", "plan_limit", '{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","plan_type":"pro","resets_at":1787300000,"resets_in_seconds":1234}}', "2026-08-21T"),
    ("codex", "billing", "Your workspace is out of credits. Add credits to continue.", None),
    ("codex", "billing", "You hit your spend cap set by the owner of your workspace. Ask an owner to increase your spend cap to continue.", None),
    ("codex", "billing", "Quota exceeded. Check your plan and billing details.", None),
    ("codex", "billing", "To use Codex with your ChatGPT plan, upgrade to Plus: https://chatgpt.com/explore/plus.", None),
    ("codex", "rate_limited", "ERROR: exceeded retry limit, last status: 429 Too Many Requests, request id: req_x", None),
    ("codex", "rate_limited", "Reconnecting... 1/5 (exceeded retry limit, last status: 429 Too Many Requests, request id: req_scripted)", None),
    ("codex", "rate_limited", "Reconnecting... 1/5 (rate limit exceeded: Rate limit reached. Please try again in 2s.)", "2026-08-20T10:00:02"),
    ("codex", "rate_limited", "stream error: Rate limit reached for gpt-5 in organization org-x on tokens per min (TPM): Limit 30000, Used 30000, Requested 1000. Please try again in 1.5s.", "2026-08-20T10:00:01.5"),
    ("codex", "overloaded", "Selected model is at capacity. Please try a different model.", None),
    ("codex", "overloaded", "We’re currently experiencing high demand, which may cause temporary errors.", None),
    ("codex", "overloaded", "exceeded retry limit, last status: 503 Service Unavailable", None),
    ("codex", "auth", "unexpected status 401 Unauthorized: Incorrect API key provided: scripted., url: http://127.0.0.1:36747/v1/responses", None),
    ("codex", "auth", "Reconnecting... 1/5 (unexpected status 403 Forbidden: You have no access to this model, url: http://x)", None),
    ("codex", "auth", "Your access token could not be refreshed. Please log out and sign in again.", None),
    ("codex", "context", "Codex ran out of room in the model's context window. Start a new thread or clear earlier history before retrying.", None),
    ("codex", "context", '{"error": {"message": "Your input exceeds the context window of this model.", "type": "invalid_request_error", "param": null, "code": "context_length_exceeded"}}', None),
    ("codex", "context", '{"type":"turn.failed","error":{"message":"{\\"error\\": {\\"message\\": \\"Your input exceeds the context window of this model.\\", \\"code\\": \\"context_length_exceeded\\"}}"}}', None),
    ("codex", "network", "Reconnecting... waiting for network (Connection failed: error sending request)", None),
    ("codex", "network", "stream disconnected before completion: stream closed before response.completed", None),
    ("codex", "network", "stream disconnected before completion: idle timeout waiting for SSE", None),
    ("gemini", "plan_limit", "[API Error: You have exhausted your daily quota on this model.]\nPlease wait and try again later. To increase your limits, request a quota increase through AI Studio, or switch to another /auth method", None),
    ("gemini", "plan_limit", "[API Error: You exceeded your current quota.\nSuggested retry after 600s.]\nPlease wait and try again later.", "2026-08-20T10:10"),
    ("gemini", "plan_limit", "Error when talking to Gemini API Full report available at: /tmp/gemini-client-error-Turn.run-sendMessageStream-2026-11-15T09-49-46-842Z.json TerminalQuotaError: You have exhausted your capacity on this model. Your quota will reset after 18h54m51s.", "2026-08-21T04:54:51"),
    ("gemini", "rate_limited", "Attempt 1 failed: You have exhausted your capacity on this model. Your quota will reset after 2s.. Retrying after 2798.227948ms...", "2026-08-20T10:00:02"),
    ("gemini", "rate_limited", '{"error":{"code":429,"message":"You have exhausted your capacity on this model. Your quota will reset after 3s.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3.957525076s"}]}}', "2026-08-20T10:00:03"),
    ("gemini", "rate_limited", '[API Error: {"error":{"code":429,"message":"Resource has been exhausted (e.g. check quota).","status":"RESOURCE_EXHAUSTED"}}]', None),
    ("gemini", "plan_limit", "Quota exceeded for quota metric 'Gemini 2.5 Pro Requests' and limit 'Gemini 2.5 Pro Requests per day per user per tier' of service 'cloudcode-pa.googleapis.com'", None),
    ("gemini", "rate_limited", "Quota exceeded for quota metric 'Generate Content API requests per minute' and limit 'GenerateContent request limit per minute for a region'", None),
    ("gemini", "overloaded", "[API Error: The model is overloaded. Please try again later.]", None),
    ("gemini", "overloaded", '[API Error: {"error":{"code":500,"message":"An internal error has occurred.","status":"INTERNAL","details":[]}}]', None),
    ("gemini", "overloaded", 'Attempt 1 failed with status 503. Retrying with backoff... ApiError: {"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}', None),
    ("gemini", "auth", '[API Error: {"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]', None),
    ("gemini", "auth", "Please set an Auth method in your settings.json", None),
    ("gemini", "context", '[API Error: {"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT","details":[]}}]', None),
    ("gemini", "network", "Attempt 1 failed. Retrying with backoff... Error: exception TypeError: fetch failed sending request", None),
    ("opencode", "rate_limited", '{"type":"error","error":{"name":"APIError","data":{"message":"Rate limit reached for scripted on tokens per min (TPM): Limit 30000. Please try again in 2s.","statusCode":429,"isRetryable":true,"responseHeaders":{"retry-after":"2"}}}}', "2026-08-20T10:00:02"),
    ("opencode", "overloaded", '{"type":"error","error":{"name":"APIError","data":{"message":"The server is overloaded","statusCode":503}}}', None),
    ("opencode", "auth", '{"type":"error","error":{"name":"APIError","data":{"message":"Incorrect API key","statusCode":401}}}', None),
    ("opencode", "billing", "Error: Insufficient balance. Manage your billing here: https://opencode.ai/workspace", None),
    ("opencode", "rate_limited", "Too Many Requests: retry-after: 30", "2026-08-20T10:00:30"),
    ("opencode", "rate_limited", "HTTP 429 Too Many Requests\nretry-after: 30", "2026-08-20T10:00:30"),
    ("mini", "billing", "litellm.RateLimitError: RateLimitError: OpenAIException - You exceeded your current quota, please check your plan and billing details..", None),
    ("acp", "rate_limited", "{\"jsonrpc\":\"2.0\",\"id\":3,\"error\":{\"code\":-32603,\"message\":\"Internal error: API Error: Request rejected (429) · This request would exceed your account's rate limit. Please try again later.\",\"data\":{\"errorKind\":\"rate_limit\"}}}", None),
    ("claude", "plan_limit", "Claude usage limit reached. Your limit will reset at 2026-08-20T17:00:00+02:00.", "2026-08-20T15:00"),
    ("claude", "plan_limit", "You've hit your limit. Try again in 2 hours 14 minutes.", "2026-08-20T12:14"),
    ("claude", "plan_limit", "You've hit your limit · resets in 45m", "2026-08-20T10:45"),
    ("claude", "plan_limit", "You've hit your limit · resets at 15:00 UTC", "2026-08-20T15:00"),
    ("claude", "plan_limit", "You've hit your limit · resets 9:59am", "2026-08-21T09:59"),
    ("claude", "plan_limit", "You've hit your limit · resets tomorrow at 9am", "2026-08-21T09:00"),
    ("claude", "plan_limit", "You've hit your limit · resets 3:30pm (America/New_York)", "2026-08-20T19:30"),
    ("claude", "plan_limit", "You've hit your limit · resets 3pm (Nowhere/Land)", "2026-08-20T15:00"),
    ("claude", "plan_limit", "You've hit your limit · resets Aug 20, 9am (UTC)", "2026-08-20T09:00"),
    ("claude", "plan_limit", "You've hit your usage limit · you saved $312 on API model usage. Usage will reset when your monthly cycle ends on 9/23/2026.", "2026-09-23T00:00"),
    ("claude", "plan_limit", " What do you want to do?\n\n   1. Stop and wait for limit to reset\n   2. Ask your admin for more usage\n", None),
]
# fmt: on


@pytest.mark.parametrize(("agent", "kind", "text", "instant"), ROWS)
def test_a_limit_is_read_as_it_is_worded(
    agent: str, kind: str | None, text: str, instant: str | None
) -> None:
    found, at = read_limit(agent, text, micros(NOW))
    assert found == kind
    assert (at is None) if instant is None else (at is not None and moment(at).startswith(instant))


OTHERS = [
    json.loads(line) for line in Path(__file__).with_name("limit_rows.jsonl").read_text("utf-8").splitlines()
]
OTHERS_NOW = datetime(2026, 11, 18, 21, 20, tzinfo=UTC)


@pytest.mark.parametrize("row", OTHERS, ids=[f"{n}-{row['agent']}" for n, row in enumerate(OTHERS)])
def test_a_limit_of_any_provider_is_read(row: dict[str, Any]) -> None:
    """`kinds`: where a wording can mean either, both; `resets` is to the minute, and absent where it is open."""
    now = datetime.fromisoformat(row["now"]) if "now" in row else OTHERS_NOW
    kind, at = read_limit(row["agent"], row["text"], micros(now))
    assert kind in row["kinds"]
    if "resets" in row:
        wanted = row["resets"] and micros(datetime.fromisoformat(row["resets"]))
        assert at is not None and abs(at - wanted) <= 60_000_000 if wanted else at is None


@pytest.mark.parametrize(
    ("text", "instant"),
    [
        ("limit reached|1749924000", "2025-06-14T18:00:00"),
        ('"resetsAt":1784702400', "2026-07-22T06:40:00"),
        ('"resets_at": 1784702400000', "2026-07-22T06:40:00"),
        ("resets at 2026-05-10T00:00:00Z", "2026-05-10T00:00:00"),
        ("resets 2026-08-21 06:30", "2026-08-21T06:30:00"),
        ("resets 3pm (Europe/Berlin)", "2026-08-20T13:00:00"),
        ("resets 12:50am (America/Los_Angeles)", "2026-08-21T07:50:00"),
        ("will reset at 1pm (Etc/GMT+5)", "2026-08-20T18:00:00"),
        ("resets 9am (UTC+2)", "2026-08-21T07:00:00"),
        ("resets 9am PST", "2026-08-20T17:00:00"),
        ("resets 12pm", "2026-08-20T12:00:00"),
        ("resets 12am", "2026-08-21T00:00:00"),
        ("resets 10am", "2026-08-20T10:00:00"),
        ("resets at noon", "2026-08-20T12:00:00"),
        ("try again in 2 hours 14 minutes", "2026-08-20T12:14:00"),
        ("try again in 3 days", "2026-08-23T10:00:00"),
        ("try again in 1 day, 2 hours and 3 minutes", "2026-08-21T12:03:00"),
        ("reset after 8h36m13s", "2026-08-20T18:36:13"),
        ("try again in 1m30s", "2026-08-20T10:01:30"),
        ("retry-after: 30", "2026-08-20T10:00:30"),
        ("retry-after-ms: 1500", "2026-08-20T10:00:01.500000"),
        ("retry_after_seconds=90", "2026-08-20T10:01:30"),
        ('"retryDelay": "600s"', "2026-08-20T10:10:00"),
        ('"resets_in_seconds": 61', "2026-08-20T10:01:01"),
        ("resets Nov 3 at 5pm", "2026-11-03T17:00:00"),
        ("resets 3 November 2026, 17:00", "2026-11-03T17:00:00"),
        ("resets Jan 2, 8am", "2027-01-02T08:00:00"),
        ("resets Aug 19 at 5pm", "2026-08-19T17:00:00"),
        ("try again at Aug 23rd, 2026 4:05 AM.", "2026-08-23T04:05:00"),
        ("resets Thursday at 9am", "2026-08-27T09:00:00"),
        ("resets Thu 11am", "2026-08-20T11:00:00"),
    ],
)
def test_a_reset_is_read_in_every_form(text: str, instant: str) -> None:
    found = reset_at(text, micros(NOW))
    assert found is not None
    assert moment(found).removesuffix("+00:00") == instant


@pytest.mark.parametrize(
    "text",
    [
        "",
        "try again later",
        "wait a moment",
        "resets Feb 31",
        "resets 99:99",
        "limit of 30 requests per minute",
    ],
)
def test_no_reset_is_made_up(text: str) -> None:
    assert reset_at(text, micros(NOW)) is None


def test_a_clock_without_a_zone_is_read_in_the_given_one() -> None:
    text = "You've hit your usage limit. Try again at 1:05 PM."
    assert read_limit("codex", text, micros(NOW)) == ("plan_limit", micros(NOW.replace(hour=13, minute=5)))
    assert read_limit("codex", text, micros(NOW), "Europe/Berlin") == (
        "plan_limit",
        micros(NOW.replace(hour=11, minute=5)),
    )


def test_the_last_report_of_a_long_output_is_read() -> None:
    text = "word\n" * 5_000 + "You've hit your limit · resets 1pm\n"
    assert read_limit("claude", text, micros(NOW)) == ("plan_limit", micros(NOW.replace(hour=13)))


def test_what_a_wait_does_not_cure_comes_first() -> None:
    text = "Attempt 1 failed with status 429. Retrying with backoff...\nCredit balance is too low"
    assert read_limit("claude", text, micros(NOW)) == ("billing", None)


def test_hostile_text_is_read_in_time() -> None:
    text = "you've hit your " * 5_000 + "[(" * 5_000 + '{"error":' * 2_000
    assert read_limit("claude", text, micros(NOW)) == (None, None)


def test_a_user_adds_wordings_of_their_own(tmp_path: Path) -> None:
    """In a process of its own: the file is read once."""
    (tmp_path / "flyball").mkdir()
    (tmp_path / "flyball" / "limits.toml").write_text('plan_limit = ["Your seat has no tokens left"]\n')
    row = '{"id": 1, "agent": "x", "text": "Error: your seat has no tokens left, try again in 2 hours", "now": 0}\n'
    words = [sys.executable, "-m", "flyball", "agents", "limit", "--json"]
    env = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(words, input=row, env=env, capture_output=True, text=True)
    assert json.loads(done.stdout) == {"id": 1, "kind": "plan_limit", "reset_at": "1970-01-01T02:00:00Z"}
    (tmp_path / "flyball" / "limits.toml").write_text('plan = ["x"]\n')
    done = subprocess.run(words, input=row, env=env, capture_output=True, text=True)
    assert done.returncode == 2 and "unknown kind 'plan'" in done.stderr
