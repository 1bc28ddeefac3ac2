"""The command guard: a command line in, a verdict out. It never runs anything and never raises.

`grammar` parses the line. `walk` judges every part in its context, and `command_judge` every command by its profile
(`profiles`, `argument_kinds`, `checks`). The worst part decides. A line that cannot be parsed, or that a
second parser (tree-sitter, in `judge`) reads differently, is never allowed.
"""

from flyball.guard.commands.command_policy import CommandPolicy, Rule, default_policy, project_policy
from flyball.guard.commands.judge import calls_of, judge_command

__all__ = [
    "CommandPolicy",
    "Rule",
    "calls_of",
    "default_policy",
    "judge_command",
    "project_policy",
]
