"""Checks that look at a command as a whole, where flags and argument kinds are not enough. Profiles name them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flyball.guard.commands.checks import (
    builders,
    containers,
    file_tools,
    git_commands,
    inline_code,
    network,
    node,
    python,
    shell_builtins,
    text_tools,
    wrappers,
)

if TYPE_CHECKING:
    from flyball.guard.commands.command_judge import Call

CHECKS: dict[str, Callable[[Call], None]] = {
    **file_tools.CHECKS,
    **text_tools.CHECKS,
    **shell_builtins.CHECKS,
    **wrappers.CHECKS,
    **git_commands.CHECKS,
    **inline_code.CHECKS,
    **python.CHECKS,
    **node.CHECKS,
    **builders.CHECKS,
    **containers.CHECKS,
    **network.CHECKS,
}
