"""The command guard: a command line in, a verdict out. It never runs anything and never raises.

The line is read by a strict reader of our own (`grammar`), every part is judged where it stands (`walk`, `call`)
by what its command's profile says (`profiles`, `options`, `kinds`, `checks`), and the worst part decides. What cannot
be read, or what a second reader (`second`) sees differently, is never allowed.
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
