"""Checks that look at a command as a whole, where flags and argument kinds are not enough. Profiles name them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call


@cache
def check_of(name: str) -> Callable[[Call], None]:
    """The check that a profile names as `module.function`."""
    module, _, function = name.partition(".")
    return getattr(import_module(f"{__name__}.{module}"), function)
