"""What flags and kinds cannot say: each check looks at one command as a whole. Named in the profiles."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flyball.guard.commands.checks import (
    builders,
    builtins,
    code,
    containers,
    file_tools,
    git_commands,
    network,
    node,
    python,
    texts,
    wrappers,
)

if TYPE_CHECKING:
    from flyball.guard.commands.call import Call

CHECKS: dict[str, Callable[[Call], None]] = {
    **file_tools.CHECKS,
    **texts.CHECKS,
    **builtins.CHECKS,
    **wrappers.CHECKS,
    **git_commands.CHECKS,
    **code.CHECKS,
    **python.CHECKS,
    **node.CHECKS,
    **builders.CHECKS,
    **containers.CHECKS,
    **network.CHECKS,
}
