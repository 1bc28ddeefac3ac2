"""The verdict on one tool call, before it runs.

A command is checked by the command guard, in the directory in which it would run. A write is checked by the
path rules of
the change guard; if they only ask, it is allowed here, and a person is asked at the end of the turn, when the
whole change
can be shown. A read is treated like `cat`. A call that is too large to check while the agent waits is denied.

Without a driver this module is loaded anew for each call, so what only some calls need is imported where it is used.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Literal, cast

from flyball.agents.hooks.payload import TOOL_MOST, HookCall
from flyball.agents.hooks.question import askable, binding
from flyball.agents.hooks.tools import ToolUse, tool_use
from flyball.agents.hooks.turn_brief import Brief
from flyball.guard.change import ORDINARY, Change, Decision, Verdict, severity, worst
from flyball.guard.commands import CommandPolicy, judge_command, project_policy

Real = Callable[[str], str]  # where a path of the agent really leads, as the agent would name it
INPUT_MOST, PATHS_MOST = 256 << 10, 200
GRANTED = Verdict("allow", "granted", "Approved by a person.")


def judge(call: HookCall, brief: Brief, real: Real) -> Verdict:
    """Allow, ask or deny. An internal error is a deny."""
    try:
        verdict = _judged(call, brief, real)
        return askable(call, brief.workspace, verdict) if verdict.verdict == "ask" else verdict
    except Exception as fault:  # fail closed: a fault of ours must not let a call through
        return Verdict(
            "deny", "guard-error", f"Internal error while checking this call ({type(fault).__name__})."
        )


def fingerprint(call: HookCall) -> str:
    """What an approval is bound to: the tool, all of its input that matters, and the directory."""
    import hashlib

    words = json.dumps([call.tool, call.cwd, binding(call)], sort_keys=True)
    return hashlib.sha256(words.encode()).hexdigest()


def _judged(call: HookCall, brief: Brief, real: Real) -> Verdict:
    what = tool_use(call.tool, call.input, call.cwd)
    if _is_too_much(what, call):
        reason = "This call is too large to check. Split it into smaller steps."
        return Verdict("deny", "too-much", reason)
    rule = _named(call.tool, brief)
    verdict = _of_kind(what, call, brief, real)
    if rule and rule.verdict == "allow":
        return rule if what.kind in ("network", "unknown") else verdict
    return worst([rule, verdict]) if rule else verdict


def _is_too_much(what: ToolUse, call: HookCall) -> bool:
    size = len(call.asked.encode("utf-8", "replace"))
    return size > INPUT_MOST or len(what.writes) + len(what.paths) > PATHS_MOST


def _of_kind(what: ToolUse, call: HookCall, brief: Brief, real: Real) -> Verdict:
    match what.kind:
        case "command":
            return _command(what, call, brief)
        case "edit":
            return _edit(what, brief, real)
        case "read":
            return worst(_read(path, what.cwd, brief, real) for path in what.paths)
        case "network":
            return _network(brief)
        case "plain":
            return ORDINARY
        case "odd":
            reason = f"Unexpected input for the tool '{call.tool}'."
            return worst([Verdict("ask", "unknown-input", reason), _unknown(call, brief)])
        case "unknown":
            return _unknown(call, brief)


def _unknown(call: HookCall, brief: Brief) -> Verdict:
    reason = f"Unknown tool '{call.tool[:TOOL_MOST]}'."
    return Verdict(brief.policy.tools.unknown, "unknown-tool", reason)


def _named(tool: str, brief: Brief) -> Verdict | None:
    """The policy's rule for this tool by name; the strictest of the patterns that match."""
    fits: list[Decision] = [
        decision for name, decision in brief.policy.tools.named.items() if fnmatchcase(tool, name)
    ]
    reason = f"The policy has a rule for the tool '{tool[:TOOL_MOST]}'."
    return worst(Verdict(decision, "tool", reason) for decision in fits) if fits else None


# ---- commands --------------------------------------------------------------------------------------------


def command_policy(brief: Brief) -> CommandPolicy:
    return project_policy(brief.workspace, brief.home, brief.policy.commands, brief.state_dirs, brief.sandbox)


def _command(what: ToolUse, call: HookCall, brief: Brief) -> Verdict:
    """Checked with a `cd` before it if the agent is not in the top folder of its workspace."""
    places = [place for place in (call.cwd, what.cwd) if place and place.rstrip("/") != brief.workspace]
    line = "".join(f"cd {shlex.quote(place)}\n" for place in places) + what.command
    beside = [Verdict("ask", "background", what.beside)] if what.beside else []
    return worst([judge_command(line, command_policy(brief)), *beside])


def _read(path: str, cwd: str, brief: Brief, real: Real) -> Verdict:
    where = _absolute(path, cwd, brief)
    policy = command_policy(brief)
    return worst(
        judge_command(f"cat {shlex.quote(one)}", policy) for one in dict.fromkeys([where, real(where)])
    )


def _absolute(path: str, cwd: str, brief: Brief) -> str:
    return path if path.startswith(("/", "~")) else f"{cwd or brief.workspace}/{path}"


# ---- edits and the network -------------------------------------------------------------------------------


def _edit(what: ToolUse, brief: Brief, real: Real) -> Verdict:
    from flyball.guard.changes import judge_changes

    if brief.read_only:
        return Verdict("deny", "read-only", "This role may not change files.")
    changes: list[Change] = []
    for path, op, text in what.writes:
        where = _absolute(path, what.cwd, brief)
        kind = cast("Literal['add', 'modify', 'delete']", op)
        added = tuple(text.splitlines())
        names = dict.fromkeys([where, real(where)])
        changes += [Change(path=name, op=kind, lines_added=len(added), added=added) for name in names]
    findings = judge_changes(changes, brief.policy, workspace=brief.workspace).findings
    verdict = worst(finding for finding in findings if finding.rule != "name-collision")
    if verdict.rule == "outside" and all(_is_scratch(change.path, brief) for change in changes):
        if brief.sandbox == "none":
            return Verdict("deny", "temporary", f"{verdict.reason} Write only to the workspace.")
        verdict = worst(finding for finding in findings if finding.rule not in ("name-collision", "outside"))
    if severity(verdict) == 1:
        return Verdict(
            "allow", verdict.rule, f"{verdict.reason} A person will be asked at the end of the turn."
        )
    return verdict


def _is_scratch(path: str, brief: Brief) -> bool:
    """A place where agents often put notes: an attempt to write there is not an attack."""
    return ".." not in path and path.startswith(("/tmp/", "/var/tmp/", f"{brief.home}/", "~/."))


def is_critical(verdict: Verdict, brief: Brief) -> bool:
    """CTO-7: denied for a reason that ends the turn."""
    return verdict.verdict == "deny" and verdict.rule in brief.policy.commands.critical


def _network(brief: Brief) -> Verdict:
    if brief.network != "all":
        return Verdict("deny", "network", "This run has no network access except to this machine.")
    return Verdict(brief.policy.tools.network, "network", "Uses the network.")
