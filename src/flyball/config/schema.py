"""Every key there is, what it takes, and which field of Settings it becomes. A key not here is refused.

Defaults are those of Settings: they stand in one place only.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from msgspec import Struct

from flyball.config import values
from flyball.config.agent import ROLES, parse_agent
from flyball.config.values import Choice, Count, Duration, Flag, Kind, Money, Text, Texts, Value, matching
from flyball.core.machine import NAME
from flyball.core.settings import Settings

NAMES = "made of letters, digits, '_' and '-'"
NETWORKS = ("none", "loopback", "all")  # each wider than the one before


class Key(Struct, frozen=True):
    field: str
    kind: Kind


def _agent(text: str) -> str:
    return str(parse_agent(text))


def _name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise values.Wrong(f"a list of states {NAMES}")
    return text


def _phrase(text: str) -> str:
    words = text.split()
    if len(words) < 2 or len(text) > 80 or not text.isprintable():
        raise values.Wrong("a list of phrases of two words or more, at most 80 characters each")
    return " ".join(words).lower()


AGENT = Text(_agent, "an agent")
KEYS: dict[str, Key] = {
    "proof.commands": Key("proof", Texts(values.command, "commands")),
    "proof.timeout": Key("proof_timeout_us", Duration()),
    "workspace.setup": Key("setup", Texts(values.command, "commands")),
    "workspace.share": Key("share", Texts(values.inside, "folders", comma=True)),
    "run.machine": Key("", matching(NAME.pattern, f"the name of a machine, {NAMES}")),
    "run.write": Key("write", Choice(("turn", "loop"))),
    "run.breakpoints": Key("breakpoints", Texts(_name, "states", comma=True)),
    "run.require_test_pass": Key("require_test_pass", Flag()),
    "run.review": Key("review", Choice(("unless-done", "always"))),
    "run.consensus": Key("consensus", Flag()),
    "run.done_word": Key(
        "done_word",
        matching(
            r"[A-Z][A-Z0-9_-]{0,31}", "one upper-case word other than PASS and FAIL", but=("PASS", "FAIL")
        ),
    ),
    "run.indicators": Key("indicators", Texts(_phrase, "phrases of two words or more", comma=True)),
    "run.commit": Key("commit", Choice(("branch", "merge", "pr"))),
    "budget.usd": Key("budget.uusd", Money()),
    "budget.tokens": Key("budget.tokens", Count(most=10**12, none=True)),
    "budget.day_usd": Key("budget.day_uusd", Money()),
    "budget.day_tokens": Key("budget.day_tokens", Count(most=10**12, none=True)),
    "budget.week_usd": Key("budget.week_uusd", Money()),
    "budget.week_tokens": Key("budget.week_tokens", Count(most=10**12, none=True)),
    "budget.plan_percent": Key("budget.plan_percent", Count(least=1, most=100, none=True)),
    "budget.wall": Key("budget.wall_us", Duration(least=0, none=True)),
    "rate_limit.retry_every": Key("retry_every_us", Duration()),
    "rate_limit.fallback": Key("fallback", Texts(_agent, "agents")),
    "guard.policy": Key("policy", matching(NAME.pattern, f"the name of a policy, {NAMES}")),
    "guard.sandbox": Key("sandbox", Choice(("auto", "bwrap", "landlock", "none", "required"))),
    "guard.processes": Key("processes", Count(least=64, most=10**6)),
    "guard.network.agent": Key("network_agent", Choice(NETWORKS)),
    "guard.network.proof": Key("network_proof", Choice(NETWORKS)),
    "up.parallel": Key("parallel", Count(least=1, most=64)),
    "governance.files": Key("governance", Texts(values.inside, "files", comma=True)),
    "notify.urls": Key("notify", Texts(values.url, "addresses", mask=values.masked)),
    "task.plan": Key("task_plan", Text(values.file_name, "the name of a file")),
}
NOT_IN_FILES = ("task.plan",)  # they belong to one run
SECRET = ("notify.urls",)  # never repeated in a message

COUNTS: dict[str, Count] = {
    "iterations": Count(least=1),
    "turns": Count(least=1),
    "fix": Count(),
    "no_progress": Count(least=1),
    "same_action": Count(least=1),
    "same_error": Count(least=1),
    "calls": Count(least=1),
    "retries": Count(most=100),
    "failures": Count(least=1, most=3),  # TASK-9 holds whatever is configured
    "cto": Count(most=2),
}
TIMES: dict[str, Duration] = {
    "phase_timeout": Duration(),
    "idle_timeout": Duration(),
    "cooldown": Duration(none=True, never=0),
}
PER_STATE: dict[str, Duration] = {"within": Duration(), "alert": Duration(none=True, never=0)}

SECTIONS = tuple(dict.fromkeys(["agents", "limits", *(key.split(".")[0] for key in KEYS)]))


def kind_of(key: str, machines: Collection[str]) -> Kind | None:
    """What this key takes; None if there is no such key."""
    if key in KEYS:
        return KEYS[key].kind
    section, _, rest = key.partition(".")
    if section == "agents":
        return AGENT if rest in ROLES else None
    return _limit_kind(split_limit(key, machines)[1]) if section == "limits" else None


def _limit_kind(name: str) -> Kind | None:
    table, dot, state = name.partition(".")
    if dot:
        return PER_STATE.get(table) if NAME.fullmatch(state) else None
    return COUNTS.get(name) or TIMES.get(name)


def split_limit(key: str, machines: Collection[str]) -> tuple[str, str]:
    """`limits.loop.turns` as ("loop", "turns"); `limits.turns` as ("", "turns")."""
    rest = key.removeprefix("limits.")
    machine, _, name = rest.partition(".")
    return (machine, name) if machine in machines else ("", rest)


def is_table(name: str, machines: Collection[str]) -> bool:
    """Whether keys may stand below this name."""
    if name.startswith("limits."):
        return split_limit(name + ".", machines)[1] in ("", "within.", "alert.")
    return name in SECTIONS or name == "guard.network"


def known(machines: Collection[str]) -> list[str]:
    """All keys by name, but for those that name a state."""
    limits = (*COUNTS, *TIMES)
    return [
        *KEYS,
        *(f"agents.{role}" for role in ROLES),
        *(f"limits.{name}" for name in limits),
        *(f"limits.{machine}.{name}" for machine in machines for name in limits),
    ]


def defaults() -> dict[str, Value]:
    """Every key that has a value before anyone says anything."""
    plain = {key: _default(entry.field) for key, entry in KEYS.items() if entry.field}
    return {"agents.default": "claude", "run.machine": "build", **plain}


def _default(field: str) -> Value:
    found: object = Settings()
    for name in field.split("."):
        found = getattr(found, name)
    return cast("Value", found)
