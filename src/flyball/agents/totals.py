"""Agents report what a whole session has used; a turn is charged the difference to what was known before (AGENT-4).

The file stands outside the agent's reach. Each entry names its act, so that reading the same act again after a crash
finds the same difference.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from flyball.agents.adapter import AgentResult
from flyball.agents.prices import price_uusd
from flyball.domain.events import Usage
from flyball.state_dir import write_whole

ENTRIES_MOST = 3  # of a session: the last one of another act is enough
SESSIONS_MOST = 200


class Entry(Struct, frozen=True, omit_defaults=True):
    act: str
    tokens: Usage | None = None
    uusd: int | None = None


def charged(file: Path, act: str, result: AgentResult) -> AgentResult:
    """The result with the usage and cost of this turn alone, priced where the agent named no cost."""
    if result.session and (result.total_tokens is not None or result.total_uusd is not None):
        known = _read(file)
        entries = [entry for entry in known.get(result.session, []) if entry.act != act]
        result = _difference(result, entries[-1] if entries else Entry(""))
        entries.append(Entry(act, result.total_tokens, result.total_uusd))
        known.pop(result.session, None)
        known[result.session] = entries[-ENTRIES_MOST:]
        kept = dict(list(known.items())[-SESSIONS_MOST:])
        write_whole(file, msgspec.json.encode(kept), sync=False)
    return result if result.priced else _priced(result)


def _read(file: Path) -> dict[str, list[Entry]]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, list[Entry]])
    except (OSError, msgspec.MsgspecError):
        return {}


def _difference(result: AgentResult, before: Entry) -> AgentResult:
    used = result.usage
    if result.total_tokens is not None:
        old = before.tokens or Usage()
        used = Usage(
            input_tokens=_more(result.total_tokens.input_tokens, old.input_tokens),
            cache_write_tokens=_more(result.total_tokens.cache_write_tokens, old.cache_write_tokens),
            cache_read_tokens=_more(result.total_tokens.cache_read_tokens, old.cache_read_tokens),
            output_tokens=_more(result.total_tokens.output_tokens, old.output_tokens),
            cost_uusd=used.cost_uusd,
        )
    if result.total_uusd is not None:
        used = replace(used, cost_uusd=_more(result.total_uusd, before.uusd or 0))
    return replace(result, usage=used)


def _more(total: int, before: int) -> int:
    """A total below the one before is of a session that began anew."""
    return total - before if total >= before else total


def _priced(result: AgentResult) -> AgentResult:
    uusd = price_uusd(result.model, result.usage) if result.usage.tokens else None
    if uusd is None:
        return result
    return replace(result, usage=replace(result.usage, cost_uusd=uusd), priced="estimated")
