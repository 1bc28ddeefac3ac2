"""How each known command line is pointed at a scripted model: its variables, and files in its home."""

from __future__ import annotations

import json
from collections.abc import Callable

from msgspec import Struct

KEY = "sk-scripted-0000"


def _nothing(_url: str) -> dict[str, str]:
    return {}


class Vendor(Struct, frozen=True, kw_only=True):
    name: str
    agent: str  # as `--agent` takes it
    env: Callable[[str], dict[str, str]]  # by the model's address
    files: Callable[[str], dict[str, str]] = _nothing
    gives_up: tuple[str, ...] = ()  # faults after which it ends soon, instead of trying again for minutes


def _claude(url: str) -> dict[str, str]:
    return {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": "claude-sonnet-4-5"}


def _codex(url: str) -> dict[str, str]:
    provider = f'base_url = "{url}/v1"\nwire_api = "responses"\nenv_key = "OPENAI_API_KEY"\n'
    bounds = "request_max_retries = 1\nstream_max_retries = 1\nstream_idle_timeout_ms = 60000\n"
    head = 'model = "gpt-5-codex"\nmodel_provider = "scripted"\n\n[model_providers.scripted]\nname = "scripted"\n'
    return {".codex/config.toml": f"{head}{provider}{bounds}"}


def _gemini(_url: str) -> dict[str, str]:
    auth = {"auth": {"selectedType": "gemini-api-key"}}
    settings = {"security": auth, "privacy": {"usageStatisticsEnabled": False}}
    return {".gemini/settings.json": json.dumps(settings)}


def _opencode(url: str) -> dict[str, str]:
    options = {"baseURL": f"{url}/v1", "apiKey": KEY}
    cost = {"input": 3, "output": 15, "cache_read": 0.3}
    models = {"m1": {"name": "m1", "cost": cost, "limit": {"context": 200000, "output": 8000}}}
    provider = {"npm": "@ai-sdk/openai-compatible", "name": "s", "options": options, "models": models}
    config = {"provider": {"scripted": provider}, "model": "scripted/m1", "small_model": "scripted/m1"}
    return {"OPENCODE_CONFIG_CONTENT": json.dumps({**config, "share": "disabled", "autoupdate": False})}


ALL_LIMITS = ("rate_limit", "overloaded", "usage_limit")
VENDORS = {
    vendor.name: vendor
    for vendor in (
        Vendor(name="claude", agent="claude", env=_claude, gives_up=ALL_LIMITS),
        Vendor(
            name="codex",
            agent="codex",
            env=lambda _url: {"OPENAI_API_KEY": KEY},
            files=_codex,
            gives_up=ALL_LIMITS,
        ),
        Vendor(
            name="gemini",
            agent="acp:gemini --acp -m gemini-2.5-flash",
            env=lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": KEY},
            files=_gemini,
            gives_up=("usage_limit",),
        ),
        Vendor(
            name="opencode", agent="acp:opencode acp", env=_opencode, gives_up=("rate_limit", "usage_limit")
        ),
    )
}
