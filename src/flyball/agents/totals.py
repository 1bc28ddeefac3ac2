"""Agents report what a whole session has used; a turn is charged the difference to what was known before (AGENT-4).

The file stands outside the agent's reach. Each entry names its act, so that reading the same act again after a crash
finds the same difference.
"""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from flyball.agents.adapter import AgentResult
from flyball.agents.prices import price_uusd
from flyball.domain.events import Usage
from flyball.state_dir import write_whole

ENTRIES_MOST = 3  # of a session: the last one of another act is enough
SESSIONS_MOST = 200
MODELS_MOST, NAME_MOST = 20, 100


class Entry(Struct, frozen=True, omit_defaults=True):
    act: str
    tokens: Usage | None = None
    uusd: int | None = None
    models: dict[str, Usage] = {}


def charged(file: Path, act: str, result: AgentResult) -> AgentResult:
    """The result with the usage and cost of this turn alone, priced where the agent named no cost."""
    if result.session and (result.total_tokens is not None or result.total_uusd is not None):
        known = _read(file)
        entries = [entry for entry in known.get(result.session, []) if entry.act != act]
        entry = Entry(act, result.total_tokens, result.total_uusd, result.models)
        result = _difference(result, entries[-1] if entries else Entry(""))
        entries.append(entry)
        known.pop(result.session, None)
        known[result.session] = entries[-ENTRIES_MOST:]
        kept = dict(list(known.items())[-SESSIONS_MOST:])
        write_whole(file, msgspec.json.encode(kept), sync=False)
    result = result if result.priced else _priced(result)
    return replace(result, models=_by_model(result))


def _read(file: Path) -> dict[str, list[Entry]]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, list[Entry]])
    except (OSError, msgspec.MsgspecError):
        return {}


def _difference(result: AgentResult, before: Entry) -> AgentResult:
    used = result.usage
    if result.total_tokens is not None:
        used = replace(_since(result.total_tokens, before.tokens or Usage()), cost_uusd=used.cost_uusd)
    if result.total_uusd is not None:
        used = replace(used, cost_uusd=_more(result.total_uusd, before.uusd or 0))
    models = {name: _since(total, before.models.get(name, Usage())) for name, total in result.models.items()}
    return replace(result, usage=used, models=models)


def _since(total: Usage, before: Usage) -> Usage:
    old, new = asdict(before), asdict(total)
    return Usage(**{name: _more(new[name], old[name]) for name in new})


def _more(total: int, before: int) -> int:
    """A total below the one before is of a session that began anew."""
    return total - before if total >= before else total


def _by_model(result: AgentResult) -> dict[str, Usage]:
    """What each model used in this turn, where the agent names models."""
    models = result.models or ({result.model: result.usage} if result.model else {})
    return {name[:NAME_MOST]: used for name, used in list(models.items())[:MODELS_MOST] if used != Usage()}


def _priced(result: AgentResult) -> AgentResult:
    uusd = price_uusd(result.model, result.usage) if result.usage.tokens else None
    if uusd is None:
        return result
    return replace(result, usage=replace(result.usage, cost_uusd=uusd), priced="estimated")
