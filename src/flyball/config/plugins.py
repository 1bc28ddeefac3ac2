"""Plug-ins: installed Python packages that add agents, ways to notify people, and sources of tasks, by entry points.

An entry point is `NAME = "module:maker"`, in one of three groups. `NAME` or `NAME:TEXT` then stands for
- `flyball.agents`: an agent; `maker(TEXT)` gives its adapter (`flyball.agents.adapter.Adapter`);
- `flyball.notify`: an address in `notify.urls`; `maker(TEXT)` gives a function of title and body that says whether it was sent;
- `flyball.sources`: a source for `flyball task import`; `maker(TEXT)` gives a function that returns the texts of tasks.

What is built in cannot be replaced. Packages are looked up only for names that are not built in, since the search reads
the metadata of every installed package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flyball.domain.machine import NAME
from flyball.errors import ConfigError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

AGENTS, NOTIFY, SOURCES = "flyball.agents", "flyball.notify", "flyball.sources"


def plugins(group: str = AGENTS) -> dict[str, EntryPoint]:
    """The entry points by name; of two with one name, the first that Python finds."""
    from importlib.metadata import entry_points  # takes 30 ms to import, and most agents are built in

    return {point.name: point for point in reversed(entry_points(group=group)) if NAME.fullmatch(point.name)}


def load_plugin(name: str, group: str = AGENTS) -> Any:
    """What the entry point names. Whatever its import raises becomes one sentence."""
    point = plugins(group)[name]
    try:
        return point.load()
    except Exception as problem:
        raise ConfigError(
            f"The plug-in '{name}' ({point.value}) cannot be loaded: {type(problem).__name__}: {problem}. "
            "Update or remove its package."
        ) from None


def made(name: str, group: str) -> Any:
    """What `NAME:TEXT` stands for in a group; None if no plug-in has that name."""
    short, _, text = name.partition(":")
    return load_plugin(short, group)(text) if short in plugins(group) else None
