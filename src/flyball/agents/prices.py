"""What tokens cost at list price, where the agent does not say. An unknown model has no price, which is not zero."""

from __future__ import annotations

from functools import lru_cache
from importlib import import_module
from typing import Any

from flyball.domain.events import Usage


def price_uusd(model: str, usage: Usage) -> int | None:
    """Micro-dollars; None if nobody knows."""
    prices = _prices() if model else None
    if prices is None:
        return None
    given = prices.Usage(
        input_tokens=usage.input_tokens + usage.cache_write_tokens + usage.cache_read_tokens,
        cache_write_tokens=usage.cache_write_tokens,
        cache_read_tokens=usage.cache_read_tokens,
        output_tokens=usage.output_tokens,
    )
    try:
        return round(prices.calc_price(given, model_ref=model).total_price * 1_000_000)
    except (LookupError, ValueError):
        return None


@lru_cache(1)
def _prices() -> Any:
    """The package takes most of a second to import, and few turns need it."""
    try:
        return import_module("genai_prices")
    except ImportError:
        return None
