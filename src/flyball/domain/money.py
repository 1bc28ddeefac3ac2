"""Money is a whole number of micro-dollars; this is how people read it."""

from __future__ import annotations


def dollars(uusd: int) -> str:
    """`$0.021`: at least two decimals, and all that matter."""
    whole, rest = divmod(abs(uusd), 1_000_000)
    cents = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{'-' if uusd < 0 else ''}${whole}.{cents}"
