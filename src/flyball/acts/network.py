"""Which hosts an agent may reach in a turn, and what the user is told about it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from flyball.acts.run_files import RunFiles
from flyball.agents import landlock, sources
from flyball.agents.accounts import account_of, addresses, configured, name_of
from flyball.core.run import Run
from flyball.guard.secrets import redact
from flyball.reading.terminal import whole

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
SHOWN = 4
REFUSALS = "refused.jsonl"  # as the keeper names it
REFUSALS_MOST = 20
PAST_PROXY = {
    "tcp": "connected to {} past the proxy",
    "udp": "sent to {} past the proxy",
    "dns": "looked up {}",
}


class Network(Struct, frozen=True, kw_only=True):
    """`kind` is what the sandbox makes of it; `rules` are the proxy's; `why` says why it is wider than was asked for."""

    kind: str
    rules: dict[str, Any] | None = None
    bridges: tuple[str, ...] = ()
    why: str = ""


def network_of(run_files: RunFiles, run: Run, agent: str, given: Mapping[str, str]) -> Network:
    """For a turn of this agent; `given` is the environment that it gets."""
    if run.settings.network_agent != "model":
        return Network(kind=run.settings.network_agent)
    account, user = account_of(agent), run_files.environment
    named = [*addresses(account, agent, {**user, **given})]
    named += configured(account, {**user, **given})[0] if account else []
    own = list(dict.fromkeys([*run.settings.hosts, *run_files.allowed_hosts(run), *named]))
    if account is None and not own:
        return Network(kind="all", why="Flyball does not know which hosts it needs")
    if account is not None and not account.proxied:
        return Network(kind="all", why="it does not use a proxy")
    why = _unconfined(run_files, run)
    if why:
        return Network(kind="all", why=why)
    rules = {
        "hosts": list(account.hosts) if account else [],
        "own": own,
        "sources": sources.hosts(user),
        "upstream": _upstream(user),
    }
    here = [where for where in own if where.rpartition(":")[0] in LOOPBACK]
    return Network(kind="model", rules=rules, bridges=tuple(here))


def _unconfined(run_files: RunFiles, run: Run) -> str:
    found = run_files.sandbox_of(run)
    if found.kind == "none":
        return "there is no sandbox"
    if found.kind == "landlock" and landlock.abi() < landlock.TCP_ABI:
        return "Landlock has no rules for the network in this kernel"
    return ""


def _upstream(user: Mapping[str, str]) -> str:
    """The proxy that this machine itself uses, if it is one that we can speak to."""
    for name in ("https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        if urlsplit(user.get(name, "")).scheme == "http":
            return user[name]
    return ""


# ---- what is said about it -----------------------------------------------------------------------------------


def notes(run_files: RunFiles, run: Run) -> list[str]:
    """Said at the start about each agent."""
    if run.settings.network_agent != "model":
        return []
    agents = sorted({*run.settings.agents.values(), *run.settings.fallback})
    outside = [agent for agent in agents if agent != "mechanic" and not agent.startswith("script:")]
    said = (_note(name_of(agent), network_of(run_files, run, agent, {})) for agent in outside)
    return list(dict.fromkeys(said))


def _note(name: str, network: Network) -> str:
    if network.rules is None:
        return f"The network of {name} is not limited: {network.why}."
    hosts = list(dict.fromkeys([*network.rules["own"], *network.rules["hosts"]]))
    more = f" and {len(hosts) - SHOWN} more" if len(hosts) > SHOWN else ""
    return f"{name} can reach {', '.join(hosts[:SHOWN])}{more}, and no other host."


def refusals(folder: Path) -> tuple[str, ...]:
    """What the proxy of an act refused, as sentences; the agent's own words in them are made harmless."""
    try:
        lines = (folder / REFUSALS).read_text("utf-8", "replace").splitlines()
    except OSError:
        return ()
    said = [_refusal(json.loads(line)) for line in lines[:REFUSALS_MOST]]
    more = len(lines) - REFUSALS_MOST
    return (*said, *([f"Refused {more} more hosts."] if more > 0 else []))


def _refusal(told: Mapping[str, Any]) -> str:
    name = f"[{told['host']}]" if ":" in told["host"] else str(told["host"])
    where = name if told["how"] == "dns" else f"{name}:{told['port']}"
    who = whole(redact(str(told["command"]))) or "The agent"
    deed = PAST_PROXY.get(told["how"], "wanted {}").format(whole(where)[:300])
    return f"{who} {deed}: refused, nothing was sent."
