"""One line, one verdict. Whatever goes wrong inside, the answer is deny."""

from __future__ import annotations

import msgspec

from flyball.guard.commands.args import Arg
from flyball.guard.commands.command_policy import CommandPolicy
from flyball.guard.commands.grammar import read
from flyball.guard.commands.lookalikes import strange_letter
from flyball.guard.commands.names import names
from flyball.guard.commands.scene import Scene
from flyball.guard.commands.second import disagreement
from flyball.guard.commands.tree import Script, Unreadable
from flyball.guard.commands.walk import Judge
from flyball.guard.verdict import ORDINARY, Verdict, severity, worst

_MILD = names("environment-listing looks-around local-upload")


class Explained(msgspec.Struct, frozen=True):
    """A verdict with what it rests on: every call that was judged (program and arguments, as far as they
    are known) and every ruling that was found, in the order of the line.
    """

    verdict: Verdict
    calls: tuple[tuple[Arg, ...], ...] = ()
    found: tuple[Verdict, ...] = ()


def judge_command(command: str, policy: CommandPolicy) -> Verdict:
    """The verdict of the policy on one command line (bash 5)."""
    return _safely(command, Judge(policy))


def explain_command(command: str, policy: CommandPolicy) -> Explained:
    """The same verdict, with the calls it was given for."""
    judge = Judge(policy)
    verdict = _safely(command, judge)
    return Explained(verdict, tuple(judge.seen), tuple(judge.found))


def _safely(command: str, judge: Judge) -> Verdict:
    try:
        return _judged(command, judge)
    except Unreadable as unreadable:
        return Verdict("deny", unreadable.rule, str(unreadable))
    except Exception as error:  # fail closed: a fault of ours must not let a command through
        return Verdict(
            "deny", "guard-error", f"The guard could not judge this line ({type(error).__name__})."
        )


def _judged(command: str, judge: Judge) -> Verdict:
    policy = judge.policy
    if len(command) > policy.length_most:
        return Verdict(
            "ask", "too-long", f"The line has more than {policy.length_most} characters; put it in a file."
        )
    strange = strange_letter(command)
    if strange:
        return Verdict("deny", "control-characters", f"The line holds {strange}, which hides what it does.")
    script, starts, _ = read(command)
    if not script.items:
        return Verdict("allow", "nothing", "There is no command in it.")
    found = _found(script, judge)
    if severity(found) == 0:
        difference = disagreement(command, starts)
        if difference:
            return Verdict("ask", "two-readers", f"It cannot be surely read: {difference}.")
    return found


def _found(script: Script, judge: Judge) -> Verdict:
    try:
        judge.script(script, Scene((judge.policy.workspace,)))
    except Unreadable as unreadable:
        judge.deny(unreadable.rule, str(unreadable))
    return worst([*sorted(judge.found, key=_is_mild), ORDINARY])


def _is_mild(verdict: Verdict) -> bool:
    """Of several refusals the one that means harm is told, not the one that merely looks."""
    return verdict.rule in _MILD or verdict.rule.startswith("path/looks-")
