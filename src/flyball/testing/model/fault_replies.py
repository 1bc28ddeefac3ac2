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


def anthropic(kind: str, step: Json) -> Answer:
    reset = _resets_at(step)
    table: dict[str, tuple[int, str, str, dict[str, str]]] = {
        "rate_limit": (
            429,
            "rate_limit_error",
            "Number of request tokens has exceeded your per-minute rate limit",
            {**_retry_after(step), "anthropic-ratelimit-requests-remaining": "0"},
        ),
        # What a subscription plan's exhausted window looks like.
        "usage_limit": (
            429,
            "rate_limit_error",
            "This request would exceed your account's rate limit. Please try again later.",
            {
                "anthropic-ratelimit-unified-status": "rejected",
                "anthropic-ratelimit-unified-reset": str(reset),
                "anthropic-ratelimit-unified-representative-claim": "five_hour",
                "anthropic-ratelimit-unified-5h-status": "rejected",
                "anthropic-ratelimit-unified-5h-reset": str(reset),
                "anthropic-ratelimit-unified-5h-utilization": "1.0",
                "retry-after": str(reset - int(time.time())),
            },
        ),
        "quota": (
            400,
            "invalid_request_error",
            "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade.",
            {},
        ),
        "overloaded": (529, "overloaded_error", "Overloaded", {}),
        "server_error": (500, "api_error", "Internal server error", {}),
        "auth": (401, "authentication_error", "invalid x-api-key", {}),
        "forbidden": (
            403,
            "permission_error",
            "Your account does not have permission to use this model",
            {},
        ),
        "not_found": (404, "not_found_error", "model: no such model", {}),
        "context": (
            400,
            "invalid_request_error",
            "prompt is too long: 215000 tokens > 200000 maximum",
            {},
        ),
    }
    status, type_, message, headers = table.get(kind, (400, "invalid_request_error", kind, {}))
    body = {
        "type": "error",
        "error": {"type": type_, "message": step.get("message", message)},
        "request_id": "req_scripted",
    }
    return status, body, {"request-id": "req_scripted", **headers}


def openai(kind: str, step: Json) -> Answer:
    reset = _resets_at(step)
    extra: Json = {}
    if kind == "usage_limit":
        extra = {"plan_type": "plus", "resets_at": reset, "resets_in_seconds": reset - int(time.time())}
    status, type_, code, message, headers = _openai_faults(step, reset).get(
        kind, (400, "invalid_request_error", None, kind, {})
    )
    error = {"message": step.get("message", message), "type": type_, "param": None, "code": code, **extra}
    return status, {"error": error}, {"x-request-id": "req_scripted", **headers}


def _openai_faults(step: Json, reset: int) -> dict[str, tuple[int, str, str | None, str, dict[str, str]]]:
    return {
        "rate_limit": (
            429,
            "tokens",
            "rate_limit_exceeded",
            f"Rate limit reached on tokens per min (TPM): Limit 30000. Please try again in {step.get('retry_after', 1)}s.",
            {**_retry_after(step), "x-ratelimit-remaining-tokens": "0"},
        ),
        # What a ChatGPT plan's exhausted window looks like to Codex.
        "usage_limit": (
            429,
            "usage_limit_reached",
            None,
            "The usage limit has been reached",
            {
                "x-codex-primary-used-percent": "100",
                "x-codex-primary-window-minutes": "300",
                "x-codex-primary-reset-after-seconds": str(reset - int(time.time())),
            },
        ),
        "quota": (
            429,
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
            {},
        ),
        "overloaded": (503, "server_error", "server_is_overloaded", "The server is overloaded", {}),
        "server_error": (
            500,
            "server_error",
            None,
            "The server had an error while processing your request",
            {},
        ),
        "auth": (
            401,
            "invalid_request_error",
            "invalid_api_key",
            "Incorrect API key provided: scripted.",
            {},
        ),
        "forbidden": (
            403,
            "invalid_request_error",
            "model_not_allowed",
            "You have no access to this model",
            {},
        ),
        "not_found": (404, "invalid_request_error", "model_not_found", "The model does not exist", {}),
        "context": (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "Your input exceeds the context window of this model.",
            {},
        ),
    }


def gemini(kind: str, step: Json) -> Answer:
    retry = step.get("retry_after", 1)
    google = "type.googleapis.com/google.rpc."

    def quota(period: str) -> list[Json]:
        quota_id = f"GenerateRequestsPer{period}PerProjectPerModel"
        return [
            {
                "@type": google + "QuotaFailure",
                "violations": [
                    {
                        "quotaMetric": "generativelanguage.googleapis.com/generate_requests",
                        "quotaId": quota_id,
                    }
                ],
            }
        ]

    info = [] if retry is None else [{"@type": google + "RetryInfo", "retryDelay": f"{retry}s"}]
    table: dict[str, tuple[int, str, str, list[Json]]] = {
        "rate_limit": (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota.",
            quota("Minute") + info,
        ),
        "usage_limit": (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota: requests per day.",
            quota("Day"),
        ),
        "quota": (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan.",
            quota("Day"),
        ),
        "overloaded": (503, "UNAVAILABLE", "The model is overloaded. Please try again later.", []),
        "server_error": (500, "INTERNAL", "An internal error has occurred.", []),
        "auth": (
            400,
            "INVALID_ARGUMENT",
            "API key not valid. Please pass a valid API key.",
            [{"@type": google + "ErrorInfo", "reason": "API_KEY_INVALID"}],
        ),
        "forbidden": (403, "PERMISSION_DENIED", "Permission denied", []),
        "not_found": (404, "NOT_FOUND", "model is not found", []),
        "context": (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
            [],
        ),
    }
    status, name, message, details = table.get(kind, (400, "INVALID_ARGUMENT", kind, []))
    error = {"code": status, "message": step.get("message", message), "status": name, "details": details}
    return status, {"error": error}, {}
