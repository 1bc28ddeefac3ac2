"""How each provider answers a request that fails: status, body and headers by kind of fault."""

from __future__ import annotations

import time

from flyball.testing.model.model_script import Json

Answer = tuple[int, Json, dict[str, str]]


def _retry_after(step: Json) -> dict[str, str]:
    seconds = step.get("retry_after", 1)
    return {} if seconds is None else {"retry-after": str(seconds)}


def _resets_at(step: Json) -> int:
    return int(time.time()) + int(step.get("resets_in", 3600))


ANTHROPIC = {  # kind of fault -> status, type, message
    "rate_limit": (
        429,
        "rate_limit_error",
        "Number of request tokens has exceeded your per-minute rate limit",
    ),
    "usage_limit": (
        429,
        "rate_limit_error",
        "This request would exceed your account's rate limit. Please try again later.",
    ),
    "quota": (
        400,
        "invalid_request_error",
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.",
    ),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "server_error": (500, "api_error", "Internal server error"),
    "auth": (401, "authentication_error", "invalid x-api-key"),
    "forbidden": (403, "permission_error", "Your account does not have permission to use this model"),
    "not_found": (404, "not_found_error", "model: no such model"),
    "context": (400, "invalid_request_error", "prompt is too long: 215000 tokens > 200000 maximum"),
}


def anthropic(kind: str, step: Json) -> Answer:
    status, type_, message = ANTHROPIC.get(kind, (400, "invalid_request_error", kind))
    error = {"type": type_, "message": step.get("message", message)}
    body = {"type": "error", "error": error, "request_id": "req_scripted"}
    return status, body, {"request-id": "req_scripted", **_anthropic_headers(kind, step)}


def _anthropic_headers(kind: str, step: Json) -> dict[str, str]:
    if kind == "rate_limit":
        return {**_retry_after(step), "anthropic-ratelimit-requests-remaining": "0"}
    if kind != "usage_limit":
        return {}
    reset = _resets_at(step)  # what a subscription plan's exhausted window looks like
    return {
        "anthropic-ratelimit-unified-status": "rejected",
        "anthropic-ratelimit-unified-reset": str(reset),
        "anthropic-ratelimit-unified-representative-claim": "five_hour",
        "anthropic-ratelimit-unified-5h-status": "rejected",
        "anthropic-ratelimit-unified-5h-reset": str(reset),
        "anthropic-ratelimit-unified-5h-utilization": "1.0",
        "retry-after": str(reset - int(time.time())),
    }


OPENAI: dict[str, tuple[int, str, str | None, str]] = {  # kind of fault -> status, type, code, message
    "rate_limit": (
        429,
        "tokens",
        "rate_limit_exceeded",
        "Rate limit reached on tokens per min (TPM): Limit 30000. Please try again in {retry}s.",
    ),
    "usage_limit": (429, "usage_limit_reached", None, "The usage limit has been reached"),
    "quota": (
        429,
        "insufficient_quota",
        "insufficient_quota",
        "You exceeded your current quota, please check your plan and billing details.",
    ),
    "overloaded": (503, "server_error", "server_is_overloaded", "The server is overloaded"),
    "server_error": (500, "server_error", None, "The server had an error while processing your request"),
    "auth": (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: scripted."),
    "forbidden": (403, "invalid_request_error", "model_not_allowed", "You have no access to this model"),
    "not_found": (404, "invalid_request_error", "model_not_found", "The model does not exist"),
    "context": (
        400,
        "invalid_request_error",
        "context_length_exceeded",
        "Your input exceeds the context window of this model.",
    ),
}


def openai(kind: str, step: Json) -> Answer:
    reset, extra, headers = _resets_at(step), Json(), dict[str, str]()
    seconds = str(reset - int(time.time()))
    if kind == "usage_limit":  # what a ChatGPT plan's exhausted window looks like to Codex
        extra = {"plan_type": "plus", "resets_at": reset, "resets_in_seconds": int(seconds)}
        window = {"used-percent": "100", "window-minutes": "300", "reset-after-seconds": seconds}
        headers = {f"x-codex-primary-{name}": value for name, value in window.items()}
    if kind == "rate_limit":
        headers = {**_retry_after(step), "x-ratelimit-remaining-tokens": "0"}
    status, type_, code, message = OPENAI.get(kind, (400, "invalid_request_error", None, kind))
    message = step.get("message", message.replace("{retry}", str(step.get("retry_after", 1))))
    error = {"message": message, "type": type_, "param": None, "code": code, **extra}
    return status, {"error": error}, {"x-request-id": "req_scripted", **headers}


GOOGLE = "type.googleapis.com/google.rpc."
GEMINI = {  # kind of fault -> status, its name, message
    "rate_limit": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota."),
    "usage_limit": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota: requests per day."),
    "quota": (429, "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan."),
    "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later."),
    "server_error": (500, "INTERNAL", "An internal error has occurred."),
    "auth": (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key."),
    "forbidden": (403, "PERMISSION_DENIED", "Permission denied"),
    "not_found": (404, "NOT_FOUND", "model is not found"),
    "context": (
        400,
        "INVALID_ARGUMENT",
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
    ),
}


def gemini(kind: str, step: Json) -> Answer:
    status, name, message = GEMINI.get(kind, (400, "INVALID_ARGUMENT", kind))
    details = _gemini_details(kind, step.get("retry_after", 1))
    error = {"code": status, "message": step.get("message", message), "status": name, "details": details}
    return status, {"error": error}, {}


def _gemini_details(kind: str, retry: object) -> list[Json]:
    if kind == "auth":
        return [{"@type": GOOGLE + "ErrorInfo", "reason": "API_KEY_INVALID"}]
    if kind not in ("rate_limit", "usage_limit", "quota"):
        return []
    period = "Minute" if kind == "rate_limit" else "Day"
    violation = {
        "quotaMetric": "generativelanguage.googleapis.com/generate_requests",
        "quotaId": f"GenerateRequestsPer{period}PerProjectPerModel",
    }
    info = [{"@type": GOOGLE + "RetryInfo", "retryDelay": f"{retry}s"}]
    failure = {"@type": GOOGLE + "QuotaFailure", "violations": [violation]}
    return [failure, *(info if kind == "rate_limit" and retry is not None else [])]
